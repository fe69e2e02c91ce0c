"""Tables and plots of docs/performance.md, made from the figures in bench/results.

    python -m pip install -e '.[plots]'
    python docs/performance.py

A table, with the commands that measure it, stands in the page between the comments ``table: NAME`` and ``end``; the
text around them is written by hand. Each plot is an SVG in docs/pictures, for light and dark pages: its ground is
clear, and its colors are of middle brightness. A picture carries a checksum of the figures that it shows, by which the
tests find one that is older.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

DOCS: Final = Path(__file__).resolve().parent
PAGE: Final = DOCS / "performance.md"
RESULTS: Final = tuple(DOCS.parent / "bench" / "results" / name for name in ("h200.json", "two-cores.json"))
PICTURES: Final = DOCS / "pictures"

INK: Final = "#777777"
"""Color of text and axes, with a contrast of four to a light and to a dark page."""
BLUE, GREEN, RED, PURPLE, BROWN = "#3b8bd0", "#2f9e5b", "#d55e00", "#a873c8", "#a98532"

Series = dict[str, list[tuple[Any, float]]]
"""Points by the name of their line, each with its place and its value."""


KINDS: Final = ("first solve", "later solve")
COEFFICIENTS: Final = ("constant coefficients", "smooth κ", "channels")
SOLVERS: Final = ('dsolver, M="mg"', 'dsolver, M="amg"', "hypre BoomerAMG", "hypre PFMG", "AMGX")


def draw_products(plt: Any, data: Series) -> Any:
    figure, axes = plt.subplots(figsize=(8, 6.6))
    place = {name: -i for i, (name, _) in enumerate(data["chunks"])}
    looks = zip((INK, BLUE, GREEN, PURPLE, RED), ".oD^s", (5, 6, 5, 6, 6), strict=True)
    for (label, line), (color, marker, size) in zip(data.items(), looks, strict=True):
        xs, ys = [ratio for _, ratio in line], [place[name] for name, _ in line]
        axes.plot(xs, ys, linestyle="", marker=marker, markersize=size, color=color, label=label, alpha=0.85)
    axes.axvline(1.0, color=INK, linewidth=1.2)
    axes.set(xscale="log", xlim=(0.5, 400.0), yticks=list(place.values()), yticklabels=place)
    axes.set_xlabel("time of a product over that of the fastest of cuSPARSE's three (line at 1)")
    plain(axes.xaxis, (0.5, 1, 2, 5, 10, 20, 50, 100, 200))
    axes.grid(axis="both", alpha=0.25)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def draw_sizes(plt: Any, data: dict[str, Series]) -> Any:
    figure, rows = plt.subplots(len(KINDS), len(COEFFICIENTS), figsize=(9, 5.6), sharex=True, sharey=True)
    looks = dict(zip(SOLVERS, zip((BLUE, GREEN, RED, BROWN, PURPLE), "oDs^v", strict=True), strict=True))
    for axes, (title, lines) in zip(rows.flat, data.items(), strict=True):
        for solver, line in lines.items():
            color, marker = looks[solver]
            axes.plot(*zip(*line, strict=True), color=color, marker=marker, markersize=6, label=solver)
        axes.set_title(title, fontsize=10)
        axes.set(xscale="log", yscale="log", ylim=(0.005, 3.0))
        plain(axes.xaxis, (128, 256, 512, 1024))
        plain(axes.yaxis, (0.01, 0.1, 1))
        axes.grid(alpha=0.25)
    for axes in rows[:, 0]:
        axes.set_ylabel("seconds to 1e-8")
    for axes in rows[-1]:
        axes.set_xlabel("points along an edge of the cube")
    handles = {line.get_label(): line for axes in rows.flat for line in axes.get_lines()}
    figure.legend(handles=[handles[name] for name in SOLVERS], loc="outside upper center", ncols=5, frameon=False)
    return figure


def draw_fields(plt: Any, data: dict[str, list[Any]]) -> Any:
    """Ratios of the first and of a later solve, the last two numbers of each row, in a panel for each size."""
    rows = max(map(len, data.values()))
    figure, panels = plt.subplots(1, len(data), figsize=(9, 1.2 + 0.19 * rows), sharex=True)
    for axes, (title, fields) in zip(panels, data.items(), strict=True):
        names, first, later = zip(
            *((row[0], *row[-2:]) for row in sorted(fields, key=lambda row: row[-2])), strict=True
        )
        places = range(len(names))
        axes.hlines(places, later, first, color=INK, alpha=0.4)
        for label, ratios, color, marker in zip(KINDS, (first, later), (BLUE, GREEN), "oD", strict=True):
            axes.plot(ratios, places, marker, color=color, label=label)
            axes.axvline(mean(ratios), color=color, linestyle=":", linewidth=1.5)
        axes.axvline(1.0, color=INK, linewidth=1.2)
        axes.set_title(title, fontsize=10)
        axes.set(xscale="log", xlim=(0.1, 1.4), yticks=list(places), yticklabels=names)
        plain(axes.xaxis, (0.15, 0.25, 0.4, 0.6, 1))
        axes.grid(axis="x", alpha=0.25)
    figure.supxlabel("time over the better rival's (line at 1; dotted: geometric means)", color=INK, fontsize=10)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    return figure


def draw_growth(plt: Any, data: dict[str, Series]) -> Any:
    figure, panels = plt.subplots(1, len(data), figsize=(9, 4.0), sharey=True)
    for axes, (title, lines) in zip(panels, data.items(), strict=True):
        for (label, line), color, marker in zip(
            lines.items(), (BLUE, GREEN, PURPLE, BROWN, RED), "oDs^v", strict=False
        ):
            axes.plot(*zip(*line, strict=True), color=color, marker=marker, markersize=5, label=label)
        axes.set_title(title.replace(", by ", ",\nby "), fontsize=9)
        axes.set(xscale="log", yscale="log", ylim=(5, 400))
        plain(axes.xaxis, sorted({x for line in lines.values() for x, _ in line}))
        plain(axes.yaxis, (5, 10, 20, 50, 100, 200))
        axes.grid(alpha=0.25)
        axes.legend(loc="upper left", frameon=False, fontsize=8)
    panels[0].set_ylabel("iterations")
    return figure


def draw_scaling(plt: Any, data: dict[str, Series]) -> Any:
    figure, panels = plt.subplots(1, len(data), figsize=(9, 3.8))
    for axes, (title, lines) in zip(panels, data.items(), strict=True):
        looks = zip(
            (BLUE, RED, BLUE, GREEN) if axes is panels[0] else (BLUE, GREEN) * 2, ("o-", "s-", "o:", "D:"), strict=True
        )
        for (label, line), (color, style) in zip(lines.items(), looks, strict=True):
            axes.plot(*zip(*line, strict=True), style, color=color, markersize=5, label=label)
        axes.set_xscale("log", base=2)
        axes.set(xlabel="GPUs, 256³ points on each", ylabel=title)
        plain(axes.xaxis, (1, 4, 16, 64, 512, 4096))
        axes.grid(alpha=0.25)
        axes.legend(loc="lower left" if axes is panels[0] else "upper left", frameon=False, fontsize=8)
    panels[0].set(ylim=(0.0, 105.0))
    panels[1].set(yscale="log", ylim=(0.01, 100.0))
    plain(panels[1].yaxis, (0.01, 0.1, 1, 10))
    return figure


def mean(values: Any) -> float:
    """Geometric mean."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def plain(axis: Any, ticks: Sequence[float]) -> None:
    """Label a logarithmic axis by these numbers."""
    axis.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def figures() -> dict[str, Any]:
    """Measured figures by their name, of all machines."""
    files = [json.loads(path.read_text(encoding="utf-8"))["figures"] for path in RESULTS]
    return {name: found for file in files for name, found in file.items()}


def table(found: dict[str, Any]) -> str:
    """Commands and a table of Markdown; a cell of several numbers is written by its column's pattern."""

    def cell(value: Any, pattern: str) -> str:
        if value is None or isinstance(value, str):
            return value or ""
        return pattern.format(*value) if isinstance(value, list) else (pattern or "{}").format(value)

    patterns = list(found["columns"].values())
    rows = [[cell(*pair) for pair in zip(row, patterns, strict=True)] for row in found["rows"]]
    head, *body = [
        "".join(f"| {text} " if text else "| " for text in row) + "|\n" for row in [list(found["columns"]), *rows]
    ]
    commands = "".join(f"    {command}\n" for command in found["from"])
    return "".join([commands, "\n", head, "|---" * len(patterns), "|\n", *body])


def with_tables(text: str) -> str:
    """The page with the tables that the results have today."""
    known = figures()
    place = re.compile(r"(?<=<!-- table: )(\w+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
    return place.sub(lambda found: f"{found[1]}{found[2]}\n{table(known[found[1]])}\n", text)


@final
@dataclass(frozen=True, kw_only=True)
class Plot:
    """A picture of measured figures.

    Attributes:
        name: its file, without the ending, and its figures in the results.
        draw: draws these with matplotlib.
    """

    name: str
    draw: Callable[[Any, Any], Any]

    def data(self) -> Any:
        """Figures that it shows: points by the name of their line; for sizes and fields by panel first."""
        return figures()[self.name]["data"]

    def checksum(self) -> str:
        """Checksum of what the picture shows."""
        return hashlib.sha256(json.dumps(self.data()).encode()).hexdigest()[:16]

    def write(self, plt: Any) -> None:
        """Draw the picture."""
        figure = self.draw(plt, self.data())
        about = {"Date": None, "Creator": "docs/performance.py", "Description": f"figures {self.checksum()}"}
        figure.savefig(PICTURES / f"{self.name}.svg", metadata=about, transparent=True)
        plt.close(figure)


PLOTS: Final = (
    Plot(name="products", draw=draw_products),
    Plot(name="sizes", draw=draw_sizes),
    Plot(name="fields", draw=draw_fields),
    Plot(name="cores", draw=draw_fields),
    Plot(name="growth", draw=draw_growth),
    Plot(name="weak_scaling", draw=draw_scaling),
)


def main() -> None:
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    import matplotlib.pyplot as plt

    colored = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color")
    plt.switch_backend("svg")
    plt.rcParams.update(dict.fromkeys(colored, INK))
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "dsolver", "figure.constrained_layout.use": True})
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    for plot in PLOTS:
        plot.write(plt)


if __name__ == "__main__":
    main()
