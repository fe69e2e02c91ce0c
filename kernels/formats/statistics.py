"""Statistics of rows, by which formats are chosen: lengths of all rows, and storage of sampled slices.

Samples are stretches of rows of blocks at equal distances, so the same matrix always has the same statistics.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.block_slices import WIDE
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.octets import LANES, WINDOW

STRETCH: Final = 256  # rows of blocks of a sample: what is sorted together
MOST_SAMPLES: Final = 64
Integers = npt.NDArray[np.integer]


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Stretches of consecutive rows of blocks, and rows from one to the next, a multiple of `SLICE`."""

    count: int
    stretch: int
    stride: int

    @property
    def slices(self) -> int:
        """Slices of a stretch."""
        return -(-self.stretch // SLICE)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Sampled rows of blocks in slices, in the rows' own order."""

    fill: float  # entries as part of those that the blocks have
    padding: float  # entries with holes, also those of blocks, for each entry
    runs: float  # part of the entry columns that lie in runs
    near: float  # part of the slices that are runs or have 16-bit columns
    octets: float  # entries with holes for each entry, in octets in place of slices


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Statistics by which formats are chosen."""

    shape: tuple[int, int]
    entries: int
    longest: int  # entries of the longest row
    variance: float  # of the rows' numbers of entries
    stored: dict[int, Stored]  # for each block size that divides the shape

    @property
    def mean(self) -> float:
        """Entries of a row."""
        return self.entries / max(1, self.shape[0])


def samples_of(rows: int, most: int = MOST_SAMPLES) -> Samples:
    """Samples of so many rows of blocks, at most so many: all of them where they are few."""
    if rows <= most * STRETCH:
        return Samples(count=1, stretch=rows, stride=0)
    stride = (rows - STRETCH) // (most - 1) // SLICE * SLICE
    return Samples(count=most, stretch=STRETCH, stride=stride)


def stored(block: int, entries: int, length: Integers, width: Integers, kind: Integers) -> Stored:
    """Storage that samples would take; length: blocks of each row; width, kind: of each sampled slice."""
    samples, stretch = length.shape
    windows = np.zeros((samples, -(-stretch // WINDOW) * WINDOW), length.dtype)
    windows[:, :stretch] = length
    longest = np.sort(windows.reshape(-1, WINDOW), axis=1)[:, LANES - 1 :: LANES]  # of each octet
    octets = int(longest.sum()) * LANES * block * block / max(1, entries)
    return in_slices(block, entries, int(length.sum()), width, kind, octets)


def in_slices(
    block: int, entries: int, blocks: int, width: Integers, kind: Integers, octets: float = math.nan
) -> Stored:
    """As `stored`, of so many blocks of all sampled rows; octets: as of `Stored`, NaN where it is not wanted."""
    wide, near, runs = map(int, np.bincount(kind, width, 3))
    columns, filled = wide + near + runs, kind[width > 0]
    return Stored(
        fill=entries / max(1, blocks * block * block),
        padding=columns * SLICE * block * block / max(1, entries),
        runs=runs / max(1, columns),
        near=int(np.count_nonzero(filled != WIDE)) / len(filled) if len(filled) else 1.0,
        octets=octets,
    )
