"""Row ranges of a general matrix, one for each chunk, and what chunks exchange when their rows read others' columns."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.grid.halo import HaloPlan, Sizes

Indices = npt.NDArray[np.int64]
UNITS = (12, 6, 4, 3, 2, 1)  # rows between which a matrix may be cut, the most that fit: blocks have 2, 3, 4 or 6
ROOM = 8  # units that a chunk has on average at least


@dataclass(frozen=True, kw_only=True)
class RowPartition:
    """Consecutive rows for each chunk. InputError: a chunk would have no row."""

    bounds: tuple[int, ...]  # chunk c owns rows [bounds[c], bounds[c + 1]); ascending, from 0 to the number of rows

    def __post_init__(self) -> None:
        if len(self.bounds) < 2 or self.bounds[0] != 0 or any(a >= b for a, b in pairwise(self.bounds)):
            raise InputError(f"row ranges must ascend from 0 with at least one row a chunk, not {self.bounds}")

    @classmethod
    def by_entries(cls, row_pointers: Indices, chunks: int) -> Self:
        """Ranges with about the same number of entries each, and at least one row.

        Where chunks have many rows they begin at multiples of a number that divides all blocks of `UNITS`, so that a
        block of rows, as of the displacements of a node, is in one chunk.

        `row_pointers`: integers (rows + 1,), row i has entries [row_pointers[i], row_pointers[i + 1]). InputError:
        there are more chunks than rows.
        """
        rows = len(row_pointers) - 1
        if not 1 <= chunks <= rows:
            raise InputError(f"a matrix with {rows} rows cannot be cut into {chunks} chunks: use 1 to {rows}")
        unit = next(u for u in UNITS if u == 1 or (rows % u == 0 and rows >= ROOM * u * chunks))
        rows //= unit

        def weight(row: int) -> int:
            """Entries of the rows before, and these rows: a chunk of empty rows still has vectors."""
            return int(row_pointers[unit * row]) + unit * row

        goals = weight(0) + (weight(rows) - weight(0)) * np.arange(1, chunks) / chunks
        inner = np.array([bisect_left(range(rows + 1), goal, key=weight) for goal in goals], dtype=np.int64)
        least = np.arange(1, chunks)
        inner = np.minimum(np.maximum.accumulate(np.maximum(inner, least) - least) + least, rows - chunks + least)
        return cls(bounds=(0, *(unit * inner).tolist(), unit * rows))

    @property
    def rows(self) -> int:
        """Number of rows of the whole matrix."""
        return self.bounds[-1]

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return len(self.bounds) - 1

    @property
    def sizes(self) -> Sizes:
        """Rows of each chunk, as a `Partition` of a grid (rows, 1, 1) has them."""
        return tuple(b - a for a, b in pairwise(self.bounds)), (1,), (1,)

    def owners(self, rows: Indices) -> Indices:
        """The chunk that owns each row, int64 like `rows`."""
        return np.searchsorted(np.asarray(self.bounds[1:], dtype=np.int64), rows, side="right").astype(np.int64)

    def halo_plans(self, ghosts: Sequence[Indices]) -> tuple[HaloPlan, ...]:
        """Halo exchange of every chunk; ghosts: others' columns that each reads, ascending: the order of its slots."""
        sends: list[list[tuple[int, Indices]]] = [[] for _ in ghosts]
        receives: list[tuple[tuple[int, int], ...]] = []
        for reader, columns in enumerate(ghosts):
            owners = self.owners(columns)
            found = []
            for owner in np.unique(owners).tolist():
                wanted = columns[owners == owner]
                sends[owner].append((reader, wanted - self.bounds[owner]))
                found.append((owner, len(wanted)))
            receives.append(tuple(found))
        return tuple(HaloPlan(sends=tuple(s), receives=r) for s, r in zip(sends, receives, strict=True))
