"""Cells that hang together inside a box, against SciPy's connected components of the same graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from dsolver.kernels import Backend, load
from dsolver.kernels.lattice.components import SOLID


@pytest.fixture(params=["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> Backend:
    return load(request.param)


def expected(labels: Any) -> Any:
    """Components of a sparse graph."""
    number, opened = np.arange(labels.size).reshape(labels.shape), labels < SOLID
    pairs = []
    for axis in range(3):
        cells, flags = np.moveaxis(number, axis, 0), np.moveaxis(opened, axis, 0)
        both = flags[:-1] & flags[1:]
        pairs.append(np.stack([cells[:-1][both], cells[1:][both]]))
    a, b = np.concatenate(pairs, axis=1)
    graph = scipy.sparse.coo_array((np.ones(len(a)), (a, b)), shape=(labels.size, labels.size))
    count, of = connected_components(graph, directed=False)
    least = np.full(count, np.inf)
    np.minimum.at(least, of, labels.ravel())
    return least[of].reshape(labels.shape)


@pytest.mark.parametrize("part", [0.0, 0.2, 0.31, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 7, 1), (9, 1, 12), (12, 15, 10), (3, 2, 70)])
def test_every_cell_gets_the_least_label_of_its_set(backend: Backend, shape: tuple[int, int, int], part: float) -> None:
    rng = np.random.default_rng(3)
    labels = rng.permutation(np.prod(shape)).reshape(shape).astype(np.float64)
    labels[rng.random(shape) >= part] = SOLID
    given = backend.asarray(labels)
    found = backend.lattice.least_of_connected(given)
    np.testing.assert_array_equal(backend.to_host(found), expected(labels))
    np.testing.assert_array_equal(backend.to_host(given), labels, "what was given stays")


def test_a_path_that_winds_through_all_lines(backend: Backend) -> None:
    """A path there and back along x in every second line: no pass along the axes follows more than one."""
    nz, ny, _ = shape = (21, 21, 22)
    labels = np.full(shape, SOLID)
    order = [(k, j) for k in range(0, nz, 2) for j in (range(0, ny, 2) if k % 4 == 0 else range(ny - 1, -1, -2))]
    for number, (k, j) in enumerate(order):
        labels[k, j] = 2.0
        if number + 1 < len(order):
            after, beside = order[number + 1]
            labels[(k + after) // 2, (j + beside) // 2, -1 if number % 2 == 0 else 0] = 2.0
    labels[order[-1]][0 if len(order) % 2 == 0 else -1] = 1.0
    found = backend.to_host(backend.lattice.least_of_connected(backend.asarray(labels)))
    assert (found[labels < SOLID] == 1.0).all()


def test_a_medium_of_many_blocks_of_threads(backend: Backend) -> None:
    shape = (40, 41, 42)
    for part in (0.25, 0.31, 0.6):
        rng = np.random.default_rng(5)
        labels = 1.0 + np.arange(np.prod(shape)).reshape(shape)
        labels[rng.random(shape) < 0.01] = 0.5
        labels[rng.random(shape) >= part] = SOLID
        found = backend.lattice.least_of_connected(backend.asarray(labels))
        np.testing.assert_array_equal(backend.to_host(found), expected(labels))


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 7, 1), (12, 15, 10), (40, 41, 42)])
def test_components_have_the_number_of_their_first_cell(backend: Backend, shape: tuple[int, int, int]) -> None:
    rng, numbers = np.random.default_rng(7), (1000, 50, 3000)
    solid, ground = rng.random(shape) < 0.5, rng.random(shape) < 0.03
    found = backend.lattice.first_labels(backend.asarray(ground), backend.asarray(solid), numbers)
    k, j, i = np.indices(shape)
    alone = np.where(solid, SOLID, np.where(ground, 0.5, 1001.0 + i + 50 * j + 3000 * k))
    wanted = expected(alone)
    np.testing.assert_array_equal(backend.to_host(found), wanted)
    closed, counts = backend.lattice.labels_seen(found)
    among = (wanted > 0.5) & (wanted < SOLID)
    np.testing.assert_array_equal(backend.to_host(closed), among)
    assert backend.to_host(counts).tolist() == [among.sum(), (wanted == 0.5).sum()]
    places = backend.lattice.places(closed, int(among.sum()))
    np.testing.assert_array_equal(backend.to_host(places), np.flatnonzero(among))
