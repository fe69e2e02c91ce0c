"""Submitted commands, on a cluster that speaks TLS with certificates of its own authority."""

from __future__ import annotations

import io
import json
import ssl
import tarfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import dask.config
import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.security import Security

import dsolver
from dsolver import submission
from dsolver.engines import ranks
from dsolver.errors import ClusterError
from tests.authority import certificates
from tests.clusters import forked
from tests.commands import call, good

PATIENCE = 90.0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The scheduler of a cluster of two workers; this process has the certificate in its settings."""
    folder = tmp_path_factory.mktemp("tls")
    settings = {f"distributed.comm.tls.{key}": path for key, path in certificates(folder).items()}
    with (
        dask.config.set(settings),
        forked(),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            protocol="tls",
            security=Security(require_encryption=True),
            dashboard_address=None,
            local_directory=str(folder),
        ) as cluster,
    ):
        yield cluster.scheduler_address


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wait_for(address: str, name: str, *states: str) -> submission.Job:
    limit = time.monotonic() + PATIENCE
    with Client(address, set_as_default=False) as client:
        while (job := submission.find(client, name)).state not in states:
            assert time.monotonic() < limit, job
            time.sleep(0.2)
    return job


def links() -> list[bool]:
    """Of each rank here, whether everything that it says to others is encrypted."""
    return [
        all(isinstance(side, ssl.SSLSocket) and side.cipher() for side in (link.out, link.into))
        for rank in ranks._RANKS.values()
        for link in rank.mesh._links.values()
    ]


def test_a_solve_on_a_cluster_with_tls(address: str) -> None:
    assert address.startswith("tls://")
    problem = dsolver.problems.hpcg((32, 16, 16), chunks=(2, 1, 1))
    b = np.random.default_rng(0).random(problem.grid)
    encrypted: list[bool] = []

    def look(_: dsolver.State) -> None:
        encrypted.extend(all_encrypted for found in client.run(links).values() for all_encrypted in found)

    with Client(address, set_as_default=False) as client:
        there = dsolver.solve(problem, b, client=client, M=None, maxiter=5, callback=look)
    assert len(encrypted) == 2 * 5
    assert all(encrypted)
    assert there.residuals == dsolver.solve(problem, b, M=None, maxiter=5, engine="reference").residuals


@pytest.mark.timeout(240)
def test_a_submitted_command_runs_without_its_client_and_its_files_come_back(address: str, folder: Path) -> None:
    run = ("hpcg", "--grid", "32", "16", "16", "--chunks", "2", "1", "1", "--iterations", "5", "--json", "out.json")
    name = good("submit", "--scheduler", address, "--", *run).strip()
    job = wait_for(address, name, "finished", "failed")
    assert job.code == 0, good("logs", "--scheduler", address, name)
    assert job.worker is not None
    assert job.worker.startswith("tls://")
    assert "scaled residual" in good("logs", "--scheduler", address, name).lower()
    lines = good("status", "--scheduler", address).splitlines()
    assert any(line.startswith(name) and " ".join(run) in line for line in lines), "a line a job, however narrow"
    assert "finished" in good("status", "--scheduler", address, name)

    good("fetch", "--scheduler", address, name)
    result = json.loads((folder / name / "out.json").read_text())
    assert result["chunks"] == [2, 1, 1]
    good("hpcg", *run[1:-1], "here.json")
    assert result["residuals"] == json.loads((folder / "here.json").read_text())["residuals"]
    again = call("fetch", "--scheduler", address, name)
    assert again.exit_code == 2
    assert "is not empty" in again.stderr
    late = call("cancel", "--scheduler", address, name)
    assert "nothing to cancel" in late.stderr


@pytest.mark.timeout(240)
@pytest.mark.parametrize("old", [False, True])
def test_files_of_a_job_stay_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, old: bool) -> None:
    """Also where Python's own tarfile does not see to it: before 3.11.4."""
    if old:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    elif not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python has no filters for archives")
    packed = {}
    for name in ("in/side.txt", "../outside.txt"):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"text"))
        packed[name] = io.BytesIO(stream.getvalue())
    with tarfile.open(fileobj=packed["in/side.txt"]) as archive:
        submission._extract(archive, tmp_path / "job")
    assert (tmp_path / "job" / "in" / "side.txt").read_text() == "text"
    with tarfile.open(fileobj=packed["../outside.txt"]) as archive, pytest.raises((ClusterError, tarfile.TarError)):
        submission._extract(archive, tmp_path / "job")
    assert not (tmp_path / "outside.txt").exists()


def test_a_cancelled_job_leaves_no_process_and_no_rank(address: str) -> None:
    long = ("hpcg", "--grid", "32", "16", "16", "--chunks", "2", "1", "1", "--time", "600")
    name = good("submit", "--scheduler", address, "--", *long).strip()
    wait_for(address, name, "running")
    unfinished = call("fetch", "--scheduler", address, name)
    assert unfinished.exit_code == 2
    assert "is running" in unfinished.stderr
    good("cancel", "--scheduler", address, name)
    job = wait_for(address, name, "cancelled")
    assert job.code not in (0, None)
    assert job.ended is not None
    assert job.started is not None
    assert job.ended - job.started < 60
    with Client(address, set_as_default=False) as client:
        solution = dsolver.solve(
            dsolver.problems.hpcg((32, 16, 16)), np.ones((32, 16, 16)), client=client, M=None, maxiter=2
        )
    assert solution.iterations == 2


def test_a_failing_job_says_why(address: str) -> None:
    name = good(
        "submit", "--scheduler", address, "--", "solve", "--grid", "16", "16", "16", "--rhs", "none.npy"
    ).strip()
    job = wait_for(address, name, "finished", "failed")
    assert (job.state, job.code) == ("failed", 2)
    assert "there is no such file" in good("logs", "--scheduler", address, name)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("info",), "cannot be submitted"),
        (("hpcg", "--grid", "16", "16"), "--grid"),
        (("hpcg", "--workers", "2"), "leave out --workers"),
        (("hpcg", "--scheduler", "tcp://h:1"), "leave out --scheduler"),
    ],
)
def test_what_cannot_run_is_refused_before_it_is_sent(command: tuple[str, ...], message: str) -> None:
    result = call("submit", "--scheduler", "tcp://127.0.0.1:1", "--", *command)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_scheduler_that_does_not_answer_is_one_line(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(address, set_as_default=False) as client:
        assert submission.jobs(client) is not None
        monkeypatch.setattr(submission, "ANSWER", 0.5)
        client.run_on_scheduler(time.sleep, 0.0)
        hung = threading.Thread(target=client.run_on_scheduler, args=(time.sleep, 3.0))
        hung.start()
        asked = time.monotonic()
        for question in (submission.jobs, partial(submission.submit, command=["info"])):
            with pytest.raises(ClusterError, match="the scheduler does not answer any more"):
                question(client)
        assert time.monotonic() - asked < 2.5
        hung.join()


def test_an_unknown_job(address: str) -> None:
    result = call("status", "--scheduler", address, "nobody")
    assert result.exit_code == 2
    assert "knows no job nobody" in result.stderr


def test_a_job_whose_record_is_still_being_written_has_not_ended(address: str) -> None:
    """Its end is there, the exit status is not: who looks just now must not be told that it has failed."""
    name = good("submit", "--scheduler", address, "--", "solve", "--grid", "8", "8", "8").strip()
    assert wait_for(address, name, "finished", "failed").state == "finished"
    with Client(address, set_as_default=False) as client:
        client.set_metadata([submission.ROOT, name, "code"], None)
        assert submission.find(client, name).state not in ("finished", "failed", "cancelled")
        client.set_metadata([submission.ROOT, name, "code"], 0)
        assert submission.find(client, name).state == "finished"
