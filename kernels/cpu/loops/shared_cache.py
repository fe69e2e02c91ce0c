"""Cache of compiled functions that several processes use at once: each function is compiled by one of them at a time.

Workers of one machine run the same program, and would all compile the same loops: on two busy cores two workers took
twice as long as one. numba's own cache also loses an entry, or gives one its neighbor's code, where two processes add
one to the same function at once.

A cache is never worth a solve: a file that is damaged is compiled anew, and where none can be written work goes on.
"""

import fcntl
import hashlib
import logging
import os
import pickle
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.runtime.nrt import rtsys

logger = logging.getLogger(__name__)
WAIT: Final = 60.0
"""Seconds after which a process compiles by itself: another one that holds a lock may have been stopped."""
POLL: Final = 0.01  # seconds between looks at a lock
_DIGEST: Final = 32  # bytes of a digest


class SharedCache(FunctionCache):
    """The cache of one function, locked by who has to compile it; waiting: a context of waiting for another process."""

    def __init__(self, function: Callable[..., Any], waiting: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._cache_file = _CheckedFiles(self.cache_path, self._impl.filename_base, self._cache_file._source_stamp)
        self._waiting = waiting
        self._lock: int | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature; None where this process has to compile it.

        numba would first load all that it knows to compile, SciPy's algebra among it: 0.2 s that machine code does not
        need, but for the runtime that its allocations call. Its compiler loads the rest by itself.
        """
        rtsys.initialize(target_context)
        found = self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is None and self._lock is None:
            self._acquire()
            found = self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]  # others may have added it
            if found is not None:
                self._release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Add machine code, if that can be written."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            tell("compiled kernels cannot be kept, and are compiled anew in every process: %s", error)
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


class _CheckedFiles(IndexDataCacheFile):
    """The index and the machine code of a function in files, each behind a digest of what it holds.

    numba would unpickle what a failing disk has made of them, or run it.
    """

    def __init__(self, folder: str, base: str, stamp: Any) -> None:
        super().__init__(folder, base, stamp)  # type: ignore[no-untyped-call]
        self._stamp = stamp
        self._head = f"numba {self._version}\n".encode()

    def _load_index(self) -> dict[Any, Any]:
        found = self._read(self._index_path)
        stamp, overloads = found if found is not None else (None, {})
        return overloads if stamp == self._stamp else {}

    def _save_index(self, overloads: dict[Any, Any]) -> None:
        self._write(self._index_path, (self._stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))  # type: ignore[no-untyped-call]

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)  # type: ignore[no-untyped-call]

    def _write(self, path: str, found: Any) -> None:
        packed = self._dump(found)  # type: ignore[no-untyped-call]
        with self._open_for_write(path) as file:
            file.write(self._head + hashlib.sha256(packed).digest() + packed)

    def _read(self, path: str) -> Any:
        """The content of a file; None where it is not there, is another numba's, or is damaged."""
        try:
            content = Path(path).read_bytes()
            if content.startswith(self._head):
                digest, packed = content[len(self._head) :][:_DIGEST], content[len(self._head) + _DIGEST :]
                if hashlib.sha256(packed).digest() == digest:
                    return pickle.loads(packed)  # noqa: S301  # written by this user
            if content.startswith(self._head) or not content.startswith(b"numba "):
                tell("damaged files of compiled kernels are compiled anew, such as %s", path)
        except FileNotFoundError:
            pass
        except Exception as error:  # also classes that are no more
            tell("files of compiled kernels cannot be read, and are compiled anew: %s", error)
        return None


_TOLD: Final[set[str]] = set()


def tell(message: str, about: object) -> None:
    """Warn of something that may be so for each of hundreds of functions, once in a process."""
    if message not in _TOLD:
        _TOLD.add(message)
        logger.warning(message, about)
