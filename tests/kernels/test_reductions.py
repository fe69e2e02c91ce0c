"""Sums over groups of items: right, and in the tree that the kernel `total` has."""

from __future__ import annotations

import numpy as np
import pytest

from dsolver.kernels import load
from dsolver.kernels.reductions import GroupedPlaces, grouped, tree_sum


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


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("name", "groups"),
    [("numpy", 30), ("cpu", 30), *(pytest.param("cuda", n, marks=pytest.mark.gpu) for n in (1, 3, 700, 5000))],
)
def test_items_of_a_vector_less_the_means_of_their_groups(name: str, groups: int, weighted: bool, dtype: str) -> None:
    """Items of no group stay as they are; those of float32 are added up in float64."""
    backend, rng = load(name), np.random.default_rng(groups)
    x, weights = rng.standard_normal(12000).astype(dtype), rng.uniform(0.5, 2.0, 2 * groups) if weighted else None
    places, keys = rng.permutation(12000)[: 2 * groups], rng.integers(groups, size=2 * groups).astype(np.float64)
    order, made = backend.lattice.grouped(backend.asarray(keys))
    its_order, its = grouped(np, keys)
    assert np.array_equal(backend.to_host(order), its_order)
    assert made.longest == its.longest
    for name_of in ("keys", "of", "starts", "counts"):
        np.testing.assert_array_equal(backend.to_host(getattr(made, name_of)), getattr(its, name_of))
    by_group = backend.to_host(order)
    members = GroupedPlaces(
        places=backend.asarray(places[by_group].astype(np.int32)),
        groups=made,
        weights=None if weights is None else backend.asarray(weights[by_group]),
    )
    vector = backend.asarray(x.copy())
    totals = backend.vectors.group_sums(members, vector)
    assert totals.dtype == np.float64
    sizes = rng.uniform(1.0, 3.0, len(made.keys))
    ended = vector.copy()
    for going_on in (False, True):
        guards = [1.0, 2.0, 0.5 if going_on else 0.2, 0.3, 0.5]  # rz, pAp, rr, limit, ceiling
        on_device = [backend.asarray(np.array([each])) for each in guards]
        backend.kernel("less_means_going_on")(members, totals, backend.asarray(sizes), *on_device, ended)
        assert np.array_equal(backend.to_host(ended), x) != going_on
    on_device[1] = backend.asarray(np.array([-2.0]))
    backend.kernel("less_means_going_on")(members, totals, backend.asarray(sizes), *on_device, ended)
    backend.kernel("less_means")(members, totals, backend.asarray(sizes), vector)
    assert np.array_equal(backend.to_host(ended), backend.to_host(vector)), "a method that has broken down"
    scale = np.ones(2 * groups) if weights is None else weights
    for number, key in enumerate(np.unique(keys)):
        within = np.flatnonzero(keys == key)
        sums = tree_sum((x[places[within]] * scale[within]).tolist())
        assert backend.to_host(totals)[number] == sums
        x[places[within]] -= sums / sizes[number] * scale[within]
    assert np.array_equal(backend.to_host(vector), x)


def test_groups_of_one_item_and_none() -> None:
    order, groups = grouped(np, np.array([3.0, 1.0, 2.0]))
    assert order.tolist() == [1, 2, 0]
    assert groups.steps(np) == ()
    assert groups.sums(np, np.array([5.0, 6.0, 7.0])).tolist() == [5.0, 6.0, 7.0]
    _, none = grouped(np, np.zeros(0))
    assert none.sums(np, np.zeros(0)).shape == none.keys.shape == (0,)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "lengths", [[1, 1], [8, 1, 3], [512, 9, 64], [513, 1, 512, 5000, 7, 8], [270_000, 1, 513, 4097]]
)
def test_a_gpu_adds_groups_of_all_lengths_in_the_tree(lengths: list[int]) -> None:
    gpu, host, rng = load("cuda"), load("numpy"), np.random.default_rng(sum(lengths))
    x, weights = rng.standard_normal(300_000), rng.standard_normal(sum(lengths))
    _, groups = grouped(np, np.repeat(np.arange(len(lengths), dtype=np.float64), lengths))
    places = rng.permutation(len(x))[: len(weights)].astype(np.int32)
    _, its = grouped(gpu.xp, gpu.asarray(groups.keys[groups.of]))
    wanted = host.vectors.group_sums(GroupedPlaces(places=places, groups=groups, weights=weights), x)
    members = GroupedPlaces(places=gpu.asarray(places), groups=its, weights=gpu.asarray(weights))
    assert np.array_equal(gpu.to_host(gpu.vectors.group_sums(members, gpu.asarray(x))), wanted)
