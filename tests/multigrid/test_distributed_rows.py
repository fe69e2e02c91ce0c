"""Rows of a matrix that is distributed, against SciPy's whole one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dsolver.kernels import load
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows

AMG = load("cpu").amg


@st.composite
def cut(draw: st.DrawFn) -> tuple[Any, tuple[int, ...]]:
    """A matrix, and the bounds of up to five chunks of its rows, some of them empty."""
    n = draw(st.integers(4, 40))
    ends = draw(st.lists(st.integers(0, n), min_size=1, max_size=4))
    seed = draw(st.integers(0, 2**16))
    a = sp.random_array(
        (n, n), density=draw(st.sampled_from([0.05, 0.3])), format="csr", rng=np.random.default_rng(seed)
    )
    a.sort_indices()
    return a, (0, *sorted(ends), n)


def of(a: Any, first: int, last: int) -> Csr:
    part = a[first:last]
    return Csr(part.indptr.astype(np.int64), part.indices.astype(np.int64), part.data)


def dense(rows: Csr, columns: int) -> Any:
    return sp.csr_array((rows.values, rows.columns, rows.start), shape=(rows.size, columns)).toarray()


@settings(deadline=None, max_examples=60)
@given(cut(), st.booleans())
def test_rows_keep_their_entries_in_any_window(example: tuple[Any, tuple[int, ...]], sees_all: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AMG, "sees_all", lambda _: sees_all, raising=False)
        keeps_its_entries(*example)


def keeps_its_entries(a: Any, bounds: tuple[int, ...]) -> None:
    n = a.shape[0]
    for number in range(len(bounds) - 1):
        first, last = bounds[number], bounds[number + 1]
        own = DistributedRows.of(AMG, bounds, number, of(a, first, last))
        assert (np.diff(own.window.numbers) > 0).all()
        assert np.array_equal(dense(own.rows(AMG), n), a[first:last].toarray())
        before, after = [of(a, 0, first)], [of(a, last, n)]
        among = own.among(AMG, before, after)
        assert np.array_equal(dense(among.rows(AMG), n), a.toarray())
        own_rows = AMG.stacked([], own.matrix, [], own.window, among.window)
        alone = DistributedRows(window=among.window, matrix=own_rows).tight(AMG)
        assert np.array_equal(alone.window.ghosts, own.window.ghosts)
        assert np.array_equal(alone.matrix.columns, own.matrix.columns)
        some = np.arange(0, last - first, 2)
        assert np.array_equal(dense(own.rows(AMG, some), n), a[first:last][some].toarray())
        assert own.window.before(bounds) == np.searchsorted(own.window.numbers, bounds).tolist()
        left = a[first:last].toarray()
        parts = own.split(AMG)()
        assert np.array_equal(parts.local.dense()[:, : last - first], left[:, first:last])
        for other, rows, part in own.by_owners(AMG, bounds, parts):
            columns = slice(bounds[other], bounds[other + 1])
            expected = np.zeros_like(left)
            expected[:, columns] = left[:, columns]
            assert other != number
            assert rows.tolist() == np.flatnonzero(expected.any(axis=1)).tolist()
            assert np.array_equal(dense(part._replace(columns=own.window.ghosts[part.columns]), n), expected[rows])
            left[:, columns] = 0.0
        left[:, first:last] = 0.0
        assert not left.any()
