"""Arrays of this process, lent to the workers that can read its memory: those of its host and user.

Others get copies by messages of Dask, which cross the processor four times or more on their way.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from dsolver.dask_types import Client
from dsolver.engines.dask.health import ask_each_async
from dsolver.kernels.lending.arrays import LentArray, lent
from dsolver.kernels.lending.memory import Lender, here, open_to_readers

logger = logging.getLogger(__name__)

ANSWER: Final = 3.0  # seconds in which a worker has to say whether it can read this process

_known: Final[WeakKeyDictionary[Any, dict[str, tuple[bool, bool]]]] = WeakKeyDictionary()
"""Workers that were asked whether they read this process, and whether it reads them, of each client."""
NEITHER: Final = (False, False)


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Workers that read arrays of this process (readers), and workers whose arrays it reads (lenders)."""

    readers: frozenset[str]
    lenders: frozenset[str]


class Loans:
    """Arrays that workers read of this process, which holds them as long as this lives. Open it while they are read."""

    def __init__(self) -> None:
        self._held: list[Any] = []

    def of(self, array: Any) -> LentArray | None:
        """An array as workers take it; None where it has to travel."""
        made = lent(array) if isinstance(array, np.ndarray) else None
        if made is None:
            return None
        self._held.append(made[1])
        return made[0]

    @contextmanager
    def open(self) -> Iterator[None]:
        """While workers may read them."""
        with open_to_readers() if self._held else nullcontext():
            yield


async def reach_of(client: Client, workers: Iterable[str]) -> Reach:
    """Workers that read this process, and that it reads, in the client's event loop; each is asked once."""
    known = _known.setdefault(client, {})
    # Those of this process get its arrays as they are.
    asked = tuple(worker for worker in workers if worker not in known and not worker.startswith("inproc://"))
    if asked:
        try:
            with open_to_readers():
                heard = await ask_each_async(client, partial(_answer, here()), asked, ANSWER)
        except Exception:  # whatever is in the way, it is no reason not to solve
            logger.info("arrays travel as copies: workers cannot be asked", exc_info=True)
            return Reach(readers=frozenset(), lenders=frozenset())
        for worker, (why, lender) in heard.answers.items():
            known[worker] = found = not why, not (why or lender.why_not())
            logger.info("worker %s %s", worker, f"gets copies: {why}" if why else "reads arrays of this process")
            logger.info("this process %s arrays of worker %s", "reads" if found[1] else "gets copies of", worker)
    readers, lenders = (frozenset(w for w in workers if known.get(w, NEITHER)[way]) for way in range(2))
    return Reach(readers=readers, lenders=lenders)


def _answer(lender: Lender) -> tuple[str, Lender]:
    """Why this worker does not read a process, and what that process knows it by."""
    return lender.why_not(), here()
