"""The V-cycle against dense algebra, and the properties that conjugate gradients need of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
import scipy.linalg
import scipy.sparse

import dsolver
from dsolver import kernels, problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.benchmarks.hpcg.levels import coarsened
from dsolver.engines.eager.engine import EagerEngine
from dsolver.grid.box import Triple
from dsolver.grid.coloring import Order
from dsolver.grid.partition import Partition
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec

F64 = npt.NDArray[np.float64]
BACKENDS = ("numpy", "cpu")
ORDERS = ("natural", "color8", "0 1 2 3 4 5 6 7", "7 5 2 6 1 4 3 0")
GRID = (16, 8, 24)
CHUNKINGS: tuple[Triple, ...] = ((1, 1, 1), (2, 1, 1), (1, 1, 3), (2, 1, 3))
UNEVEN = np.where(np.arange(27).reshape(3, 3, 3) == 13, 30.0, -1.0) - np.where(np.arange(27) % 26 == 0, 0.5, 0).reshape(
    3, 3, 3
)
"""A 27-point stencil that no symmetry of the axes maps to itself."""
PROBLEMS = {
    "hpcg": problems.hpcg(GRID),
    "poisson7": problems.poisson7(GRID),
    "uneven": problems.stencil(GRID, UNEVEN),
}


def preconditioner(
    problem: problems.Problem, chunks: Triple, order: str, backend: str, levels: int = 4
) -> Callable[[F64], F64]:
    """r -> M r on whole arrays of the grid's shape."""
    spec = SolveSpec.plan(problem, chunks, order, Hpcg(levels=levels))
    partition = spec.partition
    solve = Solve(EagerEngine(partition, kernels.load(backend)), spec)

    def apply(r: F64) -> F64:
        assert solve.preconditioner is not None
        solve.set_b({chunk.number: r[chunk.box.slices] for chunk in partition})
        solve.preconditioner.apply(solve.method.b, solve.method.x)
        z = np.full(problem.grid, np.nan)
        for number, block in solve.solution().items():
            z[partition[number].box.slices] = block
        return z

    return apply


def vectors(count: int, grid: Triple = GRID) -> F64:
    return np.random.default_rng(3).standard_normal((count, *grid))


def dense_matrix(problem: problems.Problem, grid: Triple) -> F64:
    """The stencil on a grid, as a sum of Kronecker products of shifts; rows are numbered x fastest."""
    total = scipy.sparse.csr_array((int(np.prod(grid)),) * 2)
    for offset, weight in zip(problem.offsets, problem.weights, strict=True):
        x, y, z = (scipy.sparse.eye_array(n, k=d) for n, d in zip(grid, offset, strict=True))
        total = total + weight * scipy.sparse.kron(z, scipy.sparse.kron(y, x))
    dense: F64 = total.toarray()
    return dense


def dense_cycle(problem: problems.Problem, partition: Partition, order: Order, depth: int) -> Callable[[F64], F64]:
    """The text-book V-cycle on one global matrix: SymGS by triangular solves inside each chunk, injection between."""
    a = dense_matrix(problem, partition.grid)
    rows = np.arange(len(a)).reshape(partition.grid, order="F")
    coarse = rows[::2, ::2, ::2].ravel(order="F")
    blocks = []
    for chunk in partition:
        own = rows[chunk.box.slices].ravel(order="F")
        own = own[np.argsort(order.colors(np, chunk.box.shape), kind="stable")]
        blocks.append((own, a[np.ix_(own, own)]))

    def smooth(r: F64) -> F64:
        z = np.zeros(len(a))
        for own, block in blocks:
            forward = scipy.linalg.solve_triangular(np.tril(block), r[own], lower=True)
            z[own] = scipy.linalg.solve_triangular(np.triu(block), block.diagonal() * forward)
        return z

    below = dense_cycle(problem, coarsened(partition), order, depth - 1) if depth > 1 else None

    def cycle(r: F64) -> F64:
        x = smooth(r)
        if below is not None:
            x[coarse] += below((r - a @ x)[coarse])
            x += smooth(r - a @ x)
        return x

    return cycle


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(
    ("chunks", "order"),
    [
        ((1, 1, 1), "natural"),
        ((2, 1, 3), "color8"),
        ((2, 1, 1), ORDERS[2]),
        ((1, 1, 3), "cc"),
    ],
)
def test_the_v_cycle_is_the_one_of_dense_algebra(backend: str, name: str, chunks: Triple, order: str) -> None:
    problem, (r,) = PROBLEMS[name], vectors(1)
    found = preconditioner(problem, chunks, order, backend, levels=3)(r)
    expected = dense_cycle(problem, Partition(GRID, chunks), Order.parse(order), 3)(r.ravel(order="F"))
    assert np.abs(found.ravel(order="F") - expected).max() <= 1e-13 * np.abs(expected).max()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("chunks", CHUNKINGS)
def test_the_cpu_kernels_make_the_text_books_v_cycle(chunks: Triple, order: str) -> None:
    for problem in PROBLEMS.values():
        (r,) = vectors(1)
        numpy, cpu = (preconditioner(problem, chunks, order, backend)(r) for backend in BACKENDS)
        assert np.abs(cpu - numpy).max() <= 1e-12 * np.abs(numpy).max()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("chunks", CHUNKINGS)
def test_the_v_cycle_is_symmetric_and_positive(backend: str, chunks: Triple, order: str) -> None:
    for problem in (PROBLEMS["hpcg"], PROBLEMS["poisson7"]):
        apply = preconditioner(problem, chunks, order, backend)
        x, y = vectors(2)
        mx, my = apply(x), apply(y)
        assert abs((y * mx).sum() - (x * my).sum()) <= 1e-13 * np.linalg.norm(x) * np.linalg.norm(my)
        assert (x * mx).sum() > 0.0
        assert (y * my).sum() > 0.0


def test_the_v_cycle_forgets_what_it_did_before() -> None:
    for chunks in ((1, 1, 1), (2, 1, 3)):
        apply = preconditioner(PROBLEMS["hpcg"], chunks, "color8", "cpu")
        x, y = vectors(2)
        first = apply(x)
        apply(y)
        assert (apply(x) == first).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", ORDERS)
@pytest.mark.parametrize("name", ["hpcg", "poisson7", "uneven"])
def test_symgs_is_gauss_seidel_row_by_row(backend: str, text: str, name: str) -> None:
    """The natural order is HPCG's reference sweep: x fastest, forth and back, each row with the newest values."""
    grid = (5, 4, 3)
    stencil = PROBLEMS[name]
    problem = problems.Problem(name=name, grid=grid, offsets=stencil.offsets, weights=stencil.weights)
    order = Order.parse(text)
    points = [(i, j, k) for k, j, i in product(*(range(n) for n in reversed(grid)))]
    if order.classes is not None:
        place = {parity: turn for turn, parity in enumerate(order.classes)}
        points.sort(key=lambda p: place[p[0] % 2 + 2 * (p[1] % 2) + 4 * (p[2] % 2)])
    (r,) = vectors(1, grid)

    x = np.zeros(grid)
    weights = dict(zip(problem.offsets, problem.weights, strict=True))
    for i, j, k in [*points, *reversed(points)]:
        total = r[i, j, k]
        for (di, dj, dk), weight in weights.items():
            near = (i + di, j + dj, k + dk)
            if near != (i, j, k) and all(0 <= a < n for a, n in zip(near, grid, strict=True)):
                total -= weight * x[near]
        x[i, j, k] = total / weights[0, 0, 0]

    found = preconditioner(problem, (1, 1, 1), text, backend, levels=1)(r)
    assert np.abs(found - x).max() <= 1e-14 * np.abs(x).max()


@pytest.mark.gpu
@pytest.mark.parametrize("order", ["jpl", "block-greedy", "levels"])
def test_on_a_gpu_colorings_by_name_make_the_cpus_v_cycle(order: str) -> None:
    problem = problems.hpcg((32, 16, 24))
    b = np.random.default_rng(2).standard_normal(problem.grid)
    here, there = (dsolver.solve(problem, b, M="hpcg", order=order, device=d) for d in ("cpu", "cuda"))
    assert there.residuals == pytest.approx(here.residuals, rel=1e-7)
