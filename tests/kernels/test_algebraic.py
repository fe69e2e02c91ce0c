from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver import kernels
from dsolver.grid.numbering import chunk_numbering
from dsolver.grid.partition import Partition
from dsolver.kernels import amg
from dsolver.kernels.amg import ruge_stueben, spectrum
from dsolver.kernels.cpu.csr.rows import tabulated
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr
from dsolver.problems import BOX_OFFSETS, STAR_OFFSETS

F64 = npt.NDArray[np.float64]
GRID = (7, 6, 5)
NUMPY = kernels.load("numpy")
BACKENDS = ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
RNG = np.random.default_rng(5)


def lattice(sigma: float = 0.0) -> tuple[Any, F64, F64]:
    """Offsets, weights (27, rows) of links that jump by 10⁴, in lattice order, and the same matrix densely."""
    points = GRID[0] * GRID[1] * GRID[2]
    kappa = np.where(RNG.random(points) < 0.5, 1e4, 1.0)
    around = chunk_numbering(NUMPY, Partition(GRID), 0, BOX_OFFSETS)
    nx, ny, nz = GRID
    weights, dense = np.zeros((27, points)), np.zeros((points, points))
    for number, (i, j, k) in enumerate(BOX_OFFSETS):
        columns = around[1 + k : 1 + k + nz, 1 + j : 1 + j + ny, 1 + i : 1 + i + nx].reshape(-1)
        if (i, j, k) == (0, 0, 0):
            continue
        link = np.where(columns >= 0, 2.0 / (1.0 / kappa + 1.0 / kappa[columns]), 0.0)
        weights[number] = -link
        dense[np.flatnonzero(columns >= 0), columns[columns >= 0]] = -link[columns >= 0]
    weights[13] = sigma - weights.sum(axis=0)
    dense[np.diag_indices(points)] = weights[13]
    return BOX_OFFSETS, weights, dense


def sparse(dense: F64) -> Csr:
    row, column = np.nonzero(dense)
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(dense)))]).astype(np.int64)
    return Csr(start, column.astype(np.int32), dense[row, column])


def rectangular(rows: Csr, columns: int) -> F64:
    out = np.zeros((rows.size, columns))
    out[np.repeat(np.arange(rows.size), np.diff(rows.start)), rows.columns] = rows.values
    return out


def test_rows_of_a_stencil_are_its_matrix() -> None:
    offsets, weights, dense = lattice()
    rows = amg.of_stencil(offsets, chunk_numbering(NUMPY, Partition(GRID), 0, offsets), weights)
    assert np.array_equal(rows.dense(), dense)


def test_an_entry_whose_mirror_image_was_rounded_to_zero_stays() -> None:
    weights = np.zeros((7, 2))
    weights[STAR_OFFSETS.index((0, 0, 0))] = 1.0
    weights[STAR_OFFSETS.index((1, 0, 0)), 0] = -1e-17
    rows = amg.of_stencil(STAR_OFFSETS, chunk_numbering(NUMPY, Partition((2, 1, 1)), 0, STAR_OFFSETS), weights)
    assert np.diff(rows.start).tolist() == [2, 2]


def test_interpolation_keeps_constants_and_the_coarse_matrix_is_galerkins() -> None:
    _, _, dense = lattice()
    below = amg.coarser(sparse(dense))
    count = below.matrix.size
    p = rectangular(below.prolongation, count)
    assert 10 < count < len(dense) / 3
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-9)
    assert {tuple(row) for row in np.eye(count)} <= {tuple(row) for row in p}  # coarse points take their own value
    assert np.array_equal(rectangular(below.restriction, len(dense)), p.T)
    np.testing.assert_allclose(rectangular(below.matrix, count), p.T @ dense @ p, atol=1e-9 * dense.max())


@pytest.mark.parametrize("slab", [30, 1000])
def test_every_point_depends_strongly_on_a_coarse_one(slab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruge_stueben, "SLAB", slab)
    _, _, dense = lattice(sigma=0.1)
    below = amg.coarser(sparse(dense))
    p = rectangular(below.prolongation, below.matrix.size)
    is_coarse = (p == 1.0).sum(axis=1) * (np.count_nonzero(p, axis=1) == 1) > 0
    strong = -dense >= ruge_stueben.STRONG * (-dense).max(axis=1, keepdims=True)
    assert (strong[~is_coarse][:, is_coarse].any(axis=1)).all()


def test_the_coarse_correction_sees_what_gauss_seidel_leaves() -> None:
    _, _, dense = lattice(sigma=1e-3)
    below = amg.coarser(sparse(dense))
    p = rectangular(below.prolongation, below.matrix.size)
    smooth = np.eye(len(dense)) - np.linalg.solve(np.tril(dense), dense)
    correct = np.eye(len(dense)) - p @ np.linalg.solve(p.T @ dense @ p, p.T @ dense)
    assert np.abs(np.linalg.eigvals(smooth)).max() > 0.99
    assert np.abs(np.linalg.eigvals(correct @ smooth)).max() < 0.5


def test_largest_eigenvalue_comes_from_below() -> None:
    _, _, dense = lattice(sigma=0.1)
    exact = np.linalg.eigvals(dense / dense.diagonal()[:, None]).real.max()
    assert 0.9 * exact < amg.largest_eigenvalue(sparse(dense)) <= exact * (1 + 1e-12)


def test_the_largest_eigenvalue_is_seen_among_rows_with_small_entries() -> None:
    """D⁻¹A is that of two lattices side by side, one of them with entries a million times larger and few couplings."""
    _, _, strong = lattice(sigma=0.1)
    _, _, weak = lattice(sigma=0.1)
    n = len(weak)
    dense = np.zeros((2 * n, 2 * n))
    dense[:n, :n] = 1e6 * (strong + np.diag(strong.diagonal()))
    dense[n:, n:] = weak
    exact = np.linalg.eigvals(weak / weak.diagonal()[:, None]).real.max()
    assert 0.9 * exact < amg.largest_eigenvalue(sparse(dense)) <= exact * (1 + 1e-12)


@pytest.mark.parametrize("slab", [30, 1000])
def test_threads_change_no_bit(slab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruge_stueben, "SLAB", slab)
    monkeypatch.setattr(spectrum, "BLOCK", 50)
    offsets, weights, _ = lattice()
    around = chunk_numbering(NUMPY, Partition(GRID), 0, offsets)
    made = []
    for team in (Team(1), Team(2), Team(5)):
        rows = amg.of_stencil(offsets, around, weights, team)
        below = amg.coarser(rows, team)
        largest, table = np.array(amg.largest_eigenvalue(rows, team)), tabulated(rows, rows.width, team)
        made.append((*rows, *below.prolongation, *below.restriction, *below.matrix, *vars(table).values(), largest))
    for several in made[1:]:
        for ours, theirs in zip(made[0], several, strict=True):
            assert np.array_equal(ours, theirs)


def test_rows_without_couplings_become_one_coarse_point() -> None:
    below = amg.coarser(sparse(np.diag([2.0, 3.0, 4.0])))
    assert below.matrix.dense().tolist() == [[2.0]]
    assert np.diff(below.prolongation.start).tolist() == [1, 0, 0]


def table(backend: Any, rows: Csr) -> Any:
    return backend.amg.table(backend.amg.on_device(rows), rows.width)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tables_and_eigenvalues_are_those_of_the_host(backend: str) -> None:
    _, _, dense = lattice()
    made, rows = kernels.load(backend), sparse(dense)
    found, expected = table(made, rows), tabulated(rows, rows.width)
    np.testing.assert_array_equal(made.to_host(found.columns), expected.columns)
    np.testing.assert_array_equal(made.to_host(found.values), expected.values)
    largest = made.amg.largest_eigenvalue(made.amg.on_device(rows))
    assert largest == pytest.approx(amg.largest_eigenvalue(rows), rel=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_matrix_from_a_table_multiplies_as_it_should(backend: str) -> None:
    _, _, dense = lattice(sigma=0.1)
    made = kernels.load(backend)
    layout = made.layouts.plain((len(dense), 1, 1))
    matrix = made.format("sell").matrix(layout, table(made, sparse(dense)))
    x, y = made.zeros(layout.size), made.zeros(layout.size)
    values = RNG.standard_normal(len(dense))
    x[layout.position] = made.asarray(values)
    made.kernel("spmv")(matrix, x, y)
    np.testing.assert_allclose(made.to_host(y[layout.position]), dense @ values, rtol=1e-11, atol=1e-8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_table_without_a_diagonal_is_refused(backend: str) -> None:
    made = kernels.load(backend)
    dense = np.array([[1.0, -1.0], [-1.0, 0.0]])
    with pytest.raises(ZeroDivisionError, match="row 1 "):
        made.format("sell").matrix(made.layouts.plain((2, 1, 1)), table(made, sparse(dense)))
