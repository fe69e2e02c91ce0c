"""Progress of long work on a terminal."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dsolver.monitor import events
from dsolver.monitor.state import State

SILENCE: Final = 1.0  # seconds without a word that users do not take for a fault

STARTED: Final = 0.5
"""Such seconds of what a command begins with, for Python and its imports have taken more than that already."""

Report = Callable[[str, int, int], None]  # report(phase, done, at most)


@contextmanager
def announced(text: str, *, unless: object = None) -> Iterator[None]:
    """Say on stderr what is waited for beyond `STARTED`; not with --quiet, or where `unless`, as a bar, tells of it."""
    if unless is not None or not talks():
        yield
        return
    timer = threading.Timer(STARTED, lambda: click.echo(text, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Phases:
    """Names the phases of long work on stderr, where there is no bar: none soon after another, and one ever less."""

    def __init__(self) -> None:
        self._phase, self._said, self._pause = "", time.monotonic(), SILENCE

    def __call__(self, phase: str, done: int, most: int) -> None:
        """A `Report`."""
        name, now = phase.split(" ", 1)[0], time.monotonic()
        if name != self._phase:
            self._phase, self._pause = name, SILENCE
        if now - self._said > self._pause and talks():
            click.echo(f"{phase}, {done} of {most} ..." if done else f"{phase} ...", err=True)
            self._said, self._pause = now, 2.0 * self._pause


def talks() -> bool:
    """Whether a command may say more than its outcome."""
    return logging.getLogger("dsolver").isEnabledFor(logging.WARNING)


@contextmanager
def shown(*, quiet: bool = False) -> Iterator[Report | None]:
    """A progress bar on stderr, as the function to report to; None when stderr is no terminal, or with --quiet."""
    console = Console(stderr=True, markup=False)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description:<20}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[about]}", markup=False),
    )
    details = ProgressText()
    unsubscribe = events.subscribe(details.take)
    try:
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("start", total=1, about="")

            def report(phase: str, done: int, most: int) -> None:
                progress.update(task, description=phase, completed=done, total=most, about=details.text)

            yield report
    finally:
        unsubscribe()


def reporter(report: Report, maxiter: int) -> Callable[[State], None]:
    """The `progress` callback of a solve that reports to a bar, which is full at the end whatever maxiter is."""
    first: list[State] = []

    def show(state: State) -> None:
        if not first or state.iteration <= first[0].iteration:  # the first one, or begun anew
            first[:] = [state]
        made, most = state.iteration - first[0].iteration, maxiter - state.iteration
        left = _iterations_left(first[0].residual, state.residual, made, state.limit, most)
        report(f"CG {state.residual:.1e} > {state.limit:.1e}", state.iteration, state.iteration + math.ceil(left))

    return show


class ProgressText:
    """Rate, time left and exposed communication of the solve that runs, from its events."""

    def __init__(self) -> None:
        self._first: tuple[float, int, float] | None = None  # time, iteration, residual
        self._rate = self._left = ""
        self._exposed = ""

    @property
    def text(self) -> str:
        """The text, as far as it is known by now."""
        return "  ".join(part for part in (self._rate, self._left, self._exposed) if part)

    def take(self, message: dict[str, Any]) -> None:
        """Take a message of `dsolver.monitor.events`."""
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
    """Iterations until the limit is reached, at the rate of convergence so far; at most those that may be made."""
    if limit is not None and residual <= limit:
        return 0
    if not limit or not 0.0 < residual < before or not math.isfinite(before):
        return most
    pace = math.log(before / residual) / made
    return min(most, max(0.0, math.log(residual / limit)) / pace)
