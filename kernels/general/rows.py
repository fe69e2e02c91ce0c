"""Rows of a chunk, split into those entries that multiply own columns and those that multiply a halo."""

from typing import Any, NamedTuple

import numpy as np

from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array


class SplitRows(NamedTuple):
    """A chunk's rows in two parts."""

    local: Csr  # entries in own columns, (rows, rows)
    boundary: Array  # int64 (B,), the rows that have entries in halo slots, ascending
    ghost: Csr  # these entries, (B, slots)
    longest: int | None = None  # entries of the longest row of `ghost`, where that is known


def whole(rows: Csr) -> SplitRows:
    """A chunk's rows that read no slots, in the memory of the rows."""
    return SplitRows(rows, rows.start[:0], Csr(rows.start[:1], rows.columns[:0], rows.values[:0]))


def split(xp: Any, rows: Csr, own_columns: int | None = None) -> SplitRows:
    """Split a chunk's rows.

    Entries in halo slots are few, so they are listed and the others are counted by what is missing: beside the parts,
    this takes a byte an entry and 8 bytes a row.

    `rows`: columns are own ones from 0, then halo slots from their number; both ascend in each row. Where there are no
    slots, the local part shares the memory of the rows.
    """
    start, columns, values = rows
    count = rows.size if own_columns is None else own_columns
    own = columns < count
    outside = xp.flatnonzero(~own)
    if not len(outside):
        return whole(rows)
    before = xp.searchsorted(outside, start)  # entries in slots before each row
    boundary = xp.flatnonzero(before[1:] > before[:-1])
    ends = xp.append(before[boundary], before[-1:]).astype(np.int64)
    slots = columns[outside] - np.int32(count)
    local = Csr((start - before).astype(np.int64), columns[own], values[own])
    return SplitRows(local, boundary, Csr(ends, slots, values[outside]))
