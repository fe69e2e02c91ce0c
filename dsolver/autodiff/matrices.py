"""A sparse matrix as a function of its entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from dsolver.autodiff.systems import ParametricSystem, in_double
from dsolver.matrices.canonical import check_form
from dsolver.matrices.checked import matrix_of
from dsolver.matrices.matrix import matrix
from dsolver.problems import Problem


@final
class MatrixEntries(ParametricSystem):
    """A sparse matrix as a function of its entries; its parameters are their values, rows and columns."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows,)."""
        return (self._rows,)

    def like(self, other: ParametricSystem) -> bool:
        """Whether it has as many rows."""
        return isinstance(other, MatrixEntries) and other._rows == self._rows

    def problem(self, values: Sequence[Any], *, transposed: bool) -> Problem:
        """The matrix."""
        data, rows, columns = values
        n = self._rows
        inside = (rows < n) & (columns < n)  # JAX pads entries with places beyond the last
        places = (columns, rows) if transposed else (rows, columns)
        row, column = (place[inside] for place in places)
        return matrix(matrix_of(row, column, in_double(data[inside]), n))

    def form(self, parameters: Sequence[Any], left: Any, right: Any) -> Any:
        """Σ left_i A_ij right_j over the entries."""
        data, rows, columns = parameters
        products = left[rows] * right[columns]
        return (data * (products if products.ndim == 1 else products.sum(-1))).sum()


def entries_of(A: Any) -> tuple[ParametricSystem, list[Any]]:
    """The system of a matrix of SciPy, and its parameters. InputError: it is not square."""
    check_form("A", A, complex_too=True)
    places = A.tocoo()
    return MatrixEntries(A.shape[0]), [places.data, places.row, places.col]
