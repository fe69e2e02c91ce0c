"""Several right-hand sides of `dsolver solve`, in files of each kind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import dsolver
from dsolver import problems
from tests.support.commands import call

SHAPE = (6, 5, 4)
GRID = ("--problem", "poisson7", "--grid", *map(str, SHAPE))
B = np.random.default_rng(0).standard_normal((*SHAPE, 3))


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def good(*command: str) -> str:
    result = call("solve", *command)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_x_has_the_order_of_b_and_each_is_told() -> None:
    np.save("b.npy", B)
    said = good(*GRID, "--rhs", "b.npy", "--x0", "b.npy", "--out", "x.npy", "--json", "found.json")
    assert "right-hand side 2, residual ‖b - A x‖" in said
    assert said.count("x written to") == 1
    wanted = dsolver.solve(problems.poisson7(SHAPE), B, x0=B)
    assert np.array_equal(np.load("x.npy"), wanted.x)
    told = json.loads(Path("found.json").read_text())
    assert [each["iterations"] for each in told] == [one.iterations for one in wanted]  # type: ignore[attr-defined]
    assert call("solve", *GRID, "--rhs", "b.npy", "--precond", "jacobi", "--maxiter", "1", "-q").exit_code == 1


def test_a_first_axis_that_counts_is_refused() -> None:
    np.save("b.npy", np.moveaxis(B, -1, 0))
    result = call("solve", *GRID, "--rhs", "b.npy")
    assert result.exit_code == 2
    assert (
        "has shape (3, 6, 5, 4), but --grid is (6, 5, 4): they must be equal; several are (6, 5, 4, k)" in result.stderr
    )


def test_vectors_of_a_matrix_in_a_file_of_the_market() -> None:
    scipy.io.mmwrite("A.mtx", sp.diags_array([1.0, 2.0, 4.0]))
    scipy.io.mmwrite("b.mtx", np.array([[1.0, 2.0], [2.0, 4.0], [4.0, 8.0]]))
    good("--matrix", "A.mtx", "--rhs", "b.mtx", "--out", "x.mtx", "-q")
    assert np.allclose(scipy.io.mmread("x.mtx"), [[1.0, 2.0]] * 3)


def test_axes_with_names_stand_in_any_order_in_a_file() -> None:
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    pytest.importorskip("h5netcdf", reason="h5netcdf is not installed")
    np.save("b.npy", B)
    good(*GRID, "--rhs", "b.npy", "--out", "x.nc", "-q")
    x = xarray.load_dataset("x.nc", engine="h5netcdf")["solution"]
    assert x.dims == ("x", "y", "z", "column")
    b = xarray.DataArray(B, dims=("x", "y", "z", "time"), name="source")
    b.transpose("time", "z", "y", "x").to_netcdf("b.nc", engine="h5netcdf")
    good(*GRID, "--rhs", "b.nc", "--out", "y.nc", "-q")
    y = xarray.load_dataset("y.nc", engine="h5netcdf")["solution"]
    assert y.dims == ("x", "y", "z", "time")
    assert np.array_equal(y.values, x.values)
