"""Some rows of a matrix, with their entries in some columns, against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dsolver.kernels import load
from dsolver.kernels.formats.csr import Csr

BACKENDS = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("rows", "columns"), [(None, (20, 50)), (True, None), (True, (20, 50)), (None, (0, 0)), (False, None)]
)
def test_rows_and_columns_are_those_of_scipy(name: str, kind: Any, rows: bool | None, columns: Any) -> None:
    """Rows of many entries, and empty ones; some of the rows, all, or none."""
    rng = np.random.default_rng(0)
    a = sp.random_array((60, 80), density=0.2, format="lil", rng=rng)
    a[7] = rng.random((1, 80))
    a[11] = 0.0
    a = a.tocsr()
    backend = load(name)
    amg = backend.amg
    wanted = None if rows is None else np.unique(rng.integers(0, 60, 25)) if rows else np.zeros(0, dtype=np.int64)
    given = Csr(*map(amg.asarray, (a.indptr.astype(np.int64), a.indices.astype(kind), a.data)))
    more = () if columns is None else (columns,)
    found = amg.selected(given, None if wanted is None else amg.asarray(wanted), *more)
    expected = a if wanted is None else a[wanted]
    dense = expected.toarray()
    if columns is not None:
        dense[:, : columns[0]] = dense[:, columns[1] :] = 0.0
    start, places, values = (backend.to_host(part) for part in found)
    assert start.dtype == np.int64
    assert places.dtype == kind
    assert np.array_equal(sp.csr_array((values, places, start), shape=dense.shape).toarray(), dense)
    assert len(values) == np.count_nonzero(dense)
