"""Rows between two levels on a GPU: R in compressed rows that threads share, P in slices."""

from dataclasses import dataclass
from typing import Any, Final

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.block_slices import products as slices
from dsolver.kernels.cuda.block_slices.products import CudaBlockSlices
from dsolver.kernels.cuda.csr.products import LANES, OF_BLOCKS, CudaRows, blocks_of_rows
from dsolver.kernels.cuda.vectors.vectors import narrowed
from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.choice import FEW_ROWS
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE, Array
from dsolver.kernels.general.operations import Between

BETWEEN: Final = ((3, 3), (3, 6), (6, 3))  # blocks that there are kernels for
SHORT: Final = 8.0  # mean entries of rows up to which each has one thread


@dataclass(frozen=True, kw_only=True)
class CudaTransferRows(Format):
    """R or P with its kernels.

    A row of R has some forty entries, whose columns are a few lines of neighbors: threads that share it read them
    together. In slices, a thread a row, R took 2 times as long. P has up to `max_elements` in a row, and columns of 32
    rows close together: a thread a row, 10 bytes an entry.

    `written`, `read`: where the rows and the columns lie in vectors, which have guards around them.
    """

    product: CudaRows | CudaBlockSlices  # the rows in their format
    written: slice
    read: slice
    vectors: Any

    @property
    def nbytes(self) -> int:
        return self.product.nbytes

    def batched(self, width: int) -> Columns:
        return _TransferColumns(self, width)

    def restrict_full(self, y: Array, rc: Array) -> None:
        self.product.spmv(y[self.read], rc[self.written])

    def prolong_add(self, xc: Array, x: Array) -> None:
        self.prolong_sum(xc, x, x)

    def prolong_sum(self, xc: Array, x: Array, y: Array) -> None:
        self.product.add(xc[self.read], x[self.written], y[self.written])


class _TransferColumns(Columns):
    """R or P for several columns: its format multiplies them together."""

    def restrict_full(self, y: Array, rc: Array) -> None:
        self._product.spmv(y[:, self.one.read], rc[:, self.one.written])

    def prolong_add(self, xc: Array, x: Array) -> None:
        self.prolong_sum(xc, x, x)

    def prolong_sum(self, xc: Array, x: Array, y: Array) -> None:
        one = self.one
        self._product.add(xc[:, one.read], x[:, one.written], y[:, one.written])

    @property
    def _product(self) -> Any:
        return self.one.product.batched(self.width)


def transfer(levels: Between, vectors: Any) -> CudaTransferRows:
    """Rows between two levels: in slices where they are short, as those of P are; values as of the vectors."""
    product: CudaRows | CudaBlockSlices
    shape, rows = levels.shape, levels.rows
    mean = len(rows.columns) / max(1, shape[0])
    if mean > SHORT:
        threads = threads_of(shape[0], mean)
        fitting = threads in OF_BLOCKS and levels.blocks in BETWEEN
        found = blocks_of_rows(rows, shape[1], levels.blocks) if fitting else None
        rows = rows._replace(values=narrowed(rows.values, vectors.dtype))
        product = CudaRows(shape=shape, entries=rows, threads=threads, blocks=found)
    else:
        measured = levels.measured or slices.measured(rows, shape[1], vectors.type_name)
        product = slices.filled(rows, shape[1], measured)
    return CudaTransferRows(product=product, written=levels.written, read=levels.read, vectors=vectors)


def measured_transfer(rows: Csr, columns: int, vectors: Any) -> slices.Measured | None:
    """Slices of rows between two levels, for whose sizes `transfer` would wait; None where it makes no slices."""
    short = len(rows.columns) <= SHORT * max(1, rows.size)
    return slices.measured(rows, columns, vectors.type_name) if short else None


def threads_of(rows: int, mean: float) -> int:
    """Threads that share a row: one for two or three of its entries, at most a warp; few rows have a warp each."""
    if rows <= FEW_ROWS:
        return SLICE
    return max(threads for threads in LANES if threads == 1 or 2.5 * threads <= max(mean, 2.5))
