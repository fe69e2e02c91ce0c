"""Cache of compiled functions that several processes use at once: each function is compiled by one of them at a time.

Workers of one machine run the same program, and would all compile the same loops: on two busy cores two workers took
twice as long as one. numba's own cache also loses an entry, or gives one its neighbor's code, where two processes add
one to the same function at once.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, final

from numba.core.caching import FunctionCache

WAIT: Final = 60.0
"""Seconds after which a process compiles by itself: another one that holds a lock may have been stopped."""
POLL: Final = 0.01
"""Seconds between looks at a lock."""


@final
class SharedCache(FunctionCache):
    """The cache of one function. Who finds nothing in it locks it, until what is compiled has been added.

    Args:
        function: as it is written.
        waiting: a context in which another process is waited for.
    """

    def __init__(self, function: Callable[..., Any], waiting: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._waiting = waiting
        self._lock: int | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature; None where this process has to compile it."""
        found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is None and self._lock is None:
            self._acquire()
            found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]  # others may have added it
            if found is not None:
                self._release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Add machine code."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        finally:
            self._release()

    def _acquire(self) -> None:
        """Lock the function for this process, or go on without where files cannot be locked."""
        try:
            folder = Path(self.cache_path)
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / f"{self._impl.filename_base}.lock", os.O_CREAT | os.O_RDWR, 0o600)
            if not self._locked():
                with self._waiting():
                    until = time.monotonic() + WAIT
                    while not self._locked() and time.monotonic() < until:
                        time.sleep(POLL)
        except OSError:
            self._release()

    def _locked(self) -> bool:
        assert self._lock is not None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)  # which unlocks it, as the end of the process does
