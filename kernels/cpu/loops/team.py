"""Threads that share one chunk's loops."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial, wraps
from threading import Lock, Thread
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakSet, finalize

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.csr import Csr

T = TypeVar("T")


class Room(NamedTuple):
    """Room for entries of rows that are being made: columns int32, values float64."""

    columns: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]


class Helper:
    """A thread that does one piece of work after the other for its holder, woken by a lock.

    Futures of Python's executors cost 23 us of processors a piece, and 35 us until all is done; locks 14 and 19.
    """

    def __init__(self) -> None:
        self._given, self._done = Lock(), Lock()
        self._given.acquire()
        self._done.acquire()
        self._work: Callable[[], Any] | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._dismissed = False
        Thread(target=self._serve, name="dsolver-kernel", daemon=True).start()

    def give(self, work: Callable[[], Any]) -> None:
        """Have something done."""
        self._work = work
        self._given.release()

    def result(self) -> Any:
        """Wait until it is done; what it returned, or raised."""
        self._done.acquire()
        (result, error), self._result, self._error = (self._result, self._error), None, None
        if error is not None:
            raise error
        return result

    def dismiss(self) -> None:
        """End the thread, after what it is doing, or is about to."""
        self._dismissed = True
        with suppress(RuntimeError):  # it has not begun what it was given
            self._given.release()

    def _serve(self) -> None:
        while True:
            self._given.acquire()
            work, self._work = self._work, None
            if work is None:
                return
            try:
                self._result = work()
            except BaseException as error:
                self._error = error
            del work  # and the arrays that it holds
            self._done.release()
            if self._dismissed:
                return


def worth_of(entries: int, count: int, held: int) -> int:
    """Number of pieces worth a thread, of `count` with `held` entries, where so many entries are worth one."""
    return max(1, entries * count // max(1, held))


ENTRIES_WORTH_A_THREAD: Final = 24576
"""Entries of a matrix in slices that are worth a thread where a product reads them: 200 KB, which
take 30 us."""
SLICES_WORTH_A_THREAD: Final = 32
"""Slices of 32 rows that are worth a thread where a loop makes or restricts them: some us each."""
ROWS_WORTH_A_THREAD: Final = 4096
"""Rows of a matrix that are worth a thread where a loop goes through their entries once, 50 us or more: to give one its
part and to wait for it costs 30 us."""
PRODUCTS_WORTH_A_THREAD: Final = 512  # rows of a product that are worth a thread


def rows_worth(rows: Csr) -> int:
    """Rows of a matrix that are worth a thread where a loop goes through their entries once, by how many they have."""
    return worth_of(ENTRIES_WORTH_A_THREAD, rows.size, len(rows.columns))


class Team:
    """Cuts a range among a fixed number of threads.

    The compiled loops release the GIL, so plain Python threads do; numba's own parallel loops are avoided because its
    default threading layer must not be entered from two threads at once, as Dask workers would. Threads that call at
    once share the helpers: a range is cut among those that are free.

    `threads`: how many threads share a range, the caller's own included; at least 1. `worth`: items that are worth a
    thread in every loop; those that each loop tells where there is none.
    """

    def __init__(self, threads: int = 1, worth: int | None = None) -> None:
        if threads < 1:
            raise ValueError(f"a team needs at least one thread, not {threads}")
        self.threads, self._worth = threads, worth
        self._rooms: list[Room] = []
        self._end: finalize[..., Team] | None = None
        self.gather()
        _teams.add(self)

    def gather(self) -> None:
        """Take new threads: a process that was forked has the team of its parent and none of its threads."""
        self._missing = [None] * (self.threads - 1)  # of the helpers
        self._free: list[Helper] = []
        if self._end is not None:
            self._end.detach()
        self._end = finalize(self, _dismiss, self._free)

    def _taken(self, count: int) -> list[Helper]:
        """Helpers, as many as wanted or as there are; other threads may take some, too."""
        found: list[Helper] = []
        while len(found) < count:
            try:
                found.append(self._free.pop())
            except IndexError:
                try:
                    self._missing.pop()
                except IndexError:
                    break
                found.append(Helper())
        return found

    def room(self, entries: int) -> Room:
        """Room for so many entries at least, of those that were left here, or new."""
        try:
            found = self._rooms.pop()  # other threads may take one, too
        except IndexError:
            found = None
        before = 0 if found is None else len(found.columns)
        if found is None or before < entries:
            count = max(entries, 2 * before)  # memory that is not written costs nothing
            found = Room(np.empty(count, np.int32), np.empty(count))
        return found

    def leave(self, room: Room) -> None:
        """Give a room back."""
        self._rooms.append(room)

    def clear(self) -> None:
        """Let go of rooms that were left here."""
        self._rooms.clear()

    def run(self, loop: Callable[..., Any], first: int, last: int, *args: Any, worth: int) -> list[Any]:
        """loop(first, last, *args), a contiguous range a thread where it is worth one; results in their order."""
        parts = min(self.threads, (last - first) // (self._worth or worth))
        if parts <= 1 or not (helpers := self._taken(parts - 1)):
            return [loop(first, last, *args)]
        parts = len(helpers) + 1
        cuts = [first + (last - first) * i // parts for i in range(parts + 1)]
        for helper, begin, end in zip(helpers, cuts[1:-1], cuts[2:], strict=True):
            helper.give(partial(loop, begin, end, *args))
        try:
            found = [loop(cuts[0], cuts[1], *args)]
        except BaseException:
            self._wait(helpers)
            raise
        return found + self._wait(helpers)

    def each(self, work: Callable[[int], T], count: int) -> list[T]:
        """work(number) for each number below a count, shared among threads; fewer may be free than when it was cut."""

        def several(first: int, last: int) -> list[T]:
            return [work(number) for number in range(first, last)]

        return [found for part in self.run(several, 0, count, worth=1) for found in part]

    def _wait(self, helpers: list[Helper]) -> list[Any]:
        """Results of the helpers, all of whom are free then; or the exception that one of them raised."""
        found, errors = [], []
        for number, helper in enumerate(helpers):
            try:
                found.append(helper.result())
            except Exception as error:
                errors.append(error)
            except BaseException:  # of this thread, which waits no longer
                for left in helpers[number:]:
                    left.dismiss()
                    self._missing.append(None)
                raise
            self._free.append(helper)
        if errors:
            raise errors[0]
        return found

    def run_columns(
        self,
        loop: Callable[..., Any],
        count: int,
        head: Sequence[Any],
        columns: Iterable[Sequence[Any]],
        *,
        at_once: int,  # items that one column after the other is computed with
        worth: int,
    ) -> None:
        """loop(first, last, *head, *column) for each column on ranges [0, count), some items at once.

        What is read of the matrix comes from memory for the first column, and from a cache for the others.
        """
        columns = list(columns)

        def several(first: int, last: int) -> None:
            for begin in range(first, last, at_once):
                for column in columns:
                    loop(begin, min(begin + at_once, last), *head, *column)

        self.run(several, 0, count, worth=worth)


def _dismiss(helpers: list[Helper]) -> None:
    for helper in helpers:
        helper.dismiss()


def _gather_all() -> None:
    for team in _teams:
        team.gather()


_teams: Final[WeakSet[Team]] = WeakSet()
os.register_at_fork(after_in_child=_gather_all)


def of_team(function: Callable[..., T]) -> Callable[..., T]:
    """A function with an argument `team`, as a method of an object that has one."""

    @wraps(function)
    def method(self: Any, *arguments: Any, **options: Any) -> T:
        return function(*arguments, team=self.team, **options)

    return method
