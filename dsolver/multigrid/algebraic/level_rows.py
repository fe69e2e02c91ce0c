"""A chunk's rows of a level whose hierarchy is made across chunks, and rows that are on their way between chunks.

Set-up works in global row numbers. A chunk numbers what it sees in a *window*: ghosts with smaller numbers, own rows,
ghosts with larger ones. Numbers that ascend in the window ascend in the whole level, so loops add up in one order
however the level is cut.

Arrays are of the chunk's device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.grid.partition import HaloPlan
from dsolver.kernels.formats.csr import Csr

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bounds = tuple[int, ...]
"""The first row of each chunk on a level, and behind them the number of rows."""


@final
@dataclass(frozen=True, kw_only=True)
class Window:
    """Numbers that a chunk sees of a level, ascending.

    Attributes:
        first: the first own one.
        rows: how many are its own, one after the other.
        ghosts: int64, all others.
        whole: whether the chunk is the only one: global numbers are places in the window.
    """

    first: int
    rows: int
    ghosts: I64
    whole: bool = False

    @classmethod
    def around(cls, first: int, rows: int, seen: I64) -> Window:
        """The window of a chunk with these own rows that sees these numbers, own ones among them."""
        return cls(first=first, rows=rows, ghosts=np.unique(seen[(seen < first) | (seen >= first + rows)]))

    @cached_property
    def below(self) -> int:
        """Number of ghosts before the own rows."""
        return 0 if self.whole else int(np.count_nonzero(self.ghosts < self.first))

    @property
    def size(self) -> int:
        """Number of all."""
        return self.rows + len(self.ghosts)

    @property
    def numbers(self) -> I64:
        """int64 (size,), the global numbers."""
        numbers: I64 = self.joined(np.arange(self.first, self.first + self.rows, like=self.ghosts), self.ghosts)
        return numbers

    def joined(self, own: Any, ghosts: Any) -> Any:
        """Values of own rows and of ghosts, in the window's order."""
        return np.concatenate([ghosts[: self.below], own, ghosts[self.below :]])

    def places(self, numbers: I64) -> npt.NDArray[np.int32]:
        """Places in the window, int32, of global numbers that it holds."""
        if self.whole:
            return numbers.astype(np.int32, copy=False)
        below = self.below
        found: npt.NDArray[np.int32] = (numbers - (self.first - below)).astype(np.int32)
        if len(self.ghosts):
            outside = np.flatnonzero((numbers < self.first) | (numbers >= self.first + self.rows))
            ghost = np.searchsorted(self.ghosts, numbers[outside])
            found[outside] = (ghost + self.rows * (ghost >= below)).astype(np.int32)
        return found

    def slots(self, places: Any) -> npt.NDArray[np.int32]:
        """Columns as matrices of chunks number them: own ones from 0, then ghosts; int32, of places in the window."""
        found: npt.NDArray[np.int32]
        if not len(self.ghosts):
            found = places.astype(np.int32, copy=False)
            return found
        below = self.below
        ghost = np.where(places < below, places, places - self.rows) + self.rows
        own = (places >= below) & (places < below + self.rows)
        found = np.where(own, places - below, ghost).astype(np.int32)
        return found


@final
@dataclass(frozen=True, kw_only=True)
class BroughtRows:
    """A chunk's rows of a level that were brought from elsewhere, before its window is known.

    Attributes:
        rows: with columns by their numbers in the level.
        origin: int64, the finest row that each one stands for.
        near: as of `LevelRows`.
        named: the other chunks whose rows the columns name, ascending.
        mirrored: whether columns ascend, and mirrored entries are equal.
    """

    rows: Rows
    origin: I64
    near: F64
    named: tuple[int, ...] = ()
    mirrored: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class LevelRows:
    """One chunk's rows of a level.

    Attributes:
        window: what its rows read.
        matrix: its rows, columns as places in the window, ascending; the symmetric part where A is not symmetric.
        origin: int64 (rows,), the row of the finest level that each stems from.
        near: float64 (rows, k), vectors of the near-null space; k is 0 where nobody needs them.
        plan: the exchange of a vector of the level, its ghosts in ascending order.
        bounds: the first row of each chunk on the level, and behind them the number of rows.
        full: A where it is not symmetric, with the columns of `matrix`; else None.
    """

    window: Window
    matrix: Csr
    origin: I64
    near: F64
    plan: HaloPlan
    bounds: Bounds
    full: Csr | None = None

    @property
    def a(self) -> Csr:
        """The rows of A."""
        return self.matrix if self.full is None else self.full

    @property
    def rows(self) -> int:
        """Number of own rows."""
        return self.window.rows


@final
@dataclass(frozen=True, kw_only=True)
class Rows:
    """Some rows of a matrix with columns by global number, as chunks send them to each other.

    Attributes:
        start: int64 (rows + 1,), row i has the entries start[i] .. start[i + 1].
        columns: int64 or int32, ascending in each row unless told otherwise.
        values: float64.
    """

    start: I64
    columns: I64
    values: F64

    @classmethod
    def of(cls, matrix: Csr, numbers: I64) -> Rows:
        """The rows of a matrix whose column c has the global number numbers[c]."""
        return cls(start=matrix.start, columns=numbers[matrix.columns], values=matrix.values)

    @classmethod
    def at(cls, matrix: Csr, window: Window) -> Rows:
        """The rows of a matrix whose columns are places in a window."""
        if window.whole:
            return cls(start=matrix.start, columns=matrix.columns, values=matrix.values)
        return cls.of(matrix, window.numbers)

    @classmethod
    def unpacked(cls, packed: F64, rows: int) -> tuple[Rows, F64]:
        """So many rows from a message, and the rest of it."""
        start = starts(packed[:rows].astype(np.int64))
        entries = int(start[-1])
        columns, values = packed[rows : rows + entries], packed[rows + entries : rows + 2 * entries]
        return cls(start=start, columns=columns.astype(np.int64), values=values), packed[rows + 2 * entries :]

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Rows after rows, of at least one part."""
        if len(parts) == 1:
            return parts[0]
        before = accumulate((len(part.columns) for part in parts[:-1]), initial=0)
        begun = [part.start[1:] + count for part, count in zip(parts, before, strict=True)]
        return cls(
            start=np.concatenate([parts[0].start[:1], *begun]),
            columns=np.concatenate([part.columns for part in parts]),
            values=np.concatenate([part.values for part in parts]),
        )

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.start) - 1

    @property
    def lengths(self) -> I64:
        """int64 (rows,), entries of each row."""
        return np.diff(self.start)

    @property
    def of_entries(self) -> I64:
        """int64, the row of each entry."""
        return _of_entries(self.start, len(self.columns))

    @property
    def packed(self) -> F64:
        """The rows as a message."""
        return message(self.lengths, self.columns, self.values)

    def part(self, first: int, last: int) -> Rows:
        """Rows first .. last."""
        begin, end = int(self.start[first]), int(self.start[last])
        start = self.start[first : last + 1] - begin
        return Rows(start=start, columns=self.columns[begin:end], values=self.values[begin:end])

    def selected(self, rows: I64) -> Rows:
        """Some of the rows."""
        first = self.start[rows]
        start = starts(self.start[rows + 1] - first)
        count = int(start[-1])
        entries = np.arange(count, like=start) + (first - start[:-1])[_of_entries(start, count)]
        return Rows(start=start, columns=self.columns[entries], values=self.values[entries])

    @property
    def ascending(self) -> Rows:
        """Rows with ascending columns."""
        order = np.lexsort(np.stack((self.columns, self.of_entries)))
        return replace(self, columns=self.columns[order], values=self.values[order])

    def restricted(self, low: int, high: int) -> Rows:
        """The entries in columns low .. high of all rows."""
        inside = (self.columns >= low) & (self.columns < high)
        if bool(inside.all()):
            return self
        before = starts(inside)
        return Rows(start=before[self.start], columns=self.columns[inside], values=self.values[inside])

    def within(self, window: Window) -> Csr:
        """The rows with columns as places in a window that has them all."""
        return Csr(self.start, window.places(self.columns), self.values)


def starts(lengths: Any) -> I64:
    """Begins of rows of these lengths, and the end of the last one: int64 (rows + 1,)."""
    out = np.zeros_like(lengths, dtype=np.int64, shape=len(lengths) + 1)
    np.cumsum(lengths, out=out[1:])
    return out


def _of_entries(start: I64, count: int) -> I64:
    """The row of each of so many entries: the ends of rows that it lies behind."""
    return np.cumsum(np.bincount(start[1:], minlength=count)[:count]) if count else start[:0]


def message(*parts: Any) -> F64:
    """Arrays one after the other as float64."""
    return np.concatenate([part.astype(np.float64, copy=False) for part in parts])


def own_bounds(bounds: Bounds, number: int) -> tuple[int, int]:
    """The first row of a chunk and the one behind its last; the only chunk is called with its host's number."""
    own = number if len(bounds) > 2 else 0
    return bounds[own], bounds[own + 1]


def window_of(bounds: Bounds, number: int, seen: I64) -> Window:
    """The window of a chunk that sees these numbers, own ones among them."""
    first, last = own_bounds(bounds, number)
    if len(bounds) == 2:
        return Window(first=first, rows=last - first, ghosts=seen[:0], whole=True)
    return Window.around(first, last - first, seen)


def owners_of(bounds: Bounds, numbers: I64) -> I64:
    """The chunk that owns each number."""
    if len(bounds) == 2:
        return np.zeros_like(numbers, dtype=np.int64)
    return np.searchsorted(np.asarray(bounds[1:], like=numbers), numbers, side="right").astype(np.int64)


def others(bounds: Bounds, number: int, owners: I64) -> tuple[int, ...]:
    """The chunks among some owners other than this one, ascending."""
    if len(bounds) == 2:
        return ()
    return tuple(owner for owner in np.unique(owners).tolist() if owner != number)


def named(bounds: Bounds, number: int, numbers: I64) -> tuple[int, ...]:
    """The chunks other than this one that own some of these numbers, ascending."""
    return () if len(bounds) == 2 else others(bounds, number, owners_of(bounds, numbers))


def received(bounds: Bounds, window: Window) -> tuple[tuple[int, int], ...]:
    """Number of ghosts of a window that each chunk owns."""
    if not len(window.ghosts):
        return ()
    owners, counts = np.unique(owners_of(bounds, window.ghosts), return_counts=True)
    return tuple(zip(owners.tolist(), counts.tolist(), strict=True))
