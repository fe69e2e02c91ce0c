"""Ghost rows: the layers of points around a chunk."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from dsolver import kernels
from dsolver.grid.box import Box, Triple
from dsolver.grid.coarse_grid import partition_of
from dsolver.grid.partition import Partition
from dsolver.multigrid.geometric import ghost_rows
from tests.grid.test_coarse_grid import CUTS

NUMPY = kernels.load("numpy")


@pytest.mark.parametrize(("grid", "cut", "periodic"), CUTS)
def test_the_layers_around_a_chunk_are_the_neighbors_values(
    grid: Triple, cut: Any, periodic: tuple[bool, bool, bool]
) -> None:
    """Rows of shells, in the order in which they are received, make the array that slicing the whole one makes."""
    partition = partition_of(grid, cut, periodic)
    whole = np.random.default_rng(0).standard_normal((2, *grid[::-1]))

    def own(number: int) -> Any:
        x, y, z = partition[number].box.slices
        return whole[:, z, y, x]

    for number in range(len(partition)):
        around = {}
        for neighbor, size in ghost_rows.received(partition, 2, number).items():
            sent = dict(ghost_rows.shell(partition, neighbor, own(neighbor)))[number]
            around[neighbor] = (np.concatenate([part.reshape(-1) for part in sent]),)
            assert around[neighbor][0].size == size
        found = ghost_rows.with_ghosts(NUMPY, number, own(number), around, partition=partition)
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
