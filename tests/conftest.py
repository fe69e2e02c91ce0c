"""The suite's options and markers: `--slow`, `--emulated SEED`, `gpu(count, alone)`."""

from __future__ import annotations

import functools
import gc
import importlib
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.turns import turn


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked `slow`")
    parser.addoption(
        "--emulated",
        type=int,
        metavar="SEED",
        help="run tests marked `gpu` on the CPU, whose threads go on in ascending (0), descending (1) or another order",
    )


UNHEARD: Final = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
}
"""Measurements of schedulers and workers by themselves, hundreds a second each, at which no test looks."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ |= UNHEARD
    if (seed := config.getoption("--emulated")) is not None:
        from tests.emulated import compiler

        compiler.seed = seed
        sys.path.insert(0, str(compiler.HERE))  # its cupy comes first
        recorder: Any = importlib.import_module("dsolver.engines.eager.cuda_graph")
        recorder.CapturedGraph = recorder.cupy.cuda.Graph  # not the driver's
        loader: Any = importlib.import_module("dsolver.kernels.cuda.launch.loader")
        loader.program_of = lambda file, _, dtype: loader.Program(
            file, dtype, ()
        )  # whole sources: g++ is slow to begin
        watch: Any = importlib.import_module("dsolver.monitor.watch")
        watch.MEASURE_AFTER = math.inf  # of time the emulator knows nothing; a solve that lasts would be measured


LONG: Final = ("test_examples.py", "test_readme.py")
"""Files whose tests start programs as users do, each for many seconds. They share no fixtures."""
EARLY: Final = 0.75
"""The part of each process's share of the tests by which its long ones have begun."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slow = [] if config.getoption("--slow") else [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
    # Spread among the others: together they would want more than there is. At the end of a share of the list they would
    # be left alone, each on one of many processes.
    kept = [item for item in items if item not in slow]
    long = [item for item in kept if item.path.name in LONG]
    others = [item for item in kept if item not in long]
    shares = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    size = len(others) / shares

    def place(n: int) -> float:
        share, within = divmod(n * shares / len(long), 1.0)
        return (share + EARLY * within) * size

    places = [*enumerate(others), *((place(n), item) for n, item in enumerate(long))]
    items[:] = [item for _, item in sorted(places, key=lambda place: place[0])]


def pytest_collection_finish() -> None:
    """Thousands of tests and the modules that they import are no garbage: the collector need not look at them again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("gpu")
    if marker is None:
        return
    wanted = marker.kwargs.get("count", marker.args[0] if marker.args else 1)
    found, reason = cuda_devices()
    if found < wanted:
        pytest.skip(f"needs {wanted} CUDA GPU(s): {reason}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test that takes all memory of a GPU waits for those beside it, and they for it."""
    marker = item.get_closest_marker("gpu")
    if marker is None or item.config.getoption("--emulated") is not None or not cuda_devices()[0]:
        return (yield)
    with turn("gpus", alone=marker.kwargs.get("alone", False)):
        return (yield)


@functools.cache
def cuda_devices() -> tuple[int, str]:
    """Number of GPUs that this process may use, and a sentence that says so."""
    try:
        runtime = importlib.import_module("cupy").cuda.runtime
    except ImportError as error:
        return 0, f"CuPy cannot be imported ({error})"
    try:
        count = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        return 0, f"CUDA finds no device ({error})"
    return count, f"CUDA finds {count}"


@pytest.fixture(scope="session")
def gpu_count() -> int:
    return cuda_devices()[0]


@pytest.fixture(scope="session", autouse=True)
def clients_are_named() -> Iterator[None]:
    """Tests name the cluster that they mean: the client that is open may be that of another one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dsolver.cluster.default_client.open_client", lambda: None)
        yield


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout that this suite belongs to."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def checkout_for_subprocesses(repository: Path) -> Iterator[None]:
    """Let the workers and commands that tests start import the same tree as the tests, installed or not."""
    with pytest.MonkeyPatch.context() as patch:
        inherited = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(repository), inherited])))
        yield


@pytest.fixture(autouse=True)
def _no_scheduler_of_a_closed_client() -> Iterator[None]:
    """Clients that were not closed in the opposite order leave Dask's default scheduler set to one that has ended."""
    yield
    distributed, dask = sys.modules.get("distributed"), sys.modules.get("dask")
    if distributed is None or dask is None:
        return
    try:
        distributed.default_client()
    except ValueError:
        for name in ("scheduler", "shuffle"):
            dask.config.config.pop(name, None)
