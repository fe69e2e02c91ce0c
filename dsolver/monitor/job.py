"""Progress of a solve in a submitted job: in the job's record for `dsolver status`, on stderr for `dsolver logs`."""

import os
import sys
import time
from typing import Any, Final, Self

JOB: Final = "DSOLVER_JOB"  # the environment variable that names the job whose process this is
ROOT: Final = "dsolver-jobs"  # the key of the jobs in the scheduler's metadata, and of their folder beside a worker
RECORD_EVERY: Final = 1.0  # seconds between two states that the record gets
PRINT_EVERY: Final = 5.0  # seconds between two lines


class JobProgress:
    """Progress of one solve, for the job of a name, at a place of keys in the scheduler's metadata."""

    def __init__(self, name: str) -> None:
        self.place = [ROOT, name, "progress"]
        self._recorded = -RECORD_EVERY
        self._printed = time.monotonic()

    @classmethod
    def of_process(cls) -> Self | None:
        """Progress of the job whose process this is, or None."""
        name = os.environ.get(JOB)
        return cls(name) if name else None

    def take(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """State for the record from a message of `dsolver.monitor.events`, or None; prints a line now and then."""
        if message["event"] not in ("state", "end"):
            return None
        now = time.monotonic()
        found = {key: message.get(key) for key in ("iteration", "residual", "limit", "status")}
        if message["event"] == "state" and now - self._printed >= PRINT_EVERY:
            self._printed = now
            sys.stderr.write(f"{shown(found)}\n")  # which is not buffered in a job
        if message["event"] == "state" and now - self._recorded < RECORD_EVERY:
            return None
        self._recorded = now
        return found


def shown(progress: dict[str, Any]) -> str:
    """Progress in words."""
    text = f"iteration {progress['iteration']}"
    if progress["residual"] is not None:
        text += f", residual {progress['residual']:.1e}"
    if progress.get("status") is not None:
        return f"{progress['status']}: {text}"
    if progress["limit"] is not None:
        text += f" > {progress['limit']:.1e}"
    return text
