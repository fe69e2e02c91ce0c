"""Windows: what a chunk sees of a level, and the chunks that own it.

Set-up works in global row numbers. A chunk numbers what it sees in a *window*: ghosts with smaller numbers, own rows,
ghosts with larger ones. Numbers that ascend in the window ascend in the whole level, so loops add up in one order
however the level is cut.

Arrays are of the chunk's device.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self, cast, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.formats.csr import Csr

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bounds = tuple[int, ...]  # the first row of each chunk on a level, and behind them the number of rows


@final
@dataclass(frozen=True, kw_only=True)
class Window:
    """Numbers that a chunk sees of a level, ascending."""

    first: int
    rows: int
    ghosts: I64  # int64, all others
    whole: bool = False  # whether the chunk is the only one: global numbers are places in the window
    # number of ghosts before the own rows where it is known, so that a device is not asked; else None.
    lower: int | None = None
    end: int = 0  # behind the last number of the level; 0 where it is not known

    @classmethod
    def around(cls, amg: AmgKernels, first: int, rows: int, seen: I64, end: int) -> Self:
        """The window of a chunk with these own rows that sees these numbers, own ones among them."""
        ghosts, lower = amg.ghosts([seen], first, first + rows, end)
        return cls(first=first, rows=rows, ghosts=ghosts, lower=lower, end=end)

    @classmethod
    def of_all(cls, amg: AmgKernels, first: int, rows: int, end: int) -> Self:
        """The window of a chunk with these own rows that sees every number of a level."""
        return cls(first=first, rows=rows, ghosts=amg.others(first, rows, end), lower=first, end=end)

    @cached_property
    def below(self) -> int:
        """Number of ghosts before the own rows."""
        if self.whole or not len(self.ghosts):
            return 0
        if self.lower is not None:
            return self.lower
        return int(np.searchsorted(self.ghosts, np.asarray([self.first], like=self.ghosts))[0])

    @property
    def size(self) -> int:
        """Number of all."""
        return self.rows + len(self.ghosts)

    @property
    def numbers(self) -> I64:
        """int64 (size,), the global numbers."""
        return self.joined(np.arange(self.first, self.first + self.rows, like=self.ghosts), self.ghosts)

    def joined(self, own: Any, ghosts: Any) -> Any:
        """Values of own rows and of ghosts, in the window's order."""
        return np.concatenate([ghosts[: self.below], own, ghosts[self.below :]])

    def own_of(self, values: Any) -> Any:
        """The part of values of all points that belongs to own ones."""
        return values[self.below : self.below + self.rows]

    def places(self, amg: AmgKernels, numbers: I64) -> npt.NDArray[np.int32]:
        """Places in the window, int32, of global numbers that it holds."""
        if self.whole:
            return numbers.astype(np.int32, copy=False)
        return amg.places(numbers, self.first, self.rows, self.ghosts, self.below)

    def numbers_at(self, amg: AmgKernels, places: Any) -> I64:
        """Global numbers, int64, at places in the window."""
        if self.whole:
            return cast("I64", places.astype(np.int64))
        return cast("I64", amg.relabeled(places, self.rows, self.below, self.first, self.ghosts))

    def placed(self, amg: AmgKernels, rows: Csr) -> Csr:
        """Rows of columns by global number that the window holds, with places in it for columns."""
        return rows._replace(columns=self.places(amg, rows.columns))

    def numbered(self, amg: AmgKernels, rows: Csr) -> Csr:
        """Rows whose columns are places in the window, with columns by global number."""
        return rows if self.whole else rows._replace(columns=self.numbers_at(amg, rows.columns))

    def slots(self, amg: AmgKernels, places: Any) -> npt.NDArray[np.int32]:
        """Columns as matrices of chunks number them: own ones from 0, then ghosts; int32, of places in the window."""
        found: npt.NDArray[np.int32]
        if not len(self.ghosts):
            found = places.astype(np.int32, copy=False)
            return found
        found = amg.slots(places, self.rows, self.below)
        return found

    def places_of_slots(self, amg: AmgKernels, slots: Any) -> npt.NDArray[np.int32]:
        """Places in the window, int32, of columns as of `slots`."""
        found: npt.NDArray[np.int32]
        if not self.below:
            found = slots.astype(np.int32, copy=False)
            return found
        ghosts = np.arange(len(self.ghosts), dtype=np.int32, like=self.ghosts)
        ghosts[self.below :] += np.int32(self.rows)
        found = amg.relabeled(slots.astype(np.int32, copy=False), self.rows, 0, self.below, ghosts)
        return found

    def before(self, bounds: Bounds) -> list[int]:
        """Places before the first number of each chunk that the window holds, and their number in all."""
        if self.whole:
            return list(bounds)
        ghosts = self.ghosts_before(bounds)
        return [count + self.rows * (bound > self.first) for count, bound in zip(ghosts, bounds, strict=True)]

    def ghosts_before(self, bounds: Bounds) -> list[int]:
        """Number of ghosts before the first number of each chunk, and of all.

        A device is asked once, and only for chunks that are neither this one nor next to it nor at an end.
        """
        if not len(self.ghosts):
            return [0] * len(bounds)
        ends = {bounds[0]: 0, self.first: self.below, self.first + self.rows: self.below, bounds[-1]: len(self.ghosts)}
        if ends.keys() >= set(bounds):
            return [ends[bound] for bound in bounds]
        if bounds not in self._before:
            self._before[bounds] = np.searchsorted(self.ghosts, np.asarray(bounds, like=self.ghosts)).tolist()
        return self._before[bounds]

    @cached_property
    def _before(self) -> dict[Bounds, list[int]]:
        return {}

    def joined_with(self, amg: AmgKernels, seen: Sequence[I64], *, tight: bool = False) -> Self:
        """The window that sees the numbers of some arrays, too: itself if it does already; all, unless it is tight."""
        if not seen or self.size == self.end:
            return self
        first, rows = self.first, self.rows
        if not tight and amg.sees_all(self.end):
            return Window.of_all(amg, first, rows, self.end)
        ghosts, lower = amg.ghosts([self.ghosts, *seen], first, first + rows, self.end)
        return self if len(ghosts) == len(self.ghosts) else replace(self, ghosts=ghosts, lower=lower)


def own_bounds(bounds: Bounds, number: int) -> tuple[int, int]:
    """The first row of a chunk and the one behind its last; the only chunk is called with its host's number."""
    own = number if len(bounds) > 2 else 0
    return bounds[own], bounds[own + 1]


def window_of(amg: AmgKernels, bounds: Bounds, number: int, seen: I64) -> Window:
    """The window of a chunk that sees these numbers, own ones among them."""
    first, last = own_bounds(bounds, number)
    if len(bounds) == 2:
        return Window(first=first, rows=last - first, ghosts=seen[:0], whole=True)
    return Window.around(amg, first, last - first, seen, bounds[-1])


def owners_of(bounds: Bounds, numbers: I64) -> I64:
    """The chunk that owns each number."""
    if len(bounds) == 2:
        return np.zeros_like(numbers, dtype=np.int64)
    return np.searchsorted(np.asarray(bounds[1:], like=numbers), numbers, side="right").astype(np.int64)


def owners_in(bounds: Bounds, window: Window) -> tuple[int, ...]:
    """The chunks that own ghosts of a window, ascending."""
    return tuple(owner for owner, _ in received(bounds, window))


def others(bounds: Bounds, number: int, owners: I64) -> tuple[int, ...]:
    """The chunks among some owners other than this one, ascending."""
    if len(bounds) == 2:
        return ()
    return tuple(owner for owner in np.unique(owners).tolist() if owner != number)


def received(bounds: Bounds, window: Window) -> tuple[tuple[int, int], ...]:
    """The chunks that own ghosts of a window, ascending, each with the number of its ghosts."""
    counts = enumerate(end - begin for begin, end in pairwise(window.ghosts_before(bounds)))
    return tuple((owner, count) for owner, count in counts if count)
