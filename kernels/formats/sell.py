"""Sliced ELL: entries of `SLICE` rows at a time, in the storage order of `formats.layout`.

The entries of a slice are two runs of equally long columns, lane fastest::

    lower (columns of earlier colors) | upper

so a half sweep reads half a slice, and SpMV reads it whole. A slice whose k-th entries all lie at ``base_k + lane``
stores one int32 base per k (a *run* slice: 8.1 bytes an entry); any other stores all 32 columns (an *explicit* slice:
12 bytes an entry). Holes have value 0.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dsolver.kernels.formats.base import Format, stored_bytes
from dsolver.kernels.formats.layout import SLICE, Array, Layout

WIDEST = 32_767  # entry columns of a slice at most: a GPU counts them in 15 bits


@dataclass(frozen=True, kw_only=True)
class Slices:
    """Sliced ELL entries. All arrays are on the device that owns the chunk; S is the number of slices."""

    start: Array
    upper: Array  # int32 (S,), index of the first entry column of slice s that is upper (lower ones come first)
    column_start: Array  # int64 (S + 1,), where the columns of slice s start in `columns`
    values: Array  # (start[-1],) of the backend's value type, entry k of lane l of slice s at start[s] + k * SLICE + l
    # int32; a run slice has one base per k, an explicit slice `SLICE` columns per k. A slice is a run exactly when
    # column_start[s + 1] - column_start[s] is the number of its entry columns.
    columns: Array

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return stored_bytes(self)

    def rows(self) -> Array:
        """The row of each value, int64, `SLICE` rows a slice."""
        value, of = self._found()
        return of * SLICE + value % SLICE

    def columns_of_values(self) -> Array:
        """The column of each value, int64; a hole has some column, too."""
        value, of = self._found()
        k, lane = (value - self.start[of]) // SLICE, value % SLICE
        wide = (self.start[1:] - self.start[:-1]) // SLICE
        run = (self.column_start[1:] - self.column_start[:-1] == wide)[of]
        place = self.column_start[of] + np.where(run, k, k * SLICE + lane)
        return self.columns[place].astype(np.int64) + np.where(run, lane, 0)

    def _found(self) -> tuple[Array, Array]:
        """The number of each value, and its slice."""
        value = np.arange(len(self.values), like=self.start)
        return value, np.searchsorted(self.start[1:], value, side="right")


@dataclass(frozen=True, kw_only=True)
class SellMatrix(Format):
    """The local, square part of one chunk's rows; `HaloMatrix` is the rest."""

    layout: Layout  # the storage order
    diagonal: Array  # (layout.size,) of the backend's value type, 1 on padding and guards
    # entries off the diagonal whose column this chunk owns; columns are storage positions. Slice 0 of `local` is the
    # first slice of rows, storage slice 1.
    local: Slices


@dataclass(frozen=True, kw_only=True)
class HaloMatrix(Format):
    """The part of one chunk's rows that multiplies a halo."""

    boundary: Array  # int32 (B,), storage positions of the rows that read the halo, ascending
    # their entries, slices of `SLICE` consecutive items of `boundary`; all are lower ones, and columns index the halo
    # vector, which has a guard slice of zeros on both sides.
    slices: Slices

    @property
    def size(self) -> int:
        """Length of a vector with one item for each boundary row."""
        return len(self.boundary)

    def scaled_rows(self, x: Array) -> Self:
        """Each row times the item at its place of a vector of the rows."""
        if not self.size:
            return self
        rows = np.minimum(self.slices.rows(), self.size - 1)  # the last slice may have fewer, with zeros behind them
        return self._times(x[self.boundary[rows]])

    def scaled_columns(self, h: Array) -> Self:
        """Each column times the item of a halo vector that it multiplies."""
        return self._times(h[self.slices.columns_of_values()]) if self.size else self

    def _times(self, factors: Array) -> Self:
        """Each value times a factor of its own."""
        return replace(self, slices=replace(self.slices, values=self.slices.values * factors))


@dataclass(frozen=True, kw_only=True)
class Product(Format):
    """A rectangular matrix: rows of one vector, columns of another."""

    slices: Slices
    target: Array  # int32 (slices x SLICE,), where each row's result belongs in the vector that is written, or -1


def checked_width(width: int, widest: int = WIDEST) -> None:
    """Raise ValueError if slices cannot have so many entry columns."""
    if width > widest:
        raise ValueError(
            f"{SLICE} rows that are stored together have {width} columns of entries and can have {widest}: this format "
            f"is not for rows of so many entries, as dense ones"
        )
