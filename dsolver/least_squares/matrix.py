"""A rectangular matrix, cut into chunks of rows and of columns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dsolver.discretize.lifting import exponent_for, times
from dsolver.engines.out_of_memory import if_memory_suffices
from dsolver.errors import InputError, check_real
from dsolver.grid.halo import HaloPlan
from dsolver.grid.partition import Partition
from dsolver.grid.row_partition import RowPartition
from dsolver.kernels.formats.csr import Csr
from dsolver.matrices.canonical import compressed
from dsolver.matrices.checked import RowsOnGpu, csr_of, rows_on_gpu
from dsolver.matrices.chunks.cut import CutMatrix
from dsolver.matrices.chunks.row_block import RowBlock

Senders = tuple[tuple[int, ...], ...]
ALONE = HaloPlan(sends=(), receives=())  # the exchange of the only chunk


@dataclass(frozen=True)
class RectangularMatrix:
    """A matrix with any numbers of rows and columns: a CSR array of SciPy, as `compressed` has it, or on a GPU."""

    rows: Any

    @property
    def exponent(self) -> int:
        """Exponent of two by which its entries come into range; 0 where they are."""
        largest = float(abs(self.rows.data).max()) if len(self.rows.data) else 0.0
        return exponent_for(largest) if largest else 0

    def times(self, exponent: int) -> "RectangularMatrix":
        """This matrix times a power of two."""
        if exponent == 0:
            return self
        data = times(self.rows.data, exponent)
        if isinstance(self.rows, RowsOnGpu):
            return RectangularMatrix(replace(self.rows, data=data))
        made = self.rows.copy()
        made.data = data
        return RectangularMatrix(made)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.rows.shape
        return int(rows), int(columns)

    def cut(self, chunks: int, formats: str | None = None) -> "CutRectangular":
        """The matrix with so many chunks of rows, and of columns, with about as many entries each; or less.

        With several chunks it has to be in memory of the host.
        """
        rows, columns = self.shape
        chunks = max(1, min(chunks, rows, columns))
        if chunks == 1:
            return CutRectangular(
                row_partition=Partition((rows, 1, 1)),
                column_partition=Partition((columns, 1, 1)),
                whole=csr_of(self.rows),
                formats=formats,
            )
        transposed = self.rows.T.tocsr()
        along, across = (RowPartition.by_entries(part.indptr, chunks) for part in (self.rows, transposed))
        return CutRectangular(
            row_partition=Partition((rows, 1, 1), along.sizes),
            column_partition=Partition((columns, 1, 1), across.sizes),
            by_rows=CutMatrix(self.rows, along, formats, blocks=(1,), columns=across),
            by_columns=CutMatrix(transposed, across, formats, blocks=(1,), columns=along),
        )


@dataclass(frozen=True, kw_only=True)
class CutRectangular:
    """A rectangular matrix in chunks."""

    row_partition: Partition  # the chunks of vectors with an item for each row
    column_partition: Partition  # those of vectors with one for each column
    # the rows of the only chunk, which makes those of the transpose itself; None where there are several.
    whole: Csr | None = None
    formats: str | None = None  # as of `dsolver.matrix`, of the only chunk
    by_rows: CutMatrix | None = None  # the rows of several chunks
    by_columns: CutMatrix | None = None  # those of the transpose

    @property
    def senders(self) -> tuple[Senders, Senders]:
        """The chunks whose columns each chunk's rows read, and whose rows its columns read."""
        if self.by_rows is None or self.by_columns is None:
            return ((),), ((),)
        return self.by_rows.senders, self.by_columns.senders

    def blocks(self, *, host: bool) -> Mapping[str, Mapping[int, RowBlock]]:
        """`RowBlock`s by number, of "rows" and, of several chunks, "columns"; host: in memory of the host alone."""
        if self.by_rows is None or self.by_columns is None:
            assert self.whole is not None
            block = RowBlock(**self.whole._asdict(), plan=ALONE, formats=self.formats)
            return {"rows": {0: block.here if host else block}}
        return {
            "rows": self.by_rows.blocks(self.row_partition, host=host),
            "columns": self.by_columns.blocks(self.column_partition, host=host),
        }


def rectangular(name: str, A: Any, *, gpu: bool = False) -> RectangularMatrix:
    """A sparse matrix of SciPy or CuPy of any shape.

    `gpu`: whether compressed rows in canonical form go to the GPU of this process, or stay there. InputError: it is
    empty, complex, or has entries that are not finite.
    """
    if len(A.shape) != 2 or 0 in A.shape:
        raise InputError(f"{name} has shape {tuple(A.shape)}: it needs a row and a column at least")
    if np.dtype(A.dtype).kind == "c":
        raise InputError(
            f"{name} is complex, and least squares are for real matrices: pass scipy.sparse.block_array([[A.real, "
            f"-A.imag], [A.imag, A.real]]) with numpy.concatenate([b.real, b.imag])"
        )
    check_real(name, np.dtype(A.dtype), "fiub")
    if gpu and (rows := if_memory_suffices(lambda: rows_on_gpu(name, A))) is not None:
        return RectangularMatrix(rows)
    if not any(kind.__module__.partition(".")[0] == "scipy" for kind in type(A).__mro__):
        A = A.get()
    return RectangularMatrix(compressed(name, A))
