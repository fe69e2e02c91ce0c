"""HPCG's matrix and its way to the coarser level.

The matrix is sliced ELL (`formats.sell`) whose upper entries end with those at coarse points::

    lower | upper, not coarse | upper, coarse points

After a coarse correction only coarse points have changed, so the post-smoother reads no more of the upper half than its
end. No other kernel needs to know where that begins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dsolver.kernels.batched import Columns
from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.sell import SellMatrix


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
