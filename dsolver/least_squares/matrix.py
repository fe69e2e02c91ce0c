"""A rectangular matrix of this process and its transpose, each cut into chunks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.grid.row_partition import RowPartition
from dsolver.matrices.canonical import compressed
from dsolver.matrices.cut import CutMatrix


@final
@dataclass(frozen=True)
class RectangularMatrix:
    """A matrix with any numbers of rows and columns.

    Args:
        rows: a CSR array of SciPy, in the form of `compressed`.
    """

    rows: Any

    @cached_property
    def transposed(self) -> Any:
        """Its transpose in the same form."""
        found = self.rows.T.tocsr()
        found.has_canonical_format = True
        return found

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.rows.shape
        return int(rows), int(columns)

    def cut(self, chunks: int, formats: str | None = None) -> CutRectangular:
        """The matrix with so many chunks of rows, and of columns, with about as many entries each; or less."""
        chunks = max(1, min(chunks, *self.shape))
        rows, columns = (RowPartition.by_entries(part.indptr, chunks) for part in (self.rows, self.transposed))
        return CutRectangular(
            rows=CutMatrix(self.rows, rows, formats, blocks=(1,), columns=columns),
            columns=CutMatrix(self.transposed, columns, formats, blocks=(1,), columns=rows),
            row_partition=Partition((rows.rows, 1, 1), rows.sizes),
            column_partition=Partition((columns.rows, 1, 1), columns.sizes),
        )


@final
@dataclass(frozen=True, kw_only=True)
class CutRectangular:
    """A rectangular matrix in chunks.

    Attributes:
        rows: its rows.
        columns: those of its transpose.
        row_partition: the chunks of vectors with an item for each row.
        column_partition: those of vectors with one for each column.
    """

    rows: CutMatrix
    columns: CutMatrix
    row_partition: Partition
    column_partition: Partition


def rectangular(name: str, A: Any) -> RectangularMatrix:
    """A sparse matrix of SciPy or CuPy of any shape.

    Raises:
        InputError: it is empty, complex, or has entries that are not finite.
    """
    if 0 in A.shape:
        raise InputError(f"{name} has shape {tuple(A.shape)}: it needs a row and a column at least")
    if np.dtype(A.dtype).kind == "c":
        raise InputError(
            f"{name} is complex, and least squares are for real matrices: pass scipy.sparse.block_array([[A.real, "
            f"-A.imag], [A.imag, A.real]]) with numpy.concatenate([b.real, b.imag])"
        )
    if type(A).__module__.partition(".")[0] == "cupyx":
        A = A.get()
    return RectangularMatrix(compressed(name, A))
