"""Diagonals of open rows that a preconditioner sees raised."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dsolver.kernels import load
from dsolver.kernels.formats.csr import Csr


@pytest.mark.parametrize("name", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_diagonals_are_multiplied_by_the_factors_of_their_cells(name: str) -> None:
    backend, rng = load(name), np.random.default_rng(3)
    a = sp.csr_array(sp.random_array((300, 300), density=0.02, rng=rng) + sp.eye_array(300))
    few = np.sort(rng.permutation(300)[:40]).astype(np.int32)
    factors = rng.uniform(1.0, 2.0, 40)
    parts = a.indptr.astype(np.int64), a.indices.astype(np.int32), a.data
    rows = Csr(*map(backend.asarray, parts))
    found = backend.to_host(backend.amg.raised(rows, backend.asarray(few), backend.asarray(factors)))
    row, by = np.repeat(np.arange(300), np.diff(a.indptr)), np.ones(300)
    by[few] = factors
    wanted = np.where(a.indices == row, a.data * by[row], a.data)
    assert np.array_equal(found, wanted)
    assert np.array_equal(backend.to_host(rows.values), a.data)
