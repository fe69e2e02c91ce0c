"""Faults on a real GPU: memory that runs out although it was predicted to suffice, and Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dsolver
from dsolver.errors import DeviceMemoryError
from dsolver.monitor.state import State
from tests.engines.test_gpu import gpu_cluster

pytestmark = pytest.mark.gpu(alone=True)

BOUND = 30.0
"""Seconds within which a fault has to be dealt with."""
GRID = (256, 256, 256)
LEFT = 300 << 20
"""Bytes that are left free: two of the system's vectors, of which it needs more."""
REST = 16 << 20
"""Bytes that are left free during a solve: an eighth of a vector."""
PAGE = 2 << 20
SMALL = 8 << 20
"""Bytes that solves may leave in CuPy's pool, tables that are kept. A vector of the system has sixteen times more."""
_HELD: list[int] = []


def hog(leave: int) -> None:
    """Take all memory of this process's GPU but so much, past CuPy's pool."""
    import cupy

    runtime = cupy.cuda.runtime
    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
    size = 1 << 40
    while True:  # what is told to be free cannot always be had in one piece
        size = min(size, (runtime.memGetInfo()[0] - leave) // PAGE * PAGE)
        if size < PAGE:
            return
        try:
            _HELD.append(runtime.malloc(size))
        except runtime.CUDARuntimeError:
            size //= 2


def release() -> None:
    import cupy

    while _HELD:
        cupy.cuda.runtime.free(_HELD.pop())


def pooled() -> int:
    """Bytes that CuPy keeps."""
    import cupy

    return int(cupy.get_default_memory_pool().total_bytes())


def used() -> int:
    """Bytes of CuPy's pool in use, once unreachable arrays are collected."""
    import cupy

    gc.collect()
    return int(cupy.get_default_memory_pool().used_bytes())


def await_release(client: Any) -> None:
    """Wait until nothing of solves before is left: Dask's workers let go of a block when its message has come.

    What goes only after a hog has eaten would be memory that the solve finds.
    """
    until = time.monotonic() + BOUND
    while max(client.run(used).values()) > SMALL:
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with gpu_cluster(1) as made:
        yield made


@pytest.fixture
def unpredicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prediction sees more memory than there is."""
    monkeypatch.setattr("dsolver.cluster.devices.free_memory_of", lambda *_, **__: (1 << 50,))


def solve(client: Any, grid: tuple[int, int, int] = GRID, **options: Any) -> dsolver.Solution:
    problem = dsolver.problems.poisson7(grid)
    return dsolver.solve(problem, np.ones(grid), client=client, device="cuda", M=None, rtol=1e-6, **options)


def assert_usable(client: Any, engine: str = "resident") -> None:
    assert solve(client, (32, 32, 32), engine=engine).converged


@pytest.mark.usefixtures("unpredicted")
@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_memory_that_runs_out_during_set_up_is_one_error(client: Any, engine: str) -> None:
    client.run(hog, LEFT)
    try:
        began = time.monotonic()
        with pytest.raises(
            DeviceMemoryError, match=r"the memory of the GPU has run out: .*Free what others hold"
        ) as info:
            solve(client, engine=engine)
        assert time.monotonic() - began < BOUND
        assert "\n" not in str(info.value)
        if engine == "resident":
            assert "rank 0 on worker" in str(info.value)
            assert max(client.run(used).values()) < SMALL
    finally:
        client.run(release)
    assert_usable(client, engine)


def test_memory_that_runs_out_during_a_solve_is_one_error(client: Any) -> None:
    """A right prediction, and another process that takes what was left."""
    when: list[float] = []
    await_release(client)

    def callback(state: State) -> bool:
        if state.iteration == 3:
            when.append(time.monotonic())
            client.run(hog, REST)
        return state.iteration == 5  # what comes then needs memory for x in the user's order

    try:
        with pytest.raises(DeviceMemoryError, match=r"rank 0 on worker .*the memory of the GPU has run out"):
            solve(client, callback=callback)
        assert time.monotonic() - when[0] < BOUND
        assert max(client.run(used).values()) < SMALL
    finally:
        client.run(release)
    assert_usable(client)


@pytest.mark.usefixtures("unpredicted")
def test_memory_that_runs_out_in_this_process_is_one_error() -> None:
    hog(LEFT)
    before = pooled()
    try:
        with pytest.raises(DeviceMemoryError, match="the memory of the GPU has run out"):
            solve(None)
        assert pooled() < before + SMALL
    finally:
        release()
    assert_usable(None)


@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_ctrl_c_ends_a_solve_on_a_gpu(client: Any, engine: str) -> None:
    when: list[float] = []

    def interrupt() -> None:
        when.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    def callback(state: State) -> None:
        if state.iteration == 2:
            threading.Timer(0.3, interrupt).start()
        time.sleep(0.05)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            solve(client, engine=engine, callback=callback)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - when[0] < BOUND
    assert_usable(client, engine)
