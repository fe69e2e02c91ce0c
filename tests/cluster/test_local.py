"""`dsolver cluster local`, and commands that wait for workers of a running scheduler."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import dask
import numpy as np
import psutil
import pytest
from click.testing import CliRunner

import dsolver
from dsolver.cli import main
from dsolver.cluster import local, nannies
from dsolver.cluster.local import ClusterOptions, open_client
from dsolver.errors import ClusterError, InputError
from tests.support.waiting import PATIENCE, eventually

PORTS = ("--port", "0", "--dashboard", ":0")


def refused(*arguments: str, status: int = 2) -> str:
    result = CliRunner().invoke(main, ["cluster", "local", *arguments])
    assert result.exit_code == status, result.output
    return result.stderr


@contextmanager
def running(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A cluster of two workers started from the command line, and its scheduler file."""
    where = folder / "scheduler.json"
    with subprocess.Popen(
        [sys.executable, "-m", "dsolver", "cluster", "local", "--workers", "2", *PORTS, "--scheduler-file", str(where)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    ) as process:
        try:
            assert process.stdout is not None
            while "2 CPU workers. Ctrl-C ends" not in (line := process.stdout.readline()):  # the file is there by then
                assert line, process.communicate()
            yield process, where
        finally:
            process.kill()


@pytest.mark.parametrize(("own", "found"), [(None, nannies.LOST_WORKER_TIMEOUT), ("1 minute", "1 minute")])
def test_a_worker_may_take_its_time_to_come_back(own: str | None, found: str) -> None:
    """Dask's own default gives up its nanny after 15 s; what users have set stays. Defaults come with an import."""
    name = "distributed.deploy.lost-worker-timeout"
    given = {name: own} if own else {}
    start = "from dsolver.cluster.local import start_local; start_local(0, 'cpu', dashboard_address=':0').close()"
    code = f"import dask; dask.config.set({given!r}); {start}; print(dask.config.get({name!r}))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == found


@pytest.mark.parametrize("own", [None, "4096"])
def test_workers_keep_what_a_set_up_frees_unless_the_user_says_otherwise(
    own: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heaps of our own workers: variables of nannies, which leave them in this process to all that begins there."""
    import_module("distributed")  # Dask's variables
    for name in nannies.HEAP:
        monkeypatch.delenv(name, raising=False)
    given = dask.config.get(nannies.ENVIRONMENT)
    threshold = "MALLOC_TRIM_THRESHOLD_"
    with (
        dask.config.set({nannies.ENVIRONMENT: given | ({threshold: own} if own else {})}),
        local.start_local(1, "cpu", dashboard_address=":0") as cluster,
        cluster.get_client() as client,
    ):
        (found,) = client.run(lambda: dict(os.environ)).values()
    assert found.items() >= (nannies.HEAP | ({threshold: own} if own else {})).items()
    assert not nannies.HEAP.keys() & os.environ.keys()
    assert dask.config.get(nannies.ENVIRONMENT) == given


def test_commands_wait_for_the_workers_of_a_cluster_that_a_signal_ends_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path) as (process, where):
        with open_client(ClusterOptions(scheduler=str(where), wait=2)) as client:
            assert client is not None
            assert set(client.nthreads().values()) == {1}
            workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
            assert len(workers) == 2
        monkeypatch.setattr(local, "WAIT_SECONDS", 1)
        with (
            pytest.raises(ClusterError, match="2 of 3 workers came"),
            open_client(ClusterOptions(scheduler=str(where), wait=3)),
        ):
            pass
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert not where.exists()
    _, left = psutil.wait_procs(workers, timeout=PATIENCE)
    assert not left


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


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "3", '"tcp://a:1"', "\x00\xff"])
def test_a_file_that_no_scheduler_has_written(text: str, tmp_path: Path) -> None:
    """Dask read it for 20 s, and a traceback followed."""
    file = tmp_path / "bad.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="has no address"), open_client(ClusterOptions(scheduler=str(file))):
        pass


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


def test_ctrl_c_while_workers_start_is_one_line() -> None:
    """A terminal sends it to workers, too: those that did not ignore it yet showed tracebacks, and Dask another one."""
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # which a shell may have ignored
    command = [sys.executable, "-c", f"{heard}; from dsolver.cli import main; main()", "solve", "--workers", "2"]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*command, "--grid", "8", "8", "8"], **pipes, start_new_session=True) as running:
        try:
            eventually(lambda: any("spawn_main" in " ".join(worker.cmdline()) for worker in started_by(running.pid)))
            os.killpg(running.pid, signal.SIGINT)
            _, said = running.communicate(timeout=PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 130
    assert said.decode().splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in said.decode()


def started_by(pid: int) -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    return found
