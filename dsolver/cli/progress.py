"""Tells on a terminal how far long work is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dsolver.iteration import State
from dsolver.monitor import events

Report = Callable[[str, int, int], None]
"""report(phase, done, at most)."""


@contextmanager
def shown(*, quiet: bool = False) -> Iterator[Report | None]:
    """What to report to, drawn on stderr and gone at the end; None when stderr is no terminal, or it is to be quiet."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description:<20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[about]}"),
    )
    outlook = Outlook()
    unsubscribe = events.subscribe(outlook.take)
    try:
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("start", total=1, about="")

            def report(phase: str, done: int, most: int) -> None:
                progress.update(task, description=phase, completed=done, total=most, about=outlook.text)

            yield report
    finally:
        unsubscribe()


def reporter(report: Report, maxiter: int) -> Callable[[State], None]:
    """What a solve's progress goes to."""

    def tell(state: State) -> None:
        report(f"CG {state.residual:.1e} > {state.limit:.1e}", state.iteration, maxiter)

    return tell


@final
class Outlook:
    """Rate, time left and exposed communication of the solve that runs, from what it tells."""

    def __init__(self) -> None:
        self._first: tuple[float, int, float] | None = None  # time, iteration, residual
        self._rate = self._left = ""
        self._exposed = ""

    @property
    def text(self) -> str:
        """As much as is known by now."""
        return "  ".join(part for part in (self._rate, self._left, self._exposed) if part)

    def take(self, message: dict[str, Any]) -> None:
        """A message of `dsolver.monitor.events`."""
        if message["event"] == "start":
            self._first, self._rate, self._left, self._exposed = None, "", "", ""
        elif message["event"] == "spans":
            self._exposed = f"exposed {message['exposure']['exposed_percent']:.1f} %"
        elif message["event"] == "state":
            self._state(message)

    def _state(self, message: dict[str, Any]) -> None:
        now, iteration, residual = time.monotonic(), message["iteration"], message["residual"]
        if self._first is None or iteration <= self._first[1]:
            self._first = now, iteration, residual
            return
        began, first, before = self._first
        seconds, made = now - began, iteration - first
        rate = message["rate"] or made / max(seconds, 1e-9)
        self._rate = f"{rate:.0f} it/s" if rate >= 10 else f"{rate:.2g} it/s"
        left = _iterations_left(before, residual, made, message["limit"], message["most"] - iteration)
        self._left = f"about {left / rate:.0f} s left" if left / rate >= 1 else ""


def _iterations_left(before: float, residual: float, made: int, limit: float | None, most: int) -> float:
    """At the pace so far, until the limit is reached, and at most until no more may be made."""
    if not limit or not 0.0 < residual < before or not math.isfinite(before):
        return most
    pace = math.log(before / residual) / made
    return min(most, max(0.0, math.log(residual / limit)) / pace)
