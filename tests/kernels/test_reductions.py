"""Sums over groups of items: right, and in the tree that the kernel `total` has."""

from __future__ import annotations

import numpy as np
import pytest

from dsolver.kernels.reductions import grouped, tree_sum


@pytest.mark.parametrize("count", [1, 5, 3000])
def test_every_group_is_summed_in_the_fixed_tree(count: int) -> None:
    rng = np.random.default_rng(count)
    keys, values = rng.integers(count, size=10000).astype(np.float64), rng.standard_normal(10000)
    order, groups = grouped(np, keys)
    sums = groups.sums(np, values[order])
    assert np.array_equal(groups.keys, np.unique(keys))
    assert np.array_equal(groups.keys[groups.of], keys[order])
    assert np.array_equal(groups.counts, np.unique(keys, return_counts=True)[1])
    assert sums.tolist() == [tree_sum(values[keys == key].tolist()) for key in groups.keys]


@pytest.mark.gpu
def test_a_gpu_has_the_same_bits() -> None:
    cupy = pytest.importorskip("cupy")
    rng = np.random.default_rng(1)
    keys, values = rng.integers(300, size=10000).astype(np.float64), rng.standard_normal(10000)
    order, groups = grouped(np, keys)
    its_order, its = grouped(cupy, cupy.asarray(keys))
    assert np.array_equal(its_order.get(), order)
    assert np.array_equal(its.sums(cupy, cupy.asarray(values)[its_order]).get(), groups.sums(np, values[order]))


def test_groups_of_one_item_and_none() -> None:
    order, groups = grouped(np, np.array([3.0, 1.0, 2.0]))
    assert order.tolist() == [1, 2, 0]
    assert groups.steps == ()
    assert groups.sums(np, np.array([5.0, 6.0, 7.0])).tolist() == [5.0, 6.0, 7.0]
    _, none = grouped(np, np.zeros(0))
    assert none.sums(np, np.zeros(0)).shape == none.keys.shape == (0,)
