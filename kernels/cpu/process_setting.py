"""A setting of the process that several threads need at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any


class ProcessSetting:
    """A setting that the first of its users makes, and the last one puts back."""

    def __init__(self, make: Callable[[], Any], put_back: Callable[[], Any]) -> None:
        self._make, self._put_back = make, put_back
        self._lock, self._users = Lock(), 0

    @property
    def made(self) -> bool:
        """Whether it has users."""
        return self._users > 0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """While this lasts, on all threads."""
        with self._lock:
            if self._users == 0:
                self._make()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._put_back()
