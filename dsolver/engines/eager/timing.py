"""Timers of an eager engine's operations, which make spans of them.

An engine always has a timer and runs each operation in a context of it. As a rule that is `NO_TIMER`, which measures
nothing.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from dsolver.engines.base import Halo, Operand
from dsolver.monitor.spans import HALO, MAIN, Kind, Span

if TYPE_CHECKING:
    from dsolver.engines.eager.handles import EagerHalo
    from dsolver.kernels.contract import Kernel

_NOTHING: Final = nullcontext()
Finish = Callable[[], None]


class Timer(ABC):
    """Contexts in which an engine runs its operations."""

    @abstractmethod
    def kernel(self, kernel: Kernel, operands: Sequence[Operand]) -> Callable[[int], AbstractContextManager[Any]]:
        """A function of a chunk's number that returns the context of a kernel on that chunk."""

    @abstractmethod
    def span(self, kind: Kind, name: str, level: int | None = None) -> AbstractContextManager[Any]:
        """The context of an operation on the current lane."""

    @abstractmethod
    def exchange(self, halo: EagerHalo, lane: AbstractContextManager[Any], post: Callable[[], Finish]) -> Finish:
        """Post an exchange, whose transport works in this lane; returns the function that waits for it."""


class _NoTimer(Timer):
    """The timer that measures nothing and costs nothing."""

    def kernel(self, kernel: Kernel, operands: Sequence[Operand]) -> Callable[[int], AbstractContextManager[Any]]:
        return _nothing

    def span(self, kind: Kind, name: str, level: int | None = None) -> AbstractContextManager[Any]:
        return _NOTHING

    def exchange(self, halo: EagerHalo, lane: AbstractContextManager[Any], post: Callable[[], Finish]) -> Finish:
        return post()


def _nothing(_chunk: int) -> AbstractContextManager[Any]:
    return _NOTHING


NO_TIMER: Final = _NoTimer()


class SpanTimer(Timer):
    """Base of timers that measure: each operation is a span."""

    @abstractmethod
    def start(self, kind: Kind, name: str, level: int | None, chunk: int | None, nbytes: int | None) -> Finish:
        """Begin a span on the current lane; returns the function that ends it."""

    def kernel(self, kernel: Kernel, operands: Sequence[Operand]) -> Callable[[int], AbstractContextManager[Any]]:
        of_halo = any(isinstance(operand, Halo) for operand in operands)  # which are boundary rows
        level, kind = level_of(operands), "boundary" if of_halo else kernel.work
        return lambda chunk: self._within(kind, kernel.name, level, chunk)

    def span(self, kind: Kind, name: str, level: int | None = None) -> AbstractContextManager[Any]:
        return self._within(kind, name, level, None)

    @contextmanager
    def _within(self, kind: Kind, name: str, level: int | None, chunk: int | None) -> Iterator[None]:
        stop = self.start(kind, name, level, chunk, None)
        yield
        stop()


class HostTimer(SpanTimer):
    """Spans by this machine's clock; synchronize: waits until operations are done."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self._synchronize = synchronize
        self._epoch = time.time() - time.perf_counter()  # one clock that never jumps within an iteration
        self.spans: list[Span] = []

    def start(self, kind: Kind, name: str, level: int | None, chunk: int | None, nbytes: int | None) -> Finish:
        began = self._now()
        return lambda: self._add(kind, name, level, chunk, MAIN, began, nbytes)

    def exchange(self, halo: EagerHalo, lane: AbstractContextManager[Any], post: Callable[[], Finish]) -> Finish:
        level, began = halo.level, self._now()
        with self.span("exchange", "post", level):
            finish = post()
        if not crosses_ranks(halo):  # the chunks of this process have what they need
            return finish

        def arrive() -> None:
            with self.span("wait", "halo", level):
                finish()
            self._add("exchange", "halo", level, None, HALO, began, bytes_received(halo))

        return arrive

    def _add(
        self, kind: Kind, name: str, level: int | None, chunk: int | None, lane: str, began: float, nbytes: int | None
    ) -> None:
        self.spans.append(
            Span(kind=kind, name=name, level=level, chunk=chunk, lane=lane, start=began, stop=self._now(), bytes=nbytes)
        )

    def _now(self) -> float:
        self._synchronize()
        return self._epoch + time.perf_counter()


def level_of(operands: Sequence[Operand]) -> int | None:
    """The level of the first operand that has one: the finer one where two levels meet."""
    levels = (getattr(operand, "level", None) for operand in operands)
    return next((level for level in levels if level is not None), None)


def crosses_ranks(halo: EagerHalo) -> bool:
    """Whether an exchange brings values to or from other ranks."""
    return any(other not in halo.plans for plan in halo.plans.values() for other, _, _ in (*plan.sends, *plan.receives))


def bytes_received(halo: EagerHalo) -> int:
    """Bytes that an exchange brings from other ranks."""
    return sum(
        (last - first) * int(halo.vectors[number].itemsize)
        for number, plan in halo.plans.items()
        for neighbor, first, last in plan.receives
        if neighbor not in halo.plans
    )
