"""Rows of a box of a grid, columns ascending, from weights offset after offset."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.csr import Csr

Triple = tuple[int, int, int]

MOST_POINTS: Final = 2**31 - 1
"""Points of a grid whose numbers fit in 32 bits."""


class LatticeBox(NamedTuple):
    """A box of a grid.

    Attributes:
        grid: points along x, y, z.
        periodic: whether the grid is, along x, y, z; an axis of one point is not.
        lower: the box's first point.
        shape: its points along x, y, z.
    """

    grid: Triple
    periodic: tuple[bool, bool, bool]
    lower: Triple
    shape: Triple


def box_rows(box: LatticeBox, offsets: Sequence[Triple], weights: Any) -> tuple[Csr, npt.NDArray[np.float64], bool]:
    """The rows of a box's points, x fastest, without entries that are zero beside the diagonal.

    Args:
        box: the points.
        offsets: the K offsets of the columns, (0, 0, 0) among them.
        weights: float64 (K rows,), offset after offset, or (K,) where they are the same for all rows.

    Returns:
        the rows, with the points' numbers in the grid as columns (int64 where the grid has 2³¹ points and more);
        float64 (rows,), (a_ii + Σ_j |a_ij|) / 2 as a part of a_ii; and whether mirrored entries are known to be equal.
    """
    numbers = _numbers(box)
    values = np.asarray(weights, dtype=np.float64).reshape(len(offsets), -1)
    order = ascending(offsets)
    columns = np.stack([_columns(box, numbers, offsets[k]) for k in order], axis=1)
    entries = np.where(columns >= 0, np.broadcast_to(values[order].T, columns.shape), 0.0)
    if any(box.periodic):  # columns ascend, but not around the grid's ends
        places = np.argsort(columns, axis=1, kind="stable")
        columns, entries = (np.take_along_axis(a, places, axis=1) for a in (columns, entries))
    center = columns == numbers[:, None]
    kept = (entries != 0.0) | center
    diagonal, sizes = entries[center], np.zeros(len(numbers))
    for column in entries.T:  # one after the other, as `row_measures` adds them
        sizes += abs(column)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (diagonal + sizes) / (2.0 * diagonal)
    start = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    short = np.int32 if prod(box.grid) <= MOST_POINTS else np.int64
    return Csr(start, columns[kept].astype(short), entries[kept]), share, False


def ascending(offsets: Sequence[Triple]) -> list[int]:
    """Numbers of the offsets in the order in which columns ascend."""
    return sorted(range(len(offsets)), key=lambda k: offsets[k][::-1])


def _numbers(box: LatticeBox) -> npt.NDArray[np.int64]:
    """Numbers of the box's points in the grid: int64 (rows,)."""
    nx, ny, _ = box.grid
    i, j, k = (np.arange(low, low + n, dtype=np.int64) for low, n in zip(box.lower, box.shape, strict=True))
    return (i[None, None, :] + nx * (j[None, :, None] + ny * k[:, None, None])).reshape(-1)


def _columns(box: LatticeBox, numbers: npt.NDArray[np.int64], offset: Triple) -> npt.NDArray[np.int64]:
    """Numbers of the points at an offset of points; -1 outside the grid."""
    nx, ny, _ = box.grid
    places = (numbers % nx, numbers // nx % ny, numbers // (nx * ny))
    inside = np.ones(len(numbers), dtype=bool)
    found = np.zeros(len(numbers), dtype=np.int64)
    for place, step, n, stride, around in zip(places, offset, box.grid, (1, nx, nx * ny), box.periodic, strict=True):
        there = place + step
        if around:
            there %= n
        inside &= (there >= 0) & (there < n)
        found += stride * there
    return np.where(inside, found, -1)
