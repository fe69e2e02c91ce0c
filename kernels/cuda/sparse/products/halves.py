"""Symmetric matrices by their halves on a GPU: the bits of `dsolver.kernels.cpu.amg.halves`."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, Self

import cupy
import numpy as np

from dsolver.kernels.amg import Images
from dsolver.kernels.cuda.launch.loader import NOTHING, for_each, kernel
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.cuda.sparse.products import mirrors
from dsolver.kernels.cuda.sparse.products.long_rows import sort_long
from dsolver.kernels.cuda.sparse.products.mirrors import FILE, all_lengths, by_rooms, rank, sort_stages
from dsolver.kernels.cuda.sparse.products.product import move
from dsolver.kernels.cuda.sparse.selection import nonempty_of, nonempty_rooms
from dsolver.kernels.cuda.sparse.stages.stages import MOST_THREADS, Rooms, Stages
from dsolver.kernels.cuda.sparse.starts import starts_of, starts_of_halves, unfilled
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

DTYPE: Final = "float64"
SIZES: Final = 5
"""Numbers that tell the size of a matrix: all entries of rows and those before the diagonal, as far as their images are
own ones, those of the longest row, entries in columns behind own rows, and those of these columns that have some."""
BEHIND: Final = 3  # the last but one of them
LANES_OF_IMAGES: Final = 16
"""Lanes of a row whose images are written: with 4, those of 12 entries took 1.3 times as long, of 24 1.5 times."""


class CudaHalves:
    """Entries of a chunk's rows from the diagonal on, and images; known: int64 (SIZES,), zeros, for `sizes`."""

    sizes: Sequence[int]  # the `SIZES`, which the owner of this has read; nothing but `tight` is called before

    def __init__(self, pieces: Sequence[Rooms], below: int, width: int, known: Array) -> None:
        firsts = accumulate((rooms.size for rooms in pieces), initial=below)
        self._pieces = [*zip(firsts, pieces, strict=False)]
        self._below, self._end, self._width = below, below + sum(rooms.size for rooms in pieces), width
        counts, self._ranks = cupy.zeros(width, dtype=np.int32), []
        for first, rooms in self._pieces:
            ranks = cupy.empty(len(rooms.columns), dtype=np.int32)
            lanes = 4 if (rooms.room or 2 * len(rooms.columns) // max(1, rooms.size)) <= 32 else 16
            by_rooms("rank_mirrored", lanes, first, rooms, rooms[:2], (counts, ranks))
            self._ranks.append(ranks)
        self._counts, self._lengths = counts[below : self._end], all_lengths(pieces)
        self._starts = starts_of_halves(self._lengths, self._counts, known)
        self._begin_images = self._begin_behind = starts_of(counts[self._end :], known[BEHIND:])
        self._rooms_behind = nonempty_rooms(self._begin_images, known[BEHIND + 1 :])
        self._before_used: Any = NOTHING

    @classmethod
    def of(cls, upper: Csr, below: int, width: int) -> Self:
        """The half of rows that have no entries before the diagonal. It waits."""
        known = counters(SIZES)
        return cls([Rooms(*upper)], below, width, known).known(read_back(known))

    def known(self, found: Any) -> Self:
        """This, once its sizes have been read."""
        self.sizes = found[:SIZES].tolist()
        return self

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._end - self._below

    def tight(self) -> Array:
        """Leave out columns behind own rows that have no entries; which of these have some, int64."""
        used, self._begin_behind = nonempty_of(self._rooms_behind, self.sizes[BEHIND + 1])
        self._before_used = self._rooms_behind[2]
        return used

    @property
    def behind(self) -> Csr:
        """See `dsolver.kernels.cpu.amg.halves.behind`; in a row columns are in an order that chance has chosen."""
        count = self.sizes[BEHIND]
        images = self._images(self._end, self._width, self._begin_images, count)
        columns, values = cupy.empty(count, dtype=np.int32), cupy.empty(count)
        _by_entries("split_images", count, images, np.int32(self._below), columns, values)
        return Csr(self._begin_behind, columns, values)

    @property
    def upper(self) -> Csr:
        """Entries from the diagonal on, row by row, own columns from 0; in any order."""
        start, entries, parts = starts_of(self._lengths), self.sizes[0] - self.sizes[1], []
        if not self._pieces[0][1].room:
            ((_, rooms),) = self._pieces
            parts = [Csr(start, rooms.columns.copy(), rooms.values)]
        else:
            parts = [unfilled(start, entries)]
            for first, rooms in self._pieces:
                at = first - self._below
                move(rooms, entries / self.rows, parts[0]._replace(start=start[at : at + rooms.size + 1]))
        self._rename(parts[0].columns, 0)
        return parts[0]

    def completed(self, before: Images | None = None, below: int = 0) -> Csr:
        """See `dsolver.kernels.cpu.amg.halves.completed`. It waits where columns before own rows have entries."""
        (start, begin), (entries, images, longest, *_) = self._starts, self.sizes
        received: tuple[Any, ...] | None = None
        if before is not None and len(before.rows):
            counts, known = self._counts.copy(), counters(SIZES)
            rows = before.rows.astype(np.int32)
            ranks = rank(rows, counts)
            start, begin = starts_of_halves(self._lengths, counts, known)
            entries, images, longest, *_ = read_back(known).tolist()
            received = rows, before.columns.astype(np.int32, copy=False), before.values, ranks
        found = self._images(self._below, self._end, begin, images)
        if received is not None:
            _by_entries("place_images", len(received[0]), *received, np.int32(self._below - below), begin, found)
        out = unfilled(start, entries)
        for first, rooms in self._pieces if entries else ():
            at = first - self._below
            source = (*rooms.shape, *rooms[:3], begin[at:], found, start[at:])
            stages = Stages(rooms.size)
            sort_stages("sort_halves", entries / out.size, source, out, stages)
            if longest > mirrors.MOST_SORTED and len(left := stages.left()):
                kernel(FILE, "gather_halves", DTYPE)((len(left),), (MOST_THREADS,), (left, *source, *out[1:]))
                sort_long(left, out._replace(start=start[at : at + rooms.size + 1]), self._width + below, out)
        self._rename(out.columns, below)
        return out

    def _images(self, low: int, high: int, begin: Array, count: int) -> Array:
        """Room for so many images, with those of entries in columns low .. high."""
        images = cupy.empty(2 * count)  # a value, and a column with as many bytes
        what = np.int32(low), np.int32(high), begin, images
        for (first, rooms), ranks in zip(self._pieces, self._ranks, strict=True):
            by_rooms("scatter_images", LANES_OF_IMAGES, first, rooms, rooms[:3], (ranks, *what))
        return images

    def _rename(self, columns: Array, below: int) -> None:
        """Rename columns for a window with so many before own rows, and behind these only those with entries."""
        shift, before = below - self._below, self._before_used
        if shift or before is not NOTHING:
            _by_entries("rename_columns", len(columns), np.int32(self._end), np.int32(shift), before, columns)


def _by_entries(name: str, count: int, *arguments: Any) -> None:
    """Launch a kernel that has a thread for each of so many entries."""
    for_each(FILE, name, count, np.int64(count), *arguments)
