"""Memory of one process that others of the same host and user read."""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

RUNS_AT_ONCE: Final = 1000  # runs of one call: the system takes 1024, and one is the secret
SECRET: Final = 16
_PR_SET_PTRACER: Final = 0x59616D61
_ANY: Final = ctypes.c_ulong(-1)


class LendingError(OSError):
    """The memory of a lender cannot be read: it has ended, is on another host, or the system forbids it."""


@final
@dataclass(frozen=True)
class Lender:
    """A process that lends arrays; secret: random bytes at a place, by which readers know that it is this process."""

    pid: int
    place: int
    secret: bytes

    def why_not(self) -> str:
        """Why this process does not read what that one lends; empty where it does."""
        try:
            self.read(np.empty((0, 2), np.uint64), np.empty(0, np.uint8))
        except LendingError as error:
            return str(error)
        return ""

    def read(self, runs: npt.NDArray[np.uint64], out: npt.NDArray[np.uint8]) -> None:
        """Copy runs, uint64 (n, 2) of address and bytes, of its memory one after the other. LendingError: it cannot."""
        call, found, done = _read_call(), np.empty(SECRET, np.uint8), 0
        for first in range(0, len(runs) or 1, RUNS_AT_ONCE):
            there = np.concatenate([np.array([(self.place, SECRET)], np.uint64), runs[first : first + RUNS_AT_ONCE]])
            size = int(there[1:, 1].sum())
            here = np.array([(found.ctypes.data, SECRET), (out.ctypes.data + done, size)], np.uint64)
            taken = call(self.pid, here.ctypes.data, len(here), there.ctypes.data, len(there), 0)
            if taken < 0:
                number = ctypes.get_errno()
                raise LendingError(number, f"process {self.pid} cannot be read: {os.strerror(number)}")
            if found.tobytes() != self.secret:
                raise LendingError(f"process {self.pid} is another one here: it is on another host, or has ended")
            if taken != SECRET + size:
                raise LendingError(f"process {self.pid} cannot be read: an array of it is gone")
            done += size


def here() -> Lender:
    """This process."""
    secret = _secret()
    return Lender(pid=os.getpid(), place=ctypes.addressof(secret), secret=secret.raw)


@cache
def _secret() -> Any:
    return ctypes.create_string_buffer(os.urandom(SECRET), SECRET)


@cache
def _read_call() -> Any:
    """The system's call. LendingError: it has none."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "process_vm_readv", None)
    if call is None:
        raise LendingError("this system has no process_vm_readv: it is not Linux")
    runs = (ctypes.c_void_p, ctypes.c_ulong)  # address and bytes of each, one after the other
    call.restype, call.argtypes = ctypes.c_ssize_t, [ctypes.c_int, *runs, *runs, ctypes.c_ulong]
    return call


_open: list[None] = []
_order: Final = threading.Lock()


@contextmanager
def open_to_readers() -> Iterator[None]:
    """While other processes of the same user read what this one lends: Yama, where it is on, forbids it otherwise."""
    with _order:
        _open.append(None)
        _permit(_ANY)
    try:
        yield
    finally:
        with _order:
            _open.pop()
            if not _open:
                _permit(ctypes.c_ulong(0))


def _permit(readers: ctypes.c_ulong) -> None:
    """Have Yama permit them; it refuses nothing where it is not there."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(ctypes.c_int(_PR_SET_PTRACER), readers, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
