"""`dsolver solve` with diffusion from files, in planes, with saves and with JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dsolver
from dsolver.problems import Dirichlet, Neumann, Robin, diffusion, poisson5
from tests.support.commands import call, good, refused

SHAPE = (12, 10)
RNG = np.random.default_rng(0)
KAPPA = RNG.lognormal(size=SHAPE)
SOURCE = RNG.standard_normal(SHAPE)
ACTIVE = RNG.random(SHAPE) < 0.9
WARM = np.linspace(0.0, 1.0, 10)
CASE = """
grid = [12, 10]
kappa = "k.npy"
sigma = 0.1
spacing = [0.5, 0.25]
active = "active.npy"
source = "f.npy"

[bc]
"x-" = "dirichlet:warm.npy"
"x+" = "neumann:0.3"
y = "robin:2:0.5"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs beside a folder with the arrays and a case, on a machine that shows no GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dsolver.cluster.devices.find_gpu", lambda: "no GPU")
    Path("in").mkdir()
    for name, values in {"k": KAPPA, "f": SOURCE, "active": ACTIVE, "warm": WARM, "cube": np.ones((4, 4, 4))}.items():
        np.save(f"in/{name}.npy", values)
    Path("in/case.toml").write_text(CASE, encoding="utf-8")
    return tmp_path


def expected() -> np.ndarray:
    conditions = {"x-": Dirichlet(WARM), "x+": Neumann(0.3), "y": Robin(2.0, 0.5)}
    problem = diffusion(SHAPE, KAPPA, 0.1, spacing=(0.5, 0.25), bc=conditions, mask=~ACTIVE)
    return np.asarray(dsolver.solve(problem, SOURCE).x)


def test_diffusion_from_options_and_from_a_case() -> None:
    good("solve", "--problem", "in/case.toml", "--out", "case.npy")
    assert np.array_equal(np.load("case.npy"), expected())
    options = (
        "--kappa in/k.npy --sigma 0.1 --spacing 0.5 0.25 --active in/active.npy --source in/f.npy "
        "--bc x-=dirichlet:in/warm.npy x+=neumann:0.3 --bc y=robin:2:0.5 --out options.npy"
    )
    good("solve", *options.split())
    assert np.array_equal(np.load("options.npy"), expected())
    np.save("in/mask.npy", ~ACTIVE)
    good("solve", "--problem", "in/case.toml", "--mask", "in/mask.npy", "--out", "mask.npy")
    assert np.array_equal(np.load("mask.npy"), expected())


def test_options_take_the_place_of_what_a_case_says() -> None:
    good(
        "solve",
        *["--problem", "in/case.toml", "--sigma", "0", "--bc", "x-=dirichlet:1", "x+=neumann", "--out", "x.npy"],
    )
    conditions = {"x-": Dirichlet(1.0), "y": Robin(2.0, 0.5), "x+": "neumann"}
    problem = diffusion(SHAPE, KAPPA, spacing=(0.5, 0.25), bc=conditions, mask=~ACTIVE)
    assert np.array_equal(np.load("x.npy"), dsolver.solve(problem, SOURCE).x)


def test_coefficients_for_each_axis_in_zarr() -> None:
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array("k.zarr", shape=SHAPE, chunks=(6, 5), dtype="float64")
    stored[...] = KAPPA
    good("solve", *["--kappa", "k.zarr", "0.01", "--source", "2", "--chunks", "2", "1", "--out", "x.npy"])
    x = dsolver.solve(diffusion(SHAPE, (KAPPA, 0.01), chunks=(2, 1)), np.full(SHAPE, 2.0)).x
    assert np.array_equal(np.load("x.npy"), x)


def test_a_plane_and_json_alone_on_stdout() -> None:
    result = call(
        *[
            "solve",
            "--problem",
            "poisson5",
            "--grid",
            "24",
            "20",
            "--json",
            "-",
            "--out",
            "x.npy",
            "--atol",
            "1e-9",
            "--rtol",
            "0",
        ]
    )
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["converged"]
    assert found["shape"] == [24, 20]
    assert found["true_residual"] <= 1e-9
    assert len(found["residuals"]) == found["iterations"] + 1
    assert "converged" in result.stderr
    assert np.allclose(np.load("x.npy"), 1.0)
    np.save("b.npy", np.ones((24, 20)))
    good(
        *[
            "solve",
            "--problem",
            "poisson5",
            "--grid",
            "24",
            "20",
            "--rhs",
            "b.npy",
            "--x0",
            "fmg",
            "--out",
            "y.npy",
            "--quiet",
        ]
    )
    assert np.allclose(np.load("y.npy"), dsolver.solve(poisson5((24, 20)), np.ones((24, 20))).x, rtol=1e-6)
    unfinished = call(*["solve", "--problem", "poisson5", "--grid", "24", "20", "--maxiter", "1", "--json", "-"])
    assert unfinished.exit_code == 1
    assert json.loads(unfinished.stdout)["status"] == "max_iterations"
    assert "raise --maxiter" in unfinished.stderr
    rated = call(*["hpcg", "--grid", "16", "16", "16", "--iterations", "2", "--json", "-"])
    assert len(json.loads(rated.stdout)["residuals"]) == 3


def test_a_solve_goes_on_where_the_last_one_was_saved() -> None:
    pytest.importorskip("zarr")
    run = [
        "solve",
        "--problem",
        "in/case.toml",
        "--checkpoint",
        "saves",
        "--resume",
        "--every",
        "0",
        "--json",
        "-",
        "--out",
        "x.npy",
        "--force",
    ]
    first = json.loads(call(*run, "--maxiter", "3").stdout)
    assert "nothing was saved in saves" in first["notes"][0]
    second = json.loads(good(*run))
    assert second["residuals"][0] < 1.001 * first["true_residual"]
    good(*["solve", "--problem", "in/case.toml", "--x0", "x.npy", "--json", "third.json"])
    assert json.loads(Path("third.json").read_text())["iterations"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--kappa none.npy --source 1", "cannot read none.npy: there is no such file"),
        ("--kappa 1 --source 1", "give --grid NX NY NZ, or a file with an array of the grid's shape"),
        ("--kappa in/k.npy", "nothing drives the solution, which is zero: give --source"),
        ("--kappa in/k.npy --source in/cube.npy", "cube.npy has shape (4, 4, 4), but --grid is (12, 10)"),
        ("--kappa in/k.npy in/cube.npy --source 1", "kappa_y has shape (4, 4, 4), but the grid is (12, 10)"),
        (
            "--kappa in/k.npy --active in/f.npy --source 1",
            "active has dtype float64: it must be True at the cells to keep",
        ),
        ("--kappa in/k.npy --bc z=neumann", "the faces are x-, x+, y-, y+"),
        ("--kappa in/k.npy --bc x-", "write FACE=CONDITION, such as x-=dirichlet:1"),
        ("--kappa in/k.npy --bc x-=warm:1", "use dirichlet:VALUE, neumann:FLUX"),
        ("--kappa in/k.npy --bc x=robin", "use dirichlet:VALUE, neumann:FLUX"),
        ("--kappa in/k.npy --bc x-=neumann:1 x-=dirichlet", "--bc names x- twice"),
        ("--kappa in/k.npy --source 1 --rhs in/f.npy", "give it with --source"),
        ("--kappa in/k.npy --problem poisson7", "leave out --problem poisson7"),
        ("--kappa in/k.npy --matrix a.mtx", "give one of them"),
        ("--problem none.toml", "cannot read none.toml: No such file"),
        ("--problem in/k.toml", "it is no TOML"),
        ("--problem in/odd.toml", "has 'Kappa': a case has grid, kappa"),
        ("--problem in/number.toml", "number.toml: grid is a list, such as grid = [64, 64, 64], not 64"),
        ("--problem poisson9 --grid 4 4", "name hpcg, poisson5, poisson7, poisson27, or a case"),
        ("--problem poisson7 --grid 8 8", "poisson7: grid must be three integers, not (8, 8); poisson5 serves a plane"),
        ("--grid 8 8 8 --resume", "--resume needs --checkpoint FOLDER, the folder of the saves"),
        (
            "--kappa in/four.npy --source 1",
            "in/four.npy has shape (1, 1, 1, 1): give --grid, or an array with 1 to 3 ax",
        ),
        ("--kappa in/none.npy --source 1", "in/none.npy has shape (): give --grid, or an array with 1 to 3 axes"),
        ("--kappa in/k.npy --source nan", "source must be a finite number, not nan"),
        ("--kappa in/k.npy --source 1 --active in/never.npy", "every cell is left out"),
        ("--kappa in/k.npy --source 1 --active in/active.npy --mask in/never.npy", "mask and active were given"),
        ("--kappa thick --source 1", "thick is neither a number nor a file"),
        ("--grid 8 8 8 --x0 in/cube.npy", "but --grid is (8, 8, 8)"),
        ("--grid 8 8 8 --x0 fmg --precond jacobi", "x0='fmg' is a guess of full multigrid"),
        ("--grid 8 8 8 --checkpoint in/k.npy", "is a file: name a folder for the checkpoint"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(options: str, message: str) -> None:
    if "--checkpoint" in options:
        pytest.importorskip("zarr")
    np.save("in/four.npy", np.ones((1, 1, 1, 1)))
    np.save("in/none.npy", 1.0)
    np.save("in/never.npy", np.zeros((12, 10), dtype=bool))
    Path("in/k.toml").write_text("kappa = ", encoding="utf-8")
    Path("in/odd.toml").write_text("Kappa = 1", encoding="utf-8")
    Path("in/number.toml").write_text("grid = 64", encoding="utf-8")
    assert message in refused("solve", *options.split())


def test_what_is_estimated_needs_no_source() -> None:
    assert "1 worker" in good("estimate", "--kappa", "in/k.npy")
