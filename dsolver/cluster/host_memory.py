"""Memory that a process may still take: of its machine, of the cgroups around it, and below Dask's own limit.

Containers, batch jobs and services are limited by cgroups (Linux kernel documentation: admin-guide/cgroup-v2.rst,
"Memory", and admin-guide/cgroup-v1/memory.rst). A limit holds for all that is below it, so each cgroup up to the root
counts. Pages of files that were not used lately are given back before a limit is enforced, and count as free.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import psutil

from dsolver.cluster import devices
from dsolver.dask_types import Client

PROCESS: Final = Path("/proc/self/cgroup")  # the cgroups of this process: lines ``number:controllers:path``
CGROUPS: Final = Path("/sys/fs/cgroup")
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
"""A name of the running kernel, which tells one machine from another."""
UNLIMITED: Final = 1 << 60
"""Bytes from which on a limit is none: version 1 writes a number of that size where there is none."""


@dataclass(frozen=True, kw_only=True)
class Supply:
    """Memory from which a process is served, by itself or with others."""

    what: str  # the bytes are, for messages: "free on the machine"
    identity: str  # equal for those processes that share it
    free: int


@dataclass(frozen=True, kw_only=True)
class Share:
    """Memory that a process may take, in bytes, and the supply that it comes from, as `Supply.what`."""

    free: int
    what: str


def supplies(dask_worker: Any = None) -> list[Supply]:
    """All that limits what this process, or a Dask worker that runs in it, may still take."""
    machine = _text(BOOT) or "machine"
    found = [Supply(what="free on the machine", identity=machine, free=int(psutil.virtual_memory().available))]
    found += [
        Supply(what="left to its cgroup", identity=f"{machine} cgroup {folder.stat().st_ino}", free=free)
        for folder, free in _limited(_text(PROCESS), CGROUPS)
    ]
    if dask_worker is not None and getattr(dask_worker, "nanny", None):  # who ends a worker that takes too much
        import dask  # here, because a process without a cluster starts 0.1 s earlier without it

        limit, part = dask_worker.memory_manager.memory_limit, dask.config.get("distributed.worker.memory.terminate")
        if limit and part:
            free = int(limit * part) - int(psutil.Process().memory_info().rss)
            found.append(Supply(what="left below Dask's memory_limit", identity=dask_worker.address, free=free))
    return found


def supplies_of(client: Client | None, workers: Sequence[str]) -> list[list[Supply]]:
    """The `supplies` of each worker, or of this process. ClusterError: a worker does not answer."""
    if client is None:
        return [supplies()]
    found = devices.ask_all(client, supplies, workers)
    return [found[worker] for worker in workers]


def shares(of_workers: Sequence[Sequence[Supply]], needs: Sequence[int], held: Sequence[int] = ()) -> list[Share]:
    """The share of each worker where those with one supply divide it by their needs; held: bytes they have already."""
    more = [max(0, need - has) for need, has in zip_longest(needs, held, fillvalue=0)]
    wanted: dict[str, int] = defaultdict(int)
    left: dict[str, int] = {}
    for given, need in zip(of_workers, more, strict=True):
        for supply in given:
            wanted[supply.identity] += need
            left[supply.identity] = max(0, min(supply.free, left.get(supply.identity, supply.free)))
    found = []
    for given, total, need in zip(of_workers, needs, more, strict=True):
        parts = [
            Share(free=total - need + left[s.identity] * need // max(1, wanted[s.identity]), what=s.what) for s in given
        ]
        found.append(min(parts, key=lambda share: share.free))
    return found


def _limited(process: str, root: Path) -> Iterator[tuple[Path, int]]:
    """The folder of each cgroup that limits a process (text of `PROCESS`), and the bytes left below its limit."""
    for line in process.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            tops, names = (root, root / "unified"), ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            tops = (root / "memory", root / controllers)
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        for top in dict.fromkeys(tops):
            inside = Path(path.lstrip("/"))
            for folder in (top / inside, *(top / above for above in inside.parents)):  # the last one is the top
                free = _left(folder, *names)
                if free is not None:
                    yield folder, free


def _left(folder: Path, limit: str, usage: str, idle: str) -> int | None:
    """Bytes below a cgroup's limit; None where there is none."""
    most = _text(folder / limit)
    if not most.isdecimal() or int(most) >= UNLIMITED:
        return None
    used = _text(folder / usage)
    statistics = dict(line.split() for line in _text(folder / "memory.stat").splitlines())
    return int(most) - int(used or 0) + int(statistics.get(idle, 0))


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="ascii", errors="replace").strip()
    return ""
