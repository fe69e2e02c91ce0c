"""Compressed sparse rows."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Csr(NamedTuple):
    """A sparse matrix, row after row."""

    start: Any  # int64 (rows + 1,), row i has the entries start[i] .. start[i + 1].
    columns: Any  # int32, of each entry
    values: Any  # float64, of each entry

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.start) - 1

    @property
    def mean(self) -> float:
        """Entries of a row in the mean, 0 without rows."""
        return len(self.columns) / max(1, self.size)

    @property
    def width(self) -> int:
        """Entries of the longest row."""
        return max(1, int(np.diff(self.start).max())) if self.size else 1

    def selected(self, rows: npt.NDArray[np.integer]) -> "Csr":
        """Some of the rows."""
        lengths = np.diff(self.start)[rows]
        start = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(self.start[rows] - start[:-1], lengths) + np.arange(start[-1])
        return Csr(start, self.columns[entries], self.values[entries])

    def dense(self) -> npt.NDArray[np.float64]:
        """The matrix with its zeros, (rows, rows)."""
        out = np.zeros((self.size, self.size))
        np.add.at(out, (np.repeat(np.arange(self.size), np.diff(self.start)), self.columns), self.values)
        return out


def joined(parts: Sequence[Csr]) -> Csr:
    """Rows after rows, of at least one part."""
    if len(parts) == 1:
        return parts[0]
    ends = accumulate((len(part.columns) for part in parts[:-1]), initial=0)
    starts = [part.start[1:] + end if end else part.start[1:] for part, end in zip(parts, ends, strict=True)]
    return Csr(
        np.concatenate([parts[0].start[:1], *starts]),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def of_entries(start: Any, count: int) -> Any:
    """The row of each of so many entries.

    Nothing here counts, or asks about, all items of an array: CuPy compiles each function that does for 4 to 5 s when a
    machine runs it for the first time.
    """
    if isinstance(start, np.ndarray):  # CuPy repeats all items equally often
        return np.repeat(np.arange(len(start) - 1), np.diff(start))
    return np.searchsorted(start[1:], np.arange(count, like=start), side="right")
