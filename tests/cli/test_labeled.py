"""NetCDF and HDF5 files in and out of `dsolver solve`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import call

xarray = pytest.importorskip("xarray", reason="xarray is not installed")
h5netcdf = pytest.importorskip("h5netcdf", reason="h5netcdf is not installed")
pytest.importorskip("h5py", reason="h5py is not installed")

SHAPE = (6, 5, 4)
GRID = ("--problem", "poisson7", "--grid", *map(str, SHAPE))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def right(dims: tuple[str, ...] = ("x", "y", "z")) -> Any:
    values = np.random.default_rng(0).standard_normal(SHAPE)
    coords = {"x": np.linspace(0.0, 1.0, SHAPE[0]), "y": np.arange(5), "z": [10.0, 20.0, 40.0, 80.0]}
    return xarray.DataArray(values, coords=coords, dims=("x", "y", "z"), name="source").transpose(*dims)


def solved(rhs: str, out: str) -> None:
    result = call("solve", *GRID, "--rhs", rhs, "--out", out, "-q")
    assert result.exit_code == 0, result.output


def expected() -> Any:
    np.save("b.npy", right().values)
    solved("b.npy", "expected.npy")
    return np.load("expected.npy")


@pytest.mark.parametrize("ending", ["nc", "h5"])
def test_a_solution_keeps_the_coordinates_of_its_right_hand_side(ending: str) -> None:
    right().to_netcdf(f"b.{ending}", engine="h5netcdf")
    solved(f"b.{ending}", f"x.{ending}")
    x = xarray.load_dataset(f"x.{ending}", engine="h5netcdf")["solution"]
    assert x.dims == ("x", "y", "z")
    assert x.coords["z"].values.tolist() == [10.0, 20.0, 40.0, 80.0]
    np.testing.assert_array_equal(x.values, expected())


FULL = """
import resource, signal
from pathlib import Path
import numpy as np
from dsolver.cli.files import write_array
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
write_array(Path("x.nc"), np.ones((30, 30, 30)), 3)
"""


def test_a_disk_that_is_full_ends_with_an_error() -> None:
    ended = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "InputError: cannot write x.nc: File too large" in ended.stderr
    assert not list(Path.cwd().iterdir())


def test_axes_are_taken_by_their_names_and_other_formats_may_be_written() -> None:
    right(("z", "y", "x")).to_netcdf("b.nc", engine="h5netcdf")
    solved("b.nc", "x.npy")
    np.testing.assert_array_equal(np.load("x.npy"), expected())


def test_an_array_without_names_becomes_one_with_them() -> None:
    x = expected()
    solved("b.npy", "x.nc")
    found = xarray.load_dataset("x.nc", engine="h5netcdf")["solution"]
    assert found.dims == ("x", "y", "z")
    np.testing.assert_array_equal(found.values, x)


def test_hdf5_of_other_programs_has_no_names() -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File("b.h5", "w") as file:
        file["b"] = right().values
    solved("b.h5", "x.npy")
    np.testing.assert_array_equal(np.load("x.npy"), expected())


def test_a_variable_may_be_in_a_group() -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File("b.h5", "w") as file:
        file["scan/of/b"], file["scan/of/kappa"] = right().values, np.abs(right().values) + 1.0
    assert "name one in a group as b.h5:GROUP/NAME" in call("solve", *GRID, "--rhs", "b.h5").stderr
    assert "group not found" in call("solve", *GRID, "--rhs", "b.h5:away/b").stderr
    solved("b.h5:scan/of/b", "x.npy")
    np.testing.assert_array_equal(np.load("x.npy"), expected())
    made = call("solve", "--kappa", "b.h5:scan/of/kappa", "--source", "b.h5:scan/of/b", "--out", "u.npy", "-q")
    assert made.exit_code == 0, made.output


def test_one_of_several_variables_is_named() -> None:
    xarray.Dataset({"other": right() * 2.0, "source": right()}).to_netcdf("b.nc", engine="h5netcdf")
    asked = call("solve", *GRID, "--rhs", "b.nc", "--out", "x.npy")
    assert asked.exit_code == 2
    assert "error: b.nc holds the variables other, source: name one of them, as in b.nc:other" in asked.stderr
    solved("b.nc:source", "x.npy")
    np.testing.assert_array_equal(np.load("x.npy"), expected())


def test_coefficients_come_from_such_files_too() -> None:
    kappa = np.abs(right()) + 1.0
    kappa.to_netcdf("k.nc", engine="h5netcdf")
    np.save("k.npy", kappa.values)
    np.save("z.npy", 20.0 / 3.0 * 2.0 ** np.arange(4))  # cells with such centers
    ends = ("--bc", "x-=dirichlet:1", "x+=dirichlet:0", "-q")
    for name, more in {"k.nc": (), "k.npy": ("--spacing", "0.2", "1", "z.npy")}.items():
        made = call("solve", "--kappa", name, *more, *ends, "--out", f"u-{name}.npy")
        assert made.exit_code == 0, made.output
    np.testing.assert_allclose(np.load("u-k.nc.npy"), np.load("u-k.npy.npy"), rtol=1e-7)


def test_coordinates_of_a_source_tell_the_cells() -> None:
    right().to_netcdf("f.nc", engine="h5netcdf")
    np.save("f.npy", right().values)
    np.save("z.npy", 20.0 / 3.0 * 2.0 ** np.arange(4))
    for name, more in {"f.nc": (), "f.npy": ("--spacing", "0.2", "1", "z.npy")}.items():
        made = call("solve", "--source", name, *more, "--out", f"u-{name}.npy", "-q")
        assert made.exit_code == 0, made.output
    np.testing.assert_allclose(np.load("u-f.nc.npy"), np.load("u-f.npy.npy"), rtol=1e-7)
    refused = call("solve", "--source", "f.nc", "--spacing", "0.1")
    assert refused.exit_code == 2
    assert "that are not those of the problem's cells" in refused.stderr


def test_what_cannot_be_read_is_refused_before_the_solve() -> None:
    Path("b.nc").write_text("no such format", encoding="utf-8")
    assert "no NetCDF-4 or HDF5 file" in call("solve", *GRID, "--rhs", "b.nc").stderr
    assert "there is no such file" in call("solve", *GRID, "--rhs", "c.h5").stderr
    right().isel(x=slice(3)).to_netcdf("d.nc", engine="h5netcdf")
    assert "has shape (3, 5, 4)" in call("solve", *GRID, "--rhs", "d.nc").stderr


@pytest.mark.parametrize(("option", "missing"), [("--rhs", "h5netcdf"), ("--out", "xarray")])
def test_a_missing_package_is_named_with_what_installs_it(
    option: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("b.nc").touch()
    monkeypatch.setitem(sys.modules, missing, None)
    refused = call("solve", *GRID, option, "b.nc", "--force")
    assert refused.exit_code == 2
    assert f"{missing} is not installed, which .nc and .h5 files need" in refused.stderr
    assert "[netcdf]'" in refused.stderr
