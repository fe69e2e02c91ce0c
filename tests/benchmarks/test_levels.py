"""HPCG's levels of a chunk."""

from __future__ import annotations

import numpy as np
import pytest

from dsolver import problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.benchmarks.hpcg.levels import coarse_rows, partitions
from dsolver.errors import InputError
from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition
from dsolver.program.spec import SolveSpec


def test_every_chunk_is_halved() -> None:
    found = partitions(Partition((32, 16, 48), (2, 1, 3)), 4)
    assert [p.grid for p in found] == [(32, 16, 48), (16, 8, 24), (8, 4, 12), (4, 2, 6)]
    assert {p.counts for p in found} == {(2, 1, 3)}


@pytest.mark.parametrize(
    ("grid", "chunks", "levels", "message"),
    [
        ((16, 12, 16), (1, 1, 1), 4, "chunks of 12 points along y that are not divisible by 8"),
        ((16, 16, 16), (1, 1, 4), 4, "chunks of 4 points along z that are not divisible by 8"),
        ((10, 16, 16), (3, 1, 1), 2, "chunks of 3 points along x that are not divisible by 2"),
    ],
)
def test_chunks_that_cannot_be_halved_so_often_are_refused(
    grid: Triple, chunks: Triple, levels: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        SolveSpec.plan(problems.hpcg(grid), chunks, "natural", Hpcg(levels=levels))


def test_one_level_needs_no_divisibility() -> None:
    m = Hpcg(levels=1)
    assert m.divisor == 1
    assert SolveSpec.plan(problems.hpcg((7, 5, 3)), (2, 3, 1), m=m).partition.counts == (2, 3, 1)


def test_coarse_rows_are_every_second_point() -> None:
    fine = np.arange(4 * 6 * 2).reshape((4, 6, 2), order="F")
    expected = fine[::2, ::2, ::2].ravel(order="F")
    assert (coarse_rows(np, (4, 6, 2), (2, 3, 1)) == expected).all()
