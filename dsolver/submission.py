"""Commands that run on a cluster after their client has gone.

A submitted command is a task: it starts ``dsolver`` as a process of its own beside a worker, watches it, and keeps its
output as the task's result. What a job is doing stands in the scheduler's metadata, which outlives every client; so a
job is known by its name alone. The process is a client of the same scheduler like any other, and its solve runs on all
workers.
"""

from __future__ import annotations

import io
import os
import secrets
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from dsolver.errors import ClusterError, InputError

if TYPE_CHECKING:
    from distributed import Client, Worker

ROOT: Final = "dsolver-jobs"
"""Where in the scheduler's metadata the jobs stand, and the beginning of their tasks' names."""
LOOK: Final = 0.5
"""Seconds between looks at a running process."""
GRACE: Final = 10.0
"""Seconds that a cancelled process has to end by itself."""
ANSWER: Final = 30.0
"""Seconds in which the scheduler has to answer."""
TAIL: Final = 64 * 1024
"""Bytes at the end of the log that can be read while the job runs."""
MOST: Final = 1 << 30
"""Bytes of files that travel through the cluster; larger results belong on a file system that all machines see."""
LOG: Final = "output.log"


@final
@dataclass(frozen=True, kw_only=True)
class Job:
    """A submitted command.

    Attributes:
        name: by which it is known.
        command: the arguments of ``dsolver``.
        state: "queued", "running", "finished", "failed", "cancelled" or "lost".
        submitted, started, ended: seconds since 1970 by the clocks of client and worker, or None.
        worker: beside which the process runs or ran, or None.
        code: its exit status, or None.
    """

    name: str
    command: tuple[str, ...]
    state: str
    submitted: float
    started: float | None = None
    ended: float | None = None
    worker: str | None = None
    code: int | None = None


def submit(client: Client, command: Sequence[str]) -> str:
    """Start ``dsolver COMMAND`` on the cluster and return the job's name; the client may go."""
    name = f"{command[0]}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    _asked(client, client.set_metadata, [ROOT, name], {"command": list(command), "submitted": time.time()})
    future = client.submit(run, name, tuple(command), key=_key(name), pure=False)
    _asked(client, client.publish_dataset, future, name=_key(name))  # holds the task when this client has gone
    return name


def jobs(client: Client) -> list[Job]:
    """All jobs that the cluster knows, oldest first."""
    records: Mapping[str, Any] = _asked(client, client.get_metadata, [ROOT], default={})
    states = _task_states(client, [_key(name) for name in records])
    found = [_job(name, record, states.get(_key(name))) for name, record in records.items()]
    return sorted(found, key=lambda job: job.submitted)


def find(client: Client, name: str) -> Job:
    """One job.

    Raises:
        InputError: the cluster knows no job of that name.
    """
    known = {job.name: job for job in jobs(client)}
    if name not in known:
        listed = ", ".join(known) or "none"
        raise InputError(f"the cluster knows no job {name}; it knows: {listed}")
    return known[name]


def log_of(client: Client, name: str) -> str:
    """What the job has printed: all of it when it has ended, else its last `TAIL` bytes."""
    job = find(client, name)
    if job.state in ("finished", "failed", "cancelled") and (output := _output(client, name)) is not None:
        log: bytes = output["log"]
        return log.decode(errors="replace")
    tail: str = _asked(client, client.get_metadata, [ROOT, name, "tail"], default="")
    return tail


def cancel(client: Client, name: str) -> None:
    """Ask a job to end; what it has printed so far stays."""
    job = find(client, name)
    if job.state not in ("queued", "running"):
        raise InputError(f"job {name} is {job.state}: there is nothing to cancel")
    _asked(client, client.set_metadata, [ROOT, name, "cancel"], True)


def fetch(client: Client, name: str, folder: Path) -> list[Path]:
    """Write the files that a job has made, and its log, into a folder, and return their paths.

    Raises:
        InputError: the job has not ended, or the folder exists and is not empty.
        ClusterError: its files are gone, or too large to travel.
    """
    job = find(client, name)
    if job.state in ("queued", "running"):
        raise InputError(f"job {name} is {job.state}: its files can be fetched when it has ended")
    output = _output(client, name)
    if output is None:
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
        ClusterError: a member would come to lie elsewhere, or is no plain file or folder. Nothing was written.
    """
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    # Python before 3.11.4, as in Debian 12: looked at here instead.
    for member in archive.getmembers():
        inside = (folder / member.name).resolve().is_relative_to(folder.resolve())
        if not inside or not (member.isfile() or member.isdir()):
            raise ClusterError(f"the job's files have {member.name!r}, which would not stay in {folder}")
    archive.extractall(folder)  # noqa: S202  # all of them stay


# -- on the worker ----------------------------------------------------------------------------------------------------


def run(name: str, command: Sequence[str]) -> dict[str, Any]:
    """The task: the process from start to end, and its output."""
    from distributed import get_client, get_worker, secede

    worker, client = get_worker(), get_client()
    secede()  # a solve may need this worker's only task slot
    folder = Path(worker.local_directory) / ROOT / name
    folder.mkdir(parents=True, exist_ok=True)
    log = folder.with_suffix(".log")
    record = _Record(client, name)
    record.set(started=time.time(), worker=worker.address, ended=None, code=None)
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "dsolver", *command, "--scheduler", worker.scheduler.address],
            cwd=folder,
            env=os.environ | _certificates(worker) | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _watch(process, log, record)
    finally:
        _end(process)
    record.set(tail=_tail(log), ended=time.time(), code=process.returncode)  # code last: with it the job has ended
    files, too_large = _packed(folder)
    if too_large:
        too_large = f"in {folder} on worker {worker.address}"
    return {"log": log.read_bytes(), "files": files, "too_large": too_large}


@final
class _Record:
    """What stands of a job in the scheduler's metadata. Without a scheduler it waits for one, as the worker does."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._place = client, [ROOT, name]

    def set(self, **values: Any) -> None:
        for key, value in values.items():
            self._client.set_metadata([*self._place, key], value)

    @property
    def cancelled(self) -> bool:
        return bool(self._client.get_metadata([*self._place, "cancel"], default=False))


def _watch(process: subprocess.Popen[bytes], log: Path, record: _Record) -> None:
    told = -1
    while process.poll() is None:
        with suppress(OSError, TimeoutError):  # a scheduler that is slow to answer ends no job
            if record.cancelled:
                return
            if (size := log.stat().st_size) != told:
                record.set(tail=_tail(log))
                told = size
        time.sleep(LOOK)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs: first as Ctrl-C would, so that its ranks end in order."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        return file.read().decode(errors="replace")


def _packed(folder: Path) -> tuple[bytes, str]:
    """The folder as a tar archive; or nothing, and that it is too large."""
    if sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) > MOST:
        return b"", "too large"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(folder, arcname=".")
    return packed.getvalue(), ""


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
    """What a method of the client returns.

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
    """What the scheduler knows of tasks: "waiting", "processing", "memory", "erred" and others."""

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
    )


def _state(record: Mapping[str, Any], task: str | None) -> str:
    code = record.get("code")  # written last, and each value by itself
    if code is not None:
        if record.get("cancel"):
            return "cancelled"
        return "finished" if code == 0 else "failed"
    if task is None or task in ("erred", "forgotten", "released"):
        return "lost"
    return "running" if record.get("started") is not None and task == "processing" else "queued"


def _output(client: Client, name: str) -> dict[str, Any] | None:
    """The result of a job's task; None when it is gone."""
    try:
        future = _asked(client, client.get_dataset, _key(name))
        result: dict[str, Any] = future.result(timeout=60)
    except (KeyError, OSError):
        return None
    return result
