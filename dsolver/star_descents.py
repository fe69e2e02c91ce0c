"""The way of a chunk from a finest level that is a constant star to the next coarser one: nothing of it is stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, final

import numpy as np

from dsolver.constant import coarse_weights
from dsolver.engines.base import Engine, PerChunk
from dsolver.grids import Coarse, colored, halo_layout, in_lattice_order, own_number
from dsolver.kernels.backend import Backend
from dsolver.kernels.layout import HaloLayout, Layout, Route
from dsolver.kernels.star import COARSE_LAYERS, LAYERS, LEAST, THINNEST, Around, has_way_down, star_transfer
from dsolver.kernels.stencil import OFFSETS, ConstantStencil
from dsolver.partition import BOX_OFFSETS, Offsets, Partition, Triple

WEIGHTS = (13, 14, 16, 22)
"""Of `OFFSETS`: the diagonal, and the entries of a symmetric star above it along x, y and z."""


def fits(partition: Partition) -> bool:
    """Whether a star's passes know such chunks: all begin at even points, and none is thinner than layers reach."""
    odd = any(wraps and n % 2 for wraps, n in zip(partition.periodic, partition.grid, strict=True))
    if odd or min(partition.grid) < THINNEST:
        return False
    return all(
        len(sizes) == 1 or (min(sizes) >= LEAST and not any(n % 2 for n in sizes[:-1])) for sizes in partition.sizes
    )


def star_of(engine: Engine, partition: Partition, below: Coarse, stencil: PerChunk) -> ConstantStencil | None:
    """The star on the whole grid if `MakeStarDescent` makes its way to the next level; the same on every rank.

    Args:
        engine: of the finest level, in float64.
        partition: its chunks.
        below: the next level.
        stencil: the `ConstantStencil` of every chunk, or None.
    """
    if below.factors != (2, 2, 2) or not fits(partition):
        return None
    told = engine.per_chunk(TellNumbers(partition=partition), stencil)
    numbers = engine.totals(*(told.at(place) for place in range(len(WEIGHTS) + 6)))
    by_axis = dict(zip(WEIGHTS, numbers, strict=False))
    found = ConstantStencil(
        shape=partition.grid,
        weights=tuple(by_axis.get(place, by_axis.get(len(OFFSETS) - 1 - place, 0.0)) for place in range(len(OFFSETS))),
        faces=numbers[len(WEIGHTS) :],
        wraps=partition.periodic,
        lo=(0, 0, 0),
    )
    alike = engine.totals(engine.per_chunk(Alike(partition=partition, star=found), stencil))
    return found if alike == (float(len(partition)),) and has_way_down(found) else None


@final
@dataclass(frozen=True, kw_only=True)
class TellNumbers:
    """Tells what a chunk alone is to tell of a star on the whole grid."""

    partition: Partition

    def __call__(self, backend: Backend, number: int, stencil: ConstantStencil | None) -> tuple[Any, ...]:
        """float64 (1,) each: the weights, of the first chunk, and what the diagonal gains at the grid's faces."""
        numbers = [0.0] * (len(WEIGHTS) + 6)
        if stencil is not None:
            place = self.partition.place(own_number(self.partition, number))
            if not any(place):
                numbers[: len(WEIGHTS)] = [stencil.weights[q] for q in WEIGHTS]
            for axis, count in enumerate(self.partition.counts):
                first = not any(place[other] for other in range(3) if other != axis)
                if first and place[axis] == 0:
                    numbers[len(WEIGHTS) + 2 * axis] = stencil.faces[2 * axis]
                if first and place[axis] == count - 1:
                    numbers[len(WEIGHTS) + 2 * axis + 1] = stencil.faces[2 * axis + 1]
        return tuple(backend.xp.full(1, value) for value in numbers)


@final
@dataclass(frozen=True, kw_only=True)
class Alike:
    """Tells whether a chunk's rows are those of a star on the whole grid."""

    partition: Partition
    star: ConstantStencil

    def __call__(self, backend: Backend, number: int, stencil: ConstantStencil | None) -> Any:
        """float64 (1,): 1 if they are, else 0."""
        box = self.partition[own_number(self.partition, number)].box
        faces = tuple(
            self.star.faces[2 * axis + side] if at == edge else 0.0
            for axis, n in enumerate(self.partition.grid)
            for side, at, edge in ((0, box.lo[axis], 0), (1, box.hi[axis], n))
        )
        alike = stencil is not None and stencil.weights == self.star.weights and stencil.faces == faces
        return backend.xp.full(1, float(alike))


@final
@dataclass(frozen=True, kw_only=True)
class StarDescent:
    """The way of a chunk from a star to the next coarser level and back.

    Attributes:
        weights: float64 (27 coarse rows,), the coarser level's matrix rows, offset after offset.
        coarse: the storage order of the restricted residual: the coarser level's; lattice order where that is gathered.
        lattice: where the chunk's coarse points are in what is prolonged, which is in lattice order with room for the
            layers around them; where they are gathered, all points.
        transfer: both products, with the sweeps, in the backend's form.
        halo: what is exchanged of the right-hand side.
        solution_halo: what is exchanged of the coarser level's solution; nothing where it is gathered.
        received: from there to the layers around the chunk's coarse points.
    """

    weights: Any
    coarse: Layout
    lattice: Layout
    transfer: Any
    halo: HaloLayout
    solution_halo: HaloLayout
    received: Route


@final
@dataclass(frozen=True, kw_only=True)
class MakeStarDescent:
    """Makes a chunk's way from a star to the coarser level, at the level's number.

    Attributes:
        partition: the chunks of the star.
        coarse: the coarser level.
        star: on the whole grid.
    """

    partition: Partition
    coarse: Coarse
    star: ConstantStencil

    def __call__(self, backend: Backend, number: int, layout: Layout) -> tuple[StarDescent]:
        """The `StarDescent` of a chunk whose rows have this layout."""
        number = own_number(self.partition, number)
        below, box = self.coarse.partition, self.coarse.boxes[number]
        offsets = (reach(self.partition, LAYERS), reach(below, COARSE_LAYERS))
        whole = self.coarse.gathered
        target = in_lattice_order(backend, box.shape) if whole else colored(backend, below, box, BOX_OFFSETS)
        fine, corrected = (
            around(partition, own_number(partition, number), reading, layers, backend.guard)
            for partition, reading, layers in zip(
                (self.partition, below), offsets, (LAYERS, COARSE_LAYERS), strict=True
            )
        )
        descent = StarDescent(
            weights=coarse_weights(backend, self.star, box),
            coarse=target,
            lattice=with_layers(backend, corrected),
            transfer=backend.constant_transfer(star_transfer(self.star, fine, corrected, target)),
            halo=halo_layout(backend, layout, self.partition, number, offsets[0]),
            solution_halo=halo_layout(backend, target, below, own_number(below, number), offsets[1]),
            received=received(backend, corrected),
        )
        backend.synchronize()
        return (descent,)


def with_layers(backend: Backend, chunk: Around) -> Layout:
    """Where a chunk's points are in a vector in lattice order that has room for the layers around it."""
    if not chunk.pieces:
        return in_lattice_order(backend, chunk.shape)
    whole = in_lattice_order(backend, chunk.extended)
    position = places(backend, chunk, (0, 0, 0))
    rows = len(position)
    row = backend.xp.full(whole.size, -1, dtype=np.int32)
    row[position] = backend.xp.arange(rows, dtype=np.int32)
    return replace(whole, rows=rows, position=position, row=row, color=whole.color[:rows], shape=chunk.shape)


def places(backend: Backend, chunk: Around, direction: Triple) -> Any:
    """int32, where the points of a chunk, or of the layers in a direction, are in such a vector."""
    nx, ny, nz = chunk.extended
    numbers = backend.xp.arange(nx * ny * nz, dtype=np.int32).reshape(nz, ny, nx)
    return backend.guard + numbers[chunk.where(direction)].reshape(-1)


def received(backend: Backend, chunk: Around) -> Route:
    """From a chunk's halo vector to such a vector."""
    xp, targets, sources = backend.xp, [], []
    for direction, first in chunk.pieces:
        targets.append(places(backend, chunk, direction))
        sources.append(first + xp.arange(len(targets[-1]), dtype=np.int32))
    nothing = xp.zeros(0, dtype=np.int32)
    return backend.route(xp.concatenate([nothing, *sources]), xp.concatenate([nothing, *targets]))


def reach(partition: Partition, layers: tuple[int, int]) -> Offsets:
    """What a chunk's pass reads: so many layers below and above it along each axis that is cut."""
    below, above = layers
    steps = [(-below, 0, above) if count > 1 else (0,) for count in partition.counts]
    return tuple((i, j, k) for k, j, i in product(*steps[::-1]) if (i, j, k) != (0, 0, 0))


def around(partition: Partition, number: int, offsets: Offsets, layers: tuple[int, int], guard: int) -> Around:
    """A chunk and where in its halo vector, with a guard in front, the values are that `reach` reads."""
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
        grid=partition.grid,
        wraps=partition.periodic,
        lo=box.lo,
        shape=box.shape,
        layers=layers,
        pieces=tuple(pieces),
    )
