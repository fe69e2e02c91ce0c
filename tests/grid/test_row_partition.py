"""Row ranges, ghost columns and halo plans of general matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from dsolver.errors import InputError
from dsolver.grid.row_partition import RowPartition
from dsolver.kernels import load


def random_matrix(rows: int, density: float, seed: int) -> scipy.sparse.csr_array:
    return scipy.sparse.random_array((rows, rows), density=density, format="csr", rng=np.random.default_rng(seed))


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 60), chunks=st.integers(1, 8), density=st.floats(0.0, 0.4), seed=st.integers(0, 99))
def test_chunks_with_their_halos_multiply_as_the_whole_matrix(
    rows: int, chunks: int, density: float, seed: int
) -> None:
    chunks = min(chunks, rows)
    a = random_matrix(rows, density, seed)
    x = np.random.default_rng(seed).standard_normal(rows)
    partition = RowPartition.by_entries(a.indptr.astype(np.int64), chunks)
    parts, ghosts = [], []
    for first, last in zip(partition.bounds, partition.bounds[1:], strict=False):
        part = a[first:last]
        columns = part.indices.astype(np.int64)
        ghosts.append(np.unique(columns[(columns < first) | (columns >= last)]))
        numbers = load("cpu").amg.places(columns, first, last - first, ghosts[-1], 0)
        assert np.array_equal(load("cpu").amg.ghosts([columns], first, last)[0], ghosts[-1])
        shape = (last - first, last - first + len(ghosts[-1]))
        parts.append(scipy.sparse.csr_array((part.data, numbers, part.indptr), shape=shape))
    plans = partition.halo_plans(ghosts)
    own = [x[a:b] for a, b in zip(partition.bounds, partition.bounds[1:], strict=False)]
    for reader, (part, plan) in enumerate(zip(parts, plans, strict=True)):
        sent = [own[source][dict(plans[source].sends)[reader]] for source, _ in plan.receives]
        assert [len(values) for values in sent] == [count for _, count in plan.receives]
        assert reader not in dict(plan.sends)
        halo = np.concatenate([own[reader], *sent])
        assert np.allclose(part @ halo, (a @ x)[partition.bounds[reader] : partition.bounds[reader + 1]])


def test_ranges_have_about_the_same_number_of_entries() -> None:
    lengths = np.r_[np.full(90, 2), np.full(10, 200)]
    partition = RowPartition.by_entries(np.r_[0, np.cumsum(lengths)].astype(np.int64), 4)
    entries = [int(lengths[a:b].sum()) for a, b in zip(partition.bounds, partition.bounds[1:], strict=False)]
    assert max(entries) - min(entries) <= 2 * 200
    assert partition.rows == 100


def test_every_chunk_has_a_row_though_one_row_has_all_entries() -> None:
    for place in (0, 3, 5):
        lengths = np.zeros(6, dtype=np.int64)
        lengths[place] = 1000
        partition = RowPartition.by_entries(np.r_[0, np.cumsum(lengths)], 6)
        assert partition.bounds == (0, 1, 2, 3, 4, 5, 6)


def test_rows_know_their_owners() -> None:
    partition = RowPartition(bounds=(0, 3, 4, 10))
    assert partition.owners(np.arange(10)).tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2, 2]
    assert partition.sizes == ((3, 1, 6), (1,), (1,))


@pytest.mark.parametrize("bounds", [(0,), (0, 3, 3), (1, 4), (0, 5, 4)])
def test_ranges_that_are_none_are_refused(bounds: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="row ranges must ascend"):
        RowPartition(bounds=bounds)


def test_more_chunks_than_rows_are_refused() -> None:
    with pytest.raises(InputError, match="use 1 to 3"):
        RowPartition.by_entries(np.arange(4, dtype=np.int64), 4)
