"""Passes of a constant star down and up a cycle, and the layers of points around a chunk that they read."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from dsolver.engines.base import Field
from dsolver.grid.box import Offsets, Triple
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend
from dsolver.kernels.contract import MOVE, STAR_DOWN, STAR_UP
from dsolver.kernels.formats.layout import Layout, Route
from dsolver.kernels.lattice.star import COARSE_LAYERS, LAYERS, Around
from dsolver.multigrid.correction import CoarseVectors
from dsolver.multigrid.level import Level, Step, Transfer


def with_layers(backend: Backend, chunk: Around) -> Layout:
    """The order of a chunk's points in a vector in lattice order that has room for the layers around it."""
    if not chunk.pieces:
        return backend.layouts.plain(chunk.shape)
    whole = backend.layouts.plain(chunk.extended)
    position = places(backend, chunk, (0, 0, 0))
    rows = len(position)
    row = backend.xp.full(whole.size, -1, dtype=np.int32)
    row[position] = backend.xp.arange(rows, dtype=np.int32)
    return replace(whole, rows=rows, position=position, row=row, color=whole.color[:rows], shape=chunk.shape)


def places(backend: Backend, chunk: Around, direction: Triple) -> Any:
    """int32, the places of a chunk's points, or of the layers in a direction, in such a vector."""
    nx, ny, nz = chunk.extended
    numbers = backend.xp.arange(nx * ny * nz, dtype=np.int32).reshape(nz, ny, nx)
    return backend.guard + numbers[chunk.where(direction)].reshape(-1)


def received(backend: Backend, chunk: Around) -> Route:
    """The `Route` from a chunk's halo vector to such a vector."""
    xp, targets, sources = backend.xp, [], []
    for direction, first in chunk.pieces:
        targets.append(places(backend, chunk, direction))
        sources.append(first + xp.arange(len(targets[-1]), dtype=np.int32))
    nothing = xp.zeros(0, dtype=np.int32)
    return backend.layouts.route(xp.concatenate([nothing, *sources]), xp.concatenate([nothing, *targets]))


def layer_offsets(partition: Partition, layers: tuple[int, int]) -> Offsets:
    """Offsets that a chunk's pass reads: so many layers below and above it along each axis that is cut."""
    below, above = layers
    steps = [(-below, 0, above) if count > 1 else (0,) for count in partition.counts]
    return tuple((i, j, k) for k, j, i in product(*steps[::-1]) if (i, j, k) != (0, 0, 0))


def around(partition: Partition, number: int, offsets: Offsets, layers: tuple[int, int], guard: int) -> Around:
    """A chunk and where in its halo vector, with a guard in front, the values at the offsets are."""
    box = partition[number].box
    pieces: list[tuple[Triple, int]] = []
    first = guard
    for piece in partition.halo_pieces(number, offsets):
        x, y, z = (
            -1 if hi <= low else int(lo >= high)
            for lo, hi, low, high in zip(piece.seen.lo, piece.seen.hi, box.lo, box.hi, strict=True)
        )
        pieces.append(((x, y, z), first))
        first += piece.box.points
    return Around(
        grid=partition.grid, wraps=partition.periodic, lo=box.lo, shape=box.shape, layers=layers, pieces=tuple(pieces)
    )


@dataclass(frozen=True, kw_only=True)
class StarPasses(Transfer):
    """Passes over a star: chunks are of `ChunkPasses`."""

    def step(self, fine: Level, coarse: Level, sweeps: int) -> "StarStep":
        return StarStep(self, fine, coarse)


class StarStep(Step):
    """One Gauss-Seidel sweep down and one up, of which nothing is stored but r.

    Sweeps see other chunks' points as those of the whole grid: with neighbors, r of the layers around the chunk is
    exchanged once for both passes.
    """

    def __init__(self, transfer: Transfer, fine: Level, coarse: Level) -> None:
        engine, chunks = fine.engine, transfer.chunks
        self._engine, self._passes, self._received = engine, chunks.at("passes"), chunks.at("received")
        self._coarse = CoarseVectors(transfer, engine, coarse)
        self.rc, self.xc = self._coarse.rc, self._coarse.xc
        self._halo = engine.halo(chunks.at("halo"), fine.senders(layer_offsets(fine.partition, LAYERS)))
        if self._coarse.distributed:
            senders = coarse.senders(layer_offsets(coarse.partition, COARSE_LAYERS))
            self._solution_halo = engine.halo(chunks.at("solution_halo"), senders)

    def descend(self, r: Field, x: Field) -> None:
        if self._engine.coupled:
            self._engine.exchange(r, self._halo)
        self._engine.run(STAR_DOWN, self._passes, r, self._halo, self._coarse.restricted)
        self._coarse.collect()

    def ascend(self, r: Field, x: Field) -> None:
        if self._coarse.distributed:
            self._engine.exchange(self.xc, self._solution_halo)
        columns = self._coarse.columns()
        if self._coarse.distributed:
            self._engine.run(MOVE, self._received, self._solution_halo, columns)
        self._engine.run(STAR_UP, self._passes, r, self._halo, columns, x)
