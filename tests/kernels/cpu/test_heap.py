"""The heap around a set-up: its settings, the pages that it saves, and what it gives back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsolver
from dsolver.kernels.cpu import backend
from dsolver.kernels.cpu.heap import KEPT, LARGEST, MMAP_MAX, MMAP_THRESHOLD, STATED, TRIM_THRESHOLD, Heap, heap

DASK = {"MALLOC_TRIM_THRESHOLD_": "65536"}
"""Environment of workers that Dask's nannies begin."""
ARRAYS = """
import resource
from pathlib import Path

import numpy as np

from dsolver.kernels.cpu.heap import STATM, heap


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def resident():
    return int(STATM.read_text().split()[1])


def work():
    for _ in range(10):
        arrays = [np.ones(80_000) for _ in range(20)]  # 12.8 MB, below what NumPy asks for huge pages


work()
began = resident()
outside = -faults()
work()
outside += faults()
with heap().reusing():
    work()
    inside = -faults()
    work()
    inside += faults()
    arrays = [np.ones(80_000) for _ in range(100)]
    del arrays[::2]  # which leaves holes
closed = resident() - began
del arrays
heap().give_back()
print(outside, inside, closed, resident() - began)
"""


class Libc:
    """Functions of glibc that note how they are called; free: bytes that are free in the heap."""

    def __init__(self, free: int = 0) -> None:
        self.calls: list[Any] = []
        self.free = free

    def mallopt(self, setting: int, value: int) -> int:
        self.calls.append((setting, value))
        return 1

    def malloc_trim(self, pad: int) -> int:
        self.calls.append(pad)
        return 1

    @property
    def mallinfo2(self) -> Any:
        def usage() -> Any:
            return type("Usage", (), {"fordblks": self.free, "uordblks": 0, "hblkhd": 0})()

        return usage


ENTERED = [(MMAP_MAX, 0), (TRIM_THRESHOLD, -1)]


@pytest.mark.parametrize(
    ("environment", "left"),
    [
        ({}, {TRIM_THRESHOLD: KEPT, MMAP_THRESHOLD: LARGEST, MMAP_MAX: STATED[MMAP_MAX]}),
        (DASK, {TRIM_THRESHOLD: 65536, MMAP_MAX: STATED[MMAP_MAX]}),
        ({"MALLOC_MMAP_MAX_": "7"}, {TRIM_THRESHOLD: STATED[TRIM_THRESHOLD], MMAP_MAX: 7}),
        ({"MALLOC_TRIM_THRESHOLD_": str(1 << 40)}, {TRIM_THRESHOLD: 2**31 - 1, MMAP_MAX: STATED[MMAP_MAX]}),
    ],
)
def test_settings_are_put_back_by_the_last_set_up(environment: dict[str, str], left: dict[int, int]) -> None:
    libc = Libc()
    made = Heap(libc, environment)
    with made.reusing():
        with made.reusing():
            pass
        assert libc.calls == ENTERED
    assert libc.calls[:2] == ENTERED
    assert dict(libc.calls[2:]) == left


def test_settings_are_put_back_after_an_error() -> None:
    libc = Libc()
    with pytest.raises(ValueError, match="no levels"), Heap(libc, DASK).reusing():
        raise ValueError("no levels")
    assert libc.calls[-2:] == [(TRIM_THRESHOLD, 65536), (MMAP_MAX, STATED[MMAP_MAX])]


def test_little_is_kept_and_much_is_given_back() -> None:
    libc = Libc(free=1 << 20)
    Heap(libc, {}).give_back()
    assert libc.calls == []
    Heap(libc, DASK).give_back()
    assert libc.calls == [0]


def test_nothing_is_given_back_under_a_set_up() -> None:
    libc = Libc(free=1 << 20)
    made = Heap(libc, DASK)
    with made.reusing():
        made.give_back()
        assert libc.calls == ENTERED


def test_a_solver_takes_and_leaves_the_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    libc = Libc(free=1 << 20)
    made = Heap(libc, DASK)
    monkeypatch.setattr(backend, "heap", lambda: made)
    with dsolver.Solver(dsolver.problems.diffusion((8, 8), 1.0), device="cpu") as solver:
        assert libc.calls[:2] == ENTERED
        assert libc.calls[-1] == 0
        libc.calls.clear()
        solver.solve(np.ones((8, 8)))
        assert libc.calls == []  # iterations make nothing
    assert libc.calls == [0]


@pytest.mark.skipif(heap() is None, reason="not glibc's heap")
def test_pages_are_used_again_and_given_back() -> None:
    found = subprocess.run(
        [sys.executable, "-c", ARRAYS],
        env={**os.environ, **DASK},
        cwd=Path(dsolver.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    outside, inside, closed, at_end = map(int, found.stdout.split())
    assert outside > 20_000  # as on a worker: ten times 12.8 MB
    assert inside < outside // 100
    assert closed < 50 * 640_000 // 4096 + 500  # the holes are not resident
    assert at_end < 500


def test_a_heap_that_is_tuned_by_hand_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    assert heap.__wrapped__() is None
