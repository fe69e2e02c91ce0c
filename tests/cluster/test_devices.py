"""Devices that are found, and what is said where they are missing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

from dsolver import problems
from dsolver.api import solve
from dsolver.cluster import devices, runtime, versions
from dsolver.cluster.devices import Gpu, WorkerFacts
from dsolver.errors import ClusterError, DeviceError, InputError, WorkerLostError


def gpu(bus: str) -> Gpu:
    return Gpu(name="H200", bus=bus, memory=1 << 30)


class FakeClient:
    """A cluster whose workers are what a test says."""

    asynchronous = False
    status = "running"
    direct_to_workers = None
    loop = None

    def __init__(self, workers: dict[str, Gpu | str]) -> None:
        self.workers = workers

    @property
    def scheduler(self) -> FakeClient:
        return self

    async def ncores(self) -> dict[str, int]:
        return dict.fromkeys(self.workers, 1)

    async def run(self, function: Callable[..., Any], workers: list[str], on_error: str) -> dict[str, Any]:
        assert on_error == "return"
        assert function in (devices.facts, devices.facts_with_gpu)
        return {worker: self._told_by(worker) for worker in workers}

    def _told_by(self, worker: str) -> Any:
        gpu: Any = self.workers[worker]
        return gpu if isinstance(gpu, Exception) else WorkerFacts(installed=versions.installed(), gpu=gpu, free=7)

    def sync(self, function: Callable[..., Any], *args: Any) -> Any:
        return asyncio.run(function(*args))

    def submit(self, *_: Any) -> Any:
        raise NotImplementedError


def of_cluster(workers: dict[str, Gpu | str], wanted: str) -> tuple[tuple[str, ...], str]:
    client: Any = FakeClient(workers)
    found = devices.of_cluster(client, wanted)
    assert found.free == (() if found.device == "cpu" else (7,) * len(workers))
    return found.workers, found.device


# -- this process ------------------------------------------------------------------------------------------------------


class FakeRuntime:
    CUDARuntimeError = OSError

    def __init__(self, count: int | Exception) -> None:
        self.count = count

    def getDeviceCount(self) -> int:  # noqa: N802  # CuPy's name
        if isinstance(self.count, Exception):
            raise self.count
        return self.count

    def getDevice(self) -> int:  # noqa: N802
        return 1

    def getDeviceProperties(self, number: int) -> dict[str, Any]:  # noqa: N802
        return {"name": f"GPU {number}".encode(), "totalGlobalMem": 80}

    def deviceGetPCIBusId(self, number: int) -> str:  # noqa: N802
        return f"0000:0{number}:00.0"


def pretend(monkeypatch: pytest.MonkeyPatch, count: int | Exception | None) -> None:
    """A CuPy that finds so many GPUs, or raises, or (None) is not installed."""
    fake = None if count is None else SimpleNamespace(cuda=SimpleNamespace(runtime=FakeRuntime(count)))
    monkeypatch.setitem(sys.modules, "cupy", fake)


def test_a_gpu_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 2)
    assert devices.find_gpu() == Gpu(name="GPU 1", bus="0000:01:00.0", memory=80)
    assert devices.of_process("auto") == devices.of_process("cuda") == "cuda"
    assert devices.of_process("cpu") == "cpu"


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "CuPy is not installed .* pip install"),
        (0, "the driver shows no GPU"),
        (OSError("no driver"), r"no usable GPU \(no driver\); pip install"),
    ],
)
def test_a_missing_gpu_is_explained(monkeypatch: pytest.MonkeyPatch, found: Any, reason: str) -> None:
    pretend(monkeypatch, found)
    assert devices.of_process("auto") == "cpu"
    with pytest.raises(DeviceError, match=f"'cuda' was asked for, but .*{reason}"):
        devices.of_process("cuda")


def test_a_missing_cupy_is_looked_for_once_on_each_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looked: list[str] = []

    class Finder:
        def find_spec(self, name: str, *_: Any) -> None:
            looked.append(name)

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder()])
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for _ in range(3):
        assert "CuPy is not installed (No module named 'cupy')" in str(devices.find_gpu())
    assert looked == ["cupy"]
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "other")])
    devices.find_gpu()
    assert looked == ["cupy", "cupy"]


# -- clusters ----------------------------------------------------------------------------------------------------------


def test_ranks_are_ordered_by_host_then_gpu() -> None:
    workers: dict[str, Gpu | str] = {
        "tcp://b:10": gpu("01"),
        "tcp://a:30": gpu("02"),
        "tcp://a:20": gpu("03"),
        "tcp://a:40": gpu("01"),
    }
    assert of_cluster(workers, "auto") == (("tcp://a:40", "tcp://a:30", "tcp://a:20", "tcp://b:10"), "cuda")
    assert of_cluster(workers, "cpu") == (("tcp://a:20", "tcp://a:30", "tcp://a:40", "tcp://b:10"), "cpu")


@pytest.mark.parametrize(
    ("first", "second"),
    [("tcp://a:1", "tcp://a:2"), ("inproc://a/77/1", "inproc://a/77/2"), ("tls://[::1]:1", "tls://[::1]:2")],
)
def test_fewer_gpus_than_workers_are_refused(first: str, second: str) -> None:
    workers: dict[str, Gpu | str] = {first: gpu("01"), second: gpu("01")}
    with pytest.raises(DeviceError, match=r"share one GPU .* fewer GPUs than workers; start one worker for each GPU"):
        of_cluster(workers, "cuda")
    assert of_cluster(workers, "auto")[1] == "cpu"


def test_the_same_slot_of_two_hosts_is_two_gpus() -> None:
    assert of_cluster({"tcp://a:1": gpu("01"), "tcp://b:1": gpu("01")}, "cuda")[1] == "cuda"


def test_one_worker_without_a_gpu_is_named() -> None:
    workers: dict[str, Gpu | str] = {"tcp://a:1": gpu("01"), "tcp://a:2": "the driver shows no GPU"}
    with pytest.raises(DeviceError, match="on worker tcp://a:2 the driver shows no GPU"):
        of_cluster(workers, "cuda")
    assert of_cluster(workers, "auto") == (("tcp://a:1", "tcp://a:2"), "cpu")


def test_a_cluster_without_workers_is_refused_with_what_to_do() -> None:
    with pytest.raises(ClusterError, match=r"no workers: start some, .*or call client.wait_for_workers"):
        of_cluster({}, "auto")


def test_workers_without_this_package_are_told_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise Exception("No module named 'dsolver'")  # noqa: TRY002  # what distributed raises

    monkeypatch.setattr(FakeClient, "run", fail)
    with pytest.raises(ClusterError, match="a worker cannot run dsolver: No module named 'dsolver'; install"):
        of_cluster({"tcp://a:1": "no GPU"}, "auto")


@pytest.mark.parametrize("error", [OSError("gone"), TimeoutError("gone")])
def test_a_cluster_that_does_not_answer_is_a_cluster_error(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(FakeClient, "run", fail)
    with pytest.raises(ClusterError, match="does not answer: gone"):
        of_cluster({"tcp://a:1": "none"}, "auto")


def test_a_worker_that_dies_while_it_is_asked_is_named() -> None:
    gone: Any = OSError("Stream is closed")  # what the scheduler returns of its connection to the worker
    with pytest.raises(WorkerLostError, match="worker tcp://b:1 left the cluster before it had answered"):
        of_cluster({"tcp://a:1": "no GPU", "tcp://b:1": gone}, "auto")


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        yield cluster


def test_clients_that_cannot_work_are_refused(cluster: LocalCluster) -> None:
    problem, b = problems.hpcg((8, 8, 8)), np.ones((8, 8, 8))
    as_client: Any = cluster
    with pytest.raises(InputError, match=r"must be a dask.distributed Client, as of Client\(address_or_cluster\)"):
        solve(problem, b, client=as_client)
    with Client(cluster) as client:
        assert solve(problem, b, client=client).converged
        with pytest.raises(DeviceError, match="on worker inproc://"):
            _without_gpus(client, problem, b)
    with pytest.raises(ClusterError, match="the client is closed: connect a new one"):
        solve(problem, b, client=client)
    lonely = Client(cluster)
    cluster.close()
    with pytest.raises(ClusterError, match=r"the client is|does not answer|no workers"):
        solve(problem, b, client=lonely)
    lonely.close()


def _without_gpus(client: Client, problem: problems.Problem, b: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "find_gpu", lambda: "the driver shows no GPU")
        solve(problem, b, client=client, device="cuda")


# -- the choice --------------------------------------------------------------------------------------------------------


def test_the_runtime_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, None)
    chosen = runtime.connect()
    assert (chosen.engine, chosen.device, chosen.kernels, chosen.workers) == ("resident", "cpu", "cpu", ())
    assert chosen.describe(8) == "resident/cpu"
    assert chosen.chunks_for((16, 16, 16), 8) == (1, 1, 1)
    assert runtime.connect(engine="reference", kernels="numpy").describe(1) == "reference/numpy"


def test_the_reference_engine_uses_no_cluster() -> None:
    client: Any = FakeClient({})
    assert runtime.connect(client, engine="reference", device="cpu").client is None


def test_chunks_are_made_for_each_worker() -> None:
    client: Any = FakeClient({f"tcp://a:{port}": "no GPU" for port in range(4)})
    chosen = runtime.connect(client)
    assert chosen.describe(8) == "resident/cpu with 4 workers"
    assert chosen.describe(2) == "resident/cpu with 2 of 4 workers"
    assert chosen.describe(8, "sockets") == "resident/cpu with 4 workers, sockets"
    assert replace(chosen, workers=("tcp://a:0",)).describe(8) == "resident/cpu with 1 worker"
    assert chosen.chunks_for((16, 16, 16), 8) == (1, 2, 2)


def test_an_asynchronous_client_is_refused() -> None:
    client: Any = FakeClient({"tcp://a:1": "no GPU"})
    client.asynchronous = True
    with pytest.raises(InputError, match="the client is asynchronous"):
        runtime.connect(client)
