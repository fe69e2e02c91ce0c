"""Other values of boundary conditions for a system that is set up: right-hand sides alone change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dsolver
from dsolver.errors import InputError
from dsolver.problems import Dirichlet, Neumann, Periodic, Robin, diffusion
from dsolver.program.solve import Solve
from tests.support.clusters import cluster

GRID = (9, 7, 8)
RNG = np.random.default_rng(3)
KAPPA, SOURCE = np.exp(RNG.standard_normal(GRID)), RNG.standard_normal(GRID)
OUT = RNG.random(GRID) < 0.1
WHERE = RNG.random(GRID) < 0.1
FACE = RNG.standard_normal(GRID[1:])
Bc = dict[str, Any]


def conditions(left: Any, top: float, flux: float, heat: float) -> Bc:
    return {"x-": Dirichlet(left), "x+": Robin(2.0, heat), "y": Neumann(flux), "z+": Dirichlet(top)}


BEFORE = conditions(0.0, 0.0, 0.0, 0.0)
AFTER: dict[str, Bc] = {
    "numbers": conditions(1.0, -2.0, 0.5, 3.0),
    "arrays": conditions(FACE, 1.0, 0.0, 0.0),
    "functions": conditions(lambda x, y, z: x + y * z, 1.0, 2.0, 0.0),
}
PROBLEMS: dict[str, Callable[[Bc], Any]] = {
    "array": lambda bc: diffusion(GRID, KAPPA, spacing=0.5, bc=bc),
    "number": lambda bc: diffusion(GRID, 3.0, spacing=(np.linspace(1.0, 2.0, 9), 1.0, 0.5), bc=bc),
    "axes": lambda bc: diffusion(GRID, (KAPPA, 1.0, lambda x, y, z: 1.0 + x + 0.0 * (y + z)), bc=bc),
    "masked": lambda bc: diffusion(GRID, KAPPA, mask=OUT, fixed=(WHERE, 2.0), bc=bc),
    "cut": lambda bc: diffusion(GRID, KAPPA, bc=bc, chunks=(2, 1, 2)),
}


def is_set_up(_: object) -> None:
    pytest.fail("it was set up anew")


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("name", PROBLEMS)
def test_other_values_set_nothing_up_anew(name: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = PROBLEMS[name]
    expected = dsolver.solve(make(AFTER[after]), SOURCE, device="cpu")
    first = dsolver.solve(make(BEFORE), SOURCE, device="cpu").x
    assert not np.allclose(first, expected.x)
    with dsolver.Solver(make(BEFORE), device="cpu") as solver:
        with monkeypatch.context() as patch:
            patch.setattr(Solve, "set_up", is_set_up)
            solver.update(bc=AFTER[after])
            found = solver.solve(SOURCE)
            assert np.array_equal(found.x, expected.x)
            assert found.residuals == expected.residuals
            solver.update(bc=BEFORE)
            assert np.array_equal(solver.solve(SOURCE).x, first)
        flux = solver.solve(SOURCE).flux("x-")
        assert flux == dsolver.solve(make(BEFORE), SOURCE, device="cpu").flux("x-")


def test_faces_that_are_not_named_keep_their_values() -> None:
    make = PROBLEMS["array"]
    with dsolver.Solver(make(conditions(1.0, 2.0, 0.5, 3.0)), device="cpu") as solver:
        solver.update(bc={"z+": Dirichlet(-1.0)})
        expected = dsolver.solve(make(conditions(1.0, -1.0, 0.5, 3.0)), SOURCE, device="cpu")
        assert np.array_equal(solver.solve(SOURCE).x, expected.x)
        solver.update(bc={"y": Neumann(0.0)}, kappa=2.0 * KAPPA, reuse=None)
        fresh = diffusion(GRID, 2.0 * KAPPA, spacing=0.5, bc=conditions(1.0, -1.0, 0.0, 3.0))
        assert np.array_equal(solver.solve(SOURCE).x, dsolver.solve(fresh, SOURCE, device="cpu").x)


def test_fixed_cells_take_other_values_in_the_same_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with dsolver.Solver(PROBLEMS["masked"](BEFORE), device="cpu") as solver:
        monkeypatch.setattr(Solve, "set_up", is_set_up)
        solver.update(bc={"x-": Dirichlet(1.0)}, fixed=-1.0)
        x = solver.solve(SOURCE).x
    monkeypatch.undo()
    bc = {**BEFORE, "x-": Dirichlet(1.0)}
    expected = diffusion(GRID, KAPPA, mask=OUT, fixed=(WHERE, -1.0), bc=bc)
    assert np.array_equal(x, dsolver.solve(expected, SOURCE, device="cpu").x)


def test_in_a_plane_faces_are_of_two_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, right = (12, 10), Robin(lambda _, y: 1.0 + y, 0.0)
    before, after = {"x-": Dirichlet(0.0), "x+": right}, {"x-": Dirichlet(np.arange(10.0))}
    f = np.ones(shape)
    with dsolver.Solver(diffusion(shape, bc=before), device="cpu") as solver:
        monkeypatch.setattr(Solve, "set_up", is_set_up)
        solver.update(bc=after)
        x = solver.solve(f).x
        solver.update(bc={"x+": Robin(right.alpha, 2.0)})  # the same function
    monkeypatch.undo()
    assert np.array_equal(x, dsolver.solve(diffusion(shape, bc={**before, **after}), f, device="cpu").x)


def test_engines_give_the_same_bits() -> None:
    found = {}
    with cluster(2) as client:
        for engine in ("reference", "resident", "graph"):
            where: Any = {"client": client} if engine != "reference" else {}
            with dsolver.Solver(PROBLEMS["cut"](BEFORE), engine=engine, device="cpu", **where) as solver:
                solver.solve(SOURCE)
                solver.update(bc=AFTER["arrays"])
                found[engine] = np.asarray(solver.solve(SOURCE).x)
    expected = dsolver.solve(PROBLEMS["cut"](AFTER["arrays"]), SOURCE, device="cpu").x
    for x in found.values():
        assert np.array_equal(x, expected)


def test_rows_of_a_flow_take_them_too() -> None:
    def make(value: float) -> Any:
        return diffusion(GRID, KAPPA, velocity=(1.0, 0.0, 0.0), bc={"x-": Dirichlet(value)})

    with dsolver.Solver(make(0.0), device="cpu") as solver:
        solver.update(bc={"x-": Dirichlet(2.0)})
        x = solver.solve(SOURCE, rtol=1e-10).x
    assert np.allclose(x, dsolver.solve(make(2.0), SOURCE, device="cpu", rtol=1e-10).x, rtol=1e-7)


@pytest.mark.parametrize(
    ("bc", "message"),
    [
        ("neumann", "at face x- it is u = 0, not no flux: give update"),
        ({"x-": Neumann(1.0)}, "at face x- it is u = 0, not .* = 1: give update"),
        ({"x+": Robin(3.0, 1.0)}, r"at face x\+ it is .* \+ 2 u = 0, not .* \+ 3 u = 1"),
        ({"z": Periodic()}, "at face z- it is no flux, not periodic"),
        ({"x-": Dirichlet(np.ones(3))}, r"has shape \(3,\)"),
        ({"w": Dirichlet(1.0)}, "bc names 'w'"),
    ],
)
def test_other_kinds_are_refused(bc: Any, message: str) -> None:
    with dsolver.Solver(PROBLEMS["array"](BEFORE), device="cpu") as solver:
        x = solver.solve(SOURCE).x
        with pytest.raises(InputError, match=message):
            solver.update(bc=bc)
        assert np.array_equal(solver.solve(SOURCE).x, x)


def test_a_function_that_fails_leaves_the_old_values() -> None:
    with dsolver.Solver(PROBLEMS["array"](AFTER["numbers"]), device="cpu") as solver:
        x = solver.solve(SOURCE).x
        with pytest.raises(InputError, match="a boundary condition raised ZeroDivisionError"):
            solver.update(bc={"x-": Dirichlet(lambda *_: 1 / 0)})
        assert np.array_equal(solver.solve(SOURCE).x, x)


def test_what_has_no_conditions_is_told() -> None:
    with dsolver.Solver(dsolver.problems.poisson7(GRID)) as solver, pytest.raises(InputError, match="diffusion have"):
        solver.update(bc="dirichlet")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["array", "cut", "masked"])
def test_a_gpu_has_the_same_solution(name: str) -> None:
    make = PROBLEMS[name]
    with dsolver.Solver(make(BEFORE), device="cuda", M="jacobi") as solver:
        solver.update(bc=AFTER["arrays"])
        x = solver.solve(SOURCE, rtol=1e-11).x
    expected = dsolver.solve(make(AFTER["arrays"]), SOURCE, device="cpu", rtol=1e-11).x
    assert np.abs(x - expected).max() <= 1e-8 * np.abs(expected).max()


def test_a_robin_condition_is_kept_where_alpha_over_kappa_is_beyond_all_numbers() -> None:
    """The limit of the condition is a fixed value: a line from 3 to 1."""
    expected = 3.0 - 2.0 * (np.arange(6) + 0.5) / 6.0
    for alpha in (1e290, 1e300, np.full((2, 3), 1e300)):
        bc = {"x-": Robin(alpha, 3.0 * alpha), "x+": Dirichlet(1.0), "y": Neumann(), "z": Neumann()}
        solution = dsolver.solve(diffusion((6, 2, 3), 1e-10, bc=bc), np.zeros((6, 2, 3)), device="cpu")
        np.testing.assert_allclose(solution.x[:, 1, 1], expected, rtol=1e-6)
        assert solution.flux("x-") == pytest.approx(-solution.flux("x+"), rel=1e-6)
