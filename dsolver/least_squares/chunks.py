"""A rectangular matrix and its transpose, each distributed by rows: vectors of two lengths, with their own chunks."""

from dataclasses import replace

import numpy as np

from dsolver.distributed.halo import plan_layout
from dsolver.distributed.matrix import ChunkMatrix, Matrix
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.contract import JACOBI
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.general.matrix import Diagonal
from dsolver.matrices.chunks.row_block import RowBlock


def rows_layout(backend: Backend, _: int, block: RowBlock) -> Layout:
    """The storage order of vectors with an item for each row of a chunk."""
    return backend.layouts.plain((len(block.start) - 1, 1, 1))


def placed(backend: Backend, _: int, block: RowBlock) -> RowBlock:
    """A chunk's rows on its device."""
    start, columns, values = _on_device(backend, block)
    return replace(block, start=start, columns=columns, values=values)


def transposed_block(backend: Backend, _: int, block: RowBlock, *, columns: int) -> RowBlock:
    """The rows of the transpose, of the only chunk; columns: how many there are."""
    start, columns_of, values = backend.amg.transposed(_on_device(backend, block), columns)
    backend.general.wait()
    return replace(block, start=start, columns=columns_of, values=values)


def rectangular_chunk(backend: Backend, _: int, block: RowBlock, written: Layout, read: Layout) -> ChunkMatrix:
    """A chunk's rows of a rectangular matrix, in the format of its entries in own columns.

    Args:
        block: its rows; columns are the chunk's own items of the vector that is multiplied, then halo slots.
        written: of the vectors that products are written to.
        read: of those that are multiplied.
    """
    general, rows = backend.general, _on_device(backend, block)
    parts = general.split(rows, read.rows)
    local = general.rectangular(parts.local, written, read, block.formats, known=block.known)
    ghost = general.no_ghost
    if len(parts.boundary):
        ghost = general.ghost(written.position[parts.boundary], parts.ghost, block.plan.slots, parts.longest)
    general.wait()
    return ChunkMatrix(layout=written, local=local, ghost=ghost, halo=plan_layout(backend, read, block.plan))


def row_norms(backend: Backend, _: int, block: RowBlock, written: Layout, read: Layout) -> Diagonal:
    """Norms of a chunk's rows, by which columns of the transpose are divided; arguments: as of `rectangular_chunk`."""
    made = backend.general.row_norms(_on_device(backend, block), read.rows + block.plan.slots, written)
    backend.general.wait()
    return made


def reciprocal(backend: Backend, _: int, diagonal: Diagonal) -> Diagonal:
    """The reciprocals of a diagonal: to divide by them is to multiply."""
    made = replace(diagonal, diagonal=1.0 / diagonal.diagonal)
    backend.general.wait()
    return made


class ScaledMatrix:
    """A D⁻¹ with the diagonal D, or D⁻¹ A.

    `diagonal`: D, the `Diagonal` of every chunk. `columns`: whether A's columns are scaled, else its rows.
    """

    def __init__(self, engine: Engine, matrix: Matrix, diagonal: PerChunk, layout: PerChunk, *, columns: bool) -> None:
        self._engine, self._matrix, self._diagonal, self._columns = engine, matrix, diagonal, columns
        self._scaled = engine.field(layout)

    def multiply(self, x: Field, y: Field) -> None:
        """y = A D⁻¹ x, or D⁻¹ A x."""
        engine, scaled = self._engine, self._scaled
        if self._columns:
            engine.run(JACOBI, self._diagonal, x, 1.0, scaled)
            self._matrix.multiply(scaled, y)
        else:
            self._matrix.multiply(x, scaled)
            engine.run(JACOBI, self._diagonal, scaled, 1.0, y)


def _on_device(backend: Backend, block: RowBlock) -> Csr:
    """A chunk's rows; those of a task, which cannot be written, come as a copy, for which loops are compiled."""
    parts = [backend.asarray(part) for part in block.csr]
    return Csr(*(np.require(part, requirements="W") if isinstance(part, np.ndarray) else part for part in parts))
