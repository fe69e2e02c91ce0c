"""Deferred values, made when they are needed or while a host waits, and answers that a set-up foresees."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Deferred(Generic[T]):
    """Value that is made at the first call."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._made: T

    def __call__(self) -> T:
        """The value."""
        if self._make is not None:
            self._made, self._make = self._make(), None  # what it was made from may go
        return self._made


Agree = Callable[[Mapping[int, Sequence[float]]], Sequence[Sequence[float]]]
"""Numbers of all chunks, equally many of each, from those of the chunks of this rank: every rank asks for it."""


class UnforeseenError(Exception):
    """A set-up went on with an answer that was wrong: all that it has made is void, and it is to begin again."""


class Foresight:
    """Answers that a set-up goes on with. Here, and on devices that need not be waited for, they are never wrong."""

    def confirm(self) -> None:
        """Wait until all that was enqueued is there, and foresee nothing from now on. Raises UnforeseenError."""
