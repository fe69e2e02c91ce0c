"""Smoothed aggregation on a GPU: the bits of the host's loops, of nodes and windows of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dsolver.kernels.amg import OUT, ROOT
from dsolver.kernels.cpu.amg.aggregation.setup import AggregationSetup
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr

pytestmark = pytest.mark.gpu
HOST = AggregationSetup(Team())


def there(value: Any) -> Any:
    import cupy

    if isinstance(value, Csr):
        return Csr(*map(cupy.asarray, value))
    return cupy.asarray(value) if isinstance(value, np.ndarray) else value


def both(name: str, *arguments: Any) -> Any:
    """Bits of the device, compared with the host's."""
    import cupy

    from dsolver.kernels.cuda.amg.aggregation.setup import CudaAggregation

    expected = getattr(HOST, name)(*arguments)
    found = getattr(CudaAggregation(Team()), name)(*map(there, arguments))
    for one, other in zip(*((a if isinstance(a, tuple) else (a,)) for a in (found, expected)), strict=True):
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype
            assert np.array_equal(cupy.asnumpy(one), other, equal_nan=True)
        else:
            assert one == other
    return expected


def matrix(nodes: int, size: int, *, full: bool, window: int, below: int, seed: int = 0, long: bool = False) -> Csr:
    """Rows of nodes with columns in a window, whose blocks are full or not; long: a node is coupled with all."""
    rng = np.random.default_rng(seed)
    pattern = sp.random_array((nodes, window), density=4.0 / window, rng=rng).tolil()
    for i in range(nodes):
        pattern[i, below + i] = 1.0
        pattern[i, max(0, below + i - 2) : below + i] = 1.0
    if long:
        pattern[3, :] = 1.0
    wide = sp.csr_array(sp.kron(sp.csr_array(pattern), np.ones((size, size))))
    wide.data = rng.standard_normal(wide.nnz)
    if not full:
        wide.data[(rng.random(wide.nnz) < 0.4)] = 0.0
        wide.eliminate_zeros()
    own = size * below + np.arange(size * nodes)
    diagonal = sp.csr_array((np.full(len(own), 30.0), (np.arange(len(own)), own)), shape=wide.shape)
    made = sp.csr_array(wide + diagonal)
    made.sort_indices()
    return Csr(made.indptr.astype(np.int64), made.indices.astype(np.int32), made.data)


@pytest.mark.parametrize(
    ("size", "full", "theta", "below", "long"),
    [(1, True, 0.01, 0, True), (3, True, 0.0, 7, False), (2, False, 0.02, 5, True), (6, False, 0.0, 0, False)],
)
def test_nodes_and_roots_have_the_hosts_bits(size: int, full: bool, theta: float, below: int, long: bool) -> None:
    nodes = 90
    window = nodes + (below and below + 11)
    a, rng = matrix(nodes, size, full=full, window=window, below=below, long=long), np.random.default_rng(1)
    scale = rng.random(size * window) + 0.1
    node = np.repeat(np.arange(window, dtype=np.int32), size)
    graph = both("strong_nodes", a, size * below, scale, size, node, window, theta)
    assert 0 < len(graph.columns) < size * len(a.columns)
    origin = 3 * rng.permutation(nodes)
    both("words", origin, 5)
    own = both("first_words", graph, origin, 2)
    open_ = np.ones(nodes, dtype=np.bool_)
    whole = rng.permutation(window) + 1.0
    whole[below : below + nodes] = own
    whole[-3 if below else 3] = ROOT
    near = both("largest_around", graph, below, whole, open_)
    whole_near = whole.copy()
    whole_near[below : below + nodes] = near
    both("decided", graph, below, own, whole_near, open_)
    numbers = 2 * np.arange(window) if below else None
    states = np.where(rng.random(window) < 0.1, ROOT, OUT)
    found = both("joined", graph, below, states, numbers, open_, None)
    assert (found < 0).any() or long
    all_found = np.where(rng.random(window) < 0.6, -1.0, 4.0)
    own, open_ = both("second_words", graph, below, all_found, origin, 2)
    assert open_.any()
    assert not open_.all()
    both("joined", graph, below, states, numbers, open_, all_found[below : below + nodes])
    both("strayed", graph, below, all_found)
    led = np.where(rng.random(nodes) < 0.3, np.arange(nodes) + below, rng.integers(-1, window, nodes))
    _, listed, outside = both("own_roots", led, below)
    assert 0 < len(listed) < nodes
    assert bool(outside) == (((led < below) | (led >= below + nodes)).any())
    if not below:
        own = both("settled", graph, both("first_words", graph, origin, 1), np.ones(nodes, dtype=np.bool_))
        assert set(np.unique(own)) == {OUT, ROOT}


@pytest.mark.parametrize(("size", "vectors", "largest"), [(1, 1, 40), (3, 6, 9), (2, 3, 300), (6, 6, 3)])
def test_blocks_have_the_hosts_bits(size: int, vectors: int, largest: int) -> None:
    rng = np.random.default_rng(2)
    lengths = np.append(rng.integers(1, 9, 12), [largest, 1])
    start = np.append(0, np.cumsum(lengths))
    order = rng.permutation(start[-1]).astype(np.int32)
    near = rng.standard_normal((len(order), size * vectors))
    near[order[: start[3]]] = np.tile(
        np.eye(size, vectors).ravel(), (start[3], 1)
    )  # of which columns are zero, or the same
    both("blocks_of_nodes", start, order, near, vectors)
    both("blocks_of_nodes", start[:1], order[:0], near[:0], vectors)


def multiplied(a: Csr, below: int, d: Any, x: Any, size: int) -> tuple[Any, Any]:
    """Results of `scaled_product` and `terms`, the same on both sides."""
    import cupy

    from dsolver.kernels.cuda.amg.aggregation.setup import CudaAggregation

    device, expected = CudaAggregation(Team()), (HOST.scaled_product(a, d, x), HOST.terms(a, below, d, x))
    sought, on_device = device.sought(there(a), len(x), size), (there(d), there(x))
    assert (sought.blocks is not None) == (size == 3)
    made, (terms, largest) = device.scaled_product(sought, *on_device), device.terms(sought, below, *on_device)
    assert np.array_equal(cupy.asnumpy(made), expected[0])
    assert np.array_equal(cupy.asnumpy(terms), expected[1][0])
    assert largest == expected[1][1]
    return expected


@pytest.mark.parametrize("below", [0, 6])
def test_products_of_full_blocks_have_the_hosts_bits(below: int) -> None:
    rng, nodes = np.random.default_rng(4), 60
    window = nodes + (below and below + 9)
    a = matrix(nodes, 3, full=True, window=window, below=below, long=True)
    multiplied(a, 3 * below, rng.random(3 * nodes) + 1.0, rng.standard_normal(3 * window), 3)


@pytest.mark.parametrize(("full", "below", "long"), [(True, 0, False), (False, 6, True)])
def test_smoothers_and_eigenvalues_have_the_hosts_bits(full: bool, below: int, long: bool) -> None:
    nodes, rng = 120, np.random.default_rng(3)
    window = nodes + (below and below + 9)
    a = matrix(nodes, 1, full=full, window=window, below=below, long=long)
    d, x, damping = rng.random(nodes) + 1.0, rng.standard_normal(window), rng.random(nodes)
    _, (made, largest) = multiplied(a, below, d, x, 1)
    assert largest == (made[0].max(), made[1].max())
    first, second = (40 - int(np.frexp(one)[1]) for one in largest)
    assert all(abs(one) > 2.0**30 for one in both("scaled_sums", made, (first, second)))
    both("prolongation_smoother", a, below, None, None, damping, d)
    graph = both("strong_nodes", a, below, np.ones(window), 1, np.arange(window, dtype=np.int32), window, 1.0)
    keep = both("kept_entries", a, below, graph)
    assert nodes < keep.sum() < len(keep)
    x[5] = x[below + 3] = 0.0
    both("prolongation_smoother", a, below, keep, x, damping, d)
