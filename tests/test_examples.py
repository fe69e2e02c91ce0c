"""Every script of examples/ runs as its reader would run it, and the numbers that it prints are right."""

from __future__ import annotations

import io
import os
import runpy
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import eigh

from tests.support.clusters import forked

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
PICTURE = "picture.png"
SECONDS = 540
PNG = b"\x89PNG\r\n\x1a\n"
NOT_A_SCRIPT = "every_example_is_run"
SMALLEST = 10_000
"""Bytes that a picture has at least: one with empty axes has fewer."""


def printed(name: str, folder: Path, *arguments: str) -> dict[str, str]:
    """The lines "what: value" that an example prints, when it is run with a small grid in an empty folder."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--out", str(folder / PICTURE), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return read(done.stdout, folder)


def printed_here(name: str, folder: Path, *arguments: str) -> dict[str, str]:
    """An example in this process, with workers that are forked: imports take each two seconds else."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), redirect_stdout(output), forked():
        warnings.simplefilter("default")
        patch.chdir(folder)
        patch.setenv("MPLBACKEND", "Agg")
        patch.setattr(sys, "argv", [name, "--out", str(folder / PICTURE), *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return read(output.getvalue(), folder)


def read(output: str, folder: Path) -> dict[str, str]:
    """Output of an example; its picture is looked at."""
    picture = folder / PICTURE
    assert picture.read_bytes()[:8] == PNG
    assert picture.stat().st_size > SMALLEST
    return dict(line.split(": ", 1) for line in output.splitlines() if ": " in line)


def number(found: dict[str, str], name: str) -> float:
    return float(found[name])


def test_composite(tmp_path: Path) -> None:
    found = printed_here("composite.py", tmp_path, "--grid", "16")
    assert found["status"] == "converged"
    assert number(found, "heat in") == pytest.approx(number(found, "heat out"), rel=1e-6)
    effective = number(found, "effective conductivity")
    assert number(found, "harmonic mean") < effective < number(found, "arithmetic mean")
    assert number(found, "iterations") <= 40


def test_obstacle(tmp_path: Path) -> None:
    found = printed_here("obstacle.py", tmp_path, "--grid", "12")
    assert found["status"] == "converged"
    assert number(found, "largest divergence before") == pytest.approx(12.0)  # a face of width h that lets nothing in
    assert number(found, "largest divergence after") < 1e-7
    assert number(found, "flow in") == pytest.approx(1.0)
    assert number(found, "flow out") == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize("workers", [0, 1])
def test_steps(tmp_path: Path, workers: int) -> None:
    found = printed_here("steps.py", tmp_path, "--grid", "20", "--workers", str(workers))
    assert number(found, "amount at the end / at the start") == pytest.approx(1.0, rel=1e-8)
    for axis in "xyz":  # the variance of backward Euler on a grid is exact but for what reaches the walls
        grew, expected = number(found, f"variance along {axis} grew by"), number(found, f"2κt along {axis}")
        assert grew == pytest.approx(expected, rel=2e-3)
    assert number(found, "2κt along x") == pytest.approx(0.01)
    assert number(found, "iterations, last step") < number(found, "iterations, last step from zero")


def test_live(tmp_path: Path) -> None:
    found = printed_here("live.py", tmp_path, "--grid", "16", "--workers", "1")
    assert (found["first"], found["second"]) == ("stopped_by_callback", "converged")
    ended, began = number(found, "first ended at residual"), number(found, "second began at residual")
    assert began == pytest.approx(ended, rel=1e-6)  # it goes on where the first one was
    assert number(found, "flow in") == pytest.approx(number(found, "flow out"), rel=1e-5)
    assert found["dashboard"].endswith("/dsolver")


def test_stokes(tmp_path: Path) -> None:
    found = printed_here("stokes.py", tmp_path, "--grid", "32")
    assert found["status"] == "converged"
    assert number(found, "iterations") <= 80
    assert number(found, "flow in") == pytest.approx(2.0 / 3.0, rel=1e-3)
    assert number(found, "flow out") == pytest.approx(number(found, "flow in"), rel=1e-6)
    assert number(found, "largest divergence") < 1e-5
    assert number(found, "pressure drop") > 100.0  # without obstacles it is 8 times the length


def test_microstrip(tmp_path: Path) -> None:
    found = printed_here("microstrip.py", tmp_path, "--grid", "64")
    assert found["status"] == "converged"
    assert number(found, "iterations") <= 12
    assert number(found, "impedance in Ω") == pytest.approx(number(found, "Hammerstad's formula"), rel=0.04)


def test_bracket(tmp_path: Path) -> None:
    found = printed_here("bracket.py", tmp_path, "--grid", "8")
    assert found["status"] == "converged"
    made = runpy.run_path(str(EXAMPLES / "bracket.py"))
    matrix, mass, *_ = made["assembled"](made["bracket"](8), made["LENGTH"] / 8)
    exact = eigh(matrix.toarray(), np.diag(mass), eigvals_only=True, subset_by_index=[0, 3])
    frequencies = [float(each) for each in found["frequencies in Hz"].split()]
    assert frequencies == pytest.approx((np.sqrt(exact) / (2.0 * np.pi)).tolist(), rel=1e-6)
    assert number(found, "departure from orthonormality") < 1e-10


def test_rock(tmp_path: Path) -> None:
    found = printed_here("rock.py", tmp_path, "--grid", "40")
    for axis in "xyz":
        assert number(found, f"tortuosity along {axis}") > 1.3
        assert number(found, f"passed along {axis}") <= number(found, "porosity")
        assert number(found, f"out over in along {axis}") == pytest.approx(1.0, rel=1e-7)
        assert number(found, f"iterations along {axis}") <= 40
    assert number(found, "largest difference between layers") < 1e-6


def test_impedance(tmp_path: Path) -> None:
    found = printed_here("impedance.py", tmp_path, "--grid", "16")
    assert number(found, "misfit at the end") < 0.1 * number(found, "misfit at the start")
    assert number(found, "misfit at the end") < 2e-3  # the noise is 1e-3
    assert number(found, "iterations of a field") <= 40  # to 1e-10
    assert number(found, "conductivity, good part") > 2.0
    assert number(found, "conductivity, bad part") < 0.6
    assert number(found, "conductivity, rest part") == pytest.approx(1.0, abs=0.05)
    assert number(found, "permittivity, bad part") > 0.3


def test_plume(tmp_path: Path) -> None:
    found = printed_here("plume.py", tmp_path, "--grid", "48")
    for peclet in ("1", "100", "10000"):
        assert number(found, f"iterations, {peclet}") <= 15  # to 1e-10
        assert number(found, f"left over fed, {peclet}") == pytest.approx(1.0, rel=1e-6)
        assert number(found, f"least over largest, {peclet}") >= 0.0


def test_matrix_file(tmp_path: Path) -> None:
    found = printed_here("matrix_file.py", tmp_path, "--points", "2000", "--workers", "1")
    assert found["status"] == "converged"
    assert number(found, "rows") == 2000
    assert number(found, "residual") <= 1.01e-10


def test_finite_elements(tmp_path: Path) -> None:
    pytest.importorskip("skfem")
    found = printed("finite_elements.py", tmp_path, "--refined", "5")
    assert found["status"] == "converged"
    assert number(found, "largest error") < 3e-4
    assert number(found, "error of the coarser mesh / error") > 3.3


def test_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    found = printed_here("tensors.py", tmp_path, "--pixels", "100")
    assert found["status"] == "converged"
    assert found["kind"] == f"Tensor on {'cuda' if torch.cuda.is_available() else 'cpu'}"
    assert number(found, "sum after / before") == pytest.approx(1.0, rel=1e-8)
    assert number(found, "residual") <= 1.01e-10


def test_recover_kappa(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    try:
        found = printed_here("recover_kappa.py", tmp_path, "--grid", "12", "--steps", "30")
    finally:
        jax.config.update("jax_enable_x64", False)
    assert number(found, "misfit at the end") < 0.01 * number(found, "misfit at the start")
    assert number(found, "error of log kappa at the end") < 0.5 * number(found, "error of log kappa at the start")
    assert number(found, "kappa in the good part") > 2.0
    assert number(found, "kappa in the bad part") < 0.4


def test_petsc(tmp_path: Path) -> None:
    pytest.importorskip("petsc4py")
    found = printed("petsc.py", tmp_path, "--grid", "50")
    assert number(found, "residual") <= 1.01e-10
    assert number(found, "largest difference") < 1e-8
    assert number(found, "iterations with dsolver") < 0.5 * number(found, "iterations with incomplete factors")


def test_every_example_is_run() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    assert scripts == {name.removeprefix("test_") for name in globals() if name.startswith("test_")} - {NOT_A_SCRIPT}
