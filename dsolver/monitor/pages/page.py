"""The page /dsolver of the dashboard: residuals, the lanes of a measured iteration, exposed communication, speed."""

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource, DataRange1d, FactorRange, HoverTool
from bokeh.models.widgets import Div, Select
from bokeh.plotting import figure

from dsolver.monitor.history import SolveHistory, SolveRecord, WorkerMemory
from dsolver.monitor.pages.lanes import COLORS, EXPLANATION, LANE, MEANINGS, TIME, rectangles
from dsolver.monitor.spans import SUMS, exposed_text

if TYPE_CHECKING:
    from bokeh.document import Document

MILLISECONDS: Final = 500  # milliseconds between two updates of a page
TOP_HEIGHT: Final = 260  # pixels of the figures above the lanes, at least
RESIDUALS: Final = {"hpcg": "‖r‖ / ‖r₀‖", "eigenvalues": "‖Ax − λBx‖"}
"""Label of the curve, where it is of no system Ax = b."""
NEWEST: Final = ""  # the choice of the newest solve that runs


class Page:
    """The figures of one open page, updated from a history."""

    def __init__(self, history: SolveHistory) -> None:
        self._history = history
        self._shown: tuple[Any, ...] = ()
        self.choice = Select(title="Solve", value=NEWEST, options=self._options(), width=520)
        self.facts = Div(sizing_mode="stretch_width")
        self.curve = ColumnDataSource({"iteration": [], "residual": []})
        self.lanes = ColumnDataSource({name: [] for name in ("lane", "left", "right", "color", "what", "us", "kind")})
        self.levels = ColumnDataSource({"level": [], "percent": []})
        self.memory = ColumnDataSource({"worker": [], "gib": []})
        self.limit = ColumnDataSource({"iteration": [], "residual": []})
        self._residual = self._residual_figure()
        self._timeline = self._timeline_figure()
        self._exposed = _bars(self.levels, "level", "percent", "Exposed communication")
        self._exposed.xaxis.axis_label = "multigrid level, or sums, which belong to none"
        self._exposed.yaxis.axis_label = "% of the iteration"
        self._used = _bars(self.memory, "worker", "gib", "Memory")
        self._used.xaxis.axis_label = "worker"
        self._used.yaxis.axis_label = "GiB"
        # A tall window is shared by all figures, down to heights at which they can still be read.
        self.root = column(
            row(self.choice, self.facts, sizing_mode="stretch_width"),
            row(self._residual, self._exposed, self._used, sizing_mode="stretch_both", min_height=TOP_HEIGHT),
            Div(text=_key(), sizing_mode="stretch_width"),
            self._timeline,
            sizing_mode="stretch_both",
        )

    def update(self, memory: Mapping[str, Sequence[WorkerMemory]]) -> None:
        """Show the history as it is now, and the memory of each worker."""
        if (options := self._options()) != self.choice.options:
            self.choice.options = options
        self._show_memory(memory)
        solve = self._history.select(self.choice.value)
        if solve is None:
            self.facts.text = "No solve has begun yet."
            return
        now = (solve.id, len(solve.iterations), solve.state, solve.end, solve.spans, len(solve.start))
        if now == self._shown:
            return
        self._shown = now
        self.facts.text = facts(solve)
        self.curve.data = {"iteration": list(solve.iterations), "residual": list(solve.residuals)}
        limit = (solve.state or {}).get("limit")
        ends = [0, max(solve.iterations, default=0)] if limit else []
        self.limit.data = {"iteration": ends, "residual": [limit for _ in ends]}
        self._residual.title.text = "Residual" + "; dashed: the tolerance" * bool(limit)
        self._residual.yaxis.axis_label = RESIDUALS.get(solve.start.get("what", ""), "‖r‖ = ‖b − Ax‖")
        self._show_spans(solve)

    def _options(self) -> list[Any]:
        return [(NEWEST, "the newest that runs"), *((s.id, s.title) for s in self._history.solves.values())]

    def _show_spans(self, solve: SolveRecord) -> None:
        drawn = rectangles(solve)
        lanes = list(dict.fromkeys(drawn["lane"]))
        self._timeline.y_range.factors = lanes[::-1]
        self._timeline.min_height = 120 + 28 * max(len(lanes), 3)
        self._timeline.max_height = 120 + 80 * max(len(lanes), 3)
        self.lanes.data = drawn
        measured = solve.spans["iteration"] if solve.spans else None
        self._timeline.title.text = (
            "Lanes of a measured iteration" if measured is None else f"Lanes of iteration {measured}, as measured"
        )
        levels = (solve.spans or {}).get("exposure", {}).get("levels", {})
        names = [name if name == SUMS else f"level {name}" for name in levels]
        self._exposed.x_range.factors = names
        self.levels.data = {"level": names, "percent": [level["percent"] for level in levels.values()]}

    def _show_memory(self, memory: Mapping[str, Sequence[WorkerMemory]]) -> None:
        parts = [(address.rpartition("/")[2], part) for address, each in memory.items() for part in each]
        names = [f"{worker} {part.where}" for worker, part in parts]
        gib = [part.used / 2**30 for _, part in parts]
        if names != self._used.x_range.factors:
            self._used.x_range.factors = names
        self.memory.data = {"worker": names, "gib": gib}

    def _residual_figure(self) -> Any:
        plot = figure(
            title="Residual", y_axis_type="log", height=TOP_HEIGHT, sizing_mode="stretch_both", tools="pan,reset"
        )
        plot.line("iteration", "residual", source=self.curve, line_width=2)
        plot.scatter("iteration", "residual", source=self.curve, size=4)
        plot.line("iteration", "residual", source=self.limit, line_color="#2ca02c", line_dash="dashed", line_width=2)
        plot.add_tools(HoverTool(tooltips=[("iteration", "@iteration"), ("residual", "@residual{0.000e+0}")]))
        plot.xaxis.axis_label = "iteration"
        return plot

    def _timeline_figure(self) -> Any:
        plot = figure(
            title="Lanes of a measured iteration",
            y_range=FactorRange(),
            x_range=DataRange1d(start=0.0),
            height=220,
            sizing_mode="stretch_both",
            tools="xpan,xwheel_zoom,xbox_zoom,reset",
            active_scroll="xwheel_zoom",
        )
        bars = plot.hbar(
            y="lane", left="left", right="right", height=0.8, color="color", line_color=None, source=self.lanes
        )
        plot.add_tools(HoverTool(tooltips=[("what", "@what"), ("kind", "@kind"), ("µs", "@us{0.0}")], renderers=[bars]))
        plot.xaxis.axis_label = TIME
        plot.yaxis.axis_label = LANE
        return plot


def _key() -> str:
    """The legend of the colors and how to read the lanes, as HTML."""
    square = "<span style='white-space: nowrap'><span style='color: {}; font-size: 140%'>■</span> {}: {}</span>"
    kinds = " &nbsp; ".join(square.format(color, kind, MEANINGS[kind]) for kind, color in COLORS.items())
    return f"<div>{html.escape(EXPLANATION)}</div><div>{kinds}</div>"


def _bars(source: ColumnDataSource, x: str, top: str, title: str) -> Any:
    plot: Any = figure(title=title, x_range=FactorRange(), height=TOP_HEIGHT, sizing_mode="stretch_both", tools="")
    plot.vbar(x=x, top=top, width=0.7, source=source, color="#ff7f0e" if x == "level" else "#1f77b4")
    plot.y_range.start = 0
    plot.add_tools(HoverTool(tooltips=[(x, f"@{x}"), (top, f"@{top}{{0.00}}")]))
    plot.xaxis.major_label_orientation = 0.6
    return plot


def facts(solve: SolveRecord) -> str:
    """The text above the figures, as HTML."""
    start, state, end = solve.start, solve.state or {}, solve.end or {}
    chunks, workers = "×".join(map(str, start.get("chunks", ()))), len(start.get("workers", ())) or "no"
    lines = [f"{start.get('engine', '')}/{start.get('kernels', '')}, chunks {chunks} on {workers} workers"]
    newest = end or state
    if newest:
        residual = newest["residual"]
        lines.append(f"iteration {newest['iteration']}" + ("" if residual is None else f", residual {residual:.3e}"))
    if state.get("rate"):
        lines.append(f"{state['rate']:.1f} iterations/s ({state['phase']})")
    elif not end:
        lines.append(html.escape(state.get("phase", "set-up")))
    exposure = (solve.spans or {}).get("exposure")
    if exposure:
        lines.append(exposed_text(exposure))
    speed = _speed(start, state)
    lines += [speed] if speed else []
    if end:
        lines.append(f"<b>{html.escape(end['status'])}</b> after {end['seconds']:.2f} s")
        lines += [html.escape(end["error"])] if end.get("error") else []
    lines += [f"worker {html.escape(worker)} has left" for worker in start.get("lost", ())]
    return "<div style='font-size: 110%'>" + " · ".join(lines) + "</div>"


def _speed(start: dict[str, Any], state: dict[str, Any]) -> str:
    """The GB/s of the iterations, and their percentage of the copy bandwidth; empty where not known."""
    moved, copy, rate = start.get("iteration_bytes"), start.get("copy_bandwidth"), state.get("rate")
    if not (moved and rate):
        return ""
    gbs = moved * rate / 1e9
    digits = ".0f" if gbs >= 100 else ".3g"
    return f"{gbs:{digits}} GB/s" + (f", {100 * gbs * 1e9 / copy:.2g} % of the copy bandwidth" if copy else "")


def document(history: SolveHistory, memory: Any, doc: "Document") -> None:
    """Fill a document of the server with a page that follows the history; memory() is that of the workers."""
    page = Page(history)
    page.update(memory())
    doc.title = "dsolver"
    doc.add_root(page.root)
    doc.add_periodic_callback(lambda: page.update(memory()), MILLISECONDS)
