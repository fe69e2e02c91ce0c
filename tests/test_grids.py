"""Where levels lie: coarse points of chunks, colors, layers of points around a chunk."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from dsolver import grids, kernels, surroundings
from dsolver.grids import Coarse, colored, numbered, partition_of
from dsolver.partition import Box, Offsets, Partition, Triple, three
from dsolver.problems import BOX_OFFSETS, STAR_OFFSETS

NUMPY = kernels.load("numpy")
CUTS: list[tuple[Triple, Any, tuple[bool, bool, bool]]] = [
    ((8, 8, 8), (2, 2, 2), (False, False, False)),
    ((23, 17, 5), (3, 2, 1), (False, True, False)),
    ((13, 1, 9), (4, 1, 2), (True, False, True)),
    ((7, 6, 5), ((2, 3, 2), (6,), (1, 4)), (True, True, True)),
    ((5, 2, 2), (5, 2, 1), (True, False, False)),
]


@pytest.mark.parametrize(("grid", "cut", "periodic"), CUTS)
@pytest.mark.parametrize("factors", [(2, 2, 2), (1, 2, 1), (2, 1, 2)])
def test_each_coarse_point_stays_with_the_chunk_of_its_fine_point(
    grid: Triple, cut: Any, periodic: tuple[bool, bool, bool], factors: Triple
) -> None:
    factors = three("factors", (1 if n == 1 else f for n, f in zip(grid, factors, strict=True)))
    fine = partition_of(grid, cut, periodic)
    below = Coarse.of(fine, factors)
    found = 0
    for number, box in enumerate(below.boxes):
        own = fine[number].box
        for axis in range(3):
            for i in range(box.lo[axis], box.hi[axis]):
                last = fine.periodic[axis] and grid[axis] % 2 == 1 and i == grid[axis] // 2
                point = i if factors[axis] == 1 else grid[axis] - 1 if last else 2 * i + 1
                assert own.lo[axis] <= point < own.hi[axis]
        found += box.points
    assert found == below.partition.domain.points
    for n, coarse, factor, wraps in zip(grid, below.partition.grid, factors, fine.periodic, strict=True):
        assert coarse == (n if factor == 1 else (n + 1) // 2 if wraps else n // 2)
    assert below.gathered == (len(below.partition) == 1)
    assert below.gathered or tuple(chunk.box for chunk in below.partition) == below.boxes


def test_a_level_is_gathered_when_it_is_small_or_thin(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = (False, False, False)
    assert not Coarse.of(Partition((256, 256, 256), (2, 2, 2)), (2, 2, 2)).gathered
    assert Coarse.of(Partition((128, 128, 128), (2, 2, 2)), (2, 2, 2)).gathered
    assert Coarse.of(Partition((1024, 256, 256), (512, 1, 1)), (2, 2, 2)).gathered, "chunks one point thick"
    assert not Coarse.of(Partition((8, 8, 8)), (2, 2, 2)).gathered, "one chunk lives with its owner anyway"
    monkeypatch.setattr(grids, "SMALL_GRID", 0)
    assert not Coarse.of(Partition((16, 16, 16), (2, 2, 2)), (2, 2, 2)).gathered
    assert Coarse.of(partition_of((4, 16, 16), (2, 1, 1), nowhere), (2, 2, 2)).gathered


@pytest.mark.parametrize(("grid", "cut", "periodic"), CUTS)
@pytest.mark.parametrize("offsets", [STAR_OFFSETS, BOX_OFFSETS], ids=["star", "box"])
def test_rows_of_one_color_do_not_read_each_other(
    grid: Triple, cut: Any, periodic: tuple[bool, bool, bool], offsets: Offsets
) -> None:
    partition = partition_of(grid, cut, periodic)
    for chunk in partition:
        layout = colored(NUMPY, partition, chunk.box, offsets)
        around = numbered(NUMPY, partition, chunk.number, offsets)
        color = np.asarray(layout.color)
        nx, ny, nz = chunk.box.shape
        for i, j, k in offsets:
            columns = around[1 + k : 1 + k + nz, 1 + j : 1 + j + ny, 1 + i : 1 + i + nx].reshape(-1)
            own = (columns >= 0) & (columns < layout.rows) & (columns != np.arange(layout.rows))
            assert (color[own] != color[columns[own]]).all()


def test_coarse_points_are_swept_first() -> None:
    whole = Partition((9, 8, 7))
    color = np.asarray(colored(NUMPY, whole, whole.domain, BOX_OFFSETS).color).reshape(7, 8, 9)
    assert (color[1::2, 1::2, 1::2] == 0).all()
    assert (color > 0).sum() == color.size - 4 * 4 * 3
    red = np.asarray(colored(NUMPY, whole, whole.domain, STAR_OFFSETS).color).reshape(7, 8, 9)
    assert (red[1::2, 1::2, 1::2] == 0).all()
    assert set(red.ravel()) == {0, 1}


def test_colors_do_not_depend_on_the_cut() -> None:
    grid = (11, 7, 6)
    whole = Partition(grid)
    color = np.asarray(colored(NUMPY, whole, whole.domain, BOX_OFFSETS).color).reshape(grid[::-1])
    cut = Partition(grid, (3, 2, 2))
    for chunk in cut:
        x, y, z = chunk.box.slices
        own = np.asarray(colored(NUMPY, cut, chunk.box, BOX_OFFSETS).color)
        assert (own == color[z, y, x].reshape(-1)).all()


@pytest.mark.parametrize(("grid", "cut", "periodic"), CUTS)
def test_the_layers_around_a_chunk_are_the_neighbors_values(
    grid: Triple, cut: Any, periodic: tuple[bool, bool, bool]
) -> None:
    """What shells send, in the order in which they are received, makes the array that slicing the whole one makes."""
    partition = partition_of(grid, cut, periodic)
    whole = np.random.default_rng(0).standard_normal((2, *grid[::-1]))

    def own(number: int) -> Any:
        x, y, z = partition[number].box.slices
        return whole[:, z, y, x]

    for number in range(len(partition)):
        parts = []
        for neighbor, size in surroundings.received(partition, number, 2):
            sent = dict(surroundings.shell(partition, neighbor, own(neighbor)))[number]
            parts.append(np.concatenate([part.reshape(-1) for part in sent]))
            assert parts[-1].size == size
        halo = np.concatenate(parts) if parts else np.zeros(0)
        found = surroundings.surrounded(NUMPY, partition, number, own(number), halo)
        assert (found == cut_out(whole, partition, partition[number].box)).all()


def cut_out(whole: Any, partition: Partition, box: Box) -> Any:
    """The box and two layers around it, wrapped where the grid is periodic and zero outside elsewhere."""
    nx, ny, nz = (n + 4 for n in box.shape)
    out = np.zeros((len(whole), nz, ny, nx))
    for z, y, x in product(range(nz), range(ny), range(nx)):
        point = [at + low - 2 for at, low in zip((x, y, z), box.lo, strict=True)]
        inside = all(p or 0 <= i < n for i, n, p in zip(point, partition.grid, partition.periodic, strict=True))
        if inside:
            i, j, k = (a % n for a, n in zip(point, partition.grid, strict=True))
            out[:, z, y, x] = whole[:, k, j, i]
    return out


def test_a_periodic_axis_of_one_point_is_none() -> None:
    assert partition_of((1, 4, 1), (1, 1, 1), (True, True, False)).periodic == (False, True, False)
