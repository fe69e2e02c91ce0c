"""HPCG's matrix and its way to the coarser level.

The matrix is sliced ELL (`formats.sell`) whose upper entries end with those at coarse points::

    lower | upper, not coarse | upper, coarse points

After a coarse correction only coarse points have changed, so the post-smoother reads no more of the upper half than its
end. No other kernel needs to know where that begins.

The kernels of the V-cycle are described here, as others are in `dsolver.kernels.contract`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dsolver.kernels.batched import Columns
from dsolver.kernels.contract import Kernel, described
from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.sell import SellMatrix

# Names used below, beside those of the contract: T the injection to the next coarser level, e = (U x)/d of the
# pre-smoother, c = P x_c.

SYMGS: Final = described("symgs", reads="A r", writes="x", work="coarse", label="coarsest-symgs")
"""One symmetric Gauss-Seidel sweep from x = 0."""
PRESMOOTH: Final = described("presmooth", reads="A r", writes="x e")  # SymGS from x = 0, keeping e = (U x)/d
RESTRICT: Final = described("restrict", reads="A T r x e", writes="rc", label="restriction")
"""rc = (r - A_local x) at the coarse points, which after `PRESMOOTH` is (L e) at the coarse points."""
PRESMOOTH_RESTRICT: Final = described("presmooth_restrict", reads="A T r", writes="x e rc")
"""`PRESMOOTH` then `RESTRICT`, for a chunk with no neighbors."""
RESIDUAL_HALO: Final = described(
    "residual_halo", reads="H T q", updates="r rc", writes="kept", work="boundary", label="boundary-residual"
)
"""kept = r on the boundary, r -= q there, rc -= q at its coarse points: what the pre-smoother's halo (q = H h) adds to
the residual that is restricted and to the right-hand side that the post-smoother sees."""
PROLONG: Final = described("prolong", reads="T xc", writes="c")
"""c = P xc (injection) at the coarse points. c is zero elsewhere and stays so."""
POSTSMOOTH: Final = described("postsmooth", reads="A r c e", updates="x", writes="w", label="inner-postsmooth")
"""SymGS from x + c, where x and e are what `PRESMOOTH` left. Destroys w (work space)."""
PROLONG_POSTSMOOTH: Final = described("prolong_postsmooth", reads="A T r xc e", updates="x", writes="c w")
"""`PROLONG` then `POSTSMOOTH`, for a chunk with no neighbors."""
RESTORE: Final = described("restore", reads="H kept", updates="r", work="boundary", label="boundary-reset")
"""r = kept on the boundary: undoes `RESIDUAL_HALO` and a halo's subtraction to the bit."""
KERNELS: Final[tuple[Kernel, ...]] = (
    *(SYMGS, PRESMOOTH, RESTRICT, PRESMOOTH_RESTRICT, RESIDUAL_HALO),
    *(PROLONG, POSTSMOOTH, PROLONG_POSTSMOOTH, RESTORE),
)


@dataclass(frozen=True, kw_only=True)
class HpcgMatrix(SellMatrix):
    """The local part of one chunk's rows on a level of HPCG's V-cycle; S is the number of its slices."""

    # int32 (S,), index of the first entry column of each slice that is upper and a coarse point; the slice's width
    # where there is none.
    coarse: Array


@dataclass(frozen=True, kw_only=True)
class Injection(Format):
    """Injection between a level and the next coarser one, inside a chunk."""

    coarse_of: Array  # int32 (fine size,), coarse storage position of a fine storage position, or -1
    fine_of: Array  # int32 (coarse size,), fine storage position of a coarse one, or -1 for padding
    slices: tuple[int, int]  # (first, last + 1) storage slices of the fine level that hold all coarse points


class SeparateSmoothers:
    """Steps of HPCG's V-cycle one after the other, for formats that have nothing faster."""

    presmooth: Callable[..., None]
    restrict: Callable[..., None]
    postsmooth: Callable[..., None]

    def presmooth_restrict(self, transfer: Any, r: Any, x: Any, e: Any, rc: Any) -> None:
        self.presmooth(r, x, e)
        self.restrict(transfer, r, x, e, rc)

    def prolong_postsmooth(self, transfer: Any, r: Any, xc: Any, e: Any, x: Any, c: Any, w: Any) -> None:
        transfer.prolong(xc, c)
        self.postsmooth(r, c, e, x, w)


class SeparateColumns(SeparateSmoothers, Columns):
    """Steps for several columns, one after the other."""

    def prolong_postsmooth(self, transfer: Any, r: Any, xc: Any, e: Any, x: Any, c: Any, w: Any) -> None:
        super().prolong_postsmooth(transfer.batched(self.width), r, xc, e, x, c, w)


class HpcgBuilder(ABC):
    """Set-up of HPCG's levels on a device."""

    @abstractmethod
    def matrix(self, layout: Layout, rows: CandidateRows, coarse: Array) -> Any:
        """The local part of a chunk's matrix.

        Args:
            coarse: bool (rows,), True at coarse points; nowhere on the last level.

        Raises:
            ZeroDivisionError: a row has no diagonal entry or a zero one.
        """

    @abstractmethod
    def halo_matrix(self, layout: Layout, rows: CandidateRows) -> Any:
        """The entries of a chunk's rows in columns that are halo slots; its `size` is the number of boundary rows."""

    @abstractmethod
    def injection(self, fine: Layout, coarse: Layout, fine_row: Array) -> Any:
        """Injection between two levels; fine_row: int32 (coarse rows,), the fine row of each coarse row."""
