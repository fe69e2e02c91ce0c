"""The page without a cluster: what its figures are called, and what they show of a solve."""

from __future__ import annotations

from typing import Any

import pytest
from bokeh.models import Plot
from bokeh.models.widgets import Div

from dsolver.monitor.history import SolveHistory, WorkerMemory
from dsolver.monitor.pages.lanes import MEANINGS
from dsolver.monitor.pages.page import Page
from dsolver.monitor.spans import Span, exposure, to_columns

SPANS = [
    Span(kind="inner", name="spmv", level=0, start=10.0, stop=10.003),
    Span(kind="exchange", name="exchange", level=0, lane="halo", start=10.001, stop=10.004),
    Span(kind="wait", name="wait", level=0, start=10.003, stop=10.004),
]


def page_of(what: str) -> Page:
    history = SolveHistory()
    found = exposure(SPANS)
    assert found is not None
    about = {"grid": [8, 8, 8], "chunks": [1, 1, 1], "workers": ["tcp://a:1"], "engine": "resident", "kernels": "cpu"}
    history.add({"solve": "a", "event": "start", "time": 0.0, "what": what, "problem": "7-point", **about})
    history.add({"solve": "a", "event": "state", "time": 1.0, "iteration": 3, "residual": 0.5, "limit": 1e-8,
                 "most": 9, "phase": "CG", "rate": 2.0})  # fmt: skip
    history.add({"solve": "a", "event": "spans", "time": 2.0, "iteration": 3, "spans": to_columns(SPANS),
                 "exposure": found.to_dict()})  # fmt: skip
    page = Page(history)
    page.update({"tcp://a:1": [WorkerMemory("host", 1 << 30, 0)]})
    return page


def plots(page: Page) -> list[Any]:
    return list(page.root.select({"type": Plot}))


@pytest.mark.parametrize(("what", "residual"), [("solve", "‖r‖ = ‖b − Ax‖"), ("hpcg", "‖r‖ / ‖r₀‖")])
def test_every_axis_has_a_title_with_its_unit(what: str, residual: str) -> None:
    found = plots(page_of(what))
    titles = {axis.axis_label for plot in found for axis in (*plot.xaxis, *plot.yaxis)}
    assert len(found) == 4
    assert titles == {
        residual,
        "iteration",
        "% of the iteration",
        "multigrid level, or sums, which belong to none",
        "GiB",
        "worker",
        "milliseconds since the iteration began",
        "rank and lane",
    }


def test_the_page_explains_its_lanes() -> None:
    divs: list[Any] = list(page_of("solve").root.select({"type": Div}))
    text = " ".join(div.text for div in divs)
    assert all(f"{kind}: {meaning}" in text for kind, meaning in MEANINGS.items())
    assert "Exposed communication is the time in which" in text
    assert "exposed communication 25.0 % (1.000 ms of 4.000 ms)" in text


def test_the_tolerance_is_part_of_the_residuals_figure() -> None:
    page = page_of("solve")
    assert page.limit.data == {"iteration": [0, 3], "residual": [1e-8, 1e-8]}
    assert "the tolerance" in {plot.title.text.rpartition(": ")[2] for plot in plots(page)}


def test_figures_share_a_tall_window() -> None:
    page = page_of("solve")
    assert page.root.sizing_mode == "stretch_both"
    assert {plot.sizing_mode for plot in plots(page)} == {"stretch_both"}


def test_lanes_begin_with_the_iteration() -> None:
    page = page_of("solve")
    assert page.lanes.data["lane"] == ["rank 0 main", "rank 0 main", "rank 0 halo"]
    assert page.lanes.data["left"] == pytest.approx([0.0, 3.0, 1.0], abs=1e-3)
    assert page.levels.data["percent"] == pytest.approx([25.0])
