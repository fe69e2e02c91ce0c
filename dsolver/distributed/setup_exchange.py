"""Exchanges between chunks in a set-up: values at ghosts, and who sends to whom, which every rank has to know."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.distributed.halo import row_layout
from dsolver.engines.base import Engine, PerChunk
from dsolver.engines.partners import mutual
from dsolver.grid.halo import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.formats.layout import HaloLayout

Senders = Sequence[Sequence[int]]  # the chunks that each chunk gets something from, ascending
WORD: Final = 52  # chunks whose numbers are bits of one float64


class GhostExchange:
    """Exchange of one value a row, for the ghosts of every chunk; rows: for `in_window`, an object with its `window`.

    Values, of own points in their order, are of any type; those that are sent may travel as float64.
    """

    def __init__(self, engine: Engine, plans: PerChunk, senders: Senders, rows: PerChunk | None = None) -> None:
        self._rows = rows
        self._engine, self._alone = engine.lowered("float64"), not engine.coupled  # values are, whatever A is in
        if self._alone:
            self._none = engine.per_chunk(_nothing)
        else:
            self._halo = self._engine.halo(engine.per_chunk(_layout, plans), senders)

    def __call__(self, values: PerChunk) -> PerChunk:
        """The ghosts' values, float64 by slot; None for one chunk. Own ones are float64."""
        if self._alone:
            return self._none
        self._engine.exchange(values, self._halo)
        return self._engine.per_chunk(_slots, self._halo)

    def in_window(self, values: PerChunk) -> PerChunk:
        """Values of all points of every chunk's window, own ones and ghosts; of one chunk they are these values."""
        if self._alone:
            return values
        assert self._rows is not None
        return self._engine.around(values, self._rows, self._halo)


def senders_of(engine: Engine, named: PerChunk) -> list[tuple[int, ...]]:
    """The chunks that each chunk has named (a tuple on every chunk), ascending, known to every rank."""
    chunks = len(engine.partition)
    if chunks == 1:
        return [()]
    words = np.array(engine.known(engine.per_chunk(partial(_bits, chunks=chunks), named))).astype(np.int64)
    places = np.arange(WORD)
    return [tuple(np.flatnonzero(found[:, None] >> places & 1).tolist()) for found in words]


def numbers_of(engine: Engine, counts: PerChunk) -> tuple[int, ...]:
    """Integers of all chunks, known to every rank; counts: of every chunk one, a float on its host."""
    return tuple(int(value) for value in values_of(engine, counts))


def values_of(engine: Engine, values: PerChunk) -> tuple[float, ...]:
    """Numbers of all chunks, known to every rank; values: of every chunk one, a float on its host."""
    return tuple(value for (value,) in engine.known(engine.per_chunk(_single, values)))


def receivers_of(senders: Senders) -> list[tuple[int, ...]]:
    """The chunks that each chunk sends to, ascending."""
    found: list[list[int]] = [[] for _ in senders]
    for number, names in enumerate(senders):
        for sender in names:
            found[sender].append(number)
    return [tuple(numbers) for numbers in found]


def mutual_senders(senders: Senders) -> list[tuple[int, ...]]:
    """Senders of each chunk, with all chunks that it sends to, ascending."""
    return mutual(dict(enumerate(senders)), len(senders))


def reach_of(*steps: Senders) -> list[tuple[int, ...]]:
    """The other chunks that each chunk comes to by some steps, or that come to it, ascending.

    What is made of neighbors' neighbors names no others: so all ranks know, without asking, whom a chunk may hear of.

    `steps`: where each chunk goes by each of them, unless it stays where it is.
    """
    found = []
    for number in range(len(steps[0])):
        there = {number}
        for step in steps:
            there |= {to for of in there for to in step[of]}
        found.append(there - {number})
    return mutual(dict(enumerate(found)), len(found))


def _layout(backend: Backend, _: int, plan: HaloPlan) -> HaloLayout:
    return row_layout(backend, plan)


def _nothing(_: Backend, __: int) -> None:
    return None


def _slots(backend: Backend, _: int, halo: Any) -> Any:
    return halo[backend.guard : len(halo) - backend.guard].copy()


def _bits(_: Backend, __: int, named: Sequence[int], *, chunks: int) -> tuple[float, ...]:
    """Flags of what a chunk has named, as bits of words."""
    words = [0.0] * -(-chunks // WORD)
    for other in named:
        words[other // WORD] += float(1 << other % WORD)
    return tuple(words)


def _single(_: Backend, __: int, value: float) -> tuple[float]:
    return (float(value),)
