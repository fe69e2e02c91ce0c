"""Threads that share one chunk's loops."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, final
from weakref import WeakSet

import numpy as np
import numpy.typing as npt


class Room(NamedTuple):
    """Room for entries of rows that are being made.

    Attributes:
        columns: int32.
        values: float64.
    """

    columns: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]


@final
class Team:
    """Cuts a range among a fixed number of threads.

    The compiled loops release the GIL, so plain Python threads do; numba's own parallel loops are avoided because its
    default threading layer must not be entered from two threads at once, as Dask workers would.

    Args:
        threads: how many threads share a range, the caller's own included; at least 1.
    """

    # Waking a thread costs about as much as streaming this many slices of 26 entries (7 KB each).
    SLICES_WORTH_A_THREAD = 32

    def __init__(self, threads: int = 1) -> None:
        if threads < 1:
            raise ValueError(f"a team needs at least one thread, not {threads}")
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._rooms: list[Room] = []
        self.gather()
        _teams.add(self)

    def gather(self) -> None:
        """Take new threads: a process that was forked has the team of its parent and none of its threads."""
        self._pool = ThreadPoolExecutor(self.threads - 1, "dsolver-kernel") if self.threads > 1 else None

    def room(self, entries: int) -> Room:
        """Room for so many entries at least, of those that were left here, or new."""
        found = self._rooms.pop() if self._rooms else None  # other threads may take one, too
        before = 0 if found is None else len(found.columns)
        if found is None or before < entries:
            count = max(entries, 2 * before)  # what nobody writes costs nothing
            found = Room(np.empty(count, np.int32), np.empty(count))
        return found

    def leave(self, room: Room) -> None:
        """Give a room back."""
        self._rooms.append(room)

    def clear(self) -> None:
        """Let go of rooms that were left here."""
        self._rooms.clear()

    def run(
        self, loop: Callable[..., Any], first: int, last: int, *args: Any, worth: int = SLICES_WORTH_A_THREAD
    ) -> list[Any]:
        """loop(first, last, *args), cut into one contiguous range a thread where each gets as many as are worth it.

        Returns:
            what the loop returned for each range, in their order.
        """
        if self._pool is None or (parts := min(self.threads, (last - first) // worth)) <= 1:
            return [loop(first, last, *args)]
        cuts = [first + (last - first) * i // parts for i in range(parts + 1)]
        waiting = [self._pool.submit(loop, cuts[i], cuts[i + 1], *args) for i in range(1, parts)]
        return [loop(cuts[0], cuts[1], *args), *(part.result() for part in waiting)]

    def run_columns(
        self,
        loop: Callable[..., Any],
        count: int,
        head: Sequence[Any],
        columns: Iterable[Sequence[Any]],
        *,
        at_once: int,
        worth: int = SLICES_WORTH_A_THREAD,
    ) -> None:
        """loop(first, last, *head, *column) for each column on ranges [0, count), some items at once.

        What is read of the matrix comes from memory for the first column, and from a cache for the others.

        Args:
            loop: for one column.
            count: items, which are cut among threads.
            head: arguments that columns share.
            columns: the other arguments of each column.
            at_once: items that one column after the other is computed with.
            worth: items that are worth a thread.
        """
        columns = list(columns)

        def several(first: int, last: int) -> None:
            for begin in range(first, last, at_once):
                for column in columns:
                    loop(begin, min(begin + at_once, last), *head, *column)

        self.run(several, 0, count, worth=worth)


def _gather_all() -> None:
    for team in _teams:
        team.gather()


_teams: Final[WeakSet[Team]] = WeakSet()
os.register_at_fork(after_in_child=_gather_all)
