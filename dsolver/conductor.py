"""Drives several solves that share their iterations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsolver.engines.job import Job
from dsolver.iteration import END, Request, Steps
from dsolver.solution import Status


def conducted(job: Job, steps: Mapping[int, Steps[Status]]) -> dict[int, Status]:
    """Run drives of a batch's columns to their ends; returns how each ended.

    An iteration is one of all columns. A column that goes no further is frozen, and waits for its true residual until
    none goes on, so that one product serves all; what columns ask for meanwhile is answered for each alone. Each has
    the history and the bits that it would have had alone.

    Args:
        job: the program, which has taken the right-hand sides.
        steps: of the drive of each column by its number; columns that are missing must have ended.
    """
    return _Conductor(job, steps).run()


class _Conductor:
    def __init__(self, job: Job, steps: Mapping[int, Steps[Status]]) -> None:
        self._job = job
        self._steps = dict(steps)
        self._wanted: dict[int, Request] = {}
        self._ended: dict[int, Status] = {}

    def run(self) -> dict[int, Status]:
        for number in self._steps:
            self._answer(number, None)
        while self._wanted:
            self._round()
        return self._ended

    def _round(self) -> None:
        starting = self._who("start")
        if starting:
            limits = {number: float(self._wanted[number][1]) for number in starting}
            self._answer_all(self._job.call("start_columns", limits))
            return
        single = [*self._who("magnitude"), *self._who("true_residual")]
        for number in single:
            if self._wanted[number][0] == "magnitude":
                self._answer(number, self._job.call("magnitude_column", number))
            else:
                self._answer(number, self._job.call("residual_columns", [number])[number])
        if single:
            return
        going = self._who("advance")
        if not going:
            self._answer_all(self._job.call("residual_columns", self._who(END)))
            return
        samples = self._job.call("advance_columns", min(self._wanted[number][1] for number in going))
        for number in going:
            self._answer(number, [row[number] for row in samples])

    def _who(self, method: str) -> list[int]:
        return [number for number, (wanted, *_) in sorted(self._wanted.items()) if wanted == method]

    def _answer_all(self, replies: dict[int, float]) -> None:
        for number, reply in replies.items():
            self._answer(number, reply)

    def _answer(self, number: int, reply: Any) -> None:
        """Let a drive go on to its next request, or its end."""
        try:
            self._wanted[number] = self._steps[number].send(reply)
        except StopIteration as end:
            del self._wanted[number]
            self._ended[number] = end.value
            return
        if self._wanted[number][0] == END:
            self._job.call("freeze_column", number)
