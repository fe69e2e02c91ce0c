"""Tells on a terminal how far long work is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Report = Callable[[str, int, int], None]
"""report(phase, done, at most)."""


@contextmanager
def shown() -> Iterator[Report | None]:
    """What to report to, drawn on stderr and gone at the end; None when stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("start", total=1)

        def report(phase: str, done: int, most: int) -> None:
            progress.update(task, description=phase, completed=done, total=most)

        yield report
