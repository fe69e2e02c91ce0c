"""Findings of a look at all entries of a square matrix, before anything is stored for it.

Sums carry what rounding takes from them (Knuth, The Art of Computer Programming, volume 2, section 4.2.2, theorem B),
so the host and a GPU, which add in other orders, find the same numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

CANCELED: Final = 1e-13  # sum of a row, as a part of the sum of its magnitudes, that counts as zero


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Why compressed rows are not in canonical form. What else was found of them means nothing then."""

    pointers: int = 0  # rows whose pointers do not ascend from 0, or lead beyond the entries
    outside: int = -1  # the first entry whose column is none; -1 for none
    descending: int = 0  # entries whose column is smaller than that of the entry before them in their row
    repeated: int = 0  # entries whose column is that of the entry before them in their row
    infinite: tuple[int, int] = (0, -1)  # entries that are NaN or infinite: how many, and the first one, or -1

    @property
    def unsorted(self) -> bool:
        """Whether to sort the entries, and to add those in one place, may be all that is needed."""
        return self.some and replace(self, descending=0, repeated=0) == Faults()

    @property
    def some(self) -> bool:
        """Whether there are any."""
        return self != Faults()


@dataclass(frozen=True, kw_only=True)
class Look:
    """Findings about a square matrix whose rows have ascending columns."""

    faults: Faults = Faults()  # where rows are not so
    empty: tuple[int, int] = (0, -1)  # rows without an entry: how many, and the first one, or -1
    # rows with a zero on the diagonal, stored or not: how many, and the first one, or -1.
    hollow: tuple[int, int] = (0, -1)
    negative: int = 0  # rows with a diagonal that is not positive
    opened: int = 0  # rows whose entries do not add up to zero: see `CANCELED`
    rows_cancel: bool = False  # whether there are none
    # whether those of each column do; False where `rows_cancel` is, for it is not looked at then.
    columns_cancel: bool = False
    largest: float = 0.0  # magnitude of an entry
    least: float = math.inf  # magnitude of an entry on the diagonal that is not zero
    unmatched: int = 0  # entries (i, j) off the diagonal without an entry (j, i)
    difference: float = 0.0  # largest |a_ij - a_ji|; an entry that is not there is zero
    skewness: float = 0.0  # largest |a_ij - a_ji| / (|a_ij| + |a_ji|) where both are stored
    # the first (i, j), row after row, with this difference where it is more than allowed; else None.
    place: tuple[int, int] | None = None
    # sum over the coupled rows of the part that positive couplings have of all couplings' magnitudes.
    positive: float = 0.0
    # sum over the rows of 1 - Σ_j≠i |a_ij| / a_ii; 1 for a row without couplings, or without a positive diagonal.
    dominance: float = 0.0
    squares: int = 0  # sum of the squares of the rows' lengths

    @property
    def mirrored(self) -> bool:
        """Whether there is an entry (j, i) for each entry (i, j)."""
        return self.unmatched == 0


def counted(found: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Number in all ranges, and the first one, or -1, of the same in each range."""
    return sum(count for count, _ in found), min((first for count, first in found if count), default=-1)
