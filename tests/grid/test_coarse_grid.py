"""Coarse grids: the coarse points of chunks, and when a level is replicated."""

from __future__ import annotations

from typing import Any

import pytest

from dsolver.grid import coarse_grid
from dsolver.grid.box import Triple, three
from dsolver.grid.coarse_grid import CoarseGrid, partition_of
from dsolver.grid.partition import Partition

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
    below = CoarseGrid.of(fine, factors)
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
    assert below.replicated == (len(below.partition) == 1)
    assert below.replicated or tuple(chunk.box for chunk in below.partition) == below.boxes


def test_a_level_is_replicated_when_it_is_small_or_thin(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = (False, False, False)
    assert not CoarseGrid.of(Partition((256, 256, 256), (2, 2, 2)), (2, 2, 2)).replicated
    assert CoarseGrid.of(Partition((128, 128, 128), (2, 2, 2)), (2, 2, 2)).replicated
    assert CoarseGrid.of(Partition((1024, 256, 256), (512, 1, 1)), (2, 2, 2)).replicated, "chunks one point thick"
    assert not CoarseGrid.of(Partition((8, 8, 8)), (2, 2, 2)).replicated, "one chunk lives with its owner anyway"
    monkeypatch.setattr(coarse_grid, "SMALL_GRID", 0)
    assert not CoarseGrid.of(Partition((16, 16, 16), (2, 2, 2)), (2, 2, 2)).replicated
    assert CoarseGrid.of(partition_of((4, 16, 16), (2, 1, 1), nowhere), (2, 2, 2)).replicated


def test_a_periodic_axis_of_one_point_is_none() -> None:
    assert partition_of((1, 4, 1), (1, 1, 1), (True, True, False)).periodic == (False, True, False)
