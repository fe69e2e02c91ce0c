"""Triangular factors of compressed rows: A ≈ (I + L) (D + U) in the order of the rows' colors.

L has the entries at earlier colors, U those at later ones, and each entry stays where it was, so that half sweeps solve
with both.
"""

from typing import Any, Final, NamedTuple

from dsolver.kernels.formats.csr import Csr

LOST: Final = 1e-13
"""A pivot that is less than this part of its diagonal entry is what rounding has left of zero: of a singular matrix."""


class BreakdownError(ArithmeticError):
    """A pivot, its row and value, that a factorization cannot divide by."""

    def __init__(self, row: int, pivot: float) -> None:
        super().__init__(row, pivot)
        self.row, self.pivot = row, pivot


class TriangularFactors(NamedTuple):
    """Triangular factors: L and U in one pattern with ones on the diagonal; D, float64 (rows,)."""

    rows: Csr
    diagonal: Any
