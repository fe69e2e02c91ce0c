"""Exchanges between chunks in a set-up: values at ghosts, and lists whose lengths only their senders know.

Numbers travel as float64, which holds integers up to 2⁵³ exactly. Who sends to whom must be known to the program: see
`senders_of`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.distributed.collectives import field_of
from dsolver.distributed.halo import direct_layout, vector_layout
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.partition import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.formats.layout import HaloLayout

F64 = npt.NDArray[np.float64]
Senders = Sequence[Sequence[int]]
"""The chunks that each chunk gets something from, ascending."""
WORD: Final = 52
"""Chunks whose numbers are added up as bits of one float64."""


@final
class GhostExchange:
    """Exchange of one value a row, for the ghosts of every chunk.

    Args:
        engine: of the chunks, in float64.
        plans: the `HaloPlan` of every chunk.
        rows: an object of every chunk with `rows`, how many it has.
        senders: the chunks that each chunk's plan names.
    """

    def __init__(self, engine: Engine, plans: PerChunk, rows: PerChunk, senders: Senders) -> None:
        self._engine, self._alone = engine, not engine.coupled
        if self._alone:
            self._none = engine.per_chunk(_nothing)
        else:
            self._halo = engine.halo(engine.per_chunk(_vector_layout, plans, rows), senders)

    def __call__(self, values: PerChunk) -> PerChunk:
        """The ghosts' values on every chunk's device, float64 in the order of its slots; None where there is one chunk.

        Args:
            values: arrays in the rows' order, with one more item at the end.
        """
        if self._alone:
            return self._none
        self._engine.exchange(field_of(self._engine, values), self._halo)
        return self._engine.per_chunk(_slots, self._halo)


def exchange_lists(engine: Engine, senders: Senders, lists: PerChunk) -> PerChunk:
    """Exchange lists of any lengths; what each chunk gets is a dictionary of float64 arrays on the device, by sender.

    Args:
        engine: of the chunks, in float64.
        senders: of each chunk.
        lists: of every chunk a dictionary with a float64 array, wherever it lies, for each chunk that names it as a
            sender.
    """
    if not engine.coupled:
        return engine.per_chunk(_no_lists)
    plan = engine.per_chunk(partial(_sizes_layout, senders=senders), lists)
    sizes = engine.halo(plan, senders)
    engine.exchange(field_of(engine, engine.per_chunk(_sizes, lists)), sizes)
    plan = engine.per_chunk(partial(_lists_layout, senders=senders), lists, sizes)
    arrived = engine.halo(plan, senders)
    engine.exchange(field_of(engine, engine.per_chunk(_joined, lists)), arrived)
    return engine.per_chunk(_by_sender, plan, arrived)


def senders_of(engine: Engine, named: PerChunk) -> list[tuple[int, ...]]:
    """The chunks that each chunk has named, ascending, known to every rank.

    Args:
        engine: of the chunks, in float64.
        named: a tuple of chunk numbers on every chunk.
    """
    chunks = len(engine.partition)
    if chunks == 1:
        return [()]
    words = -(-chunks // WORD)
    made = engine.per_chunk(partial(_bits, chunks=chunks), named)
    sums = engine.global_sums(*(made.at(place) for place in range(chunks * words)))
    return [
        tuple(c for c in range(chunks) if int(sums[number * words + c // WORD]) >> c % WORD & 1)
        for number in range(chunks)
    ]


def numbers_of(engine: Engine, counts: PerChunk) -> tuple[int, ...]:
    """Integers of all chunks, known to every rank; counts: of every chunk one, a float on its host."""
    return tuple(int(value) for value in values_of(engine, counts))


def values_of(engine: Engine, values: PerChunk) -> tuple[float, ...]:
    """Numbers of all chunks, known to every rank; values: of every chunk one, a float on its host."""
    chunks = len(engine.partition)
    return engine.sums(engine.per_chunk(partial(_at_own_place, chunks=chunks), values), chunks)


def receivers_of(senders: Senders) -> list[tuple[int, ...]]:
    """The chunks that each chunk sends to, ascending."""
    return [tuple(c for c, names in enumerate(senders) if number in names) for number in range(len(senders))]


def mutual_senders(senders: Senders) -> list[tuple[int, ...]]:
    """Senders of each chunk, with all chunks that it sends to, ascending."""
    receivers = receivers_of(senders)
    return [tuple(sorted({*names, *more})) for names, more in zip(senders, receivers, strict=True)]


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _vector_layout(backend: Backend, _: int, plan: HaloPlan, rows: Any) -> HaloLayout:
    made = vector_layout(backend, rows.rows, plan)
    backend.synchronize()  # kernels read plans before they wait for earlier launches
    return made


def _nothing(_: Backend, __: int) -> None:
    return None


def _no_lists(_: Backend, __: int) -> dict[int, F64]:
    return {}


def _slots(backend: Backend, _: int, halo: Any) -> Any:
    return halo[backend.guard : len(halo) - backend.guard].copy()


def _sizes(backend: Backend, _: int, lists: Mapping[int, F64]) -> Any:
    """float64, the length of each list; and a zero, for no kernel runs on nothing."""
    return backend.asarray(np.array([*(float(len(lists[to])) for to in sorted(lists)), 0.0]))


def _sizes_layout(backend: Backend, number: int, lists: Mapping[int, F64], *, senders: Senders) -> HaloLayout:
    return _settled(backend, [(to, 1) for to in sorted(lists)], [(sender, 1) for sender in senders[number]])


def _lists_layout(backend: Backend, number: int, lists: Mapping[int, F64], sizes: Any, *, senders: Senders) -> Any:
    expected = zip(senders[number], backend.to_host(_slots(backend, number, sizes)), strict=True)
    return _settled(backend, [(to, len(lists[to])) for to in sorted(lists)], [(s, int(size)) for s, size in expected])


def _settled(backend: Backend, sends: list[tuple[int, int]], receives: list[tuple[int, int]]) -> HaloLayout:
    made = direct_layout(backend, sends, receives)
    backend.synchronize()  # kernels read plans before they wait for earlier launches
    return made


def _joined(backend: Backend, _: int, lists: Mapping[int, F64]) -> Any:
    return backend.xp.concatenate([*(backend.asarray(lists[to]) for to in sorted(lists)), backend.xp.zeros(1)])


def _by_sender(_: Backend, __: int, plan: HaloLayout, halo: Any) -> dict[int, Any]:
    return {sender: halo[first:last].copy() for sender, first, last in plan.receives}


def _bits(backend: Backend, number: int, named: Sequence[int], *, chunks: int) -> tuple[Any, ...]:
    """An array (1,) for each word of each chunk, of which those of this one hold what it has named."""
    words = -(-chunks // WORD)
    out = np.zeros((chunks, words))
    for other in named:
        out[number, other // WORD] += float(1 << other % WORD)
    return tuple(backend.asarray(word.copy()) for word in out.reshape(-1, 1))


def _at_own_place(_: Backend, number: int, count: float, *, chunks: int) -> tuple[float, ...]:
    own = number if chunks > 1 else 0  # the only chunk may be called with its host's number
    return tuple(count if place == own else 0.0 for place in range(chunks))
