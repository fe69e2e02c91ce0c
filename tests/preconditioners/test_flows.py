"""Pressure convection-diffusion for Oseen flow by Taylor-Hood elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from distributed import Client

import dsolver
from dsolver.errors import InputError
from dsolver.preconditioners import Algebraic, BlockTriangular, PressureConvectionDiffusion
from tests.support.clusters import cluster
from tests.support.taylor_hood import Oseen, oseen

F64 = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with cluster(2) as made:
        yield made


def system(flow: Oseen, sign: float = 1.0, **options: Any) -> tuple[Any, F64]:
    """The problem, and a right-hand side in its reach in a box, too."""
    b = np.random.default_rng(0).standard_normal(sum(flow.bt.shape))
    pressures = b[flow.bt.shape[0] :]
    pressures -= pressures.mean()
    return dsolver.block([[flow.a, flow.bt], [sign * flow.bt.T, None]], **options), b


def pcd(flow: Oseen, M: Any = "auto") -> PressureConvectionDiffusion:
    return PressureConvectionDiffusion(mass=flow.mass, laplacian=flow.laplacian, convection=flow.convection, M=M)


@pytest.mark.parametrize("channel", [False, True])
@pytest.mark.parametrize(("viscosity", "first"), [(0.2, 30), (0.05, 30)])
def test_iterations_hardly_depend_on_the_size(channel: bool, viscosity: float, first: int) -> None:
    counts = []
    for n in (8, 24):
        flow = oseen(n, viscosity, channel=channel)
        problem, b = system(flow)
        found = dsolver.solve(problem, b, M=pcd(flow), device="cpu")
        assert found.converged
        assert np.linalg.norm(b - problem.to_scipy() @ found.x) <= 1.01e-8 * np.linalg.norm(b)
        counts.append(found.iterations)
    assert "Direct()" not in found.solved_by
    assert counts[0] <= first
    assert counts[1] <= max(45, 1.4 * counts[0])
    if viscosity < 0.1 and not channel:
        other = dsolver.solve(problem, b, M=BlockTriangular(M=("direct", "auto")), maxiter=2 * counts[1], device="cpu")
        assert not other.converged


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_it_is_what_its_formula_says(sign: float) -> None:
    flow = oseen(4, 0.1, channel=True)
    (problem, b), n = system(flow, sign), flow.a.shape[0]
    second = flow.convection @ np.linalg.solve(flow.mass.toarray(), b[n:])
    second = -sign * np.linalg.solve(flow.laplacian.toarray(), second)
    expected = np.r_[np.linalg.solve(flow.a.toarray(), b[:n] - flow.bt @ second), second]
    x = dsolver.solve(problem, b, M=pcd(flow, "direct"), maxiter=1, device="cpu").x
    factor = (x @ expected) / (expected @ expected)  # of GMRES
    assert np.allclose(x, factor * expected, rtol=0.0, atol=1e-10 * abs(x).max())


def test_workers_have_the_same_bits(client: Client) -> None:
    flow = oseen(8, 0.1, channel=True)
    problem, b = system(flow, chunks=3)
    m = pcd(flow, (Algebraic(coarsening="air", coarse_rows=30), "auto", Algebraic(coarse_rows=20)))
    found = [
        dsolver.solve(problem, b, M=m, rtol=1e-6, device="cpu", **where)
        for where in ({"engine": "reference"}, {"client": client})
    ]
    assert found[0].converged
    assert found[0].residuals == found[1].residuals
    assert (found[0].x == found[1].x).all()
    assert found[0].iterations <= 30


def test_a_step_of_picard_takes_other_values_and_several_right_hand_sides() -> None:
    """M's matrices are those that they are at an update."""
    flow, other = oseen(6, 0.11, channel=True), oseen(6, 0.07, channel=True)
    problem, b = system(flow)
    with dsolver.Solver(problem, M=pcd(flow), device="cpu") as solver:
        assert solver.solve(b).converged
        flow.convection.data[:] = other.convection.data
        solver.update(system(other)[0])
        first, second = solver.solve([b, 2.0 * b])
    again = dsolver.solve(system(other)[0], b, M=pcd(other), device="cpu")
    assert first.residuals == again.residuals
    assert second.converged
    assert np.allclose(second.x, 2.0 * first.x, rtol=0.0, atol=1e-6 * abs(first.x).max())


def test_what_does_not_fit_is_refused() -> None:
    flow, eye = oseen(3, 0.1, channel=True), sp.eye_array(6)
    problem, b = system(flow)
    three = dsolver.block([[eye, None, eye], [None, eye, eye], [eye, eye, None]])
    with pytest.raises(InputError, match="PressureConvectionDiffusion is for two fields, not 3"):
        dsolver.solve(three, np.ones(18), M=pcd(flow))
    with pytest.raises(InputError, match="matrix of field 1 has 6 rows, but the field has 16"):
        dsolver.solve(problem, b, M=PressureConvectionDiffusion(mass=eye, laplacian=eye, convection=eye))
    with pytest.raises(InputError, match="has 2 preconditioners for 3 matrices"):
        dsolver.solve(problem, b, M=pcd(flow, ("amg", "jacobi")))


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    flow = oseen(5, 0.1, channel=True)
    problem, b = system(flow)
    m = pcd(flow, (Algebraic(coarsening="air", coarse_rows=30), "auto", Algebraic(coarse_rows=10)))
    found, host = (dsolver.solve(problem, b, M=m, rtol=1e-6, device=device) for device in ("cuda", "cpu"))
    assert found.converged
    assert abs(found.iterations - host.iterations) <= 1
    assert np.allclose(found.x, host.x, rtol=0.0, atol=1e-4 * abs(host.x).max())
