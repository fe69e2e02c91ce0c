"""Commands that run on a cluster after their client has gone.

A submitted command is a task: it starts ``dsolver``, or a script of the user's, as a process of its own beside a
worker, watches it, and keeps its output as the task's result. What a job is doing stands in the scheduler's metadata,
which outlives every client; so a job is known by its name alone. The process is a client of the same scheduler like any
other, and its solve runs on all workers.

When the worker is lost, its supervisor ends the process, and Dask runs the task again beside another worker. A folder
of the job that this one sees, as on the same host, is taken as it is, with what was saved there. A job that has ended
is not run again when its output is lost.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from dsolver.cluster import supervisor
from dsolver.errors import ClusterError, InputError
from dsolver.monitor.job import JOB, ROOT

if TYPE_CHECKING:
    from distributed import Client, Worker

LOOK: Final = 0.2
"""Seconds between looks at a running process, and whether it shall go on."""
GRACE: Final = 10.0
"""Seconds that a cancelled process has to end by itself."""
CANCEL: Final = 15.0
"""Seconds in which a cancelled job should have ended."""
INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit status of a command that Ctrl-C has ended, as `dsolver.cli` has it."""
BEGIN: Final = f"""
import os, signal
signal.signal(signal.SIGINT, lambda *_: os._exit({INTERRUPTED}))
from dsolver.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main(prog_name="dsolver")
"""
"""The program of a `dsolver` command. An interrupt must not come to nothing in an import that catches errors."""
PYTHON: Final = "python"
"""First word of a command that is a script."""
ANSWER: Final = 30.0
"""Seconds in which the scheduler has to answer."""
TAIL: Final = 64 * 1024
"""Bytes at the end of the log that can be read while the job runs."""
MOST: Final = 1 << 30
"""Bytes of files that travel through the cluster; larger results belong on a file system that all machines see."""
SENT: Final = 64 << 20
"""Bytes of files that travel with a command, which the scheduler keeps until the job has ended."""
LOG: Final = "output.log"
UNDER_WAY: Final = ("queued", "running", "cancelling")
"""States of a job that has not ended."""


@final
@dataclass(frozen=True, kw_only=True)
class Job:
    """A submitted command.

    Attributes:
        name: by which it is known.
        command: the arguments of ``dsolver``, or "python", a script and its arguments.
        state: "queued", "running", "cancelling", "finished", "failed", "cancelled" or "lost".
        submitted, started, ended: seconds since 1970 by the clocks of client and worker, or None.
        worker: beside which the process runs or ran, or None.
        code: its exit status, or None.
        progress: the newest state of its newest solve: iteration, residual, limit and, at the end, status; or None.
        begun: how many times it was begun: once, and again for each worker that was lost with it.
    """

    name: str
    command: tuple[str, ...]
    state: str
    submitted: float
    started: float | None = None
    ended: float | None = None
    worker: str | None = None
    code: int | None = None
    progress: dict[str, Any] | None = None
    begun: int = 0


def submit(client: Client, command: Sequence[str], files: Sequence[Path] = ()) -> str:
    """Start ``dsolver COMMAND``, or ``python SCRIPT ...``, on the cluster and return the job's name; the client may go.

    Args:
        client: of the cluster.
        command: the words.
        files: below this folder, which the command finds under the same names.

    Raises:
        InputError: the files are too large to travel.
        ClusterError: the scheduler does not answer.
    """
    size = sum(path.stat().st_size for path in _plain(files))
    if size > SENT:
        raise InputError(
            f"the files that the command names have {size >> 20} MiB, of which {SENT >> 20} can travel with it: put "
            f"them where all machines see them, and name them with their whole path"
        )
    name = f"{command[0]}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    _asked(client, client.set_metadata, [ROOT, name], {"command": list(command), "submitted": time.time()})
    future = client.submit(run, name, tuple(command), _archive(files), key=_key(name), pure=False)
    _asked(client, client.publish_dataset, future, name=_key(name))  # holds the task when this client has gone
    return name


def jobs(client: Client) -> list[Job]:
    """All jobs that the cluster knows, oldest first."""
    records: Mapping[str, Any] = _asked(client, client.get_metadata, [ROOT], default={})
    states = _task_states(client, [_key(name) for name in records])
    found = [_job(name, record, states.get(_key(name))) for name, record in records.items()]
    return sorted(found, key=lambda job: job.submitted)


def find(client: Client, name: str) -> Job:
    """The job of a name.

    Raises:
        InputError: the cluster knows no job of that name.
    """
    known = {job.name: job for job in jobs(client)}
    if name not in known:
        listed = ", ".join(known) or "none"
        raise InputError(f"the cluster knows no job {name}; it knows: {listed}")
    return known[name]


def log_of(client: Client, name: str) -> str:
    """The output of a job: all of it when it has ended, else its last `TAIL` bytes."""
    job = find(client, name)
    if job.state in ("finished", "failed", "cancelled") and (output := _output(client, name)) is not None:
        log: bytes = output["log"]
        return log.decode(errors="replace")
    tail: str = _asked(client, client.get_metadata, [ROOT, name, "tail"], default="")
    return tail


def cancel(client: Client, name: str) -> Job:
    """Ask a job to end, wait until it has ended or `CANCEL` seconds have passed, and say how it is then.

    What it has printed so far stays.

    Raises:
        InputError: it has ended already.
    """
    job = find(client, name)
    if job.state not in UNDER_WAY:
        raise InputError(f"job {name} is {job.state}: there is nothing to cancel")
    _asked(client, client.set_metadata, [ROOT, name, "cancel"], True)
    if job.state == "queued":
        waiting = _asked(client, client.get_dataset, _key(name))
        _asked(client, client.cancel, [waiting], force=True)
        _asked(client, client.unpublish_dataset, _key(name))
    until = time.monotonic() + CANCEL
    while (job := find(client, name)).state in UNDER_WAY and time.monotonic() < until:
        time.sleep(LOOK)
    return job


def fetch(client: Client, name: str, folder: Path) -> list[Path]:
    """Write the files that a job has made, and its log, into a folder, and return their paths.

    Raises:
        InputError: the job has not ended, or the folder exists and is not empty.
        ClusterError: its files are gone, or too large to travel.
    """
    job = find(client, name)
    if job.state in UNDER_WAY:
        raise InputError(f"job {name} is {job.state}: its files can be fetched when it has ended")
    output = _output(client, name)
    if output is None or output["files"] is None:
        raise ClusterError(f"the files of job {name} are gone, with the worker that had them")
    if output["too_large"]:
        raise ClusterError(f"the files of job {name} are too large to travel; they lie {output['too_large']}")
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty: choose another folder, so that nothing is overwritten")
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(output["files"])) as archive:
        _extract(archive, folder)
    (folder / LOG).write_bytes(output["log"])
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Write an archive's files into a folder and nowhere else.

    Raises:
        ClusterError: a member would come to lie elsewhere, or is no plain file or folder. It was not written.
    """
    if hasattr(tarfile, "data_filter"):
        try:
            archive.extractall(folder, filter="data")
        except tarfile.FilterError as error:
            raise ClusterError(f"the job's files would not stay in {folder}: {error}") from error
        return
    # Python before 3.11.4, as in Debian 12: looked at here instead.
    for member in archive.getmembers():
        paths = [Path(member.name), *([Path(member.linkname)] if member.issym() else [])]
        inside = not any(path.is_absolute() or ".." in path.parts for path in paths)
        if not inside or not (member.isfile() or member.isdir() or member.issym()):
            raise ClusterError(f"the job's files have {member.name!r}, which would not stay in {folder}")
    archive.extractall(folder)  # noqa: S202  # all of them stay


# -- on the worker ----------------------------------------------------------------------------------------------------


def run(name: str, command: Sequence[str], files: bytes) -> dict[str, Any]:
    """The task: the process from start to end, and its output."""
    from distributed import get_client, get_worker, secede

    worker, client = get_worker(), get_client()
    secede()  # a solve may need this worker's only task slot
    record = _Record(client, name)
    if record.cancelled:  # before it began, or when another worker was lost with it
        record.set(ended=time.time(), code=INTERRUPTED)
        return {"log": b"", "files": _archive(()), "too_large": ""}
    if record.ended:  # its output was lost with a worker
        return {"log": record.tail.encode(), "files": None, "too_large": ""}
    folder = _folder(worker, name)
    with tarfile.open(fileobj=io.BytesIO(files)) as archive:
        _extract(archive, folder)
    log = folder.with_suffix(".log")
    begun = record.begun + 1
    record.set(started=time.time(), worker=worker.address, ended=None, code=None, begun=begun)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-I", supervisor.__file__, *_words(command, worker.scheduler.address, again=begun > 1)],
            cwd=folder,
            env=os.environ | _certificates(worker) | _settings(name, worker.scheduler.address),
            stdin=subprocess.PIPE,  # closes with this worker, and so ends the process
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _watch(process, log, record)
    finally:
        _end(process)
    code = process.returncode
    code = 128 - code if code < 0 else code  # as of the supervisor, which a signal may have ended before it began
    record.set(tail=_tail(log), ended=time.time(), code=code)  # code last: with it the job has ended
    return _output_of(folder, log, worker.address)


def _folder(worker: Worker, name: str) -> Path:
    """The job's folder, which other workers of this host find, too.

    Raises:
        ClusterError: it is another user's.
    """
    return private(private(Path(worker.local_directory).parent / ROOT) / name)


def _words(command: Sequence[str], scheduler: str, *, again: bool) -> list[str]:
    """The command as a process of this Python's; again: it may find outputs that it has written before."""
    if command[0] == PYTHON:
        return [sys.executable, *command[1:]]
    return [sys.executable, "-c", BEGIN, *command, "--scheduler", scheduler, *["--force"] * again]


def _settings(name: str, scheduler: str) -> dict[str, str]:
    """Environment variables of a job: `distributed.Client()` is a client of this cluster."""
    return {"DASK_SCHEDULER_ADDRESS": scheduler, JOB: name, "PYTHONUNBUFFERED": "1"}


def private(folder: Path) -> Path:
    """A folder that nobody else can look into, made if it is not there.

    Raises:
        ClusterError: it belongs to somebody else, who could change what a job writes and reads.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise ClusterError(f"the folder {folder} for jobs belongs to somebody else: give workers a --local-directory")
    folder.chmod(0o700)
    return folder


@final
class _Record:
    """A job's record in the scheduler's metadata. Without a scheduler it waits for one, as the worker does."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._place = client, [ROOT, name]

    def set(self, **values: Any) -> None:
        for key, value in values.items():
            self._client.set_metadata([*self._place, key], value)

    @property
    def ended(self) -> bool:
        return self._client.get_metadata([*self._place, "code"], default=None) is not None

    @property
    def tail(self) -> str:
        return str(self._client.get_metadata([*self._place, "tail"], default=""))

    @property
    def begun(self) -> int:
        return int(self._client.get_metadata([*self._place, "begun"], default=0))

    @property
    def cancelled(self) -> bool:
        return bool(self._client.get_metadata([*self._place, "cancel"], default=False))


def _watch(process: subprocess.Popen[bytes], log: Path, record: _Record) -> None:
    sent = -1
    while process.poll() is None:
        with suppress(OSError, TimeoutError):  # a scheduler that is slow to answer ends no job
            if record.cancelled:
                return
            if (size := log.stat().st_size) != sent:
                record.set(tail=_tail(log))
                sent = size
        time.sleep(LOOK)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs: first as Ctrl-C would, so that its ranks end in order.

    The supervisor is told by its pipe, which keeps what it has not read yet: a signal would be lost before it begins,
    for it is started with what the worker does at Ctrl-C, which may be nothing.
    """
    assert process.stdin is not None
    if process.poll() is None:
        with suppress(OSError):
            process.stdin.write(b"\n")
            process.stdin.flush()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        return file.read().decode(errors="replace")


def _output_of(folder: Path, log: Path, worker: str) -> dict[str, Any]:
    """The task's result; the folder is removed unless it is too large to travel."""
    if sum(path.stat().st_size for path in _plain([folder])) > MOST:
        return {"log": log.read_bytes(), "files": b"", "too_large": f"in {folder} on worker {worker}"}
    output = {"log": log.read_bytes(), "files": _archive([folder], "."), "too_large": ""}
    shutil.rmtree(folder, ignore_errors=True)
    log.unlink(missing_ok=True)
    return output


def _plain(paths: Sequence[Path]) -> Iterator[Path]:
    """The files among paths, and in folders among them."""
    for path in paths:
        yield from [path] if path.is_file() else (below for below in path.rglob("*") if below.is_file())


def _archive(paths: Sequence[Path], name: str | None = None) -> bytes:
    """Files and folders as a tar archive, under their own names or, a single one, under another.

    A path that is a link goes as what it leads to; below folders, links out of them and pipes are left out.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in paths:
            archive.add(path.resolve(), arcname=path if name is None else name, filter=_inside)
    return packed.getvalue()


def _inside(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The member if it can be extracted beside the others, else None."""
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        return None
    leads = os.path.normpath(Path(member.name).parent / member.linkname)
    return None if member.issym() and leads.startswith(("/", "..")) else member


def _certificates(worker: Worker) -> dict[str, str]:
    """The worker's TLS files as settings of a process: they may have come from its command line."""
    security: Any = worker.security
    found = {
        "CA_FILE": security.tls_ca_file,
        "CLIENT__CERT": security.tls_client_cert or security.tls_worker_cert,
        "CLIENT__KEY": security.tls_client_key or security.tls_worker_key,
    }
    return {f"DASK_DISTRIBUTED__COMM__TLS__{key}": str(value) for key, value in found.items() if value}


# -- the rest ---------------------------------------------------------------------------------------------------------


def _asked(client: Client, question: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """The result of a method of the client.

    Raises:
        ClusterError: the scheduler does not answer.
    """
    try:
        return client.sync(question, *args, callback_timeout=ANSWER, **named)
    except OSError as error:  # a TimeoutError is one
        raise ClusterError(f"the scheduler does not answer any more: {error!r}") from error


def _key(name: str) -> str:
    return f"dsolver-job-{name}"


def _task_states(client: Client, keys: Sequence[str]) -> dict[str, str]:
    """The scheduler's states of tasks, by key: "waiting", "processing", "memory", "erred" and others."""

    def look(dask_scheduler: Any) -> dict[str, str]:
        return {key: dask_scheduler.tasks[key].state for key in keys if key in dask_scheduler.tasks}

    states: dict[str, str] = _asked(client, client.run_on_scheduler, look) if keys else {}
    return states


def _job(name: str, record: Mapping[str, Any], task: str | None) -> Job:
    return Job(
        name=name,
        command=tuple(record["command"]),
        state=_state(record, task),
        submitted=record["submitted"],
        started=record.get("started"),
        ended=record.get("ended"),
        worker=record.get("worker"),
        code=record.get("code"),
        progress=record.get("progress"),
        begun=record.get("begun", 0),
    )


def _state(record: Mapping[str, Any], task: str | None) -> str:
    code = record.get("code")  # written last, and each value by itself
    if code is not None:
        if code == 0:
            return "finished"
        return "cancelled" if record.get("cancel") else "failed"
    if task is None or task in ("erred", "forgotten", "released"):
        return "cancelled" if record.get("cancel") else "lost"
    if record.get("cancel"):
        return "cancelling"
    return "running" if record.get("started") is not None and task == "processing" else "queued"


def _output(client: Client, name: str) -> dict[str, Any] | None:
    """The result of a job's task; None when it is gone."""
    try:
        future = _asked(client, client.get_dataset, _key(name))
        result: dict[str, Any] = future.result(timeout=60)
    except (KeyError, OSError):
        return None
    return result
