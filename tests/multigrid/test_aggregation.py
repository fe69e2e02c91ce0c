"""Smoothed aggregation: nodes, near-null spaces, and levels that are the same however many chunks there are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

import dsolver
from dsolver.errors import InputError
from dsolver.kernels.amg import BlockSizes
from dsolver.kernels.cpu.amg import products
from dsolver.kernels.cpu.amg.aggregation.roots import words
from dsolver.kernels.cpu.amg.aggregation.tentative import orthonormal_blocks
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.cpu.loops.team import Team
from dsolver.matrices.nodes import unknowns_of_nodes
from dsolver.preconditioners import Algebraic
from dsolver.program.spec import SolveSpec
from tests.multigrid.hierarchies import hierarchy_of_matrix, transfers
from tests.multigrid.matrices import blocks, bordered, channels, closed, poisson
from tests.multigrid.test_algebraic_setup import solved

AGGREGATION = Algebraic(coarsening="aggregation")
SMALL = Algebraic(coarsening="aggregation", coarse_rows=20, gathered_rows=100)


def sheet(m: int, *, clamped: bool = True, length: float = 1.0) -> tuple[Any, Any]:
    """Plane stress of m x m points in triangles, clamped at the left or free: the matrix, and (points, 2)."""
    x, y = np.meshgrid(np.linspace(0.0, length, m), np.linspace(0.0, 1.0, m), indexing="ij")
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    corner = np.arange(m * m).reshape(m, m)
    a, b, c, d = (part.ravel() for part in (corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:]))
    cells = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    edges = points[cells[:, 1:]] - points[cells[:, :1]]
    inner = np.linalg.inv(edges).transpose(0, 2, 1)
    g = np.concatenate([-inner.sum(axis=1, keepdims=True), inner], axis=1)
    strain = np.zeros((len(cells), 3, 6))
    strain[:, 0, 0::2], strain[:, 1, 1::2] = g[..., 0], g[..., 1]
    strain[:, 2, 0::2], strain[:, 2, 1::2] = g[..., 1], g[..., 0]
    stress = np.array([[1.0, 0.3, 0.0], [0.3, 1.0, 0.0], [0.0, 0.0, 0.35]]) / 0.91
    local = np.einsum("cki,kl,clj,c->cij", strain, stress, strain, abs(np.linalg.det(edges)) / 2)
    numbers = (2 * cells[:, :, None] + np.arange(2)).reshape(-1, 6)
    at = np.repeat(numbers, 6, axis=1).ravel(), np.tile(numbers, (1, 6)).ravel()
    whole = sp.csr_array((local.ravel(), at), shape=(2 * m * m,) * 2)
    kept = np.arange(m if clamped else 0, m * m)
    rows = (2 * kept[:, None] + np.arange(2)).ravel()
    return sp.csr_array((whole + whole.T)[rows][:, rows] / 2), points[kept]


def elastic(m: int, **options: Any) -> tuple[Any, dict[str, Any]]:
    """The matrix of a sheet, and what `dsolver.matrix` is told of it."""
    a, points = sheet(m, **options)
    return a, {"near_nullspace": dsolver.rigid_body_modes(points), "block_size": 2}


@pytest.mark.parametrize("matrix", [poisson(12), bordered()], ids=["poisson", "bordered"])
def test_levels_are_the_same_bits_for_any_number_of_chunks(matrix: Any) -> None:
    hashes, matrices, levels = hierarchy_of_matrix(matrix, 1, SMALL)
    assert len(levels) >= 3
    for chunks in (2, 3, 8):
        assert hierarchy_of_matrix(matrix, chunks, SMALL).digests == hashes
    for a in matrices[1:]:
        assert not (a != a.T).nnz


def test_levels_of_nodes_are_the_same_bits_for_any_number_of_chunks() -> None:
    a, told = elastic(20)
    hashes, _, levels = hierarchy_of_matrix(a, 1, SMALL, **told)
    assert len(levels) == 3
    assert levels[1].partition.grid[0] % 3 == 0
    for chunks in (2, 3, 8):
        assert hierarchy_of_matrix(a, chunks, SMALL, **told).digests == hashes


def test_products_are_told_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two chunks; of one `galerkin` is told."""
    told_of: set[BlockSizes | None] = set()
    product = products.product

    def recorded(self: AmgKernels, a: Any, b: Any, columns: int, **options: Any) -> Any:
        sizes = options.pop("blocks", None)
        told_of.add(sizes)
        return product(a, b, columns, self.team, **options)

    monkeypatch.setattr(AmgKernels, "product", recorded)
    a, told = elastic(20)
    hierarchy_of_matrix(a, 2, SMALL, **told)
    of_ap = {BlockSizes(2, 2, 3), BlockSizes(3, 3, 3)}
    assert told_of == of_ap | {sizes.restricted for sizes in of_ap}


def test_coarse_levels_are_galerkin_products_and_keep_null_vectors() -> None:
    a, told = elastic(12, clamped=False)
    for matrix, near, more in ((a, told["near_nullspace"], told), (closed(blocks(8)), np.ones((512, 1)), {})):
        _, matrices, levels = hierarchy_of_matrix(matrix, 3, SMALL, **more)
        for (fine, coarse), (above, found) in zip(pairwise(levels), pairwise(matrices), strict=True):
            p, r = transfers(fine, coarse)
            assert np.array_equal(r, p.T)
            expected = p.T @ above.toarray() @ p
            assert abs(found.toarray() - expected).max() <= 1e-13 * abs(expected).max()
            coarser = np.linalg.lstsq(p, near, rcond=None)[0]
            assert np.allclose(p @ coarser, near, atol=1e-10 * abs(near).max())
            near = coarser


def test_every_coupled_row_has_one_aggregate() -> None:
    matrix = channels(8)
    plain = Algebraic(coarsening="aggregation", omega=0.0, coarse_rows=20, gathered_rows=100)
    _, _, levels = hierarchy_of_matrix(matrix, 2, plain)
    p, _ = transfers(levels[0], levels[1])
    assert (np.count_nonzero(p, axis=1) == 1).all()
    for column in p.T:
        members = np.flatnonzero(column)
        assert len(members) >= 2
        assert connected_components(matrix[members][:, members])[0] == 1
        assert np.allclose(column[members], len(members) ** -0.5)


def test_words_are_a_permutation() -> None:
    found = words(np.arange(100000), 3)
    assert len(np.unique(found)) == 100000
    assert found.min() >= 1.0
    assert found.max() <= 2.0**52
    assert not np.array_equal(found, words(np.arange(100000), 4))


def test_blocks_of_too_few_rows_have_zero_columns() -> None:
    near = dsolver.rigid_body_modes(np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 5, 0], [0, 0, 7.0]]))
    start = np.array([0, 9, 12, 15])  # points on a line, and two single points
    q, r = orthonormal_blocks(start, near, Team())
    for block, rank in enumerate((5, 3, 3)):
        rows, own = slice(start[block], start[block + 1]), q[start[block] : start[block + 1]]
        assert np.count_nonzero(abs(own).sum(axis=0)) == rank
        assert np.allclose(own @ r[6 * block : 6 * block + 6], near[rows], atol=1e-12)
        assert np.allclose(own.T @ own, np.diag(abs(own).sum(axis=0) > 0), atol=1e-12)


def two_grid_factor(matrix: Any, m: Algebraic) -> float:
    """Largest factor of the A-norm of an error in a cycle of two levels."""
    _, _, levels = hierarchy_of_matrix(matrix, 1, m)
    p, _ = transfers(levels[0], levels[1])
    a = matrix.toarray()
    d = (a.diagonal() + abs(a).sum(axis=1)) / 2
    after = np.eye(len(a)) - a / d[:, None]
    correction = np.eye(len(a)) - p @ np.linalg.solve(p.T @ a @ p, p.T @ a)
    return float(abs(np.linalg.eigvals(after @ correction @ after)).max())


@pytest.mark.parametrize(
    ("m", "most"),
    [(Algebraic(aggressive_levels=0), 0.5), (Algebraic(), 0.7), (AGGREGATION, 0.65)],
    ids=["pmis", "aggressive", "aggregation"],
)
def test_two_grid_factors(m: Algebraic, most: float) -> None:
    assert two_grid_factor(poisson(9), m) <= most


@pytest.mark.parametrize(("matrix", "most"), [(poisson(20), 9), (channels(20), 19), (blocks(20), 18)])
def test_iterations(matrix: Any, most: int) -> None:
    solution = solved(matrix, AGGREGATION, chunks=2)
    assert solution.converged
    assert solution.iterations <= most


def test_rigid_body_modes_halve_the_iterations_of_elasticity() -> None:
    a, told = elastic(32, length=2.0)
    b = a @ np.random.default_rng(0).standard_normal(a.shape[0])

    def iterations(problem: Any, m: Any = AGGREGATION) -> int:
        solution = dsolver.solve(problem, b, M=m, rtol=1e-8, device="cpu")
        assert solution.converged
        return int(solution.iterations)

    found = iterations(dsolver.matrix(a, **told))
    assert found <= 16
    assert iterations(dsolver.matrix(a, **told), "amg") == found, "nodes and motions make it aggregation"
    assert iterations(dsolver.matrix(a.tobsr((2, 2)))) > 1.5 * found  # translations
    assert iterations(dsolver.matrix(a, chunks=3, order="rcm", **told)) == found
    shuffled = np.repeat(np.random.default_rng(1).integers(0, 3, a.shape[0] // 2), 2)
    assert abs(iterations(dsolver.matrix(a, partition=shuffled, **told)) - found) <= 2
    w = Algebraic(coarsening="aggregation", cycle="W", coarse_rows=20)
    assert iterations(dsolver.matrix(a, **told), w) <= found


def found_nodes(a: Any, **options: Any) -> int:
    """Unknowns of a node that `dsolver.matrix` finds."""
    problem: Any = dsolver.matrix(a, **options)
    return int(problem.block)


def test_nodes_are_found_in_the_pattern_of_a_matrix_that_is_not_elliptic() -> None:
    a, _ = sheet(41)
    assert found_nodes(a) == 2
    assert found_nodes(a, chunks=3, order="rcm") == 2
    some = sp.triu(a, 1).tocoo()
    kept = np.random.default_rng(0).random(some.nnz) > 0.04
    some = sp.coo_array((some.data[kept], (some.row[kept], some.col[kept])), shape=a.shape)
    assert found_nodes(sp.csr_array(some + some.T + sp.diags_array(a.diagonal()))) == 2, "zeros left out"
    held = sp.diags_array((np.arange(a.shape[0]) >= 120).astype(float))
    assert found_nodes(sp.csr_array(held @ a + sp.eye_array(a.shape[0]) - held)) == 2, "rows that are held"
    beams = sp.csr_array(sp.kron(a, np.eye(3) + 0.3))
    assert unknowns_of_nodes(beams) == 6

    n = 60
    line = sp.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    plane = sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))
    assert found_nodes(sp.csr_array(plane @ plane)) == 1, "a plate"
    assert found_nodes(sp.csr_array(sp.kron(plane, np.eye(2) + 0.1))) == 1, "elliptic"
    assert found_nodes(a, chunks=(1, a.shape[0] - 1)) == 1, "rows of chunks are given"
    assert found_nodes(a, block_size=1) == 1

    b = np.random.default_rng(0).standard_normal(a.shape[0])
    found, alone = (dsolver.solve(p, b, M="amg", device="cpu") for p in (a, dsolver.matrix(a, block_size=1)))
    assert found.converged
    assert found.iterations < 0.7 * alone.iterations


@pytest.mark.gpu
def test_a_gpu_finds_the_same_nodes() -> None:
    a, _ = sheet(41)
    assert found_nodes(a, device="cuda") == 2
    assert found_nodes(a[1:-1, 1:-1], device="cuda") == found_nodes(a[1:-1, 1:-1]) == 1


def test_free_bodies() -> None:
    a, told = elastic(20, clamped=False)
    modes = told["near_nullspace"]
    b = a @ np.random.default_rng(0).standard_normal(a.shape[0])
    problem = dsolver.matrix(a, nullspace=modes, block_size=2, chunks=2)
    solution = dsolver.solve(problem, b, M=AGGREGATION, rtol=1e-8, device="cpu")
    assert solution.converged
    assert solution.iterations <= 16
    assert np.allclose(modes.T @ solution.x, 0.0, atol=1e-8 * np.linalg.norm(solution.x))


@pytest.mark.parametrize(
    "matrix",
    [
        sp.csr_array([[3.0]]),
        sp.diags_array(np.linspace(1.0, 1e6, 500)).tocsr(),
        sp.csr_array(sp.block_diag([sp.eye_array(300), poisson(7), 1e-6 * poisson(5), [[7.0]]])),
        bordered(),
        sp.csr_array(sp.block_diag([poisson(7), closed(poisson(2)), closed(poisson(5)), [[1.0, -1.0], [-1.0, 1.0]]])),
        sp.csr_array(np.full((40, 40), 0.5) + np.eye(40)),
        closed(poisson(8)),
    ],
    ids=["1x1", "diagonal", "parts", "bordered", "islands", "positive", "singular"],
)
def test_unusual_matrices(matrix: Any) -> None:
    for chunks in {1, min(3, matrix.shape[0])}:
        solution = solved(matrix, AGGREGATION, chunks=chunks)
        assert solution.converged
        assert solution.iterations <= 20


def scaled(matrix: Any, spread: float) -> Any:
    """Rows and columns multiplied by factors of two sizes."""
    factors = np.where(np.arange(matrix.shape[0]) % 7 == 0, spread, 1.0)
    return sp.csr_array(sp.diags_array(factors) @ matrix @ sp.diags_array(factors))


def dirichlet(matrix: Any) -> Any:
    """Every fifth row and column is that of the identity."""
    fixed = np.arange(matrix.shape[0]) % 5 == 0
    free = sp.diags_array(1.0 - fixed)
    return sp.csr_array(free @ matrix @ free + sp.diags_array(fixed.astype(float)))


def hub(rows: int) -> Any:
    """A line, and a row with 1000 entries."""
    line = sp.diags_array([-np.ones(rows - 1), np.full(rows, 2.01), -np.ones(rows - 1)], offsets=[-1, 0, 1]).tolil()
    line[0, 1:1000] = line[1:1000, 0] = -0.001
    line[0, 0] = 5.0
    return sp.csr_array(line)


@pytest.mark.parametrize("coarsening", ["pmis", "aggregation"])
@pytest.mark.parametrize(
    ("matrix", "most"),
    [
        (1e150 * poisson(8), 15),
        (1e-150 * poisson(8), 15),
        (scaled(poisson(8), 1e6), 200),  # goes on where r falls at once in the large rows alone: x was 95 % off after 8
        (dirichlet(poisson(8)), 12),
        (hub(1500), 12),
        (sp.csr_array(abs(poisson(8)) + 0.5 * sp.eye_array(512)), 25),  # couplings of the other sign alone
        (sp.csr_array(poisson(8) @ poisson(8)), 60),  # of both signs
    ],
    ids=["huge", "tiny", "scaled", "dirichlet", "hub", "positive", "both-signs"],
)
def test_matrices_that_are_no_m_matrices_or_badly_scaled(matrix: Any, most: int, coarsening: str) -> None:
    solution = solved(matrix, Algebraic(coarsening=coarsening), chunks=2)
    assert solution.converged
    assert solution.iterations <= most


@pytest.mark.parametrize("coarsening", ["pmis", "aggregation"])
def test_diagonals_that_are_not_positive_are_refused_before_anything_is_spread(coarsening: str) -> None:
    hollow = poisson(5).tolil()
    hollow[3, 3] = 0.0
    mixed = poisson(5).tolil()
    mixed[3, 3] = mixed[7, 7] = -1.0
    for matrix, message in (
        (sp.csr_array(mixed), "2 diagonal entries that are not positive"),
        (sp.csr_array(hollow), "divides by the diagonal: A has 1 zeros"),
    ):
        problem = dsolver.matrix(matrix)
        with pytest.raises(InputError, match=message):
            SolveSpec.plan(problem, (1, 1, 1), m=Algebraic(coarsening=coarsening))


def test_refusals() -> None:
    a, points = sheet(6)
    modes = dsolver.rigid_body_modes(points)
    for near, message in (
        (modes[:-1], "near_nullspace has shape"),
        (np.full(len(modes), np.nan), "NaN or infinite"),
        (np.zeros(len(modes)), "is zero, or a sum"),
        (np.column_stack([modes, modes[:, 0] + modes[:, 1]]), "vector 3 of near_nullspace"),
        ("rigid", "must be an array of real numbers"),
    ):
        with pytest.raises(InputError, match=message):
            dsolver.matrix(a, near_nullspace=near)
    sizes: tuple[Any, ...] = (0, 7, 2.0)
    for size in sizes:
        with pytest.raises(InputError, match="block_size must be"):
            dsolver.matrix(a, block_size=size)
    with pytest.raises(InputError, match="chunks cut nodes of 2 rows"):
        dsolver.solve(dsolver.matrix(a, block_size=2, chunks=[21, 39]), np.ones(60), M=AGGREGATION)
    parts = np.arange(60) % 2
    with pytest.raises(InputError, match="chunks cut nodes of 2 rows"):
        dsolver.solve(dsolver.matrix(a, block_size=2, partition=parts), np.ones(60), M=AGGREGATION)
    with pytest.raises(InputError, match="without grid="):
        dsolver.matrix(poisson(4), grid=(4, 4, 4), block_size=2)
    for coordinates in (np.zeros(3), np.zeros((3, 4)), np.full((3, 3), np.inf), "xyz"):
        with pytest.raises(InputError, match="coordinates"):
            dsolver.rigid_body_modes(coordinates)
    wrong: list[dict[str, Any]] = [{"coarsening": "sa"}, {"omega": 2.0}, {"cycle": "K"}]
    for options in wrong:
        with pytest.raises(InputError, match=f"{next(iter(options))} must be"):
            Algebraic(**options)


def test_a_hub_does_not_couple_all_aggregates_with_each_other() -> None:
    """A hub that each row of a line is coupled to weakly, as it is to each: P of it was dense, and the next A full."""
    ones, rows = np.ones(1999), 2000
    couplings = sp.diags_array([ones, ones], offsets=[-1, 1]).tolil()
    couplings[0, 2:] = couplings[2:, 0] = 1.0
    matrix = sp.csr_array(sp.diags_array(couplings.sum(axis=1) + 1e-3) - couplings)
    b = np.random.default_rng(3).standard_normal(rows)
    found = []
    for chunks in (1, 3):
        with dsolver.Solver(dsolver.matrix(matrix, chunks=chunks), M=AGGREGATION, device="cpu") as solver:
            solution = solver.solve(b, rtol=1e-10)
            found.append([(level.rows, level.entries) for level in solver.hierarchy.levels])
        assert solution.converged
        assert solution.iterations <= 10
    assert found[0] == found[1]
    (_, entries), (coarse, between), *_ = found[0]
    assert coarse < rows / 3
    assert between < entries / 2
