"""Views for notebooks, as HTML: facts, tables, and a solve while it runs."""

import html
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from dsolver.monitor.pages.curve import curve
from dsolver.monitor.state import State

CELL: Final = "text-align:left;padding:1px 12px 1px 0;background:none;border:none"
"""Style of a table's cells, which notebooks would align and color by themselves."""


def view(title: str, *parts: str) -> str:
    """A title in bold above parts that are HTML."""
    return f"<div><div><b>{html.escape(title)}</b></div>{''.join(parts)}</div>"


def facts(about: Mapping[str, object]) -> str:
    """Facts by name, a line for each; those that are empty or None are left out."""
    return _table([(name, text) for name, fact in about.items() if (text := "" if fact is None else str(fact))])


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with the names of its columns above."""
    return _table(rows, head)


def _table(rows: Sequence[Sequence[object]], head: Sequence[str] = ()) -> str:
    lines = [_row("th", head)] if head else []
    return f'<table style="border:none">{"".join([*lines, *(_row("td", row) for row in rows)])}</table>'


def _row(tag: str, cells: Sequence[object]) -> str:
    return "<tr>" + "".join(f'<{tag} style="{CELL}">{html.escape(str(cell))}</{tag}>' for cell in cells) + "</tr>"


@final
class Live:
    """View of a solve while it runs, in a notebook: pass it as ``progress=dsolver.Live()``.

    It draws the residual ‖b − A x‖₂ by iteration. Outside of notebooks it only keeps the numbers.
    """

    def __init__(self) -> None:
        self._iterations: list[int] = []
        self._residuals: list[float] = []
        self._limit = 0.0
        self._handle: Any = None

    def __call__(self, state: State) -> None:
        """Take the newest state, and bring the view up to date."""
        if self._iterations and state.iteration < self._iterations[-1]:  # another solve
            self._iterations, self._residuals, self._handle = [], [], None
        self._iterations.append(state.iteration)
        self._residuals.append(state.residual)
        self._limit = state.limit
        if self._handle is not None:
            self._handle.update(self)
        elif (display := _display()) is not None:
            self._handle = display(self, display_id=True)

    def _repr_html_(self) -> str:
        if not self._iterations:
            return view("no iteration yet")
        title = f"iteration {self._iterations[-1]}, ‖b − Ax‖ = {self._residuals[-1]:.3e}"
        return view(title, curve(self._iterations, self._residuals, self._limit))


def _display() -> Any:
    """IPython's display function; None outside of IPython."""
    try:
        found = importlib.import_module("IPython")
    except ImportError:
        return None
    return found.display.display if found.get_ipython() is not None else None
