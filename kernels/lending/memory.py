"""Memory of one process that others of the same host and user read."""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Any, Final

import numpy as np

RUNS_AT_ONCE: Final = 1000  # runs of one call: the system takes 1024, and one is the secret
SECRET: Final = 16
run: Final = Struct("2Q").pack
"""Address and bytes of a run as the system takes them."""
RUN: Final = 16
_PR_SET_PTRACER: Final = 0x59616D61
_ANY: Final = ctypes.c_ulong(-1)


class LendingError(OSError):
    """The memory of a lender cannot be read: it has ended, is on another host, or the system forbids it."""


@dataclass(frozen=True)
class Lender:
    """A process that lends arrays; secret: random bytes at a place, by which readers know that it is this process."""

    pid: int
    place: int
    secret: bytes

    def why_not(self) -> str:
        """Why this process does not read what that one lends; empty where it does."""
        try:
            self.read(b"", 0, 0)
        except LendingError as error:
            return str(error)
        return ""

    def read(self, runs: bytes, out: int, size: int) -> None:
        """Copy runs of its memory, packed by `run`, one after the other to an address of this process.

        size: bytes of all. A thread that copies to a GPU comes here for every 4 MB and has the GIL for as long as all
        of this takes, but the call. LendingError: it cannot be read.
        """
        call, found, done = _read_call(), ctypes.create_string_buffer(SECRET), 0
        for first in range(0, len(runs) or 1, RUNS_AT_ONCE * RUN):
            part = runs[first : first + RUNS_AT_ONCE * RUN]
            count = len(part) // RUN
            several = size if len(part) == len(runs) else int(np.frombuffer(part, np.uint64)[1::2].sum())
            here = run(ctypes.addressof(found), SECRET) + run(out + done, several)
            taken = call(self.pid, here, 2, run(self.place, SECRET) + part, 1 + count, 0)
            if taken < 0:
                number = ctypes.get_errno()
                raise LendingError(number, f"process {self.pid} cannot be read: {os.strerror(number)}")
            if found.raw != self.secret:
                raise LendingError(f"process {self.pid} is another one here: it is on another host, or has ended")
            if taken != SECRET + several:
                raise LendingError(f"process {self.pid} cannot be read: an array of it is gone")
            done += several


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
    runs = (ctypes.c_char_p, ctypes.c_ulong)  # address and bytes of each, one after the other
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
