"""Views for notebooks: a residual curve as inline SVG, of a finished solve and of one that runs."""

from __future__ import annotations

import html
import importlib
import math
from collections.abc import Sequence
from typing import Any, Final, Protocol, final

WIDTH: Final = 460
HEIGHT: Final = 170
MARGIN: Final = 44


class _State(Protocol):
    """What `dsolver.State` has."""

    @property
    def iteration(self) -> int: ...
    @property
    def residual(self) -> float: ...
    @property
    def limit(self) -> float: ...


def curve(iterations: Sequence[int], residuals: Sequence[float], limit: float = 0.0) -> str:
    """Residuals on a logarithmic axis as SVG; the limit is a dashed line. Values without a logarithm are left out."""
    points = [(i, math.log10(r)) for i, r in zip(iterations, residuals, strict=True) if r > 0.0 and math.isfinite(r)]
    if not points:
        return ""
    heights = [y for _, y in points] + ([math.log10(limit)] if limit > 0.0 else [])
    low, high = math.floor(min(heights)), math.ceil(max(heights))
    high = max(high, low + 1)
    last = max(points[-1][0], 1)

    def place(x: float, y: float) -> str:
        across = MARGIN + (WIDTH - MARGIN - 8) * x / last
        return f"{across:.1f},{8 + (HEIGHT - 30) * (high - y) / (high - low):.1f}"

    left, bottom = place(0, low).split(",")
    right, top = place(last, high).split(",")
    dashed = ""
    if limit > 0.0:
        level = place(0, math.log10(limit)).split(",")[1]
        dashed = f'<line x1="{left}" y1="{level}" x2="{right}" y2="{level}" stroke="#2ca02c" stroke-dasharray="4"/>'
    frame = f'width="{float(right) - float(left):.1f}" height="{float(bottom) - float(top):.1f}"'
    style = f'width="{WIDTH}" height="{HEIGHT}" font-size="11" font-family="sans-serif"'
    line = " ".join(place(*point) for point in points)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {style}>'
        f'<rect x="{left}" y="{top}" {frame} fill="none" stroke="#999"/>{dashed}'
        f'<text x="2" y="{float(top) + 9:.1f}">1e{high}</text><text x="2" y="{bottom}">1e{low}</text>'
        f'<text x="{left}" y="{HEIGHT - 6}">0</text><text x="{right}" y="{HEIGHT - 6}" text-anchor="end">{last}</text>'
        f'<polyline fill="none" stroke="#1f77b4" stroke-width="1.8" points="{line}"/></svg>'
    )


def view(title: str, drawing: str) -> str:
    """A line of text above a drawing, as HTML."""
    return f"<div><div>{html.escape(title)}</div>{drawing}</div>"


@final
class Live:
    """Shows a solve while it runs, in a notebook: pass it as ``progress=dsolver.Live()``.

    Outside of notebooks it only keeps what it is told.
    """

    def __init__(self) -> None:
        self._iterations: list[int] = []
        self._residuals: list[float] = []
        self._limit = 0.0
        self._handle: Any = None

    def __call__(self, state: _State) -> None:
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
            return view("no iteration yet", "")
        title = f"iteration {self._iterations[-1]}, ‖b − Ax‖ = {self._residuals[-1]:.3e}"
        return view(title, curve(self._iterations, self._residuals, self._limit))


def _display() -> Any:
    """IPython's display function, inside of it; else None."""
    try:
        found = importlib.import_module("IPython")
    except ImportError:
        return None
    return found.display.display if found.get_ipython() is not None else None
