"""The C library's heap around a set-up: what this frees is kept for what it makes next, and given back at the end.

A set-up makes and frees arrays by the hundred. By itself glibc maps the large ones anew each time, and gives the end of
its heap back as soon as it is free (mallopt(3): M_MMAP_THRESHOLD, M_TRIM_THRESHOLD), so that the kernel has to find and
clear the same pages again and again: a fifth of the processor time of a set-up, a third on Dask's workers, whose
nannies fix the thresholds at 128 and 64 KiB. Settings are the process's: they are put back where no set-up runs.
Other C libraries are left alone, and so is a heap with GLIBC_TUNABLES.
"""

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from dsolver.kernels.cpu.process_setting import ProcessSetting

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD, MMAP_MAX = -1, -2, -3, -4  # settings of <malloc.h>
NAMES: Final = {
    TRIM_THRESHOLD: "MALLOC_TRIM_THRESHOLD_",
    TOP_PAD: "MALLOC_TOP_PAD_",
    MMAP_THRESHOLD: "MALLOC_MMAP_THRESHOLD_",
    MMAP_MAX: "MALLOC_MMAP_MAX_",
}
"""Variables of the environment that glibc reads when a process begins. With any of them the thresholds stay as they
are; without, that of mapping grows up to `LARGEST` as mapped arrays are freed, until a call of mallopt ends that."""
STATED: Final = {TRIM_THRESHOLD: 128 << 10, MMAP_MAX: 65536}  # settings of glibc where its environment names others
LARGEST: Final = 32 << 20  # bytes of an array from which on glibc maps it, at the most that it allows
KEPT: Final = 512 << 20
"""Free bytes that may stay for the next set-up: a million rows leave about so many. Where the environment names a trim
threshold it is that."""
STATM: Final = Path("/proc/self/statm")


class _Usage(ctypes.Structure):
    """struct mallinfo2, bytes but for three counts; of all arenas."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
        )
    )  # fmt: skip


class Heap:
    """The heap of this process, by glibc's functions; environment: as it was when the process began."""

    def __init__(self, libc: Any, environment: Mapping[str, str]) -> None:
        self._libc, self._usage = libc, libc.mallinfo2
        self._usage.restype = _Usage
        named = {setting: int(environment[n]) for setting, n in NAMES.items() if environment.get(n, "").isdecimal()}
        usual = STATED if named else {TRIM_THRESHOLD: KEPT, MMAP_THRESHOLD: LARGEST, MMAP_MAX: STATED[MMAP_MAX]}
        before = usual | named
        self._most = named.get(TRIM_THRESHOLD, KEPT)
        keeping = {MMAP_MAX: 0, TRIM_THRESHOLD: -1}
        self._reusing = ProcessSetting(partial(self._set, keeping), partial(self._set, before))

    @contextmanager
    def reusing(self) -> Iterator[None]:
        """Context in which memory that is freed stays, on all threads."""
        try:
            with self._reusing.kept():
                yield
        finally:
            self.give_back()

    def give_back(self) -> None:
        """Return free memory to the system, where it is much and no set-up runs."""
        if not self._reusing.made and self.kept() > self._most:
            self._libc.malloc_trim(0)

    def kept(self) -> int:
        """Bytes that are free here and may be resident: of those that were given back the heap still has the places."""
        usage = self._usage()
        if usage.fordblks <= self._most:
            return int(usage.fordblks)
        _, resident, shared, *_ = map(int, STATM.read_text().split())
        own = (resident - shared) * os.sysconf("SC_PAGE_SIZE")
        return int(min(usage.fordblks, max(0, own - usage.uordblks - usage.hblkhd)))

    def _set(self, values: Mapping[int, int]) -> None:
        for setting, value in values.items():
            self._libc.mallopt(setting, min(value, 2**31 - 1))


@cache
def heap() -> Heap | None:
    """The heap of this process; None where it is not glibc's (2.33 or later), or tuned by hand."""
    if sys.platform != "linux" or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    libc = ctypes.CDLL(None)
    there = all(hasattr(libc, name) for name in ("mallopt", "mallinfo2", "malloc_trim"))
    return Heap(libc, os.environ) if there else None
