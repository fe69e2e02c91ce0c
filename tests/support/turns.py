"""Turns of the processes that share a machine's GPUs."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(name: str, *, alone: bool) -> Iterator[None]:
    """A stay beside others, or alone, in the processes of one test run.

    Who waits to be alone holds the door, so that others who come do not keep it waiting.
    """
    stem = Path(tempfile.gettempdir()) / f"{name}-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    with stem.with_suffix(".door").open("w") as door, stem.with_suffix(".room").open("w") as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield
