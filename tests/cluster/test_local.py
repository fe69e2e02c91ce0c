"""`dsolver cluster local`, and commands that wait for workers of a running scheduler."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import numpy as np
import psutil
import pytest
from click.testing import CliRunner
from distributed import Client

import dsolver
from dsolver.cli import main
from dsolver.cluster import local, nannies
from dsolver.cluster.local import ClusterOptions, open_client
from dsolver.errors import ClusterError, InputError

START = 60.0
PORTS = ("--port", "0", "--dashboard", ":0")


def refused(*arguments: str, status: int = 2) -> str:
    result = CliRunner().invoke(main, ["cluster", "local", *arguments])
    assert result.exit_code == status, result.output
    return result.stderr


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A cluster of two workers started from the command line, and its scheduler file."""
    folder = tmp_path_factory.mktemp("cluster")
    where = folder / "scheduler.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "dsolver", "cluster", "local", "--workers", "2", *PORTS, "--scheduler-file", str(where)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    limit = time.monotonic() + START
    while not where.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.1)
    yield process, where
    if process.poll() is None:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("own", "found"), [(None, nannies.LOST_WORKER_TIMEOUT), ("1 minute", "1 minute")])
def test_a_worker_may_take_its_time_to_come_back(own: str | None, found: str) -> None:
    """Dask's own default gives up its nanny after 15 s; what users have set stays."""
    name = "distributed.deploy.lost-worker-timeout"
    with (
        dask.config.set({name: own} if own else {}),
        local.start_local(1, "cpu", dashboard_address=":0"),
    ):
        assert dask.config.get(name) == found


def test_a_command_waits_for_workers_and_runs_there(running: tuple[subprocess.Popen[str], Path]) -> None:
    options = ClusterOptions(scheduler=str(running[1]), wait=2)
    with open_client(options) as client:
        assert client is not None
        assert len(client.nthreads()) == 2
        assert set(client.nthreads().values()) == {1}


def test_workers_that_do_not_come_are_counted(
    running: tuple[subprocess.Popen[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "WAIT_SECONDS", 1)
    with (
        pytest.raises(ClusterError, match="2 of 3 workers came"),
        open_client(ClusterOptions(scheduler=str(running[1]), wait=3)),
    ):
        pass


def test_a_signal_ends_the_cluster_and_its_file(running: tuple[subprocess.Popen[str], Path]) -> None:
    process, where = running
    with Client(scheduler_file=str(where), set_as_default=False) as client:
        workers = [int(port.rpartition(":")[2]) for port in client.nthreads()]
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "2 CPU workers" in out
    assert "Traceback" not in err
    assert not where.exists()
    for port in workers:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def listening() -> set[tuple[str, int]]:
    """Addresses at which this process takes connections."""
    found = psutil.Process().net_connections("tcp")
    return {(link.laddr.ip, link.laddr.port) for link in found if link.status == "LISTEN"}


def test_a_solve_without_a_cluster_listens_nowhere() -> None:
    before, during = listening(), []
    problem = dsolver.problems.poisson7((8, 8, 8))
    dsolver.solve(problem, np.ones(problem.grid), device="cpu", callback=lambda _: during.append(listening()))
    assert during
    assert all(found <= before for found in during)


def test_our_own_cluster_listens_on_this_machine_alone() -> None:
    before = listening()
    with local.start_local(0, "cpu", dashboard_address=local.DASHBOARD.partition(":")[0] + ":0"):
        opened = listening() - before
    assert len(opened) >= 2  # the scheduler and its dashboard
    assert {host for host, _ in opened} == {"127.0.0.1"}


def test_a_scheduler_file_that_is_missing() -> None:
    with pytest.raises(ClusterError, match="no scheduler file"), open_client(ClusterOptions(scheduler="none.json")):
        pass


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        message = refused("--workers", "1", "--port", port, "--dashboard", ":0", status=3)
    assert f"no scheduler can listen on 127.0.0.1:{port}" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gpus", "all", "--workers", "2"), "give only one of them"),
        (("--gpus", "all"), "no GPU is usable"),
        (("--gpus", "some"), "--gpus must be all or a number"),
        (("--workers", "0"), "start at least 1"),
    ],
)
def test_choices_that_cannot_be(arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.cli.cluster.count_gpus", lambda: 0)
    assert message in refused(*arguments)


def test_gpu_workers_without_dask_cuda_are_told_of_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    message = refused("--gpus", "1")
    assert "GPU workers need dask-cuda, which is not installed" in message
    assert "--port" not in message


@pytest.mark.parametrize(
    ("wait", "scheduler", "message"), [(2, None, "give --scheduler"), (0, "tcp://h:1", "at least 1")]
)
def test_waiting_needs_a_scheduler(wait: int, scheduler: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ClusterOptions(scheduler=scheduler, wait=wait)
