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
    cells = np.sort(rng.permutation(900)[:300]).astype(np.int32)
    factors = np.where(rng.random(900) < 0.1, rng.uniform(1.0, 2.0, 900), 1.0)
    parts = a.indptr.astype(np.int64), a.indices.astype(np.int32), a.data
    rows = Csr(*map(backend.asarray, parts))
    found = backend.to_host(backend.amg.raised(rows, backend.asarray(cells), backend.asarray(factors)))
    row = np.repeat(np.arange(300), np.diff(a.indptr))
    wanted = np.where(a.indices == row, a.data * factors[cells][row], a.data)
    assert np.array_equal(found, wanted)
    assert not np.array_equal(found, a.data)
