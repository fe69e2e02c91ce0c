"""Cells that hang together inside a box, against SciPy's connected components of the same graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from dsolver.kernels import Backend, load


@pytest.fixture(params=["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> Backend:
    return load(request.param)


def on_device(backend: Backend, arrays: Sequence[Any]) -> Any:
    return tuple(map(backend.asarray, arrays))


def faces(shape: tuple[int, int, int], part: float, seed: int) -> list[Any]:
    """Whether the cells on both sides of each face are linked, along x, y and z; the outermost say that they are."""
    rng = np.random.default_rng(seed)
    made = []
    for axis in range(3):
        extents = tuple(n + (2 - axis == i) for i, n in enumerate(shape))
        links = rng.random(extents) < part
        np.moveaxis(links, 2 - axis, 0)[[0, -1]] = True
        made.append(links)
    return made


def expected(labels: Any, links: list[Any]) -> Any:
    """The same of a sparse graph."""
    number = np.arange(labels.size).reshape(labels.shape)
    pairs = []
    for axis, linked in enumerate(links):
        cells, inner = np.moveaxis(number, 2 - axis, 0), np.moveaxis(linked, 2 - axis, 0)[1:-1]
        pairs.append(np.stack([cells[:-1][inner], cells[1:][inner]]))
    a, b = np.concatenate(pairs, axis=1)
    graph = scipy.sparse.coo_array((np.ones(len(a)), (a, b)), shape=(labels.size, labels.size))
    count, of = connected_components(graph, directed=False)
    least = np.full(count, np.inf)
    np.minimum.at(least, of, labels.ravel())
    return least[of].reshape(labels.shape)


@pytest.mark.parametrize("part", [0.0, 0.2, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 7, 1), (9, 1, 12), (12, 15, 10)])
def test_every_cell_gets_the_least_label_of_its_set(backend: Backend, shape: tuple[int, int, int], part: float) -> None:
    labels = np.random.default_rng(3).permutation(np.prod(shape)).reshape(shape).astype(np.float64)
    links = faces(shape, part, 4)
    given = backend.asarray(labels)
    found = backend.lattice.least_of_connected(given, on_device(backend, links))
    np.testing.assert_array_equal(backend.to_host(found), expected(labels, links))
    np.testing.assert_array_equal(backend.to_host(given), labels, "what was given stays")


def test_a_path_that_winds_through_all_cells(backend: Backend) -> None:
    """There and back along x in every line: no pass along the axes follows more than one."""
    nz, ny, _ = shape = (20, 21, 22)
    x, y, z = (np.zeros(tuple(n + (i == axis) for i, n in enumerate(shape)), dtype=bool) for axis in (2, 1, 0))
    x[:, :, 1:-1] = True
    for k in range(nz):
        for j in range(1, ny):
            y[k, j, -1 if (j + k * (ny - 1)) % 2 else 0] = True
        if k:
            z[k, 0 if k % 2 == 0 else ny - 1, 0 if (k * (ny - 1)) % 2 == 0 else -1] = True
    labels = np.arange(np.prod(shape), 0.0, -1.0).reshape(shape)
    found = backend.lattice.least_of_connected(backend.asarray(labels), on_device(backend, [x, y, z]))
    assert (backend.to_host(found) == 1.0).all()


def test_a_medium_of_many_blocks_of_threads(backend: Backend) -> None:
    shape = (40, 41, 42)
    labels = 1.0 + np.arange(np.prod(shape)).reshape(shape)
    labels[np.random.default_rng(5).random(shape) < 0.01] = 0.5
    for part in (0.25, 0.3, 0.6):
        links = faces(shape, part, 6)
        found = backend.lattice.least_of_connected(backend.asarray(labels), on_device(backend, links))
        np.testing.assert_array_equal(backend.to_host(found), expected(labels, links))


def medium(shape: tuple[int, int, int]) -> tuple[Any, Any]:
    """κ of a box and of a layer around it, 0 in cells that are left out and below 0 in held ones; and fixed cells."""
    rng = np.random.default_rng(7)
    around = rng.choice([0.0, -1.0, 2.0], p=[0.4, 0.1, 0.5], size=[n + 2 for n in shape])
    return around, rng.random(shape) < 0.03


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 7, 1), (12, 15, 10)])
def test_cells_that_conduct_are_linked_but_not_through_ends(backend: Backend, shape: tuple[int, int, int]) -> None:
    around, _ = medium(shape)
    ends = [(0, 0), (1, 1), (2, 0), (2, 1)]
    found = backend.lattice.linked(backend.asarray(around), ends)
    for axis, links in enumerate(found):
        lines = np.moveaxis(around, 2 - axis, 0)[:, 1:-1, 1:-1] > 0.0
        wanted = lines[:-1] & lines[1:]
        for end, side in ends:
            if end == axis:
                wanted[-side] = False
        np.testing.assert_array_equal(np.moveaxis(backend.to_host(links), 2 - axis, 0), wanted)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 7, 1), (12, 15, 10), (40, 41, 42)])
def test_components_have_the_number_of_their_first_cell(backend: Backend, shape: tuple[int, int, int]) -> None:
    around, ground = medium(shape)
    links = backend.lattice.linked(backend.asarray(around), [(axis, side) for axis in range(3) for side in (0, 1)])
    solid, numbers = around[1:-1, 1:-1, 1:-1] <= 0.0, (1000, 50, 3000)
    found = backend.lattice.first_labels(links, backend.asarray(ground), backend.asarray(solid), numbers)
    k, j, i = np.indices(shape)
    alone = np.where(solid, 2.0**53, np.where(ground, 0.5, 1001.0 + i + 50 * j + 3000 * k))
    wanted = expected(alone, [backend.to_host(link) for link in links])
    np.testing.assert_array_equal(backend.to_host(found), wanted)
    closed, counts = backend.lattice.labels_seen(found)
    among = (wanted > 0.5) & (wanted < 2.0**53)
    np.testing.assert_array_equal(backend.to_host(closed), among)
    assert backend.to_host(counts).tolist() == [among.sum(), (wanted == 0.5).sum()]
    places = backend.lattice.places(closed, int(among.sum()))
    np.testing.assert_array_equal(backend.to_host(places), np.flatnonzero(among))
