from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.monitor.pages import notebook
from dsolver.monitor.pages.curve import curve
from dsolver.monitor.pages.notebook import Live
from dsolver.monitor.state import State
from tests.support.commands import call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of two runs, of spans, and of kernels."""
    folder = tmp_path_factory.mktemp("runs")
    for name, grid in (("a", ("16", "16", "16")), ("b", ("32", "16", "16"))):
        files = ("--json", str(folder / f"{name}.json"), "--spans", str(folder / f"{name}.jsonl"))
        made = call("hpcg", "--grid", *grid, "--iterations", "5", *files)
        assert made.exit_code == 0, made.output
    kernels = {"spmv": {"ms": 0.93, "bytes": 3.9e9, "share_of_copy": 0.99}}
    (folder / "kernels.json").write_text(json.dumps({"grid": [256] * 3, "copy_gbs": 4150.0, "kernels": kernels}))
    return folder


def everything(folder: Path) -> list[str]:
    return [str(folder / name) for name in ("a.json", "b.json", "a.jsonl", "kernels.json")]


def test_a_page_shows_all_panels_and_needs_no_other_file(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    result = call("report", *everything(folder), "-o", str(out))
    assert result.exit_code == 0, result.output
    page = out.read_text()
    for text in (
        "How to read lanes",
        "Exposed communication is",
        "<svg",
        "<table>",
        "16×16×16",
        "32×16×16",
        "resident/cpu",
    ):
        assert text in page
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    assert "<script" not in page


def test_a_picture(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.png"
    assert call("report", *everything(folder), "-o", str(out)).exit_code == 0
    assert out.read_bytes().startswith(b"\x89PNG")


def test_names_of_files_are_no_formulas(folder: Path, tmp_path: Path) -> None:
    names = {"a.json": "cost_$5_$.json", "b.json": "$.json", "a.jsonl": "$$_$.jsonl", "kernels.json": "$a_$.json"}
    for name, other in names.items():
        (tmp_path / other).write_bytes((folder / name).read_bytes())
    out = tmp_path / "report.html"
    result = call("report", *(str(tmp_path / name) for name in names.values()), "-o", str(out))
    assert result.exit_code == 0, result.output
    assert all(f"<!-- {name}" in out.read_text() for name in names.values()), (
        "as texts, which the picture's notes repeat"
    )


def test_one_panel_for_one_file(folder: Path) -> None:
    from dsolver.monitor.pages import report

    for names, panels in ((["a.json"], 1), (["a.json", "b.json"], 2), (["a.jsonl"], 1), (["kernels.json"], 1)):
        figure = report.draw(report.read([folder / name for name in names]))
        assert len(figure.axes) == panels
    everything = report.draw(report.read([folder / name for name in ("a.json", "b.json", "a.jsonl", "kernels.json")]))
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in everything.axes)
    lanes = report.draw(report.read([folder / "a.jsonl"])).axes[0]
    assert next(label.get_text() for label in lanes.get_yticklabels()) == "rank 0 main"
    assert lanes.patches
    assert "exposed" in lanes.get_title()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "is none of"),
        ('{"problem": "poisson7", "shape": [8, 8, 8], "residuals": [1.0, 0.1]}', "JSON of dsolver solve --json"),
        ("nonsense", "it is no JSON"),
        ('{"a": 1}\n{"b": 2}', "no spans"),
    ],
)
def test_files_of_others_are_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content)
    result = call("report", str(tmp_path / "x.json"), "-o", str(tmp_path / "r.html"))
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "r.html").exists()


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"\xff\xfe\x00")
    result = call("report", str(tmp_path / "x.json"), "-o", str(tmp_path / "r.html"))
    assert result.exit_code == 2
    assert "it is no text" in result.stderr


def test_missing_files_and_wrong_names_are_refused(folder: Path, tmp_path: Path) -> None:
    assert "cannot read" in call("report", "none.json", "-o", str(tmp_path / "r.html")).stderr
    assert "ends with .html or .png" in call("report", str(folder / "a.json"), "-o", str(tmp_path / "r.pdf")).stderr


# -- notebooks --------------------------------------------------------------------------------------------------------


def points(svg: str) -> list[tuple[float, float]]:
    root = ET.fromstring(svg)
    line = root.find("{http://www.w3.org/2000/svg}polyline")
    assert line is not None
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]


def test_a_curve_falls_to_the_right() -> None:
    drawn = points(curve(range(4), [1.0, 1e-2, 1e-4, 1e-6], 1e-5))
    assert [x for x, _ in drawn] == sorted(x for x, _ in drawn)
    assert [y for _, y in drawn] == sorted(y for _, y in drawn)  # downwards
    steps = np.diff([y for _, y in drawn])
    np.testing.assert_allclose(steps, steps[0], atol=0.2)


def test_values_without_a_logarithm_are_left_out() -> None:
    assert len(points(curve(range(4), [1.0, 0.0, float("nan"), 0.1]))) == 2
    assert curve([], []) == ""


def test_a_solution_has_a_view() -> None:
    solution = dsolver.solve(dsolver.problems.hpcg((8, 8, 8)), np.ones((8, 8, 8)))
    shown = solution._repr_html_()
    assert "converged" in shown
    assert len(points(shown[shown.index("<svg") : shown.index("</svg>") + 6])) >= 2


def test_a_view_says_what_to_do_where_a_solve_did_not_converge() -> None:
    problem = dsolver.problems.hpcg((8, 8, 8))
    assert "Raise maxiter" in dsolver.solve(problem, np.ones(problem.grid), maxiter=1)._repr_html_()
    assert "maxiter" not in dsolver.solve(problem, np.ones(problem.grid))._repr_html_()


def words(shown: str) -> list[str]:
    """The texts of a view, which has to be well-formed."""
    return [text.strip() for text in ET.fromstring(shown).itertext() if text.strip()]


def test_a_curve_has_titles_ticks_and_the_tolerance() -> None:
    shown = curve(range(31), [10.0**-k for k in range(31)], 1e-8)
    found = words(shown)
    assert {"iteration", "‖b − A x‖", "tolerance 1.0e-08", "0", "30", "10⁰", "10⁻³⁰"} <= set(found)
    assert 3 <= sum(text.isdecimal() for text in found) <= 7
    assert "stroke-dasharray" in shown
    assert "tolerance" not in curve(range(3), [1.0, 0.1, 0.01])


def test_views_take_the_color_of_the_text_around_them() -> None:
    """Text that is light in a dark theme: only lines have colors of their own, which show on both."""
    root = ET.fromstring(curve(range(4), [1.0, 1e-2, 1e-4, 1e-6], 1e-5))
    assert {item.attrib["fill"] for item in root.iter("{http://www.w3.org/2000/svg}text")} == {"currentColor"}
    drawn = {item.attrib.get("stroke") for item in root.iter()} - {None}
    assert drawn == {"currentColor", "#3b8bd0", "#2f9e5b"}


def test_several_solutions_have_one_view_relative_to_their_right_hand_sides() -> None:
    problem = dsolver.problems.poisson7((8, 8, 8))
    b = np.random.default_rng(0).standard_normal((*problem.grid, 18))
    with dsolver.Solver(problem) as solver:
        found = solver.solve(b, rtol=1e-7)
    shown = words(found._repr_html_())
    assert "Solutions: 18 of 18 converged" in shown[0]
    assert {"tolerance 1.0e-07", "2 more", "15"} <= set(shown)
    assert found._repr_html_().count("<polyline") == 18


def test_problems_estimates_and_hierarchies_have_views() -> None:
    problem = dsolver.problems.diffusion((8, 6, 4), np.ones((8, 6, 4)), bc="periodic")
    shown = words(problem._repr_html_())
    assert shown[0] == "Problem diffusion 8 × 6 × 4"
    assert {"192", "x 8 periodic, y 6 periodic, z 4 periodic", "7 points, from coefficients"} <= set(shown)
    line = sp.diags_array([-np.ones(299), 2.0 * np.ones(300), -np.ones(299)], offsets=[-1, 0, 1]).tocsr()
    assert words(dsolver.matrix(line, chunks=2)._repr_html_())[:5] == [
        "Matrix problem, 300 rows",
        "entries",
        "898",
        "chunks",
        "2",
    ]
    with dsolver.Solver(line, M="amg") as solver:
        assert {"level", "A, MB", "300", "898"} <= set(words(solver.hierarchy._repr_html_()))
    shown = words(dsolver.estimate(dsolver.problems.poisson7((32, 32, 32)), workers=16, device="cuda")._repr_html_())
    assert shown[0] == "Estimate for 16 GPUs"
    assert {"matrices", "halos", "7", "8 more"} <= set(shown)


def test_only_public_names_are_completed() -> None:
    assert dir(dsolver) == sorted([*dsolver.__all__, "__version__", "jax", "torch"])
    for module in (dsolver.problems, dsolver.preconditioners):
        assert dir(module) == sorted(module.__all__)


def test_a_running_solve_is_shown_where_there_is_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    class Handle:
        def update(self, live: Live) -> None:
            shown.append(live._repr_html_())

    def display(live: Live, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(live._repr_html_())
        return Handle()

    monkeypatch.setattr(notebook, "_display", lambda: display)
    live = Live()
    assert "no iteration" in live._repr_html_()
    dsolver.solve(dsolver.problems.hpcg((8, 8, 8)), np.ones((8, 8, 8)), progress=live)
    assert shown
    assert "iteration" in shown[-1]
    live(State(iteration=0, residual=1.0, limit=1e-8))
    assert len(points(live._repr_html_()[live._repr_html_().index("<svg") : -6])) == 1


def test_outside_of_notebooks_nothing_is_shown() -> None:
    assert notebook._display() is None
