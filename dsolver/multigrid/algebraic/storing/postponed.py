"""Work of a set-up that is put off: done while a device is waited for, or at the end."""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from dsolver.engines.base import Engine
from dsolver.kernels.deferred import Deferred

T = TypeVar("T")


class Postponed:
    """Work put off, done in order. Engines that do it while they wait are None where it must not be done so soon.

    Attributes:
        last: what is put off behind all else of a level.
    """

    def __init__(self) -> None:
        self._later: deque[Deferred[Any]] = deque()
        self.last: Callable[[], None] | None = None

    def put_off(
        self, make: Callable[[], T], engine: Engine | None, *, first: bool = False, brief: bool = False
    ) -> Deferred[T]:
        """Put work off; first: before all others; brief: as of `Engine.defer`."""
        work = Deferred(make)
        (self._later.appendleft if first else self._later.append)(work)
        if engine is not None:
            engine.defer(work, exchanges=False, brief=brief)
        return work

    def put_off_last(self, engine: Engine | None) -> None:
        """Put `last` off."""
        if self.last is not None:
            last, self.last = self.last, None
            self.put_off(last, engine)

    def catch_up(self, engine: Engine | None) -> None:
        """Do what was put off."""
        self.put_off_last(engine)
        while self._later:
            self._later.popleft()()
