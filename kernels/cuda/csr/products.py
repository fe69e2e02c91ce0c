"""Compressed rows on a GPU and their products: some threads a row, or in chunks."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Self

import cupy
import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.launch.loader import NOTHING, THREADS, for_each, kernel, type_of
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.cuda.sparse.blocks.rows import in_blocks
from dsolver.kernels.cuda.sparse.finish import Finished, Launch, TogetherColumns
from dsolver.kernels.cuda.vectors.vectors import CudaVectors, vectors
from dsolver.kernels.formats.compressed import LONGEST, Chunks, CompressedRows, count_of
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

ROWS, CHUNKS, BATCHED = "csr/rows.cu", "csr/chunks.cu", "csr/batched.cu"
BLOCK_ROWS: Final = "csr/block_rows.cu"
OF_BLOCKS: Final = (8, 16, 32)  # threads of a row that there are kernels for where entries come in full blocks
LANES: Final = (1, 2, 4, 8, 16, 32)  # threads of a row that there are kernels for
FEWEST: Final = 4
"""Threads of a row from which there are kernels for several columns: fewer have rows of less than ten entries, as are
mostly stored in slices."""


@dataclass(frozen=True, kw_only=True)
class BlockPlaces:
    """Places of the full blocks in which the entries of some rows come; their values stay where they are."""

    shape: tuple[int, int]  # rows and columns of a block, as there are kernels for in block_rows.cu
    start: Array  # int64, blocks before each row of blocks, and of all
    columns: Array  # int32, of blocks


def guarded_diagonal(diagonal: Array, first: int, items: int, dtype: str) -> Array:
    """A diagonal in a type, NaN out of its range, from a first item on, where the others, of so many, are 1."""
    out, sizes = cupy.empty(items, dtype=dtype), map(np.int32, (len(diagonal), first, items))
    for_each(ROWS, "guarded_diagonal", items, diagonal, out, *sizes, dtype=dtype)
    return out


@dataclass(frozen=True, kw_only=True)
class CudaRows(Finished, CompressedRows):
    """Compressed rows with their kernels."""

    threads: int  # that multiply a row, one of `LANES`
    blocks: BlockPlaces | None = None  # in which all entries come; None where they do not. It changes no bit.

    def batched(self, width: int) -> Columns:
        return TogetherColumns(self, width, self._together) if self.threads >= FEWEST else super().batched(width)

    def add(self, x: Array, r: Array, y: Array) -> None:
        """y = r + A x; y may be r."""
        self._finish("sum", (x, r, NOTHING, y, NOTHING))

    def _finish(self, name: str, given: tuple[Any, ...], dot: Array | None = None) -> None:
        if dot is not None:
            arguments = (*self.entries, *given, self._partials, self._rows)
            launch_early(self._kernel(name), self._grid, (THREADS,), arguments)
            vectors(self._dtype).sum(self._partials, self._grid[0], dot)
        elif self.blocks is None:
            launch_early(self._kernel(name), self._grid, (THREADS,), (*self.entries, *given, self._rows))
        else:
            of, nodes = self.blocks, self.shape[0] // self.blocks.shape[0]
            function = kernel(BLOCK_ROWS, f"{name}_{self.threads}_{of.shape[0]}_{of.shape[1]}", self._dtype)
            arguments = (of.start, of.columns, self.entries.values, *given, np.int32(nodes))
            launch_early(function, (_blocks(nodes * self.threads),), (THREADS,), arguments)

    def diagonal(self, first: int = 0, items: int | None = None) -> Array:
        """The diagonal, 0 where a row has no such entry; from a first item on, where the others, of so many, are 1."""
        items = self.shape[0] if items is None else items
        out, sizes = cupy.empty(items, dtype=self._dtype), (self._rows, np.int32(first), np.int32(items))
        launch_early(kernel(ROWS, "diagonal", self._dtype), (_blocks(items),), (THREADS,), (*self.entries, out, *sizes))
        return out

    def diagonal_in_range(self, first: int, items: int, dtype: str) -> Array:
        """`diagonal` of rows in float64, in another type: NaN where it leaves the range of its normal numbers."""
        out, sizes = cupy.empty(items, dtype=dtype), (self._rows, np.int32(first), np.int32(items))
        for_each(ROWS, "diagonal_in_range", items, *self.entries, out, *sizes, dtype=dtype)
        return out

    @property
    def nbytes(self) -> int:
        beside = 0 if self.blocks is None else int(self.blocks.start.nbytes + self.blocks.columns.nbytes)
        return super().nbytes + beside

    def _kernel(self, name: str) -> Any:
        return kernel(ROWS, f"{name}_{self.threads}", self._dtype)

    @property
    def _dtype(self) -> str:
        return type_of(self.entries.values)

    @property
    def _rows(self) -> np.int32:
        return np.int32(self.shape[0])

    @cached_property
    def _grid(self) -> tuple[int]:
        return (_blocks(self.shape[0] * self.threads),)

    def prepare_dots(self) -> None:
        _ = self._partials

    @property
    def _stored(self) -> tuple[tuple[Array | None, ...], Array] | None:
        start, columns, values = self.entries
        return ((start, columns), values) if self.threads >= FEWEST else None

    @cached_property
    def _partials(self) -> Array:
        return cupy.empty(self._grid[0])

    @cached_property
    def _together(self) -> Launch:
        return Launch(
            file=BATCHED,
            end=f"_{self.threads}",
            dtype=self._dtype,
            grid=self._grid,
            threads=THREADS,
            head=tuple(self.entries),
            tail=(self._rows,),
            parts=self._grid[0],
        )


@dataclass(frozen=True, kw_only=True)
class CudaChunks(Finished, Chunks):
    """Compressed rows in chunks with their kernels."""

    parts: Array  # float64 (C,), room for what each chunk has of the row that goes on after it, or of a dot product
    # end of the names of kernels: "_close" where rows are whole, and in most chunks columns close together.
    variant: str

    @property
    def vectors(self) -> CudaVectors:
        """The vector kernels."""
        return vectors(self._dtype)

    def times(self, factors: Array) -> Self:
        """See `Chunks.times`; with room of its own."""
        return replace(super().times(factors), parts=cupy.empty_like(self.parts))

    def spmv(self, x: Array, y: Array) -> None:
        if self.whole:
            super().spmv(x, y)
        elif self.count:
            function = kernel(CHUNKS, "spmv_carry", self._dtype)
            arguments = (*self._head, x, NOTHING, NOTHING, y, NOTHING, self.parts)
            launch_early(function, (self.count,), (THREADS,), arguments)
            arguments = (self.chunks, self.start, self.parts, y, np.int32(self.shape[0]), np.int32(self.count))
            launch_early(kernel(CHUNKS, "add_carries", self._dtype), (_blocks(self.count),), (THREADS,), arguments)

    def spmv_dot(self, x: Array, y: Array, dot: Array) -> None:
        if self.whole:
            super().spmv_dot(x, y, dot)
        else:
            self.spmv(x, y)
            self.vectors.dot(x, y, dot)

    @property
    def finishes(self) -> bool:
        return self.whole

    def _finish(self, name: str, given: tuple[Any, ...], dot: Array | None = None) -> None:
        parts = () if dot is None else (self.parts,)
        if self.count:
            launch = kernel(CHUNKS, name + self.variant, self._dtype)
            launch_early(launch, (self.count,), (THREADS,), (*self._head, *given, *parts))
        if dot is not None:
            self.vectors.sum(self.parts, self.count, dot)

    @cached_property
    def _head(self) -> tuple[Any, ...]:
        near = NOTHING if self.near is None else self.near
        columns = NOTHING if self.columns is None else self.columns
        return self.chunks, self.ends, near, columns, self.values

    @property
    def _dtype(self) -> str:
        return type_of(self.values)


def blocks_of_rows(matrix: Csr, columns: int, shape: tuple[int, int]) -> BlockPlaces | None:
    """The blocks of this shape in which all entries, columns ascending, come; None where some do not. It waits."""
    if not len(matrix.columns) or columns % shape[1]:
        return None
    (found,) = in_blocks((matrix, *shape))
    return found and BlockPlaces(shape=shape, start=found.nodes.start, columns=found.nodes.columns)


def chunks(matrix: Csr, columns: int, longest: int) -> CudaChunks:
    """A matrix in chunks, made on the device. It waits once, in the end: products read it before launches end."""
    start, of, values = matrix
    dtype, rows = type_of(values), matrix.size
    count, whole = count_of(rows, len(of)), longest <= LONGEST
    table = cupy.empty((count + 1, 4), dtype=np.uint32)
    sizes = map(np.int32, (rows, count, whole))
    for_each(CHUNKS, "find_chunks", count + 1, start, *sizes, table, dtype=dtype)
    ends, near = cupy.empty(rows, dtype=np.uint16), cupy.empty(len(of), dtype=np.uint16)
    found = cupy.zeros(3, dtype=np.uint32)
    if count:
        kernel(CHUNKS, "fill_chunks", dtype)((count,), (THREADS,), (start, of, table, ends, near, found))
    with_near, without, close = (int(number) for number in cupy.asnumpy(found)) if count else (0, 0, 0)
    return CudaChunks(
        shape=(rows, columns),
        whole=whole,
        chunks=table,
        ends=ends,
        near=near if with_near else None,
        columns=of if without else None,
        start=None if whole else start,
        values=values,
        parts=cupy.empty(max(1, count)),
        variant="_close" if whole and 2 * close > with_near + without else "",
    )


def _blocks(items: int) -> int:
    return max(1, -(-items // THREADS))
