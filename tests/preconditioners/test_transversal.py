"""Incomplete factors of matrices with zeros on their diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver import kernels
from dsolver.errors import InputError
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


def test_costs_are_such_that_sums_of_them_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """With rounding SciPy's matching went round for ever, as it did for a cavity's 317 rows."""
    seen: list[Any] = []
    match = sp.csgraph.min_weight_full_bipartite_matching

    def matched(costs: Any) -> Any:
        seen.append(costs)
        return match(costs)

    monkeypatch.setattr(sp.csgraph, "min_weight_full_bipartite_matching", matched)
    a = shuffled(60)
    a.data[np.flatnonzero(a.data < 0.0)[0]] = -3.5  # two rows have their largest entry in one column
    assert dsolver.solve(a, np.ones(60), M="ilu0", device="cpu").converged
    (costs,) = seen
    assert costs.nnz == a.nnz
    assert (costs.data * 2.0**20 == np.round(costs.data * 2.0**20)).all()
