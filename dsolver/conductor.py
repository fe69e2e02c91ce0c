"""Drives several solves that share their iterations, next to the program."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from dsolver.drive import ADVANCE, END, PAUSE, Request, Steps
from dsolver.solution import Status

SINGLE: Final = ("balance", "magnitude", "true_residual", "rounded")
"""Requests that are answered for each column alone."""


class Columns(Protocol):
    """A program that has taken several right-hand sides; its methods do for columns what `Driven`'s do for one."""

    def start_columns(self, limits: Mapping[int, float]) -> dict[int, float]:
        """`start` of some columns."""

    def advance_columns(self, steps: int) -> list[list[tuple[float, float]]]:
        """`advance` of all columns: what it tells, for each iteration, of each."""

    def residual_columns(self, numbers: Sequence[int]) -> dict[int, float]:
        """`true_residual` of some columns."""

    def balance_column(self, number: int) -> None:
        """`balance` of a column."""

    def rounded_column(self, number: int) -> bool:
        """`rounded` of a column."""

    def magnitude_column(self, number: int) -> float:
        """`magnitude` of a column."""

    def freeze_column(self, number: int) -> None:
        """Iterations leave a column's x and r as they are, until its next start."""

    def agreed(self, value: float) -> float:
        """One rank's value, the same one on all ranks."""


def conducted(program: Columns, steps: Mapping[int, Steps[Status]]) -> dict[int, Status]:
    """Run drives of a batch's columns to their ends; returns how each ended.

    An iteration is one of all columns. A column that goes no further is frozen, and waits for its true residual until
    none goes on, so that one product serves all; what columns ask for meanwhile is answered for each alone. Each has
    the history and the bits that it would have had alone.

    Args:
        program: that has taken the right-hand sides.
        steps: of the drive of each column by its number; columns that are missing must have ended.
    """
    return _Conductor(program, steps).run()


class _Conductor:
    def __init__(self, program: Columns, steps: Mapping[int, Steps[Status]]) -> None:
        self._program = program
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
        program = self._program
        starting = self._who("start")
        if starting:
            limits = {number: float(self._wanted[number][1]) for number in starting}
            self._answer_all(program.start_columns(limits))
            return
        single = [number for method in SINGLE for number in self._who(method)]
        for number in single:
            self._answer(number, self._asked(self._wanted[number][0], number))
        if single:
            return
        going = self._who(ADVANCE)
        if not going:
            self._answer_all(program.residual_columns(self._who(END)))
            return
        began = time.perf_counter()
        samples = program.advance_columns(min(self._wanted[number][1] for number in going))
        seconds = program.agreed(time.perf_counter() - began)
        for number in going:
            self._answer(number, ([row[number] for row in samples], seconds))

    def _asked(self, method: str, number: int) -> Any:
        """What a column asks for alone."""
        if method == "true_residual":
            return self._program.residual_columns([number])[number]
        return getattr(self._program, f"{method}_column")(number)

    def _who(self, method: str) -> list[int]:
        return [number for number, (wanted, *_) in sorted(self._wanted.items()) if wanted == method]

    def _answer_all(self, replies: Mapping[int, float]) -> None:
        for number, reply in replies.items():
            self._answer(number, reply)

    def _answer(self, number: int, reply: Any) -> None:
        """Let a drive go on to its next request, or its end. It need not pause: nobody looks into one column."""
        try:
            wanted = self._steps[number].send(reply)
            while wanted[0] == PAUSE:
                wanted = self._steps[number].send(False)
        except StopIteration as end:
            self._wanted.pop(number, None)
            self._ended[number] = end.value
            return
        self._wanted[number] = wanted
        if wanted[0] == END:
            self._program.freeze_column(number)
