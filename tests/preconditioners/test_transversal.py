"""Transversals; incomplete factors of matrices with zeros on their diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver import kernels
from dsolver.errors import InputError
from dsolver.kernels.direct.transversal import of_largest
from dsolver.kernels.formats.csr import Csr
from dsolver.preconditioners.relaxation.sweeps import has_zeros


def shuffled(n: int) -> sp.csr_array:
    """A dominant matrix without symmetry whose rows come in another order: nearly all of its diagonal is zero."""
    rng = np.random.default_rng(0)
    a = sp.diags_array([rng.uniform(-1, 0, n - 7), np.full(n, 3.0), rng.uniform(-1, 0, n - 1)], offsets=[-7, 0, 1])
    return sp.csr_array(a.tocsr()[rng.permutation(n)])


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("order", [None, "rcm"])
def test_zeros_on_the_diagonal_are_brought_away_from_it(device: Any, order: Any) -> None:
    a, b = shuffled(300), np.random.default_rng(1).standard_normal(300)
    assert (a.diagonal() == 0.0).sum() > 250
    solution = dsolver.solve(dsolver.matrix(a, order=order), b, M="ilu0", device=device, maxiter=40)
    assert solution.converged
    assert np.linalg.norm(b - a @ solution.x) <= 1.01e-8 * np.linalg.norm(b)


def test_a_diagonal_has_zeros_that_are_stored_or_are_not_there() -> None:
    def found(*values: float) -> bool:
        a = Csr(np.array([0, 1, 2]), np.arange(2, dtype=np.int32), np.array(values))
        return has_zeros(kernels.load("cpu"), a)

    assert not found(1.0, -2.0)
    assert found(1.0, 0.0)
    empty = Csr(np.array([0, 1, 2]), np.array([1, 1], dtype=np.int32), np.ones(2))
    assert has_zeros(kernels.load("cpu"), empty)


def test_what_no_order_helps_is_refused_as_before() -> None:
    a = sp.csr_array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    with pytest.raises(InputError, match="M='ilu0' breaks down in row"):
        dsolver.solve(a, np.ones(3), M="ilu0", device="cpu")


def test_transversals_have_the_largest_product() -> None:
    """Products of a transversal's entries, against SciPy's matching of rows and columns."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(40):
        a = sp.csr_array(sp.random_array((30, 30), density=0.15, rng=rng))
        a.data[:5] = 0.0
        order, costs = of_largest(a), a.copy()
        costs.eliminate_zeros()
        costs.data = 100.0 - np.log2(costs.data)
        if order is None:
            with pytest.raises(ValueError, match="matching"):
                sp.csgraph.min_weight_full_bipartite_matching(costs)
            continue
        best = costs[sp.csgraph.min_weight_full_bipartite_matching(costs)].sum()
        assert costs[order, np.arange(30)].sum() == pytest.approx(best, rel=1e-6)
        found += 1
    assert 10 < found < 40


def test_rows_whose_largest_entries_share_columns_are_paired() -> None:
    """Elements of the Stokes kind with rows in another order: SciPy's structural rank took minutes."""
    lines = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(60, 60))
    flow = sp.kronsum(lines, lines) + 3.0 * sp.kron(sp.eye_array(60, k=-1) - sp.eye_array(60), sp.eye_array(60))
    mixed = sp.csr_array(sp.block_array([[flow, sp.eye_array(3600)], [sp.eye_array(3600), None]]))
    shuffled_rows = mixed[np.random.default_rng(0).permutation(7200)]
    b = shuffled_rows @ np.random.default_rng(1).standard_normal(7200)
    solution = dsolver.solve(shuffled_rows, b, device="cpu")
    assert solution.converged
    assert np.linalg.norm(b - shuffled_rows @ solution.x) <= 1.01e-8 * np.linalg.norm(b)
