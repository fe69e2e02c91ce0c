"""The task of a job, on a worker: the job's process from start to end, and its output as the task's result.

It starts ``dsolver``, or a script of the user's, as a process of its own beside the worker and watches it. When the
worker is lost, the `supervisor` ends the process, and Dask runs the task again beside another worker. A folder of the
job that this one sees, as on the same host, is taken as it is, with what was saved there. A job that has ended is not
run again when its output is lost.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dsolver.cluster.jobs import supervisor
from dsolver.cluster.jobs.files import JobFolder, pack, unpack
from dsolver.dask_types import Client, Worker
from dsolver.monitor.job import JOB, ROOT

LOOK: Final = 0.2  # seconds between looks at a running process, and whether it shall go on
GRACE: Final = 10.0  # seconds that a cancelled process has to end by itself
INTERRUPTED: Final = 128 + signal.SIGINT  # the exit status of a command that Ctrl-C has ended, as `dsolver.cli` has it
BEGIN: Final = f"""
import os, signal
signal.signal(signal.SIGINT, lambda *_: os._exit({INTERRUPTED}))
from dsolver.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main(prog_name="dsolver")
"""
"""The program of a `dsolver` command. An interrupt must not come to nothing in an import that catches errors."""
PYTHON: Final = "python"  # first word of a command that is a script
TAIL: Final = 64 * 1024  # bytes at the end of the log that can be read while the job runs
MOST: Final = 1 << 30
"""Bytes of files that travel through the cluster; larger results belong on a file system that all machines see."""


def run(name: str, command: Sequence[str], files: bytes) -> dict[str, Any]:
    """The task: the process from start to end, and its output."""
    from distributed import get_client, get_worker, secede

    worker, client = get_worker(), get_client()
    secede()  # a solve may need this worker's only task slot
    record = _Record(client, name)
    if record.cancelled:  # before it began, or when another worker was lost with it
        record.set(ended=time.time(), code=INTERRUPTED)
        return {"log": b"", "files": pack(()), "too_large": ""}
    if record.ended:  # its output was lost with a worker
        return {"log": record.tail.encode(), "files": None, "too_large": ""}
    with JobFolder(Path(worker.local_directory).parent / ROOT, name) as folder:
        unpack(files, folder.descriptor)
        begun = record.begun + 1
        record.set(started=time.time(), worker=worker.address, ended=None, code=None, begun=begun)
        address = worker.scheduler.address
        words = words_of(command, address, begun)
        # by which distributed.Client() is a client of this cluster
        settings = {"DASK_SCHEDULER_ADDRESS": address, JOB: name, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [sys.executable, "-I", supervisor.__file__, str(folder.descriptor), *words],
            env=os.environ | _certificates(worker) | settings,
            stdin=subprocess.PIPE,  # closes with this worker, and so ends the process
            stdout=folder.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(folder.descriptor,),
        )
        try:
            _watch(process, folder, record)
        finally:
            end_process(process)
        code = process.returncode
        code = 128 - code if code < 0 else code  # as of the supervisor, which a signal may have ended before it began
        record.set(tail=_tail(folder), ended=time.time(), code=code)  # code last: with it the job has ended
        return _output_of(folder, worker.address)


def words_of(command: Sequence[str], scheduler: str, begun: int) -> list[str]:
    """The command as a process of this Python's.

    begun: how often it has been, with this time: from the second on it may find outputs that it has written before.
    """
    if command[0] == PYTHON:
        return [sys.executable, *command[1:]]
    return [sys.executable, "-c", BEGIN, *command, "--scheduler", scheduler, *["--force"] * (begun > 1)]


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


def _watch(process: subprocess.Popen[bytes], folder: JobFolder, record: _Record) -> None:
    sent = -1
    while process.poll() is None:
        with suppress(OSError):  # a scheduler that is slow to answer ends no job
            if record.cancelled:
                return
            if (size := os.fstat(folder.log.fileno()).st_size) != sent:
                record.set(tail=_tail(folder))
                sent = size
        time.sleep(LOOK)


def end_process(process: subprocess.Popen[bytes]) -> None:
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


def _tail(folder: JobFolder) -> str:
    return folder.printed(TAIL).decode(errors="replace")


def _output_of(folder: JobFolder, worker: str) -> dict[str, Any]:
    """The task's result; the folder is removed unless it is too large to travel."""
    if folder.size() > MOST:
        return {"log": folder.printed(), "files": b"", "too_large": f"in {folder.path} on worker {worker}"}
    output = {"log": folder.printed(), "files": folder.packed(), "too_large": ""}
    folder.remove()
    return output


def _certificates(worker: Worker) -> dict[str, str]:
    """The worker's TLS files as settings of a process: they may have come from its command line."""
    security: Any = worker.security
    found = {
        "CA_FILE": security.tls_ca_file,
        "CLIENT__CERT": security.tls_client_cert or security.tls_worker_cert,
        "CLIENT__KEY": security.tls_client_key or security.tls_worker_key,
    }
    return {f"DASK_DISTRIBUTED__COMM__TLS__{key}": str(value) for key, value in found.items() if value}
