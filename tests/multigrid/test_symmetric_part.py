"""Algebraic multigrid for matrices that are not symmetric: diffusion with convection."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.multigrid.coarse_solve import coarsest
from dsolver.preconditioners import Algebraic
from tests.multigrid.hierarchies import hierarchy_of_matrix, loaded, transfers, unloaded


def convection(n: int, peclet: float) -> sp.csr_array:
    """A flow around the middle of a square, by upwind differences; peclet: of a cell, at the rim."""
    x, y = np.meshgrid(*[np.linspace(-1.0, 1.0, n)] * 2, indexing="ij")
    number = np.arange(n * n).reshape(n, n)
    rows, columns, values = [number.ravel()], [number.ravel()], [(4.0 + peclet * (abs(x) + abs(y))).ravel()]
    for axis, speed in enumerate((y, -x)):
        for step in (-1, 1):
            weight = 1.0 + peclet * np.maximum(-step * speed, 0.0)
            here = [slice(None)] * 2
            here[axis] = slice(1, None) if step < 0 else slice(0, -1)
            at = tuple(here)
            rows.append(number[at].ravel())
            columns.append(np.roll(number, -step, axis=axis)[at].ravel())
            values.append(-weight[at].ravel())
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    return sp.csr_array(entries, shape=(n * n, n * n))


def one_sided(n: int) -> sp.csr_array:
    """Convection alone: every coupling is stored in one of its two rows."""
    a = convection(n, 1.0) - convection(n, 0.0) + 0.1 * sp.eye_array(n * n)
    a.data[abs(a.data) < 1e-12] = 0.0
    a.eliminate_zeros()
    return sp.csr_array(a)


@pytest.mark.parametrize("m", ["pmis", "aggregation"])
@pytest.mark.parametrize("matrix", [convection(16, 3.0), one_sided(16)], ids=["both", "one-sided"])
def test_levels_are_the_same_bits_for_any_number_of_chunks(matrix: Any, m: str) -> None:
    small = Algebraic(coarsening=m, coarse_rows=20, gathered_rows=50)
    hashes, _, levels = hierarchy_of_matrix(matrix, 1, small)
    assert len(levels) >= 3
    for chunks in (2, 3, 8):
        assert hierarchy_of_matrix(matrix, chunks, small).digests == hashes


@pytest.mark.parametrize("m", [Algebraic(coarsening=m, coarse_rows=20) for m in ("pmis", "aggregation")])
def test_coarse_levels_are_galerkin_products_of_a_itself(m: Algebraic) -> None:
    matrix = convection(12, 3.0)
    _, matrices, levels = hierarchy_of_matrix(matrix, 3, m)
    above = matrix.toarray()
    assert np.array_equal(matrices[0].toarray(), (above + above.T) / 2)
    for (fine, coarse), found in zip(pairwise(levels), matrices[1:], strict=True):
        p, r = transfers(fine, coarse)
        assert np.array_equal(r, p.T)
        above = p.T @ above @ p
        expected = (above + above.T) / 2
        assert abs(found.toarray() - expected).max() <= 1e-13 * abs(expected).max()


@pytest.mark.parametrize("coarsening", ["pmis", "aggregation", "air"])
def test_the_coarsest_level_is_solved(coarsening: str) -> None:
    level = hierarchy_of_matrix(convection(12, 30.0), 2, Algebraic(coarsening=coarsening, coarse_rows=60)).levels[-1]
    b = np.random.default_rng(0).standard_normal(level.partition.grid[0])
    right, x, again = (level.engine.field(level.layout) for _ in range(3))
    loaded(level, b, right)
    coarsest(level).apply(right, x)
    level.matrix.multiply(x, again)
    assert np.allclose(unloaded(level, again), b, rtol=0.0, atol=1e-12 * abs(b).max())


@pytest.mark.parametrize(("peclet", "most"), [(0.1, 40), (10.0, 60), (1000.0, 60)])
@pytest.mark.parametrize("method", ["gmres", "bicgstab"])
def test_convection_is_solved_whatever_its_strength(method: Any, peclet: float, most: int) -> None:
    a = convection(40, peclet)
    b = a @ np.random.default_rng(0).standard_normal(a.shape[0])
    solution = dsolver.solve(dsolver.matrix(a, chunks=2), b, M="amg", method=method, rtol=1e-8, device="cpu")
    assert solution.converged
    assert solution.iterations <= most


def test_cycles_are_w_where_convection_is_strong() -> None:
    a = convection(40, 10.0)
    b = a @ np.random.default_rng(0).standard_normal(a.shape[0])
    v, w, usual = (
        dsolver.solve(a, b, M=Algebraic(coarsening="aggregation", cycle=cycle), rtol=1e-8, device="cpu").iterations
        for cycle in ("V", "W", None)
    )
    assert usual == w < 0.8 * v


def test_smoothed_interpolation_takes_fewer_iterations_where_diffusion_prevails() -> None:
    a = convection(40, 0.1)
    b = a @ np.random.default_rng(0).standard_normal(a.shape[0])
    for m in (Algebraic(coarsening="pmis"), Algebraic(omega=4 / 3)):
        solution = dsolver.solve(a, b, M=m, rtol=1e-8, device="cpu")
        assert solution.converged
        assert solution.iterations <= 15


def test_rows_of_dirichlet_points_may_keep_their_columns() -> None:
    a = convection(20, 0.0).tolil()
    for i in range(0, 400, 7):
        a[i, :] = 0.0
        a[i, i] = 1.0
    a = sp.csr_array(a)
    b = a @ np.random.default_rng(0).standard_normal(400)
    for m in ("pmis", "aggregation"):
        solution = dsolver.solve(dsolver.matrix(a, chunks=2), b, M=Algebraic(coarsening=m), rtol=1e-8, device="cpu")
        assert solution.converged
        assert solution.iterations <= 30
