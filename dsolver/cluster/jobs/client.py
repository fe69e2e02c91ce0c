"""The client's side of jobs: submits commands, looks for jobs, reads their logs, cancels them and fetches their files.

What a job is doing stands in the scheduler's metadata, which outlives every client: a job is known by its name alone.
"""

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dsolver.cluster.jobs.files import pack, size_of, unpack
from dsolver.cluster.jobs.task import LOOK, run
from dsolver.dask_types import Client
from dsolver.errors import ClusterError, InputError
from dsolver.folders import opened
from dsolver.monitor.job import ROOT

ANSWER: Final = 30.0  # seconds in which the scheduler has to answer
CANCEL: Final = 15.0  # seconds in which a cancelled job should have ended
SENT: Final = 64 << 20  # bytes of files that travel with a command, which the scheduler keeps until the job has ended
LOG: Final = "output.log"
"""Name of a fetched log; "dsolver-" comes before it where the job has made a file of that name."""
UNDER_WAY: Final = ("queued", "running", "cancelling")  # states of a job that has not ended


@dataclass(frozen=True, kw_only=True)
class Job:
    """A submitted command.

    `submitted`, `started`, `ended`: seconds since 1970 by the clocks of client and worker, or None.
    """

    name: str
    command: tuple[str, ...]  # the arguments of ``dsolver``, or "python", a script and its arguments
    state: str  # "queued", "running", "cancelling", "finished", "failed", "cancelled" or "lost"
    submitted: float
    started: float | None = None
    ended: float | None = None
    worker: str | None = None  # beside which the process runs or ran, or None
    code: int | None = None
    # the newest state of its newest solve: iteration, residual, limit and, at the end, status; or None.
    progress: dict[str, Any] | None = None
    begun: int = 0  # how many times it was begun: once, and again for each worker that was lost with it


def submit(client: Client, command: Sequence[str], files: Sequence[Path] = ()) -> str:
    """Start ``dsolver COMMAND``, or ``python SCRIPT ...``, on the cluster and return the job's name; the client may go.

    Args:
        files: below this folder, which the command finds under the same names.

    Raises:
        InputError: the files are too large to travel.
        ClusterError: the scheduler does not answer.
    """
    size = size_of(files)
    if size > SENT:
        raise InputError(
            f"the files that the command names have {size >> 20} MiB, of which {SENT >> 20} can travel with it: put "
            f"them where all machines see them, and name them with their whole path"
        )
    name = f"{command[0]}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    _asked(client, client.set_metadata, [ROOT, name], {"command": list(command), "submitted": time.time()})
    future = client.submit(run, name, tuple(command), pack(files), key=key_of(name), pure=False)
    _asked(client, client.publish_dataset, future, name=key_of(name))  # holds the task when this client has gone
    return name


def jobs(client: Client) -> list[Job]:
    """All jobs that the cluster knows, oldest first."""
    records: Mapping[str, Any] = _asked(client, client.get_metadata, [ROOT], default={})
    states = _task_states(client, [key_of(name) for name in records])
    found = [_job(name, record, states.get(key_of(name))) for name, record in records.items()]
    return sorted(found, key=lambda job: job.submitted)


def find(client: Client, name: str) -> Job:
    """The job of a name. InputError: the cluster knows no job of that name."""
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
    return _asked(client, client.get_metadata, [ROOT, name, "tail"], default="")


def cancel(client: Client, name: str) -> Job:
    """Ask a job to end, wait until it has ended or `CANCEL` seconds have passed, and say how it is then.

    What it has printed so far stays. InputError: it has ended already.
    """
    job = find(client, name)
    if job.state not in UNDER_WAY:
        raise InputError(f"job {name} is {job.state}: there is nothing to cancel")
    _asked(client, client.set_metadata, [ROOT, name, "cancel"], True)
    if job.state == "queued":
        waiting = _asked(client, client.get_dataset, key_of(name))
        _asked(client, client.cancel, [waiting], force=True)
        _asked(client, client.unpublish_dataset, key_of(name))
    until = time.monotonic() + CANCEL
    while (job := find(client, name)).state in UNDER_WAY and time.monotonic() < until:
        time.sleep(LOOK)
    return job


def fetch(client: Client, name: str, folder: Path) -> list[Path]:
    """Write the files that a job has made, and its log, into a folder, and return their paths.

    Links and pipes that it has made are left behind. InputError: the job has not ended, or the folder exists and is not
    empty. ClusterError: its files are gone, or too large to travel.
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
    with opened(folder) as descriptor:
        unpack(output["files"], descriptor)
    log = LOG
    while os.path.lexists(folder / log):  # a file of the job's own
        log = f"dsolver-{log}"
    with (folder / log).open("xb") as file:
        file.write(output["log"])
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _asked(client: Client, question: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """The result of a method of the client. ClusterError: the scheduler does not answer."""
    try:
        return client.sync(question, *args, callback_timeout=ANSWER, **named)
    except OSError as error:  # a TimeoutError is one
        raise ClusterError(f"the scheduler does not answer any more: {error!r}") from error


def key_of(name: str) -> str:
    """The key of a job's task, and the name of the data set that holds it."""
    return f"dsolver-job-{name}"


def _task_states(client: Client, keys: Sequence[str]) -> dict[str, str]:
    """The scheduler's states of tasks, by key: "waiting", "processing", "memory", "erred" and others."""

    def look(dask_scheduler: Any) -> dict[str, str]:
        return {key: dask_scheduler.tasks[key].state for key in keys if key in dask_scheduler.tasks}

    return _asked(client, client.run_on_scheduler, look) if keys else {}


def _job(name: str, record: Mapping[str, Any], task: str | None) -> Job:
    told = ("submitted", "started", "ended", "worker", "code", "progress", "begun")
    known = {key: record[key] for key in told if key in record}
    return Job(name=name, command=tuple(record["command"]), state=_state(record, task), **known)


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
        future = _asked(client, client.get_dataset, key_of(name))
        result: dict[str, Any] = future.result(timeout=60)
    except (KeyError, OSError):
        return None
    return result
