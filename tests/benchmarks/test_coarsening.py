"""HPCG's coarse grids, and the halos of a correction."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings

from dsolver import kernels
from dsolver.benchmarks.hpcg.levels import coarse_halo_plan, coarsened, correction_rows
from dsolver.errors import InputError
from dsolver.grid.box import Offsets, Triple
from dsolver.grid.partition import Partition
from dsolver.problems import Problem
from tests.grid.test_partition import STENCILS, partitions


def test_an_uneven_partition_is_halved_where_its_cuts_are() -> None:
    coarse = coarsened(Partition((16, 8, 8), ((8, 2, 6), (8,), (4, 4))))
    assert coarse.sizes == ((4, 1, 3), (4,), (2, 2))


def test_a_halved_partition_holds_every_second_point() -> None:
    partition = Partition((8, 12, 4), (2, 3, 1))
    coarse = coarsened(partition)
    assert coarse.grid == (4, 6, 2)
    for fine, half in zip(partition, coarse, strict=True):
        assert fine.box.lo == tuple(2 * a for a in half.box.lo)
        assert fine.box.hi == tuple(2 * a for a in half.box.hi)


def test_odd_chunks_are_not_halved() -> None:
    with pytest.raises(InputError, match="along y cannot be halved"):
        coarsened(Partition((8, 6, 8), (1, 2, 1)))


@settings(deadline=None)
@given(partitions(), STENCILS)
def test_the_correction_halo_is_the_coarse_points_of_the_halo(partition: Partition, offsets: Offsets) -> None:
    """Coarse rows sent reach, in the same order, the slots of exactly those halo points that are coarse points."""
    plans = [coarse_halo_plan(partition, chunk.number, offsets) for chunk in partition]
    problem = Problem(name="any", grid=partition.grid, offsets=offsets, weights=(1.0,) * len(offsets))
    for chunk in partition:
        number = correction_rows(problem, partition, chunk.number, kernels.load("numpy")).numbering
        padded = number.reshape([n + 2 for n in chunk.box.shape], order="F")
        points: dict[int, Triple] = {}
        for neighbor, box in partition.halo_boxes(chunk.number, offsets):
            for i, j, k in product(*(range(low, high) for low, high in zip(box.lo, box.hi, strict=True))):
                point = (i, j, k)
                coarse = all((p - low) % 2 == 0 for p, low in zip(point, partition[neighbor].box.lo, strict=True))
                slot = padded[tuple(p - low + 1 for p, low in zip(point, chunk.box.lo, strict=True))]
                assert (slot >= chunk.box.points) == coarse
                if coarse:
                    points[int(slot) - chunk.box.points] = point
        assert sorted(points) == list(range(plans[chunk.number].slots))
        slot = 0
        for neighbor, count in plans[chunk.number].receives:
            whole = partition[neighbor].box
            rows = dict(plans[neighbor].sends)[chunk.number]
            assert len(rows) == count
            nx, ny, _ = ((n + 1) // 2 for n in whole.shape)
            for row in rows:
                index = (int(row) % nx, int(row) // nx % ny, int(row) // (nx * ny))
                assert points[slot] == tuple(low + 2 * i for low, i in zip(whole.lo, index, strict=True))
                slot += 1
