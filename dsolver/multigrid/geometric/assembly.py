"""A chunk's matrix of a lattice level, made from its rows on its owner."""

from dataclasses import replace
from typing import Any

from dsolver.distributed.halo import halo_layout
from dsolver.distributed.matrix import ChunkMatrix
from dsolver.grid.box import Offsets
from dsolver.grid.coloring import colored_layout
from dsolver.grid.numbering import own_number, stencil_rows
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.formats.stencil.constant import ConstantStencil
from dsolver.multigrid.level import AtLevel, at_level


def chunk_layout(backend: Backend, number: int, *, partition: Partition, offsets: Offsets) -> Layout:
    """The storage order of a chunk's rows."""
    return colored_layout(backend, partition, partition[own_number(partition, number)].box, offsets)


def chunk_matrix(
    backend: Backend,
    number: int,
    layout: Layout,
    weights: Any,
    stencil: ConstantStencil | None = None,
    *,
    depth: int,
    partition: Partition,
    offsets: Offsets,
    swept: bool = True,
) -> AtLevel:
    """The `ChunkMatrix` of a chunk: weights (K rows,) or (K,); or a stencil; swept: as of `FormatBuilder.matrix`."""
    number = own_number(partition, number)
    backend.tidy(partition[number].box.points)
    sell, rows = backend.format("sell"), stencil_rows(backend, partition, number, offsets, weights)
    made = ChunkMatrix(
        layout=layout,
        local=sell.matrix(layout, rows, swept=swept) if stencil is None else backend.stencil.matrix(stencil),
        ghost=sell.halo_matrix(layout, rows),
        halo=halo_layout(backend, layout, partition, number, offsets),
    )
    backend.synchronize()
    return at_level(depth, made)


def narrowed_matrix(
    backend: Backend, _: int, a: ChunkMatrix, stencil: ConstantStencil | None = None, *, depth: int, swept: bool = True
) -> AtLevel:
    """A `ChunkMatrix` of float64 in the backend's value type: not made once more, since half of that is waiting."""
    sell = backend.format("sell")
    local = sell.narrowed(a.local, swept=swept) if stencil is None else backend.stencil.matrix(stencil)
    return at_level(depth, replace(a, local=local, ghost=sell.narrowed_halo(a.ghost)))


def raised_rows(_: Backend, __: int, weights: Any, factors: Any, *, offsets: Offsets) -> Any:
    """Rows whose diagonal is multiplied by a block of factors: float64 (K rows,), as the weights are."""
    made = weights.copy()
    made.reshape(len(offsets), -1)[offsets.index((0, 0, 0))] *= factors.T.reshape(-1)
    return made


def raised_matrix(_: Backend, __: int, matrix: ChunkMatrix, factors: Any) -> AtLevel:
    """The finest level's `ChunkMatrix` with a raised diagonal; other entries are those of the given matrix."""
    return at_level(0, replace(matrix, local=matrix.local.scaled(factors)))
