"""Submitted commands, on a cluster that speaks TLS with certificates of its own authority."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import dask.config
import numpy as np
import psutil
import pytest
from distributed import Client, Event, LocalCluster, Worker
from distributed.comm.core import CommClosedError
from distributed.security import Security

import dsolver
from dsolver.cli.jobs import sent
from dsolver.cluster import jobs
from dsolver.cluster.jobs import client as jobs_client
from dsolver.cluster.jobs import files, supervisor, task
from dsolver.cluster.local import start_local
from dsolver.engines.spmd import worker
from dsolver.errors import ClusterError
from dsolver.folders import opened
from dsolver.monitor.job import JOB, ROOT
from tests.support.certificates import certificates
from tests.support.clusters import breakable, forked, workers_without_nanny
from tests.support.commands import call, good, refused
from tests.support.waiting import PATIENCE, eventually, gone


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of two workers, whose scheduler is a thread here; this process has the certificate in its settings."""
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
            memory_limit=None,
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def address(encrypted: LocalCluster) -> str:
    """The scheduler of that cluster."""
    return encrypted.scheduler_address


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wait_for(address: str, name: str, *states: str) -> jobs.Job:
    with Client(address, set_as_default=False) as client:

        def there() -> jobs.Job | None:
            job = jobs.find(client, name)
            return job if job.state in states else None

        return eventually(there, pause=0.2)


def links() -> list[bool]:
    """A flag for each rank here: whether everything that it says to others is encrypted."""
    return [
        all(isinstance(side, ssl.SSLSocket) and side.cipher() for side in (link.out, link.into))
        for rank in worker._RANKS.values()
        for link in rank.connections._connections.values()
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
    assert "done: iteration 5, residual" in good("status", "--scheduler", address, name)

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


SCRIPT = """
import sys
import numpy
from distributed import Client
import dsolver
from model import problem

b = numpy.load(sys.argv[1])
with Client() as client:
    solution = dsolver.solve(problem(b.shape), b, client=client)
numpy.save(sys.argv[2], solution.x)
with open("output.log", "w") as file:
    file.write("mine")
print(solution.engine)
"""
MODEL = "from dsolver.problems import poisson5\n\ndef problem(shape):\n    return poisson5(shape, chunks=(2, 1))\n"


def test_a_script_is_a_client_of_the_cluster_and_its_files_travel(address: str) -> None:
    b = np.random.default_rng(1).standard_normal((16, 12))
    Path("in").mkdir()
    np.save("in/b.npy", b)
    Path("script.py").write_text(SCRIPT, encoding="utf-8")
    Path("model.py").write_text(MODEL, encoding="utf-8")
    run = ("python", "script.py", "in/b.npy", "x.npy", "[/x]")
    name = good("submit", "--scheduler", address, "--send", "model.py", "--", *run).strip()
    job = wait_for(address, name, "finished", "failed")
    log = good("logs", "--scheduler", address, name)
    assert job.code == 0, log
    assert "2 workers" in log
    assert " ".join(run) in good("status", "--scheduler", address), "as it is: square brackets are no markup"
    good("fetch", "--scheduler", address, name, "-o", "results")
    expected = dsolver.solve(dsolver.problems.poisson5((16, 12), chunks=(2, 1)), b).x
    assert np.array_equal(np.load("results/x.npy"), expected)
    assert Path("results/output.log").read_text(encoding="utf-8") == "mine"
    assert Path("results/dsolver-output.log").read_text(encoding="utf-8") == log


HOLDING = """
import json, os, pathlib, time
import numpy
from distributed import Client
import dsolver

first = not pathlib.Path("saves").exists()
if first:
    pathlib.Path("pid").write_text(str(os.getpid()))

def hold(state):
    if first and state.iteration >= 3:
        print("holding", flush=True)
        time.sleep(600)

with Client() as client:
    problem, store = dsolver.problems.poisson5((32, 32), chunks=(2, 1)), dsolver.Checkpoint("saves", every=0)
    b = numpy.ones((32, 32))
    solution = dsolver.solve(problem, b, client=client, checkpoint=store, resume="saves", callback=hold)
pathlib.Path("result.json").write_text(json.dumps([solution.converged, solution.residuals]))
"""


def test_a_job_whose_worker_dies_goes_on_from_its_saves_beside_another_one(folder: Path) -> None:
    pytest.importorskip("zarr")
    Path("script.py").write_text(HOLDING, encoding="utf-8")
    with breakable(2) as client:
        scheduler: Any = client.scheduler
        address = scheduler.address
        name = good("submit", "--scheduler", address, "--", "python", "script.py").strip()
        eventually(lambda: "holding" in jobs.log_of(client, name), pause=0.2)
        worker = jobs.find(client, name).worker
        assert worker is not None
        (pid,) = client.run(read_pid, name, workers=[worker]).values()
        with suppress(CommClosedError):
            client.run(os.kill, client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL, workers=[worker])
        assert wait_for(address, name, "finished", "failed").code == 0, jobs.log_of(client, name)
        assert "begun 2 times, converged: iteration" in good("status", "--scheduler", address, name)
        good("fetch", "--scheduler", address, name)
        (holder,) = client.who_has([client.get_dataset(jobs_client.key_of(name))])[jobs_client.key_of(name)]
        with suppress(CommClosedError):
            client.run(os.kill, client.run(os.getpid, workers=[holder])[holder], signal.SIGKILL, workers=[holder])
        lost = refused("fetch", "--scheduler", address, name, "-o", "again", status=3)
        assert "are gone, with the worker that had them" in lost
        assert jobs.find(client, name).begun == 2, "what has ended is not run again"
    converged, residuals = json.loads((folder / name / "result.json").read_text())
    assert converged
    assert residuals[0] < 0.1 * 32.0, "of the second iterate, not of zero"
    # The supervisor of the worker that was killed ends it; it has seconds to end by itself, while the job begins anew.
    assert gone(lambda: running(pid))


def running(pid: int) -> bool:
    """Whether a process has not ended; the system may keep the record of one that no parent has waited for."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def read_pid(name: str, dask_worker: Worker) -> int:
    """The first process of the job beside a worker."""
    return int((Path(dask_worker.local_directory).parent / ROOT / name / "pid").read_text())


def test_a_solve_in_a_job_prints_its_iterations(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(JOB, "mine")
    monkeypatch.setattr("dsolver.monitor.job.PRINT_EVERY", 0.0)
    dsolver.solve(dsolver.problems.poisson5((16, 16)), np.ones((16, 16)))
    assert re.search(r"^iteration \d+, residual \d\.\de-\d+ > \d\.\de-\d+$", capfd.readouterr().err, re.MULTILINE)


def test_files_that_travel_with_a_command(folder: Path) -> None:
    Path("in").mkdir()
    for name in ("script.py", "b.npy", "x.npy", "in/k.npy", "in/warm.npy"):
        Path(name).touch()
    Path("in/case.toml").write_text("kappa = [1, 'k.npy']\n[bc]\nx = 'robin:1:warm.npy'", encoding="utf-8")
    named = ("solve", "--problem", "in/case.toml", "--x0=b.npy", "--out", "x.npy", "--rhs", str(folder / "b.npy"))
    assert [str(path) for path in sent((), named)] == ["in/case.toml", "b.npy", "in/k.npy", "in/warm.npy"]
    assert sent((), ("python", "-c", "print(1); " * 100)) == []
    assert sent((Path("b.npy"),), ("python", "script.py")) == [Path("b.npy"), Path("script.py")]
    assert "--send ../b.npy: name a file of this folder" in refused(
        "submit", "--scheduler", "tcp://127.0.0.1:1", "--send", "../b.npy", "--", "python", "script.py"
    )


def heard(address: str, ca: str, certificate: str, key: str) -> bytes:
    """The scheduler's first words to a caller with a certificate, or without one ("")."""
    host, port = address.removeprefix("tls://").split(":")
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = False
    if certificate:
        context.load_cert_chain(certificate, key)
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as plain, context.wrap_socket(plain) as link:
        try:
            return link.recv(64)
        except (ssl.SSLError, ConnectionError):
            return b""


def test_only_who_has_a_certificate_of_the_authority_is_heard_by_the_scheduler(address: str, tmp_path: Path) -> None:
    mine = {key: dask.config.get(f"distributed.comm.tls.{key}") for key in ("ca-file", "client.cert", "client.key")}
    others = certificates(tmp_path)
    assert heard(address, *mine.values())
    assert not heard(address, mine["ca-file"], "", "")
    assert not heard(address, mine["ca-file"], others["client.cert"], others["client.key"])


def test_a_job_s_folder_is_its_user_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir(mode=0o777)
    for _ in range(2):
        with files.private(folder):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ClusterError, match="belongs to another user or is no folder"), files.private(tmp_path / "link"):
        pass
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.raises(ClusterError, match=r"belongs to another user.*--local-directory"), files.private(folder):
        pass


def test_a_folder_that_takes_the_place_of_a_job_s_is_not_used(tmp_path: Path) -> None:
    """A folder in one of another user, who can put anything under its name."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "job.log").write_text("kept")
    with files.JobFolder(tmp_path / "jobs", "job") as folder:
        (tmp_path / "jobs").rename(tmp_path / "aside")
        (tmp_path / "jobs").symlink_to(tmp_path / "precious")
        files.unpack(archive_of(tarfile.TarInfo("x.npy")), folder.descriptor)
        command = (sys.executable, "-c", "open('made', 'w').close(); print('said')")
        supervised = (sys.executable, "-I", supervisor.__file__, str(folder.descriptor), *command)
        process = subprocess.Popen(
            supervised,
            stdin=subprocess.PIPE,
            stdout=folder.log,
            pass_fds=[folder.descriptor],
            start_new_session=True,  # which it would end if it outlived this test
        )
        assert process.wait(PATIENCE) == 0
        assert folder.printed(3) == b"id\n"
        with tarfile.open(fileobj=io.BytesIO(folder.packed())) as packed:
            assert sorted(packed.getnames()) == ["made", "x.npy"]
        folder.remove()
    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["job.log"]
    assert (tmp_path / "precious" / "job.log").read_text() == "kept"
    assert not list((tmp_path / "aside").iterdir())


def archive_of(*members: tarfile.TarInfo) -> bytes:
    """An archive of empty files, or of what else the members are."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for member in members:
            archive.addfile(member)
    return packed.getvalue()


def linked(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    return member


def sparse() -> bytes:
    """A file of one tebibyte, of which nothing is in the archive."""
    member = tarfile.TarInfo("x.npy")
    member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 40)}
    return archive_of(member)


def long_way() -> Iterator[tarfile.TarInfo]:
    """Links beyond the longest path that Python looks at, and out of the folder beyond that (CVE-2025-4517)."""
    way, name = "", "d" * 247
    for letter in "abcdefghijklmnop":
        folder = tarfile.TarInfo(f"{way}{name}")
        folder.type = tarfile.DIRTYPE
        yield folder
        yield linked(f"{way}{letter}", name)
        way += f"{letter}/"
    yield linked(f"{way}{'l' * 254}", "../" * 16)
    yield linked("escape", f"{way}{'l' * 254}/../")
    yield tarfile.TarInfo("escape/outside.txt")


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(archive_of(tarfile.TarInfo("../outside.txt")), id="above"),
        pytest.param(archive_of(tarfile.TarInfo("in/../../outside.txt")), id="roundabout"),
        pytest.param(archive_of(tarfile.TarInfo("/outside.txt")), id="whole path"),
        pytest.param(archive_of(linked("link", "inside.txt")), id="link"),
        pytest.param(archive_of(linked("link", "../outside.txt", tarfile.LNKTYPE)), id="hard link"),
        pytest.param(archive_of(linked("pipe", "", tarfile.FIFOTYPE)), id="pipe"),
        pytest.param(archive_of(linked("in", ".."), tarfile.TarInfo("in/outside.txt")), id="link to a folder"),
        pytest.param(archive_of(*long_way()), id="long way"),
        pytest.param(sparse(), id="sparse"),
        pytest.param(gzip.compress(archive_of(tarfile.TarInfo("x.npy"))), id="compressed"),
        pytest.param(archive_of(tarfile.TarInfo("x.npy"))[:100], id="cut"),
    ],
)
def test_files_of_a_job_stay_in_the_folder(tmp_path: Path, packed: bytes) -> None:
    """Whatever Python's tarfile lets pass: its filter was let out of the folder by links, before 3.11.13 and others."""
    (tmp_path / "job").mkdir()
    with opened(tmp_path / "job") as folder, pytest.raises(ClusterError, match=r"would not stay|be written"):
        files.unpack(packed, folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["job"]


def test_files_of_a_job_do_not_follow_links_that_lie_there(tmp_path: Path) -> None:
    for name in ("job", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "x.npy").write_bytes(b"kept")
    (tmp_path / "job" / "x.npy").symlink_to("../outside/x.npy")
    (tmp_path / "job" / "in").symlink_to("../outside")
    with opened(tmp_path / "job") as folder:
        files.unpack(archive_of(tarfile.TarInfo("x.npy")), folder)
        with pytest.raises(ClusterError, match="cannot be written"):
            files.unpack(archive_of(tarfile.TarInfo("in/x.npy")), folder)
    assert (tmp_path / "outside" / "x.npy").read_bytes() == b"kept"
    assert not (tmp_path / "job" / "x.npy").is_symlink()


def test_a_link_that_is_sent_goes_as_its_file_and_links_below_a_folder_stay_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "made" / "empty").mkdir(parents=True)
    there.mkdir()
    monkeypatch.chdir(here)
    (tmp_path / "large.npy").write_bytes(b"values")
    Path("b.npy").symlink_to(tmp_path / "large.npy")
    Path("made/x.npy").write_bytes(b"x")
    Path("made/same.npy").hardlink_to("made/x.npy")
    Path("made/newest").symlink_to("x.npy")
    Path("made/out").symlink_to(tmp_path)
    os.mkfifo("made/pipe")
    named = [Path("b.npy"), Path("made")]
    assert files.size_of(named) == len(b"values") + 2 * len(b"x")
    with opened(there) as folder:
        files.unpack(files.pack(named), folder)
    assert {path.relative_to(there).as_posix() for path in there.rglob("*")} == {
        "b.npy",
        "made",
        "made/empty",
        "made/same.npy",
        "made/x.npy",
    }
    assert (there / "b.npy").read_bytes() == b"values"
    assert (there / "made" / "same.npy").read_bytes() == b"x"


@pytest.fixture(scope="module")
def terminal() -> Iterator[str]:
    """The scheduler of a cluster as a command starts it: its workers do not hear Ctrl-C."""
    with forked(), start_local(2, "cpu", dashboard_address=":0") as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def by_hand() -> Iterator[str]:
    """The scheduler of a cluster whose workers were started one by one, without a nanny."""
    with workers_without_nanny(2) as (client, _):
        yield client.scheduler_info()["address"]


def bear_with_jobs() -> None:
    """Let a cancelled process take its time."""
    task.GRACE = PATIENCE  # type: ignore[misc]


LONG = ("hpcg", "--grid", "32", "16", "16", "--chunks", "2", "1", "1", "--time", "600")
"""A command that ends by itself long after every test."""


@pytest.mark.parametrize("kind", ["address", "terminal", "by_hand"])
def test_a_cancelled_job_ends_by_its_interrupt_and_leaves_no_rank(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`dsolver cancel` takes less than 2 s on every kind of cluster, of which no clock here speaks.

    Between the request and the end there is one wait, of `task.LOOK` seconds at most, until the worker looks for
    requests; what follows is an interrupt that the command hears wherever it is. The other way to end, by a kill after
    `task.GRACE` seconds, takes longer than this test here: a job that ignores the interrupt has not ended, and one that
    was killed has another exit status and no last words.
    """
    scheduler: str = request.getfixturevalue(kind)
    monkeypatch.setattr(jobs_client, "CANCEL", PATIENCE)
    assert task.LOOK <= 0.2
    with Client(scheduler, set_as_default=False) as client:
        client.run(bear_with_jobs)
        name = good("submit", "--scheduler", scheduler, "--", *LONG).strip()
        eventually(lambda: jobs.log_of(client, name), pause=0.2)  # before that it is importing, and says nothing
        assert "is running" in refused("fetch", "--scheduler", scheduler, name)
        assert f"{name} is cancelled" in good("cancel", "--scheduler", scheduler, name)
        job = jobs.find(client, name)
        assert (job.state, job.code) == ("cancelled", task.INTERRUPTED)
        assert "error: interrupted" in jobs.log_of(client, name)
        b = np.ones((32, 16, 16))
        solution = dsolver.solve(dsolver.problems.hpcg(b.shape), b, client=client, M=None, maxiter=2)
    assert solution.iterations == 2


SLOW_TO_END = """
import pathlib, time
try:
    print("waiting", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    while not pathlib.Path("enough").exists():
        time.sleep(0.05)
    raise
"""


def let_end(name: str, dask_worker: Worker) -> None:
    """Let the script above end, which runs beside this worker."""
    (Path(dask_worker.local_directory).parent / ROOT / name / "enough").touch()


def test_a_job_that_ends_slowly_is_being_cancelled_meanwhile(by_hand: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_client, "CANCEL", 0.0)
    Path("script.py").write_text(SLOW_TO_END, encoding="utf-8")
    with Client(by_hand, set_as_default=False) as client:
        client.run(bear_with_jobs)
        name = good("submit", "--scheduler", by_hand, "--", "python", "script.py").strip()
        eventually(lambda: "waiting" in jobs.log_of(client, name), pause=0.2)
        assert f"{name} is cancelling, and has not ended yet" in good("cancel", "--scheduler", by_hand, name)
        assert "cancelling" in good("status", "--scheduler", by_hand, name)
        assert "is cancelling" in refused("fetch", "--scheduler", by_hand, name)
        client.run(let_end, name, workers=[jobs.find(client, name).worker])
    assert wait_for(by_hand, name, "cancelled").code == task.INTERRUPTED


def test_an_interrupt_is_not_lost_before_the_supervisor_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt that was lost where the worker ignores Ctrl-C, and the job ran on until it was killed."""
    monkeypatch.setattr(task, "GRACE", PATIENCE)
    ignoring = ("bash", "-c", 'trap "" INT; exec "$@"', "bash")
    with opened(Path()) as here:
        python = (
            sys.executable,
            "-I",
            supervisor.__file__,
            str(here),
            "sleep",  # a Python that is interrupted before it has begun ends with 1
            "600",
        )
        process = subprocess.Popen([*ignoring, *python], stdin=subprocess.PIPE, start_new_session=True, pass_fds=[here])
        task.end_process(process)
    assert process.returncode == task.INTERRUPTED


def test_a_command_that_bears_interrupts_is_killed_when_its_worker_is_gone() -> None:
    deaf = "import signal, time; signal.signal(2, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    module = Path(supervisor.__file__)
    quick = f"import sys; sys.path.append({str(module.parent)!r}); import {module.stem} as it; it.GRACE = 0.1; "
    with (
        opened(Path()) as here,
        subprocess.Popen(
            [sys.executable, "-I", "-c", f"{quick} it.main(*sys.argv[1:])", str(here), sys.executable, "-c", deaf],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            pass_fds=[here],
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"deaf\n"
        process.stdin.close()
        try:
            assert process.wait(60.0) == -signal.SIGKILL
            assert process.stdout.read() == b"", "the command has gone, too"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_only_a_command_that_is_begun_again_may_write_over_what_is_there() -> None:
    first, second = (task.words_of(["solve", "case.toml"], "tcp://scheduler", begun) for begun in (1, 2))
    assert first[-3:] == ["case.toml", "--scheduler", "tcp://scheduler"]
    assert second == [*first, "--force"]
    assert task.words_of(["python", "script.py"], "tcp://scheduler", 2)[1:] == ["script.py"]


def busy_until_told() -> None:
    assert Event("cancelled").wait(PATIENCE)


def test_a_job_that_waits_for_a_worker_is_cancelled_at_once(terminal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_client, "CANCEL", PATIENCE)
    with Client(terminal, set_as_default=False) as client:
        busy = [client.submit(busy_until_told, workers=[worker], pure=False) for worker in client.nthreads()]
        name = good("submit", "--scheduler", terminal, "--", "hpcg", "--grid", "16", "16", "16").strip()
        assert jobs.find(client, name).state == "queued"
        assert f"{name} is cancelled" in good("cancel", "--scheduler", terminal, name)
        assert not any(future.done() for future in busy)
        Event("cancelled", client=client).set()
        client.gather(busy)
        job = jobs.find(client, name)
    assert job.state == "cancelled"
    assert job.started is None


@pytest.mark.parametrize(
    ("record", "task", "state"),
    [
        ({"started": 1.0}, "processing", "running"),
        ({"started": 1.0, "cancel": True}, "processing", "cancelling"),
        ({"started": 1.0, "cancel": True, "code": 130}, "memory", "cancelled"),
        ({"started": 1.0, "cancel": True, "code": 0}, "memory", "finished"),
        ({"started": 1.0, "cancel": True}, None, "cancelled"),
        ({"started": 1.0}, None, "lost"),
    ],
)
def test_states_of_a_job(record: dict[str, Any], task: str | None, state: str) -> None:
    assert jobs_client._state(record, task) == state


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
        (("python", "none.py"), "there is no such file here"),
        (("python",), "there is no such file here"),
        (("hpcg", "--grid", "16", "16"), "--grid"),
        (("hpcg", "--workers", "2"), "leave out --workers"),
        (("hpcg", "--scheduler", "tcp://h:1"), "leave out --scheduler"),
    ],
)
def test_what_cannot_run_is_refused_before_it_is_sent(command: tuple[str, ...], message: str) -> None:
    result = call("submit", "--scheduler", "tcp://127.0.0.1:1", "--", *command)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_scheduler_that_does_not_answer_is_one_line(encrypted: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(encrypted.scheduler_address, set_as_default=False) as client:
        assert jobs.jobs(client) is not None
        monkeypatch.setattr(jobs_client, "ANSWER", 0.5)
        hangs, goes_on = threading.Event(), threading.Event()

        def hang() -> None:
            hangs.set()
            goes_on.wait(PATIENCE)

        scheduler: Any = encrypted.scheduler
        scheduler.loop.add_callback(hang)
        try:
            assert hangs.wait(PATIENCE)
            for question in (jobs.jobs, partial(jobs.submit, command=["info"])):
                with pytest.raises(ClusterError, match="the scheduler does not answer any more"):
                    question(client)
        finally:
            goes_on.set()


def test_an_unknown_job(address: str) -> None:
    result = call("status", "--scheduler", address, "nobody")
    assert result.exit_code == 2
    assert "knows no job nobody" in result.stderr


def test_a_job_whose_record_is_still_being_written_has_not_ended(address: str) -> None:
    """An end that is there before the exit status: who looks just now must not be told that it has failed."""
    name = good("submit", "--scheduler", address, "--", "solve", "--grid", "8", "8", "8").strip()
    assert wait_for(address, name, "finished", "failed").state == "finished"
    with Client(address, set_as_default=False) as client:
        client.set_metadata([ROOT, name, "code"], None)
        assert jobs.find(client, name).state not in ("finished", "failed", "cancelled")
        client.set_metadata([ROOT, name, "code"], 0)
        assert jobs.find(client, name).state == "finished"
