"""Cells where u is known: the solution, cut and run in every way; other values; what is refused."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
import scipy.sparse.linalg

import dsolver
from dsolver.errors import InputError
from dsolver.problems import Dirichlet, Problem, Robin, diffusion
from dsolver.program.solve import Solve
from tests.support.clusters import cluster

F64 = npt.NDArray[np.float64]
GRID = (9, 7, 8)
RANDOM = np.random.default_rng(0)
KAPPA = np.exp(RANDOM.standard_normal(GRID))
WHERE, OUT = RANDOM.random(GRID) < 0.1, RANDOM.random(GRID) < 0.2
VALUES = np.where(WHERE, RANDOM.standard_normal(GRID), np.nan)
SOURCE = np.where(WHERE | OUT, np.nan, RANDOM.standard_normal(GRID))
OPTIONS: dict[str, Any] = {"rtol": 1e-11, "device": "cpu"}


def problem(values: Any = VALUES, where: Any = WHERE, *, xp: Any = np, **options: Any) -> Problem:
    """Cells left out, cells with values, and a face with one."""
    bc = {"x": Dirichlet(1.5)}
    return diffusion(GRID, xp.asarray(KAPPA), 0.1, mask=xp.asarray(OUT), fixed=(where, values), bc=bc, **options)


def by_the_book(values: F64) -> F64:
    """The solution by a direct method, from rows that are made one face of one cell at a time."""
    held, numbers = WHERE & ~OUT, np.arange(KAPPA.size).reshape(GRID)
    matrix, right = scipy.sparse.lil_array((KAPPA.size, KAPPA.size)), SOURCE.ravel().copy()
    for cell in np.ndindex(*GRID):
        row = numbers[cell]
        matrix[row, row] = 0.1
        if OUT[cell] or held[cell]:
            matrix[row, row], right[row] = 1.0, 0.0 if OUT[cell] else values[cell]
            continue
        for axis in range(3):
            for step in (-1, 1):
                other: Any = tuple(i + step * (a == axis) for a, i in enumerate(cell))
                inside = 0 <= other[axis] < GRID[axis]
                if inside and not OUT[other]:
                    link = 1.0 / (0.5 / KAPPA[cell] + 0.5 / KAPPA[other])
                    matrix[row, row] += link
                    matrix[row, numbers[other]] -= link
                elif not inside and axis == 0:
                    matrix[row, row] += 2.0 * KAPPA[cell]
                    right[row] += 2.0 * KAPPA[cell] * 1.5
    x: F64 = scipy.sparse.linalg.spsolve(matrix.tocsc(), right).reshape(GRID)
    return x


def close(found: Any, expected: F64) -> None:
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0.0, atol=1e-8 * abs(expected).max())


@pytest.mark.parametrize("M", ["mg", "amg", "jacobi"])
@pytest.mark.parametrize("chunks", [None, (2, 1, 3), (9, 1, 1)])
def test_is_the_solution_of_a_direct_method(M: str, chunks: Any) -> None:
    solution = dsolver.solve(problem(chunks=chunks), SOURCE, M=M, **OPTIONS)
    assert solution.converged
    close(solution.x, by_the_book(VALUES))
    held = WHERE & ~OUT
    assert np.array_equal(solution.x[held], VALUES[held]), "to the last bit"
    assert not solution.x[OUT].any(), "what is left out stays so"


def test_the_text_book_kernels_have_the_same_solution() -> None:
    close(dsolver.solve(problem(), SOURCE, kernels="numpy", M="mg", rtol=1e-11).x, by_the_book(VALUES))


def test_flags_and_values_may_be_functions_numbers_and_arrays_of_dask() -> None:
    def where(x: Any, y: Any, z: Any) -> Any:
        return (x > 3.0) & (x < 5.0) & (y + 0.0 * z < 3.0)

    def value(x: Any, y: Any, z: Any) -> Any:
        return x + 0.5 * y + 0.0 * z

    centers = np.meshgrid(*(np.arange(n) + 0.5 for n in GRID), indexing="ij")
    flags, values = where(*centers), value(*centers)
    f, chunks = np.nan_to_num(SOURCE), (2, 2, 2)
    expected = dsolver.solve(problem(values, flags), f, **OPTIONS).x
    for on, g in ((where, value), (flags, value), (where, da.from_array(values)), (da.from_array(flags), values)):
        close(dsolver.solve(problem(g, on, chunks=chunks), f, **OPTIONS).x, expected)
    number = dsolver.solve(problem(2.0, flags), f, **OPTIONS).x
    close(dsolver.solve(problem(lambda *_: 2, where, chunks=chunks), f, **OPTIONS).x, number)


def test_engines_give_the_same_bits_and_take_other_values() -> None:
    cut, other = problem(chunks=(2, 2, 1)), np.where(WHERE, 3.0 * VALUES, np.nan)

    def both(engine: Any, client: Any = None, **limit: Any) -> list[Any]:
        with dsolver.Solver(cut, engine=engine, device="cpu", client=client) as solver:
            first = np.asarray(solver.solve(SOURCE, rtol=1e-11, **limit).x)
            solver.update(fixed=other)
            return [first, np.asarray(solver.solve(SOURCE, rtol=1e-11, **limit).x)]

    for x, values in zip(both("reference"), (VALUES, other), strict=True):
        close(x, by_the_book(values))
    expected = both("reference", maxiter=3)
    with cluster(2) as client:
        for engine in ("resident", "graph"):
            for x, same in zip(both(engine, client, maxiter=3), expected, strict=True):
                assert np.array_equal(x, same)


@pytest.mark.parametrize("kind", ["number", "function", "array"])
def test_other_values_set_nothing_up_anew(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = {
        "number": (1.0, -2.0),
        "function": (lambda x, y, z: x + 0.0 * (y + z), lambda x, y, z: y + 0.0 * (x + z)),
        "array": (VALUES, 2.0 * VALUES),
    }[kind]
    expected = dsolver.solve(problem(other), SOURCE, **OPTIONS)
    with dsolver.Solver(problem(first), device="cpu") as solver:
        solver.solve(SOURCE)
        with monkeypatch.context() as patch:
            patch.setattr(Solve, "set_up", lambda _: pytest.fail("it was set up anew"))
            solver.update(fixed=other)
            found = solver.solve(SOURCE, rtol=1e-11)
        assert found.residuals == expected.residuals
        assert np.array_equal(found.x, expected.x)
        solver.update(kappa=2.0 * KAPPA, sigma=0.2, reuse=None)
        bc: Any = {"x": Dirichlet(1.5)}
        fresh = diffusion(GRID, 2.0 * KAPPA, 0.2, mask=OUT, fixed=(WHERE, other), bc=bc)
        assert np.array_equal(solver.solve(SOURCE).x, dsolver.solve(fresh, SOURCE, device="cpu").x)
        solver.update(fixed=(WHERE[::-1], 0.5))
        assert (solver.solve(np.nan_to_num(SOURCE)).x[WHERE[::-1] & ~OUT] == 0.5).all()


def test_values_that_are_refused_leave_the_old_ones() -> None:
    with dsolver.Solver(problem(), device="cpu") as solver:
        wrong = VALUES.copy()
        wrong[tuple(np.argwhere(WHERE & ~OUT)[0])] = np.inf
        with pytest.raises(InputError, match="fixed has NaN or infinity in 1 value"):
            solver.update(fixed=wrong)
        close(solver.solve(SOURCE, rtol=1e-11).x, by_the_book(VALUES))


def test_an_infinite_kappa_holds_the_values_at_faces() -> None:
    """As an electrode does: u is straight from 0 at the face x- to 5 at the plate."""
    plate, kappa = np.zeros((20, 4, 4), dtype=bool), np.ones((20, 4, 4))
    plate[10:13], kappa[10:13] = True, np.inf
    for chunks in (None, (4, 1, 2)):
        between = diffusion(plate.shape, kappa, spacing=0.1, fixed=(plate, 5.0), bc={"x": "dirichlet"}, chunks=chunks)
        x = dsolver.solve(between, np.zeros(plate.shape), device="cpu").x
        assert np.allclose(x[:10, 0, 0], 5.0 * (np.arange(10) + 0.5) / 10, rtol=1e-6)


def test_a_region_is_closed_unless_it_has_a_fixed_cell() -> None:
    """Three rooms: the first one with a fixed cell, the others with nothing but walls."""
    walls, where = np.zeros((11, 5, 5), dtype=bool), np.zeros((11, 5, 5), dtype=bool)
    walls[3], walls[7], where[0, 0, 0] = True, True, True
    f = RANDOM.standard_normal(walls.shape)
    f[4:7] -= f[4:7].mean()
    f[8:] -= f[8:].mean()
    for chunks in (None, (3, 2, 1)):
        rooms = diffusion(walls.shape, mask=walls, fixed=(where, 7.0), bc="neumann", chunks=chunks)
        solution = dsolver.solve(rooms, f, device="cpu", rtol=1e-10)
        assert solution.converged
        assert solution.closed_regions == 2
        assert abs(solution.x[4:7].mean()) < 1e-9
        assert abs(solution.x[8:].mean()) < 1e-9
        assert solution.x[0, 0, 0] == 7.0
    alone = diffusion((6, 5, 4), fixed=(where[:6, :, :4], 7.0), bc="neumann")
    solution = dsolver.solve(alone, np.zeros((6, 5, 4)), device="cpu", rtol=1e-10)
    assert solution.closed_regions == 0
    assert np.allclose(solution.x, 7.0)
    flags = np.zeros((6, 5, 4), dtype=bool)
    assert dsolver.solve(diffusion(flags.shape, fixed=(flags, 7.0), bc="neumann"), np.zeros(flags.shape)).closed_regions


@pytest.mark.parametrize("bc", ["periodic", {"x": "periodic", "y": Robin(2.0, 2.0)}])
def test_a_constant_is_the_solution_where_all_values_are_one(bc: Any) -> None:
    grid = (2, 5, 6)
    where = RANDOM.random(grid) < 0.2
    for chunks in (None, (1, 2, 2)):
        x = dsolver.solve(diffusion(grid, 3.0, fixed=(where, 1.0), bc=bc, chunks=chunks), np.zeros(grid), rtol=1e-11).x
        assert np.allclose(x, 1.0, rtol=1e-9)


def test_a_plane_several_sources_and_a_guess() -> None:
    where, f = RANDOM.random((12, 9)) < 0.1, RANDOM.standard_normal((12, 9, 2))
    plane = diffusion((12, 9), fixed=(where, 2.0))
    with dsolver.Solver(plane, device="cpu") as solver:
        both = solver.solve(f, rtol=1e-10)
        for number in (0, 1):
            assert np.array_equal(both.x[..., number], solver.solve(f[..., number], rtol=1e-10).x)
        assert (both.x[where] == 2.0).all()
        assert solver.solve(f[..., 0], x0=both.x[..., 0], rtol=1e-8).iterations == 0


@pytest.mark.gpu
@pytest.mark.parametrize("M", ["mg", "amg"])
@pytest.mark.parametrize("chunks", [None, (2, 1, 2)])
def test_a_gpu_has_the_same_solution(M: str, chunks: Any) -> None:
    cupy = pytest.importorskip("cupy")
    there = problem(cupy.asarray(VALUES), cupy.asarray(WHERE), xp=cupy, chunks=chunks)
    with dsolver.Solver(there, device="cuda", M=M) as solver:
        for factor in (1.0, 2.0):
            solver.update(fixed=cupy.asarray(factor * VALUES))
            x = solver.solve(cupy.asarray(SOURCE), rtol=1e-11).x
            close(cupy.asnumpy(x), by_the_book(factor * VALUES))


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        (WHERE, r"fixed must be a pair \(where, values\)"),
        ((None, 1.0), r"fixed must be a pair \(where, values\)"),
        ((VALUES, 1.0), "fixed has dtype float64: it must be True at the cells where u is held"),
        ((True, 1.0), "fixed must be an array of the grid's shape"),
        ((WHERE, np.nan), "values of fixed must be finite numbers"),
        ((WHERE, "hot"), "fixed values must be a number"),
        ((WHERE[1:], 1.0), r"fixed has shape \(8, 7, 8\)"),
    ],
)
def test_what_cannot_be_right_is_refused(fixed: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        diffusion(GRID, fixed=fixed)


def test_what_has_no_fixed_cells_is_told() -> None:
    with dsolver.Solver(diffusion(GRID)) as solver, pytest.raises(InputError, match="has no fixed cells"):
        solver.update(fixed=1.0)
    with dsolver.Solver(dsolver.problems.poisson7(GRID)) as solver, pytest.raises(InputError, match="diffusion have"):
        solver.update(fixed=1.0)
    with pytest.raises(InputError, match="every cell is left out or fixed"):
        dsolver.solve(diffusion(GRID, fixed=(np.ones(GRID, dtype=bool), 1.0)), np.zeros(GRID))
    assert "cells with u fixed" in repr(problem())
