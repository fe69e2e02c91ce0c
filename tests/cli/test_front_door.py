"""First tries of users: names of other packages, sizes and names beyond all measure, a standard output that is full."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import call, good, refused

LONG = "x" * 300
GRID = ("--problem", "poisson7", "--grid", "6", "5", "4")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dsolver.cluster.devices.find_gpu", lambda: "no GPU")
    return tmp_path


def test_a_report_of_a_solve() -> None:
    good("solve", *GRID, "--json", "solve.json", "-q")
    good("report", "solve.json", "-o", "r.html")
    page = Path("r.html").read_text(encoding="utf-8")
    assert all(text in page for text in ("solve.json", "poisson7", "6×5×4", "converged"))
    kept = json.loads(Path("solve.json").read_text(encoding="utf-8"))
    Path("broken.json").write_text(json.dumps({**kept, "residuals": [1.0, None], "status": "not_finite"}))
    good("report", "solve.json", "broken.json", "-o", "r.png")
    Path("deep.json").write_text("[" * 100_000, encoding="utf-8")
    assert "it is no JSON" in refused("report", "deep.json", "-o", "s.png")


def test_options_have_the_names_of_arguments_too() -> None:
    b = np.random.default_rng(0).standard_normal((6, 5, 4))
    np.save("b.npy", b)
    good("solve", *GRID, "--b", "b.npy", "--M", "jacobi", "--out", "x.npy", "-q")
    good("solve", *GRID, "--rhs", "b.npy", "--precond", "jacobi", "--out", "y.npy", "-q")
    assert np.array_equal(np.load("x.npy"), np.load("y.npy"))


def test_a_solution_goes_to_matrix_market_and_comes_back() -> None:
    sparse, io = pytest.importorskip("scipy.sparse"), pytest.importorskip("scipy.io")
    io.mmwrite("A.mtx", sparse.diags_array(4.0 + np.arange(9.0) / 7.0))
    io.mmwrite("b.mtx", np.arange(9.0).reshape(-1, 1) / 3.0)
    good("solve", "--matrix", "A.mtx", "--rhs", "b.mtx", "--out", "x.mtx", "-q")
    good("solve", "--matrix", "A.mtx", "--rhs", "b.mtx", "--out", "x.npy", "-q")
    assert np.array_equal(io.mmread("x.mtx").ravel(), np.load("x.npy"))
    good("solve", "--matrix", "A.mtx", "--rhs", "x.mtx", "--x0", "x.mtx", "-q")
    assert "it would hold a vector, but x has the shape (6, 5, 4)" in refused("solve", *GRID, "--out", "y.mtx", "-q")


def test_a_process_of_its_own_shows_no_exposed_communication() -> None:
    assert "xposed" not in good("hpcg", "--grid", "16", "16", "16", "--iterations", "2")
    assert "xposed" not in good("solve", *GRID, "--spans", "spans.jsonl")


@pytest.mark.parametrize(
    "option", ["--out", "--rhs", "--x0", "--json", "--spans", "--checkpoint", "--kappa", "--active"]
)
def test_names_that_are_too_long_are_refused_in_a_line(option: str) -> None:
    name = f"{LONG}.npy" if option != "--checkpoint" else LONG
    said = refused("solve", "--grid", "6", "5", "4", option, name)
    assert "File name too long" in said
    assert len(said) < 200


def test_grids_beyond_all_measure_are_refused_at_once() -> None:
    assert "TiB" in refused("solve", "--grid", "1000000000000000000", "1", "1", "-q")
    assert "more points than 64 bits can count" in refused("solve", "--grid", "1" + "0" * 30, "1", "1", "-q")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grid = " + "[" * 2000 + "]" * 2000, "it is no TOML"),
        ("kappa = " + "{a=" * 500 + "1" + "}" * 500, "it is no TOML|File name too long"),  # by Python's room for calls
        ("grid = [4, 4]\nsource = 1" + "0" * 400, "source must be a finite number, not inf"),
        ("[kappa]\na = 1", r"\{'a': 1\} is neither a number nor a file"),
        (f"grid = [4, 4]\nkappa = '{LONG}'\nsource = 1", "File name too long"),
    ],
)
def test_a_case_of_any_shape_is_refused_in_a_line(text: str, message: str) -> None:
    Path("case.toml").write_text(text, encoding="utf-8")
    assert re.search(message, refused("solve", "--problem", "case.toml"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [("--version",), ("solve", "--help"), ("solve", *GRID, "--json", "-")])
def test_a_standard_output_that_is_full_is_told_in_a_line(
    arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dsolver.cli import main

    with suppress(OSError), Path("/dev/full").open("w", encoding="utf-8") as full:  # which fails once more
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        assert sys.stdout is not full  # Python will flush it at its end
        sys.stdout.close()
    assert ended.value.code == 2
    assert "error: cannot write to standard output: No space left on device" in capfd.readouterr().err


def test_bad_input_of_any_length_is_told_in_a_line() -> None:
    assert len(call("solve", "--problem", "x" * 10**5).stderr) < 2500
