"""Leftovers that a test must not have: processes, sockets, shared memory, temporary files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import dask.config
import psutil
import pytest

from tests.support.clusters import fork_server
from tests.support.waiting import gone

SHARED = Path("/dev/shm")  # noqa: S108  to look at, not to use
OURS = ("nccl", "psm_", "dsolver", "cuda")
"""Beginnings of names of shared memory that this package's own dependencies make. Other tests' browsers make others."""
DASKS_OWN = ("global.lock", "purge.lock", "scheduler-")
"""Beginnings of names of files that Dask leaves in a folder for temporary files, to use or to clean up next time."""


@dataclass(frozen=True)
class Belongings:
    """Leftovers of this process and those that it has started.

    Attributes:
        processes: their names.
        sockets: TCP connections and listeners of this process.
        shared: shared memory of this machine.
        files: below a folder that takes all temporary files.
    """

    processes: frozenset[str]
    sockets: frozenset[str]
    shared: frozenset[str]
    files: frozenset[str]

    @classmethod
    def now(cls, folder: Path) -> Belongings:
        """Leftovers that there are."""
        me = psutil.Process()
        return cls(
            processes=frozenset(_name(child) for child in me.children(recursive=True)) - {""},
            sockets=frozenset(f"{c.laddr} {c.raddr} {c.status}" for c in me.net_connections("tcp") if _open(c)),
            shared=frozenset(p.name for p in SHARED.iterdir() if p.name.startswith(OURS)),
            files=frozenset(
                str(p.relative_to(folder))
                for p in folder.rglob("*")
                if not p.is_dir() and not p.name.startswith(DASKS_OWN)
            ),
        )

    def beyond(self, before: Belongings) -> dict[str, list[str]]:
        """Leftovers that are there now and were not before."""
        new = {f.name: sorted(getattr(self, f.name) - getattr(before, f.name)) for f in fields(self)}
        return {name: values for name, values in new.items() if values}


@contextmanager
def nothing_left() -> Iterator[None]:
    """Temporary files of this process, and of the workers that it starts, go to a folder; nothing new may remain.

    The folder's name is short: there may be sockets in it, whose names have 107 bytes.
    """
    fork_server()  # it stays, and so does its socket
    with (
        tempfile.TemporaryDirectory() as name,
        pytest.MonkeyPatch.context() as patch,
        dask.config.set({"temporary-directory": name}),
    ):
        folder = Path(name)
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        before = Belongings.now(folder)
        yield
        assert gone(lambda: Belongings.now(folder).beyond(before), pause=0.2)


def _open(connection: Any) -> bool:
    return connection.status in (psutil.CONN_ESTABLISHED, psutil.CONN_LISTEN, psutil.CONN_CLOSE_WAIT)


def _name(process: psutil.Process) -> str:
    """A process for people, or nothing for one that is gone, or that Python keeps for later use.

    What the server of forks has forked has its command line, and is a worker.
    """
    try:
        line = " ".join(process.cmdline())
        gone = process.status() == psutil.STATUS_ZOMBIE
        server = "forkserver" in line and process.ppid() == os.getpid()
    except psutil.Error:
        return ""
    return "" if gone or server or "resource_tracker" in line else f"{process.pid} {line}"
