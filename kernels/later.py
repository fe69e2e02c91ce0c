"""Work that nobody waits for yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, final

T = TypeVar("T")


@final
class Later(Generic[T]):
    """Something that is made when it is called for the first time: by who needs it, or before, while a host waits.

    Args:
        make: makes it.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._made: T

    def __call__(self) -> T:
        """The thing."""
        if self._make is not None:
            self._made, self._make = self._make(), None  # what it was made from may go
        return self._made
