"""Exchange, inner and boundary product together are the global matrix."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dsolver import kernels, problems
from dsolver.engines.eager.engine import EagerEngine
from dsolver.grid.box import Triple
from dsolver.grid.coloring import Order
from dsolver.preconditioners import Identity
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec

F64 = npt.NDArray[np.float64]
BACKENDS = ("numpy", "cpu")
MOST_CHUNKS = 40


def global_matrix(grid: Triple, weights: F64) -> Any:
    """The matrix of a constant stencil, entry by entry; rows are numbered x fastest."""
    nx, ny, nz = grid
    rows, columns, values = [], [], []
    for k, j, i in product(range(nz), range(ny), range(nx)):
        for dk, dj, di in product((-1, 0, 1), repeat=3):
            x, y, z = i + di, j + dj, k + dk
            if 0 <= x < nx and 0 <= y < ny and 0 <= z < nz:
                rows.append(i + nx * (j + ny * k))
                columns.append(x + nx * (y + ny * z))
                values.append(weights[di + 1, dj + 1, dk + 1])
    return scipy.sparse.csr_array((values, (rows, columns)))


def product_of(problem: problems.Problem, chunks: Triple, order: Order, backend: str, x: F64) -> tuple[F64, float, F64]:
    """(A x, x . A x, A x once more) by the distributed matrix of a system."""
    spec = SolveSpec.plan(problem, chunks, order, Identity())
    partition = spec.partition
    engine = EagerEngine(partition, kernels.load(backend))
    solve = Solve(engine, spec)

    def whole() -> F64:
        out = np.full(problem.grid, np.nan)
        for number, block in solve.right_hand_side().items():
            out[partition[number].box.slices] = block
        return out

    solve.set_x({chunk.number: x[chunk.box.slices] for chunk in partition})
    solve.b_from_x()
    plain = whole()
    solve.fill("b", np.nan)
    dot = engine.scalar(np.nan)
    solve.operator.multiply_dot(solve.method.x, solve.method.b, dot)
    return plain, engine.read(dot)[0], whole()


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Triple, Triple]:
    """A grid of 1 to 9 points an axis and any chunks, few enough for a test to bear."""
    grid, chunks, room = [0, 0, 0], [0, 0, 0], MOST_CHUNKS
    for axis in draw(st.permutations(range(3))):
        grid[axis] = draw(st.integers(1, 9))
        chunks[axis] = draw(st.integers(1, min(grid[axis], room)))
        room //= chunks[axis]
    return (grid[0], grid[1], grid[2]), (chunks[0], chunks[1], chunks[2])


@st.composite
def stencils(draw: st.DrawFn) -> F64:
    """Weights (3, 3, 3) of 7 or 27 points, random and symmetric, some of them zero."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    weights = rng.uniform(-1.0, 1.0, (3, 3, 3))
    weights[rng.uniform(size=weights.shape) < draw(st.sampled_from([0.0, 0.3]))] = 0.0
    if draw(st.booleans()):
        i, j, k = np.ogrid[-1:2, -1:2, -1:2]
        weights[abs(i) + abs(j) + abs(k) > 1] = 0.0
    weights = weights + weights[::-1, ::-1, ::-1]
    weights[1, 1, 1] = rng.uniform(1.0, 5.0)
    return weights


ORDERS = st.one_of(st.just(Order(None)), st.permutations(range(8)).map(lambda classes: Order(tuple(classes))))
HPCG = np.where(np.arange(27).reshape(3, 3, 3) == 13, 26.0, -1.0)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(deadline=None)
@given(cut=cuts(), weights=stencils(), order=ORDERS, seed=st.integers(0, 2**32))
@example(cut=((9, 8, 7), (2, 2, 2)), weights=HPCG, order=Order(None), seed=0)
@example(cut=((1, 9, 1), (1, 9, 1)), weights=HPCG, order=Order.parse("color8"), seed=0)
@example(cut=((9, 9, 9), (1, 1, 1)), weights=HPCG, order=Order.parse("color8"), seed=0)
def test_it_is_the_global_matrix(
    backend: str, cut: tuple[Triple, Triple], weights: F64, order: Order, seed: int
) -> None:
    grid, chunks = cut
    x = np.random.default_rng(seed).standard_normal(grid)
    problem = problems.stencil(grid, weights, chunks=chunks)
    plain, dot, fused = product_of(problem, chunks, order, backend, x)

    flat = x.ravel(order="F")
    a = global_matrix(grid, weights)
    scale = abs(a) @ abs(flat)  # of what is summed in each row
    expected = a @ flat
    assert (abs(plain.ravel(order="F") - expected) <= 1e-14 * scale).all()
    assert (abs(fused.ravel(order="F") - expected) <= 1e-14 * scale).all()
    assert abs(dot - flat @ expected) <= 1e-14 * (abs(flat) @ scale)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("chunks", [(1, 1, 1), (3, 1, 2), (2, 2, 2)])
def test_it_is_symmetric(backend: str, chunks: Triple) -> None:
    problem = problems.hpcg((9, 8, 7))
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, *problem.grid))
    ax, _, _ = product_of(problem, chunks, Order.parse("color8"), backend, x)
    ay, _, _ = product_of(problem, chunks, Order.parse("color8"), backend, y)
    assert abs((y * ax).sum() - (x * ay).sum()) <= 1e-14 * np.linalg.norm(x) * np.linalg.norm(ay) * 10


def test_points_beyond_the_grid_count_as_zero() -> None:
    """The row sum of the Laplacian is the number of neighbors that a point lacks."""
    sums, _, _ = product_of(problems.poisson7((5, 4, 3)), (2, 1, 3), Order(None), "numpy", np.ones((5, 4, 3)))
    i, j, k = np.ogrid[0:5, 0:4, 0:3]
    lacking = np.isin(i, (0, 4)).astype(int) + np.isin(j, (0, 3)) + np.isin(k, (0, 2))
    assert (sums == lacking).all()
