"""A finest level that is a 7-point constant stencil on the whole grid: nothing of it or of its transfer is stored."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dsolver.distributed.halo import halo_layout
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.coarse_grid import CoarseGrid
from dsolver.grid.numbering import own_number
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend
from dsolver.kernels.formats.layout import HaloLayout, Layout, Route
from dsolver.kernels.formats.stencil.constant import ConstantStencil
from dsolver.kernels.formats.stencil.rows import OFFSETS
from dsolver.kernels.lattice.star import COARSE_LAYERS, LAYERS, LEAST, THINNEST, has_way_down, star_transfer
from dsolver.multigrid.geometric.constant_stencil import coarse_weights
from dsolver.multigrid.geometric.star_layers import around, layer_offsets, received, with_layers
from dsolver.multigrid.geometric.transfer import coarse_layout

WEIGHTS = (13, 14, 16, 22)
"""Places in `OFFSETS` of the diagonal and of the entries of a symmetric star above it along x, y and z."""


def fits(partition: Partition) -> bool:
    """Whether a star's passes can work on such chunks: all begin at even points, none is thinner than the layers."""
    odd = any(wraps and n % 2 for wraps, n in zip(partition.periodic, partition.grid, strict=True))
    if odd or min(partition.grid) < THINNEST:
        return False
    return all(
        len(sizes) == 1 or (min(sizes) >= LEAST and not any(n % 2 for n in sizes[:-1])) for sizes in partition.sizes
    )


def star_of(engine: Engine, partition: Partition, stencil: PerChunk) -> ConstantStencil | None:
    """The star on the whole grid, the same on every rank; None without passes to a level halved along all axes."""
    if not fits(partition):
        return None
    made = engine.per_chunk(partial(_numbers, partition=partition), stencil)
    count, *numbers = engine.decided(_all, *(made.at(place) for place in range(1 + len(WEIGHTS) + 6)))
    if count < len(partition):
        return None
    by_axis = dict(zip(WEIGHTS, numbers, strict=False))
    found = ConstantStencil(
        shape=partition.grid,
        weights=tuple(by_axis.get(place, by_axis.get(len(OFFSETS) - 1 - place, 0.0)) for place in range(len(OFFSETS))),
        faces=tuple(numbers[len(WEIGHTS) :]),
        wraps=partition.periodic,
        lo=(0, 0, 0),
    )
    alike = engine.decided(_all, engine.per_chunk(partial(_alike, partition=partition, star=found), stencil))
    return found if alike == (float(len(partition)),) and has_way_down(found) else None


def _all(*numbers: float) -> tuple[float, ...]:
    return numbers


def _numbers(backend: Backend, chunk: int, stencil: ConstantStencil | None, *, partition: Partition) -> tuple[Any, ...]:
    """A chunk's contribution to a star, float64 (1,) each: whether it has one, its weights, the gain at faces; or 0."""
    numbers = [0.0] * (len(WEIGHTS) + 6)
    if stencil is not None:
        place = partition.place(own_number(partition, chunk))
        if not any(place):
            numbers[: len(WEIGHTS)] = [stencil.weights[q] for q in WEIGHTS]
        for axis, count in enumerate(partition.counts):
            first = not any(place[other] for other in range(3) if other != axis)
            if first and place[axis] == 0:
                numbers[len(WEIGHTS) + 2 * axis] = stencil.faces[2 * axis]
            if first and place[axis] == count - 1:
                numbers[len(WEIGHTS) + 2 * axis + 1] = stencil.faces[2 * axis + 1]
    made = backend.asarray(np.array([float(stencil is not None), *numbers]))  # in one copy, as they are read in one
    return tuple(made[place : place + 1] for place in range(len(made)))


def _alike(
    backend: Backend, number: int, stencil: ConstantStencil | None, *, partition: Partition, star: ConstantStencil
) -> Any:
    """float64 (1,): 1 if a chunk's rows are those of a star on the whole grid, else 0."""
    box = partition[own_number(partition, number)].box
    faces = tuple(
        star.faces[2 * axis + side] if at == edge else 0.0
        for axis, n in enumerate(partition.grid)
        for side, at, edge in ((0, box.lo[axis], 0), (1, box.hi[axis], n))
    )
    alike = stencil is not None and stencil.weights == star.weights and stencil.faces == faces
    return backend.asarray(np.full(1, float(alike)))


@dataclass(frozen=True, kw_only=True)
class ChunkPasses:
    """The passes over one chunk of a star, down to the next coarser level and back."""

    passes: Any  # both products, with the sweeps, in the backend's form
    halo: HaloLayout  # what is exchanged of the right-hand side
    solution_halo: HaloLayout  # what is exchanged of the coarser level's solution; nothing where that is replicated
    received: Route  # the `Route` from there to the layers around the chunk's coarse points
    # the storage order of the restricted residual: the coarser level's; lattice order where that is replicated.
    coarse: Layout
    # the order of the chunk's coarse points in what is prolonged, which is in lattice order with room for the layers
    # around them; of all points where they are replicated.
    columns: Layout
    # float64 (27 coarse rows,), the coarser level's matrix rows, offset after offset; None once they have been used.
    weights: Any


def chunk_passes(
    backend: Backend, number: int, layout: Layout, *, partition: Partition, below: CoarseGrid, star: ConstantStencil
) -> tuple[ChunkPasses]:
    """The `ChunkPasses` of a chunk whose rows have this layout, at the finest level's number; star: on all the grid."""
    number = own_number(partition, number)
    coarse_number = own_number(below.partition, number)
    offsets = layer_offsets(partition, LAYERS), layer_offsets(below.partition, COARSE_LAYERS)
    coarse = coarse_layout(backend, below, number)
    fine_chunk = around(partition, number, offsets[0], LAYERS, backend.guard)
    coarse_chunk = around(below.partition, coarse_number, offsets[1], COARSE_LAYERS, backend.guard)
    made = ChunkPasses(
        weights=coarse_weights(backend, star, below.boxes[number]),
        coarse=coarse,
        columns=with_layers(backend, coarse_chunk),
        passes=backend.stencil.transfer(star_transfer(star, fine_chunk, coarse_chunk, coarse)),
        halo=halo_layout(backend, layout, partition, number, offsets[0]),
        solution_halo=halo_layout(backend, coarse, below.partition, coarse_number, offsets[1]),
        received=received(backend, coarse_chunk),
    )
    backend.synchronize()
    return (made,)
