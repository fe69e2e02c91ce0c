"""Answers that set-up needs from a GPU before it can go on: waited for, or foreseen and looked at when it ends.

How many entries a level has, and along which axes it is made coarser, mostly follows from the shape of the grid. A
set-up like an earlier one therefore goes on with the answers that this one got: the host enqueues all of it while the
GPU still works on the finest level, where each wait left the GPU idle for as long as the host then needed for the next
launches (8 of 23 ms at 256³ on an H200). The true answers come behind the work, and are compared at the end.

Ranks that set up together foresee together: they agree before it that all have had the same answers to what depends on
all of them, and after it that none was wrong.
"""

import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.pinned_values import Host, PinnedValues
from dsolver.kernels.deferred import Agree, Foresight, UnforeseenError
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.reductions import tree_sum

T = TypeVar("T")
MOST: Final = 64  # kinds of set-up whose answers are kept, at most: numbers on the host, a few kB each


@dataclass(frozen=True, kw_only=True)
class Tape:
    """The answers of a set-up."""

    answers: tuple[Any, ...]
    trusted: bool  # whether set-ups of this kind have had the same answers so far
    shared: tuple[Any, ...] = ()  # those of them that follow from the chunks of all ranks

    @property
    def mark(self) -> float:
        """Number that tells the shared answers from others; 0 where they are not trusted."""
        return float(1 + zlib.crc32(repr(self.shared).encode())) if self.trusted else 0.0


_NONE: Final = Tape(answers=(), trusted=False)
_tapes: Final[OrderedDict[Hashable, Tape]] = OrderedDict()


class _Here(threading.local):
    """The foresight of the set-up that this thread is in."""

    now: "CudaForesight | None" = None
    late = False
    in_order = False
    recorded = False


_here: Final = _Here()


class CudaForesight(Foresight):
    """Answers of one set-up on the current stream; together: whether other ranks foresee, too."""

    def __init__(self, key: Hashable, owned: Sequence[int] = (), agree: Agree | None = None) -> None:
        self._key, self._owned, self._agree = key, owned, agree
        self.together, self._alone = agree is not None, True
        tape = _tapes.get(key, _NONE)
        trusted = tape.trusted
        if agree is not None:
            ((mark,), *others) = agree(dict.fromkeys(owned, (tape.mark,)))
            trusted = mark > 0.0 and all(other == (mark,) for other in others)
            self._alone = len(others) < len(owned)
        self._known = tape.answers if trusted else None
        self._given: list[Any] = []
        self._open: list[tuple[Callable[..., Any], Sequence[Host], Any]] = []
        self._shared: list[Any] = []
        self._sums: list[tuple[Callable[..., Any], Mapping[int, Sequence[Host]], Any]] = []
        self._room, self._arrived = PinnedValues(), cupy.cuda.Event(disable_timing=True)
        self._wrong = False

    def answer(self, decide: Callable[..., T], values: Sequence[Array]) -> T:
        """See the function `answer`."""
        arrived = self._room.sent(values)
        if self._known is None:
            cupy.cuda.get_current_stream().synchronize()
            made = decide(*arrived)
        elif len(self._given) < len(self._known):
            made = self._known[len(self._given)]
            self._open.append((decide, arrived, made))
            self._arrived.record()
        elif not self.together:
            raise self._mistaken()
        else:  # the other ranks learn of it in the end
            self._wrong = True
            cupy.cuda.get_current_stream().synchronize()
            made = decide(*arrived)
        self._given.append(made)
        return made

    def answer_of_all(self, ask: Callable[[], T], decide: Callable[..., T], numbers: Mapping[int, Sequence[Any]]) -> T:
        """See the function `answer_of_all`."""
        if self._known is None or len(self._given) >= len(self._known):
            made = ask()
        else:
            made = self._known[len(self._given)]
            arrived = {number: self._room.sent(values) for number, values in numbers.items()}
            self._sums.append((decide, arrived, made))
            self._arrived.record()
        self._given.append(made)
        self._shared.append(made)
        return made

    def confirm(self) -> None:
        if _here.now is not self:  # it has been confirmed before
            return
        if _here.in_order:  # at whose end all else is waited for
            self._arrived.synchronize()
        else:
            cupy.cuda.get_current_stream().synchronize()
        _here.now = None
        if self._known is None:
            last, given = _tapes.pop(self._key, None), tuple(self._given)
            trusted = last is None or (len(last.answers) == len(given) and all(map(_same, last.answers, given)))
            _keep(self._key, Tape(answers=given, trusted=trusted, shared=tuple(self._shared)))
        elif not self._agreed(len(self._given) == len(self._known) and not self._wrong and self._own_are_so()):
            raise self._mistaken()

    def suspect(self) -> None:
        """Confirm in the middle of a set-up, where all chunks are this rank's."""
        if self._known is not None and self._alone:
            cupy.cuda.get_current_stream().synchronize()
            if not self._agreed(not self._wrong and self._own_are_so()):
                raise self._mistaken()

    def _own_are_so(self) -> bool:
        """Whether answers of this rank alone are true: the first wrong one makes those behind it meaningless."""
        return all(_same(decide(*values), made) for decide, values, made in self._open)

    def _agreed(self, well: bool) -> bool:
        """Whether all is well on every rank, and answers that follow from all chunks are true."""
        if self._agree is None:
            return well
        told = {
            number: (float(well), *(float(each[0]) for _, values, _ in self._sums for each in values[number]))
            for number in self._owned
        }
        flags, *parts = zip(*self._agree(told), strict=True)
        totals = iter([tree_sum(list(part)) for part in parts])
        counts = [len(values[self._owned[0]]) for _, values, _ in self._sums]
        found = [[next(totals) for _ in range(count)] for count in counts]
        sums = zip(found, self._sums, strict=True)
        return all(flags) and all(_same(decide(*each), made) for each, (decide, _, made) in sums)

    def _mistaken(self) -> UnforeseenError:
        """Trust these answers no more until two set-ups after each other have had the same."""
        _keep(self._key, Tape(answers=(), trusted=False))
        return UnforeseenError()


@contextmanager
def foreseeing(key: Hashable, owned: Sequence[int] = (), agree: Agree | None = None) -> Iterator[Foresight]:
    """Let set-up on this thread foresee answers; see `Backend.foreseeing`."""
    if _here.now is not None:
        _here.now.confirm()
    _here.now = made = CudaForesight((cupy.cuda.runtime.getDevice(), tuple(owned), key), owned, agree)
    try:
        yield made
        if not _here.late:
            made.confirm()
    except BaseException as error:
        _end_of(error)
        raise


@contextmanager
def confirming() -> Iterator[Callable[[], bool]]:
    """Let set-up on this thread go on behind what it has foreseen; see `Backend.confirming`."""
    _here.late = True
    try:
        yield lambda: _here.now is not None
        if _here.now is not None:
            _here.now.confirm()
    except BaseException as error:
        _end_of(error)
        raise
    finally:
        _here.late = False


def _end_of(error: BaseException) -> None:
    """Foresee nothing any more after an error, which may come of what was foreseen: UnforeseenError if it was wrong.

    Ranks that foresee together do not ask: those without an error would not answer.
    """
    now = _here.now
    try:
        if now is not None and isinstance(error, Exception):
            now.suspect()
    finally:
        if _here.now is not None:
            cupy.cuda.get_current_stream().synchronize()  # copies are under way
        _here.now = None


def answer(decide: Callable[..., T], *values: Array) -> T:
    """Result of decide(*values) with arrays on the host, which depends on nothing else: waited for, or foreseen.

    What is foreseen may be wrong until it is confirmed: kernels must not write beyond arrays whose size follows from
    it.
    """
    if _here.now is not None:
        return _here.now.answer(decide, values)
    if len(values) == 1:
        return decide(cupy.asnumpy(values[0]))
    arrived = PinnedValues().sent(values)
    cupy.cuda.get_current_stream().synchronize()
    return decide(*arrived)


def answer_of_all(ask: Callable[[], T], decide: Callable[..., T], numbers: Mapping[int, Sequence[Any]]) -> T:
    """Result of `ask`, or foreseen: see `Backend.answer_of_all`."""
    return ask() if _here.now is None else _here.now.answer_of_all(ask, decide, numbers)


def ready_to_read() -> bool:
    """Whether kernels may read matrices and plans before earlier launches end: not where several ranks foresee."""
    return _here.recorded or not (_here.in_order or (_here.now is not None and _here.now.together))


@contextmanager
def recorded() -> Iterator[None]:
    """Context of launches of this thread that are recorded, and run when all that they read is there."""
    _here.recorded = True
    try:
        yield
    finally:
        _here.recorded = False


@contextmanager
def in_order() -> Iterator[None]:
    """Let `settle` on this thread wait for nothing before the end: see `Backend.in_order`."""
    before, _here.in_order = _here.in_order, True
    try:
        yield
    finally:
        _here.in_order = before
        settle()


def foreseen_numbers(values: Array) -> Host:
    """An array on the host, waited for or foreseen; see `answer`."""
    return answer(np.array, values)


@contextmanager
def aside() -> Iterator[None]:
    """Context in which answers are waited for even in a set-up that foresees: what follows from them is kept."""
    now, _here.now = _here.now, None
    try:
        yield
    finally:
        _here.now = now


def settle() -> None:
    """Wait for the current stream, unless set-up foresees (then `confirm` waits) or kernels start in order."""
    if _here.now is None and not _here.in_order:
        cupy.cuda.get_current_stream().synchronize()


def _keep(key: Hashable, tape: Tape) -> None:
    _tapes.pop(key, None)  # to its end; threads that set up the same system may do this at once
    _tapes[key] = tape
    while len(_tapes) > MOST:
        _tapes.popitem(last=False)


def _same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other)) if isinstance(other, np.ndarray) else bool(one == other)
