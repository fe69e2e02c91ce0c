"""The page /dsolver of the dashboard: the residual, the lanes of a measured iteration, exposed communication, speed."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource, FactorRange, HoverTool
from bokeh.models.annotations import Span
from bokeh.models.widgets import Div, Select
from bokeh.plotting import figure

from dsolver.monitor.board import Board, Memory, Watched
from dsolver.monitor.colors import COLORS
from dsolver.monitor.lanes import rectangles
from dsolver.monitor.spans import SUMS

if TYPE_CHECKING:
    from bokeh.document import Document

MILLISECONDS: Final = 500
"""Between two looks at the board."""
NEWEST: Final = ""
"""The choice of whatever solve runs."""


@final
class Page:
    """The figures of one open page, brought up to date from a board."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._shown: tuple[Any, ...] = ()
        self.choice = Select(title="Solve", value=NEWEST, options=self._options(), width=520)
        self.facts = Div(sizing_mode="stretch_width")
        self.curve = ColumnDataSource({"iteration": [], "residual": []})
        self.lanes = ColumnDataSource({name: [] for name in ("lane", "left", "right", "color", "what", "us", "kind")})
        self.levels = ColumnDataSource({"level": [], "percent": []})
        self.memory = ColumnDataSource({"worker": [], "gib": []})
        self.limit = Span(dimension="width", line_color="#2ca02c", line_dash="dashed", visible=False)
        self._residual = self._residual_figure()
        self._timeline = self._timeline_figure()
        self._exposed = _bars(self.levels, "level", "percent", "Exposed communication, % of the iteration, by level")
        self._used = _bars(self.memory, "worker", "gib", "Memory of the workers, GiB")
        self.root = column(
            row(self.choice, self.facts, sizing_mode="stretch_width"),
            row(self._residual, self._exposed, self._used, sizing_mode="stretch_width"),
            Div(text=_key(), sizing_mode="stretch_width"),
            self._timeline,
            sizing_mode="stretch_width",
        )

    def update(self, memory: Mapping[str, Sequence[Memory]]) -> None:
        """Show what the board knows by now, and the memory of each worker."""
        if (options := self._options()) != self.choice.options:
            self.choice.options = options
        self._show_memory(memory)
        solve = self._board.chosen(self.choice.value)
        if solve is None:
            self.facts.text = "No solve has told anything yet."
            return
        now = (solve.id, len(solve.iterations), solve.state, solve.end, solve.spans, len(solve.start))
        if now == self._shown:
            return
        self._shown = now
        self.facts.text = facts(solve)
        self.curve.data = {"iteration": list(solve.iterations), "residual": list(solve.residuals)}
        limit = (solve.state or {}).get("limit")
        self.limit.visible = bool(limit)
        self.limit.location = limit
        self._show_spans(solve)

    def _options(self) -> list[Any]:
        return [(NEWEST, "the newest that runs"), *((s.id, s.title) for s in self._board.solves.values())]

    def _show_spans(self, solve: Watched) -> None:
        drawn = rectangles(solve)
        lanes = list(dict.fromkeys(drawn["lane"]))
        self._timeline.y_range.factors = lanes[::-1]
        self._timeline.height = 120 + 28 * max(len(lanes), 3)
        self.lanes.data = drawn
        measured = solve.spans["iteration"] if solve.spans else None
        self._timeline.title.text = (
            "Lanes of a measured iteration" if measured is None else f"Lanes of iteration {measured}, as measured"
        )
        levels = (solve.spans or {}).get("exposure", {}).get("levels", {})
        names = [name if name == SUMS else f"level {name}" for name in levels]
        self._exposed.x_range.factors = names
        self.levels.data = {"level": names, "percent": [level["percent"] for level in levels.values()]}

    def _show_memory(self, memory: Mapping[str, Sequence[Memory]]) -> None:
        parts = [(address.rpartition("/")[2], part) for address, each in memory.items() for part in each]
        names = [f"{worker} {part.where}" for worker, part in parts]
        gib = [part.used / 2**30 for _, part in parts]
        if names != self._used.x_range.factors:
            self._used.x_range.factors = names
        self.memory.data = {"worker": names, "gib": gib}

    def _residual_figure(self) -> Any:
        plot = figure(
            title="Residual ‖b − Ax‖", y_axis_type="log", height=260, sizing_mode="stretch_width", tools="pan,reset"
        )
        plot.line("iteration", "residual", source=self.curve, line_width=2)
        plot.scatter("iteration", "residual", source=self.curve, size=4)
        plot.add_layout(self.limit)
        plot.add_tools(HoverTool(tooltips=[("iteration", "@iteration"), ("residual", "@residual{0.000e+0}")]))
        plot.xaxis.axis_label = "iteration"
        return plot

    def _timeline_figure(self) -> Any:
        plot = figure(
            title="Lanes of a measured iteration",
            y_range=FactorRange(),
            height=220,
            sizing_mode="stretch_width",
            tools="xpan,xwheel_zoom,xbox_zoom,reset",
            active_scroll="xwheel_zoom",
        )
        bars = plot.hbar(
            y="lane", left="left", right="right", height=0.8, color="color", line_color=None, source=self.lanes
        )
        plot.add_tools(HoverTool(tooltips=[("what", "@what"), ("kind", "@kind"), ("µs", "@us{0.0}")], renderers=[bars]))
        plot.xaxis.axis_label = "milliseconds"
        return plot


def _key() -> str:
    """What the colors mean, as HTML."""
    square = "<span style='color: {}; font-size: 140%'>■</span> {}"
    return " &nbsp; ".join(square.format(color, kind) for kind, color in COLORS.items())


def _bars(source: ColumnDataSource, x: str, top: str, title: str) -> Any:
    plot: Any = figure(title=title, x_range=FactorRange(), height=260, sizing_mode="stretch_width", tools="")
    plot.vbar(x=x, top=top, width=0.7, source=source, color="#ff7f0e" if x == "level" else "#1f77b4")
    plot.y_range.start = 0
    plot.add_tools(HoverTool(tooltips=[(x, f"@{x}"), (top, f"@{top}{{0.00}}")]))
    plot.xaxis.major_label_orientation = 0.6
    return plot


def facts(solve: Watched) -> str:
    """What stands in words above the figures, as HTML."""
    start, state, end = solve.start, solve.state or {}, solve.end or {}
    chunks, workers = "×".join(map(str, start.get("chunks", ()))), len(start.get("workers", ())) or "no"
    lines = [f"{start.get('engine', '')}/{start.get('kernels', '')}, chunks {chunks} on {workers} workers"]
    newest = end or state
    if newest:
        residual = newest["residual"]
        lines.append(f"iteration {newest['iteration']}" + ("" if residual is None else f", residual {residual:.3e}"))
    if state.get("rate"):
        lines.append(f"{state['rate']:.1f} iterations/s ({state['phase']})")
    exposure = (solve.spans or {}).get("exposure")
    if exposure:
        lines.append(
            f"exposed communication {exposure['exposed_percent']:.1f} % "
            f"({exposure['exposed_ms']:.3f} ms of {exposure['iteration_ms']:.3f} ms)"
        )
    speed = _speed(start, state)
    lines += [speed] if speed else []
    if end:
        lines.append(f"<b>{html.escape(end['status'])}</b> after {end['seconds']:.2f} s")
        lines += [html.escape(end["error"])] if end.get("error") else []
    lines += [f"worker {html.escape(worker)} has left" for worker in start.get("lost", ())]
    return "<div style='font-size: 110%'>" + " · ".join(lines) + "</div>"


def _speed(start: dict[str, Any], state: dict[str, Any]) -> str:
    """Bytes a second of the iterations against the device's copy."""
    moved, copy, rate = start.get("iteration_bytes"), start.get("copy_bandwidth"), state.get("rate")
    if not (moved and rate):
        return ""
    gbs = moved * rate / 1e9
    return f"{gbs:.0f} GB/s" + (f", {100 * gbs * 1e9 / copy:.0f} % of the copy bandwidth" if copy else "")


def document(board: Board, memory: Any, doc: Document) -> None:
    """Fill a document of the server with a page that follows the board; memory() tells that of the workers."""
    page = Page(board)
    page.update(memory())
    doc.title = "dsolver"
    doc.add_root(page.root)
    doc.add_periodic_callback(lambda: page.update(memory()), MILLISECONDS)
