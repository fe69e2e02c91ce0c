"""The plots of docs/performance.md, drawn from the tables of that page.

    python -m pip install -e '.[plots]'
    python docs/plots.py

Each plot is an SVG in docs/pictures, for light and dark pages: its ground is clear, and its colors are of middle
brightness. Numbers stand in the tables alone. A picture carries a checksum of those that it shows, by which the tests
find one that is older than its table.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

DOCS: Final = Path(__file__).resolve().parent
PAGE: Final = DOCS / "performance.md"
PICTURES: Final = DOCS / "pictures"

INK: Final = "#777777"
"""Color of text and axes, with a contrast of four to a light and to a dark page."""
BLUE, GREEN, RED, PURPLE, BROWN = "#3b8bd0", "#2f9e5b", "#d55e00", "#a873c8", "#a98532"

Series = dict[str, list[tuple[Any, float]]]
"""Points by the name of their line, each with its place and its value."""


# -- tables ------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the page.

    Attributes:
        heading: the heading above it.
        columns: its first line.
        rows: its other lines, as long as the first.
    """

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> dict[str, str]:
        """Cells of a column by the first cell of their row, without empty ones."""
        place = self.columns.index(name)
        return {row[0]: row[place] for row in self.rows if row[place]}


@final
class Page:
    """The tables of a page in Markdown."""

    def __init__(self, text: str) -> None:
        self._tables = tuple(tables_of(text))

    def table(self, heading: str, *columns: str) -> Table:
        """The table under a heading that has these columns.

        Raises:
            LookupError: there is none, or there are several.
        """
        found = [table for table in self._tables if table.heading == heading and set(columns) <= set(table.columns)]
        if len(found) != 1:
            raise LookupError(f"{len(found)} tables under {heading!r} have columns {columns}, not one")
        return found[0]


def tables_of(text: str) -> Iterator[Table]:
    """The tables of a page, from above."""
    heading, lines = "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            lines.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
        elif lines:
            columns, _, *rows = lines
            yield Table(heading=heading, columns=columns, rows=tuple(rows))
            lines = []
        if line.startswith("#"):
            heading = line.lstrip("# ")


def numbers(cell: str) -> list[float]:
    """The numbers of a cell; of a range the middle. Remarks in brackets and units are left out."""
    words = re.findall(r"\d+(?:\.\d+)?(?:-\d+(?:\.\d+)?)?", re.sub(r"\(.*?\)", "", cell))
    ranges = [[float(bound) for bound in word.split("-")] for word in words]
    return [sum(bounds) / len(bounds) for bounds in ranges]


def only(cell: str) -> float:
    """The one number of a cell."""
    (number,) = numbers(cell)
    return number


# -- where the times of solvers stand ----------------------------------------------------------------------------------

KINDS: Final = ("first solve", "later solve")
CONSTANT, SMOOTH, CHANNELS = "constant coefficients", "smooth κ", "channels"
COEFFICIENTS: Final = (CONSTANT, SMOOTH, CHANNELS)
MG, AMG, BOOMERAMG, PFMG, AMGX = 'dsolver, M="mg"', 'dsolver, M="amg"', "hypre BoomerAMG", "hypre PFMG", "AMGX"
SOLVERS: Final = (MG, AMG, BOOMERAMG, PFMG, AMGX)


@final
@dataclass(frozen=True, kw_only=True)
class Source:
    """A table with times of solvers.

    Attributes:
        table: columns by which the table is found.
        rows: coefficients and points along an edge by row.
        columns: solvers by column.
        times: makes seconds of a first and of a later solve of a cell.
    """

    table: tuple[str, ...]
    rows: dict[str, tuple[str, int]]
    columns: dict[str, str]
    times: Callable[[str], tuple[float, float]]


def in_seconds(cell: str) -> tuple[float, float]:
    """First and later solve of "set-up + solve"."""
    setup, solve = numbers(cell)
    return setup + solve, solve


def in_milliseconds(cell: str) -> tuple[float, float]:
    """First and later solve of "iterations, first; later"."""
    _, first, later = numbers(cell)
    return first / 1e3, later / 1e3


STRUCTURED: Final = "PFMG, for structured grids"
BUILT: Final = {"BoomerAMG": BOOMERAMG, STRUCTURED: PFMG, "AMGX": AMGX, "dsolver": MG}
SOURCES: Final = (
    Source(
        table=("256³", "AMGX"),
        rows={"7 points, constant": (CONSTANT, 256), "smooth κ": (SMOOTH, 256)},
        columns=BUILT,
        times=in_seconds,
    ),
    Source(
        table=("other sizes",),
        rows={
            **{f"7 points, constant, {n}³": (CONSTANT, n) for n in (128, 512, 768, 1024)},
            "smooth κ, 512³": (SMOOTH, 512),
        },
        columns={**BUILT, 'the same with `M="amg"`': AMG},
        times=in_seconds,
    ),
    Source(
        table=("ratios",),
        rows={"smooth": (SMOOTH, 128), "channels": (CHANNELS, 128)},
        columns={'`"mg"`': MG, '`"amg"`': AMG, "hypre": BOOMERAMG},
        times=in_milliseconds,
    ),
    Source(
        table=("256³", '`"amg"`'),
        rows={"constant": (CONSTANT, 256), "smooth": (SMOOTH, 256), "channels": (CHANNELS, 256)},
        columns={'`"amg"`': AMG},
        times=in_milliseconds,
    ),
    Source(
        table=("256³", '`"amg"`'),
        rows={"channels": (CHANNELS, 256)},
        columns={'`"mg"`': MG},
        times=in_milliseconds,
    ),
)


# -- figures -----------------------------------------------------------------------------------------------------------

ANY_MATRIX: Final = "Any sparse matrix, one H200"
RIVALS: Final = "Beside hypre on one H200"
SEVERAL: Final = "Several H200s of one host, through Dask (`LocalCUDACluster`), writing into each other's memory"
ON_PAPER: Final = "Many ranks, on paper and by simulation"
THREADS: Final = ("1", "2", "4", "8", "16", "32")
FORMATS: Final = ("chunks", "slices", "sorted 256", "blocks of 3")


def products(page: Page) -> Series:
    """Time of a product over the vendor's best, by format: (matrix, ratio)."""
    table = page.table(ANY_MATRIX, "sorted 256")
    found = {name: [(row, only(cell)) for row, cell in table.column(name).items()] for name in (*THREADS, *FORMATS)}
    by_threads = [point for name in THREADS for point in found.pop(name)]
    return {"compressed rows, 1 to 32 threads a row": by_threads, **found}


def sizes(page: Page) -> dict[str, Series]:
    """Seconds to 1e-8 by kind of solve and coefficients, and then by solver: (points along an edge, seconds)."""
    found: dict[str, Series] = {f"{kind}: {field}": {} for kind in KINDS for field in COEFFICIENTS}
    for source in SOURCES:
        table = page.table(RIVALS, *source.table)
        if missing := set(source.rows) - {row[0] for row in table.rows}:
            raise LookupError(f"the table with {source.table} has no rows {missing}")
        for row, (field, n) in source.rows.items():
            for column, solver in source.columns.items():
                if row in (cells := table.column(column)):
                    for kind, seconds in zip(KINDS, source.times(cells[row]), strict=True):
                        found[f"{kind}: {field}"].setdefault(solver, []).append((n, seconds))
    return {panel: {solver: sorted(line) for solver, line in lines.items()} for panel, lines in found.items()}


def fields(page: Page) -> Series:
    """Time with M="amg" over that of the better of hypre and AMGX: (field, ratio)."""
    cells = page.table(RIVALS, "ratios").column("ratios")
    ratios = {row.split(",")[0]: numbers(cell) for row, cell in cells.items()}
    return {
        "first solve, with set-up": [(row, first) for row, (first, _) in ratios.items()],
        "later solve": [(row, later) for row, (_, later) in ratios.items()],
    }


def scaling(page: Page) -> Series:
    """Efficiency of weak scaling in percent: (GPUs, efficiency)."""
    measured, model = page.table(SEVERAL, "efficiency"), page.table(ON_PAPER, "GPUs")
    return {
        "HPCG, measured": [(1, 100.0), *points(measured, "efficiency")],
        "the vendor's HPCG, measured": [(1, 100.0), *points(measured, "the vendor's")],
        "HPCG, by the model": [(1, 100.0), *points(model, model.columns[1])],
        '7 points, M="mg", by the model': [(1, 100.0), *points(model, model.columns[2])],
    }


def points(table: Table, column: str) -> list[tuple[int, float]]:
    """(GPUs, percent) of the cells that have a percentage."""
    found = {row: re.search(r"([\d.]+) %", cell) for row, cell in table.column(column).items()}
    return [(int(row), float(match[1])) for row, match in found.items() if match]


# -- pictures ----------------------------------------------------------------------------------------------------------


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


def draw_fields(plt: Any, data: Series) -> Any:
    first, later = (dict(line) for line in data.values())
    names = sorted(first, key=first.__getitem__)
    figure, axes = plt.subplots(figsize=(7, 4.2))
    places = range(len(names))
    axes.hlines(places, [later[name] for name in names], [first[name] for name in names], color=INK, alpha=0.4)
    for (label, line), color, marker in zip(data.items(), (BLUE, GREEN), "oD", strict=True):
        ratios = dict(line)
        axes.plot([ratios[name] for name in names], places, marker, color=color, label=label)
        axes.axvline(mean(ratios.values()), color=color, linestyle=":", linewidth=1.5)
    axes.axvline(1.0, color=INK, linewidth=1.2)
    axes.set(xscale="log", xlim=(0.28, 1.4), yticks=list(places), yticklabels=names)
    axes.set_xlabel('time with M="amg" over the better rival\'s (line at 1; dotted: geometric means)')
    plain(axes.xaxis, (0.3, 0.4, 0.5, 0.7, 1))
    axes.grid(axis="x", alpha=0.25)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return figure


def draw_scaling(plt: Any, data: Series) -> Any:
    figure, axes = plt.subplots(figsize=(7, 3.8))
    looks = zip((BLUE, RED, BLUE, GREEN), ("o-", "s-", "o:", "D:"), (7, 6, 4, 4), strict=True)
    for (label, line), (color, style, size) in zip(data.items(), looks, strict=True):
        axes.plot(*zip(*line, strict=True), style, color=color, markersize=size, label=label)
    axes.set_xscale("log", base=2)
    axes.set(ylim=(0.0, 105.0), xlabel="GPUs, 256³ points on each", ylabel="efficiency, %")
    plain(axes.xaxis, (1, 2, 4, 8, 64, 1024, 4096))
    axes.grid(alpha=0.25)
    axes.legend(loc="lower left", frameon=False)
    return figure


def mean(values: Any) -> float:
    """Geometric mean."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def plain(axis: Any, ticks: tuple[float, ...]) -> None:
    """Label a logarithmic axis by these numbers."""
    axis.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


@final
@dataclass(frozen=True, kw_only=True)
class Plot:
    """A picture of figures that stand on the page.

    Attributes:
        name: its file, without the ending.
        data: takes what it shows from the page.
        draw: draws that with matplotlib.
    """

    name: str
    data: Callable[[Page], Any]
    draw: Callable[[Any, Any], Any]

    def checksum(self, page: Page) -> str:
        """Checksum of what the picture shows."""
        return hashlib.sha256(json.dumps(self.data(page)).encode()).hexdigest()[:16]

    def write(self, page: Page, plt: Any) -> None:
        """Draw the picture."""
        figure = self.draw(plt, self.data(page))
        about = {"Date": None, "Creator": "docs/plots.py", "Description": f"figures {self.checksum(page)}"}
        figure.savefig(PICTURES / f"{self.name}.svg", metadata=about, transparent=True)
        plt.close(figure)


PLOTS: Final = (
    Plot(name="products", data=products, draw=draw_products),
    Plot(name="sizes", data=sizes, draw=draw_sizes),
    Plot(name="fields", data=fields, draw=draw_fields),
    Plot(name="weak_scaling", data=scaling, draw=draw_scaling),
)


def main() -> None:
    import matplotlib.pyplot as plt

    colored = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color")
    plt.switch_backend("svg")
    plt.rcParams.update(dict.fromkeys(colored, INK))
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "dsolver", "figure.constrained_layout.use": True})
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    page = Page(PAGE.read_text(encoding="utf-8"))
    for plot in PLOTS:
        plot.write(page, plt)


if __name__ == "__main__":
    main()
