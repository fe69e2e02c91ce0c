"""Periodic stencils and stencils with weights for each row: the matrix, entry by entry."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
import scipy.sparse.linalg
from dask.delayed import delayed
from hypothesis import strategies as st

import dsolver
from dsolver import kernels, problems
from dsolver.engines.eager.engine import EagerEngine
from dsolver.errors import InconsistentWarning, InputError
from dsolver.grid.box import Triple
from dsolver.preconditioners import Algebraic, Identity
from dsolver.problems import BOX_OFFSETS, STAR_OFFSETS, Problem
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec

F64 = npt.NDArray[np.float64]
SIZES = st.integers(1, 5)


def matrix_of(grid: Triple, weight: Any, periodic: tuple[bool, bool, bool]) -> Any:
    """weight(point, offset) for every entry that stays in the grid or goes around it. Rows are numbered x fastest."""
    row = np.arange(np.prod(grid)).reshape(grid, order="F")
    entries: dict[tuple[int, int], float] = {}
    for point, offset in product(np.ndindex(grid), BOX_OFFSETS):
        there = [p + d for p, d in zip(point, offset, strict=True)]
        around = tuple(p % n if wraps else p for p, n, wraps in zip(there, grid, periodic, strict=True))
        if all(0 <= p < n for p, n in zip(around, grid, strict=True)):
            key = int(row[point]), int(row[around])
            entries[key] = entries.get(key, 0.0) + weight(point, offset)
    rows, columns = zip(*entries, strict=True)
    return scipy.sparse.csr_array((list(entries.values()), (rows, columns)))


def applied(problem: Problem, chunks: Any, backend: str, x: F64) -> F64:
    """A x."""
    spec = SolveSpec.plan(problem, chunks, m=Identity())
    partition = spec.partition
    program = Solve(EagerEngine(partition, kernels.load(backend)), spec)
    for name, values in problem.coefficients.items():
        program.load_coefficient({chunk.number: values[chunk.box.slices] for chunk in partition}, name)
    if problem.coefficients:
        program.set_up()
    program.set_x({chunk.number: x[chunk.box.slices] for chunk in partition})
    program.b_from_x()
    out = np.full(problem.grid, np.nan)
    for number, block in program.right_hand_side().items():
        out[partition[number].box.slices] = block
    return out


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
    st.tuples(SIZES, SIZES, SIZES), st.tuples(*[st.booleans()] * 3), st.booleans(), st.data(), st.integers(0, 1000)
)
def test_constant_stencils_go_around_periodic_axes(
    grid: Triple, periodic: tuple[bool, bool, bool], star: bool, data: st.DataObject, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 1.0, (3, 3, 3))
    weights += weights[::-1, ::-1, ::-1]
    if star:
        weights *= np.array([o in STAR_OFFSETS for o in product((-1, 0, 1), repeat=3)]).reshape(3, 3, 3)
    problem = problems.stencil(grid, weights, periodic=periodic)
    matrix = matrix_of(grid, lambda _, o: weights[o[0] + 1, o[1] + 1, o[2] + 1], periodic)
    x = rng.standard_normal(grid)
    cut = tuple(data.draw(st.integers(1, n)) for n in grid)
    found = applied(problem, cut, data.draw(st.sampled_from(["numpy", "cpu"])), x)
    np.testing.assert_allclose(found.ravel(order="F"), matrix @ x.ravel(order="F"), rtol=1e-12, atol=1e-12)


def random_weights(grid: Triple, periodic: tuple[bool, bool, bool], rng: np.random.Generator) -> dict[Triple, F64]:
    """Weights for each row, symmetric, with anything where offsets leave the grid."""
    weights = {offset: rng.standard_normal(grid) for offset in BOX_OFFSETS}
    for point, (i, j, k) in product(np.ndindex(grid), BOX_OFFSETS):
        offset = (i, j, k)
        there = [p + d for p, d in zip(point, offset, strict=True)]
        around = tuple(p % n if wraps else p for p, n, wraps in zip(there, grid, periodic, strict=True))
        if offset > (0, 0, 0) and all(0 <= p < n for p, n in zip(around, grid, strict=True)):
            weights[-i, -j, -k][around] = weights[i, j, k][point]
    weights[0, 0, 0] = abs(weights[0, 0, 0]) + 30.0
    return weights


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(st.tuples(SIZES, SIZES, SIZES), st.tuples(*[st.booleans()] * 3), st.data(), st.integers(0, 1000))
def test_weights_for_each_row_are_those_of_the_matrix(
    grid: Triple, periodic: tuple[bool, bool, bool], data: st.DataObject, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    wraps = tuple(flag and n > 2 for flag, n in zip(periodic, grid, strict=True))
    flags = (wraps[0], wraps[1], wraps[2])
    by_offset = random_weights(grid, flags, rng)
    listed = [by_offset[i, j, k] for i, j, k in product((-1, 0, 1), repeat=3)]
    stacked = np.array(listed)
    given: Any = data.draw(st.sampled_from([by_offset, listed, stacked, stacked.reshape(3, 3, 3, *grid)]))
    problem = problems.stencil(grid, given, periodic=flags)
    x = rng.standard_normal(grid)
    cut = tuple(data.draw(st.integers(1, n)) for n in grid)
    found = applied(problem, cut, data.draw(st.sampled_from(["numpy", "cpu"])), x)
    matrix = matrix_of(grid, lambda point, offset: by_offset[offset][point], flags)
    np.testing.assert_allclose(found.ravel(order="F"), matrix @ x.ravel(order="F"), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_weights_that_rounding_has_made_differ_are_symmetric_to_the_bit(backend: str) -> None:
    """Chunks send each other no values of mirrored entries: each has the same ones."""
    grid, rng = (3, 4, 4), np.random.default_rng(4)
    weights = random_weights(grid, (False, False, False), rng)
    for values in weights.values():
        values *= 1.0 + 1e-14 * rng.random(grid)
    weights[-1, 0, 1][1, 1, 1] *= 1e-300
    weights[1, 0, -1][0, 1, 2] = 0.0
    problem = problems.stencil(grid, weights)
    units = np.eye(48).reshape(48, *grid)
    for cut in ((1, 1, 1), (1, 2, 3)):
        a = np.array([applied(problem, cut, backend, unit).ravel() for unit in units])
        np.testing.assert_array_equal(a, a.T)


def in_a_plane(offset: Triple) -> bool:
    return offset[2] == 0


@pytest.mark.parametrize(
    ("grid", "there", "iterations"),
    [
        pytest.param((12, 10, 9), lambda o: sum(map(abs, o)) != 1, 12, id="trilinear-elements"),
        pytest.param((16, 12, 1), lambda o: in_a_plane(o) and o in STAR_OFFSETS, 12, id="five-points"),
        pytest.param((16, 12, 1), in_a_plane, 12, id="nine-points"),
        pytest.param((9, 8, 4), in_a_plane, 12, id="planes"),
        pytest.param((16, 4, 3), lambda o: not any(o[1:]), 12, id="lines"),
        pytest.param((4, 4, 4), lambda o: not any(o), 1, id="diagonal"),
    ],
)
@pytest.mark.parametrize("backend", ["numpy", "auto"])
def test_multigrid_solves_with_weights_that_have_no_face_neighbors_along_an_axis(
    grid: Triple, there: Any, iterations: int, backend: Any
) -> None:
    """Weights of the Laplacian of trilinear elements are 0 at faces, and SciPy leaves zeros out."""
    offsets = [o for o in BOX_OFFSETS if there(o)]
    weights = {o: np.full(grid, float(len(offsets)) if o == (0, 0, 0) else -1.0) for o in offsets}
    problem = problems.stencil(grid, weights, chunks=(2, 2, 1))
    b = np.random.default_rng(5).standard_normal(grid)
    solution = dsolver.solve(problem, b, M="mg", device="cpu", kernels=backend, rtol=1e-10)
    assert solution.converged
    assert solution.iterations <= iterations
    matrix = matrix_of(grid, lambda point, o: weights[o][point] if o in weights else 0.0, (False, False, False))
    expected = scipy.sparse.linalg.spsolve(matrix.tocsc(), b.ravel(order="F"))
    np.testing.assert_allclose(solution.x.ravel(order="F"), expected, rtol=1e-7, atol=1e-8)


def star(grid: Triple, center: float) -> dict[Triple, F64]:
    return {o: np.full(grid, center if o == (0, 0, 0) else -1.0) for o in STAR_OFFSETS}


def test_constants_that_solve_are_found_where_weights_say_so() -> None:
    b = np.random.default_rng(1).standard_normal((4, 5, 6))
    laplacian = np.zeros((3, 3, 3))
    for i, j, k in STAR_OFFSETS:
        laplacian[i + 1, j + 1, k + 1] = 6.0 if (i, j, k) == (0, 0, 0) else -1.0
    weights: Any
    for weights in (laplacian, star((4, 5, 6), 6.0)):
        problem = problems.stencil((4, 5, 6), weights, periodic=True)
        with pytest.warns(InconsistentWarning):
            solution = dsolver.solve(problem, b, M=None, device="cpu", rtol=1e-11)
        assert solution.status is dsolver.Status.INCOMPATIBLE_RHS
        assert solution.relative_residual <= 1e-11
        assert abs(solution.x.mean()) <= 1e-14
        flat = matrix_of((4, 5, 6), lambda _, o: laplacian[o[0] + 1, o[1] + 1, o[2] + 1], (True, True, True))
        np.testing.assert_allclose(flat @ solution.x.ravel(order="F"), (b - b.mean()).ravel(order="F"), atol=1e-9)
    given: Any
    for given, periodic in ((laplacian, (True, False, True)), (star((4, 5, 6), 6.1), (True, True, True))):
        x = dsolver.solve(problems.stencil((4, 5, 6), given, periodic=periodic), b, M=None, device="cpu").x
        assert abs(x.mean()) > 1e-6


def changed(value: float, offset: Triple, where: Triple) -> dict[Triple, F64]:
    weights = star((4, 4, 4), 6.5)
    weights[offset][where] = value
    return weights


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (changed(-2.0, (1, 0, 0), (0, 1, 1)), r"not symmetric: those at offset \(1, 0, 0\)"),
        (changed(-2.0, (0, 0, -1), (1, 1, 2)), "not symmetric"),
        (changed(np.nan, (0, 1, 0), (1, 1, 1)), "NaN or infinity in 1 value"),
        (changed(0.0, (0, 0, 0), (1, 1, 1)), "zero on the diagonal"),
    ],
)
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 2, 4)])
def test_weights_for_each_row_that_cannot_be_right_are_refused_on_the_way(
    weights: Any, message: str, chunks: Triple
) -> None:
    problem = problems.stencil((4, 4, 4), weights, chunks=chunks)
    with pytest.raises(InputError, match=message):
        dsolver.solve(problem, np.ones((4, 4, 4)), M=None, device="cpu")


@pytest.mark.parametrize(
    ("weights", "periodic", "message"),
    [
        ({(0, 0, 0): np.ones((4, 4, 4)), (1, 0, 0): np.ones((4, 4, 4))}, False, "lacks the opposite"),
        ({(1, 0, 0): np.ones((4, 4, 4)), (-1, 0, 0): np.ones((4, 4, 4))}, False, "has no diagonal"),
        ({(0, 0, 0): np.ones((4, 4))}, False, r"offset \(0, 0, 0\) have shape \(4, 4\)"),
        ({(0, 0, 0): np.ones((4, 4, 4)), (2, 0, 0): np.ones((4, 4, 4))}, False, "offsets must be in -1 .. 1"),
        ({(0, 0): np.ones((4, 4, 4))}, False, "offset must be three integers"),
        (np.ones((27, 4, 4, 5)), False, r"shape \(3, 3, 3\), not \(27, 4, 4, 5\)"),
        (delayed(1.0), False, "weights is a Delayed.* of Dask: pass what it computes"),
        (star((4, 4, 4), 6.0), (True, False), "periodic must be True, False or one"),
    ],
)
def test_weights_for_each_row_that_cannot_be_right_are_refused_at_once(
    weights: Any, periodic: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        problems.stencil((4, 4, 4), weights, periodic=periodic)


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 2)])
def test_a_pair_of_which_rounding_has_left_one_is_none(chunks: Triple) -> None:
    grid = (12, 10, 8)
    weights = star(grid, 6.1)
    weights[0, 0, 1][:, :, 3], weights[0, 0, -1][:, :, 4] = 0.0, -1e-14
    problem, b = problems.stencil(grid, weights, chunks=chunks), np.ones(grid)
    x = dsolver.solve(problem, b, M=Algebraic(coarse_rows=20), device="cpu").x
    np.testing.assert_allclose(x[:, :, :4], x[:, :, :3:-1], rtol=1e-6)


def test_thin_periodic_axes_need_other_weights() -> None:
    with pytest.raises(InputError, match="y has fewer than 3 points"):
        problems.stencil((4, 2, 4), star((4, 2, 4), 6.0), periodic=True)


# -- weights that are not symmetric ------------------------------------------------------------------------------------

ONE_SIDED = {(0, 0): 4.5, (-1, 0): -2.0, (1, 0): -0.5, (0, 1): -1.0, (0, -1): -0.75}


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize(("grid", "periodic"), [((20, 15), False), ((20, 15), True), ((2, 15), (True, False))])
def test_any_weights_are_those_of_a_matrix(grid: tuple[int, int], periodic: Any, varying: bool) -> None:
    """Row by row: what is taken from where, around the ends or from nowhere."""
    rng = np.random.default_rng(4)
    weights: dict[Any, Any] = {o: np.full(grid, w) for o, w in ONE_SIDED.items()}
    if varying:
        if min(grid) < 3:
            pytest.skip("a periodic axis of two points is refused where weights differ")
        weights = {o: w * rng.uniform(0.9, 1.0, grid) if o != (0, 0) else w for o, w in weights.items()}
        weights[1, 1] = np.full(grid, -0.125)
    around = periodic if isinstance(periodic, tuple) else (periodic, periodic)
    dense = np.zeros((*grid, *grid))
    for (i, j), values in weights.items():
        for row in np.ndindex(*grid):
            column = [row[0] + i, row[1] + j]
            if all(wraps or 0 <= at < n for at, n, wraps in zip(column, grid, around, strict=True)):
                dense[(*row, column[0] % grid[0], column[1] % grid[1])] += values[row]
    matrix, b = dense.reshape(math.prod(grid), -1), rng.standard_normal(grid)
    given = weights if varying else ONE_SIDED
    for chunks in (None, (2, 3)):
        problem = problems.stencil(grid, given, periodic=periodic, symmetric=False, chunks=chunks)
        assert np.array_equal(problem.to_scipy().toarray(), matrix)
        solution = dsolver.solve(problem, b, rtol=1e-12, device="cpu")
        assert solution.converged
        np.testing.assert_allclose(solution.x.ravel(), np.linalg.solve(matrix, b.ravel()), atol=1e-9)


def test_without_a_word_weights_have_to_be_symmetric() -> None:
    with pytest.raises(InputError, match=r"not symmetric at .*: with symmetric=False it need not be"):
        problems.stencil((6, 5), ONE_SIDED)
    arrays = {offset: np.full((6, 5), weight) for offset, weight in ONE_SIDED.items()}
    with pytest.raises(InputError, match=r"not symmetric: .* with symmetric=False it need not be"):
        dsolver.solve(problems.stencil((6, 5), arrays), np.ones((6, 5)))
    with pytest.raises(InputError, match="A is not symmetric"):
        dsolver.solve(problems.stencil((6, 5), ONE_SIDED, symmetric=False), np.ones((6, 5)), method="cg")


def test_numbers_beside_arrays_of_weights() -> None:
    diagonal = 4.0 + np.random.default_rng(0).random((6, 5))
    numbers: dict[Any, Any] = dict.fromkeys([(1, 0), (-1, 0), (0, 1), (0, -1)], -1.0)
    arrays = {offset: np.full((6, 5), -1.0) for offset in numbers}
    mixed, whole = (problems.stencil((6, 5), {**weights, (0, 0): diagonal}) for weights in (numbers, arrays))
    assert abs(mixed.to_scipy() - whole.to_scipy()).max() == 0.0
