"""CuPy's errors where memory has run out, and what becomes of them; on a real GPU in test_gpu_faults.py."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from distributed import Client

from dsolver.cluster.runtime import connect
from dsolver.engines import out_of_memory
from dsolver.engines.out_of_memory import if_memory_suffices, is_out_of_memory, out_of_memory_error
from dsolver.errors import DeviceMemoryError, RankError
from dsolver.grid.partition import Partition
from tests.support.clusters import cluster

PARTITION = Partition((8, 8, 8), (2, 1, 1))


class OutOfMemoryError(Exception):
    """As CuPy's looks."""


class CUDARuntimeError(Exception):
    """As CuPy's looks."""

    def __init__(self, status: int) -> None:
        super().__init__("cudaErrorMemoryAllocation: out of memory")
        self.status = status


class CUBLASError(RuntimeError):
    """As CuPy's looks."""


CUBLASError.__module__ = "cupy_backends.cuda.libs.cublas"
OutOfMemoryError.__module__ = "cupy.cuda.memory"
CUDARuntimeError.__module__ = "cupy_backends.cuda.api.runtime"


class Vector:
    """Something large."""


class Hungry:
    """A program that asks for too much of a GPU."""

    error: type[Exception] = OutOfMemoryError

    def __init__(self, _: Any, when: str) -> None:
        self.vector = Vector()
        if when == "set-up":
            self.take()

    def take(self) -> None:
        raise self.error("Out of memory allocating 8,589,934,592 bytes (allocated so far: 12 bytes).")


class HungryHere(Hungry):
    """A program that asks for too much of the machine."""

    error = MemoryError


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OutOfMemoryError(), True),
        (CUDARuntimeError(2), True),
        (CUDARuntimeError(700), False),
        (CUBLASError("CUBLAS_STATUS_ALLOC_FAILED"), True),
        (CUBLASError("CUBLAS_STATUS_EXECUTION_FAILED"), False),
        (MemoryError(), True),
        (ValueError(), False),
    ],
)
def test_what_says_that_memory_has_run_out(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) == expected


def test_memory_is_given_back_once_nothing_holds_what_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Vector]] = []
    held: list[Vector | None] = []
    monkeypatch.setattr(out_of_memory, "free_unused", lambda: held.append(made[0]()))

    def make() -> None:
        vector = Vector()
        made.append(weakref.ref(vector))
        raise OutOfMemoryError

    def fail() -> None:
        raise ValueError

    assert if_memory_suffices(make) is None
    assert held == [None]
    assert if_memory_suffices(lambda: 3) == 3
    with pytest.raises(ValueError):  # noqa: PT011  # it says nothing
        if_memory_suffices(fail)


def test_nothing_is_kept_by_the_error() -> None:
    def fail() -> None:
        vector = Vector()
        seen.append(weakref.ref(vector))
        raise OutOfMemoryError

    seen: list[weakref.ref[Vector]] = []
    with pytest.raises(OutOfMemoryError) as info:
        fail()
    assert seen[0]() is not None
    made = out_of_memory_error(info.value, "rank 3: ")
    gc.collect()
    assert seen[0]() is None
    assert str(made).startswith("rank 3: the memory of the GPU has run out")


@pytest.mark.parametrize("when", ["set-up", "later"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("program", "where"), [(Hungry, "GPU"), (HungryHere, "machine")])
def test_a_shortage_is_one_error_that_ends_the_program(program: Any, where: str, when: str, workers: int) -> None:
    if workers == 0:
        check(None, program, when, f"the memory of the {where}")
        return
    with cluster(workers) as client:
        check(client, program, when, rf"rank \d on worker .*: the memory of the {where}")


def check(client: Client | None, program: Any, when: str, who: str) -> None:
    match = f"^{who} has run out: Out of memory allocating 8,589,934,592 bytes .*Free what others hold"
    runtime = connect(client, device="cpu")
    if when == "set-up":
        with pytest.raises(DeviceMemoryError, match=match):
            runtime.launch(program, when, PARTITION).settle()
        return
    job = runtime.launch(program, when, PARTITION)
    with pytest.raises(DeviceMemoryError, match=match):
        job.call(Hungry.take)
    with pytest.raises(RankError, match="this program has ended"):
        job.call(Hungry.take)
    job.close()
