"""Restriction and prolongation between levels of eight colors, against those of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver import kernels
from dsolver.grid.coarse_grid import CoarseGrid
from dsolver.grid.coloring import colored_layout
from dsolver.grid.partition import BOX_OFFSETS, Flags, Partition, Triple
from dsolver.kernels.formats.checkered.parities import Parities, fits, starts
from dsolver.multigrid.geometric.transfer import chunk_transfer
from tests.kernels.test_galerkin import random_rows, whole, with_ghosts

NONE: Flags = (False, False, False)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("grid", "wraps", "factors"),
    [
        ((66, 9, 7), NONE, (2, 2, 2)),
        ((4, 3, 2), NONE, (2, 2, 2)),
        ((8, 4, 12), (True, True, True), (2, 2, 2)),
        ((67, 5, 8), NONE, (1, 1, 2)),
        ((6, 8, 4), (True, False, True), (1, 1, 2)),
        ((7, 5, 4), NONE, (2, 1, 2)),
        ((6, 4, 8), (True, True, True), (1, 2, 1)),
        ((9, 1, 4), NONE, (2, 1, 1)),
        ((4, 9, 1), NONE, (1, 2, 1)),
        ((5, 4, 6), NONE, (1, 2, 2)),
        ((5, 4, 6), NONE, (2, 2, 1)),
    ],
)
def test_parities_have_the_bits_of_slices(grid: Triple, wraps: Flags, factors: Triple) -> None:
    backend, partition = kernels.load("cuda"), Partition(grid, periodic=wraps)
    assert fits(grid, wraps, factors)
    layout = colored_layout(backend, partition, partition.domain, BOX_OFFSETS)
    rows = with_ghosts(random_rows(grid, wraps, BOX_OFFSETS, shift=0.1), whole(grid, wraps, factors))
    given: dict[str, Any] = {
        "depth": 0,
        "partition": partition,
        "offsets": BOX_OFFSETS,
        "below": CoarseGrid.of(partition, factors),
    }
    found, want = (
        chunk_transfer(backend, 0, layout, backend.asarray(rows), half=both, in_place=both, **given)[0]
        for both in (True, False)
    )
    assert [isinstance(one.restriction.local, Parities) for one in (found, want)] == [True, False]
    assert (found.weights == want.weights).all()
    own = layout.position  # of every row, and those of the last color
    last = own[layout.color == 7]

    def random(size: int, positions: Any) -> Any:
        made = backend.xp.zeros((2, size))
        made[:, positions] = backend.asarray(np.random.default_rng(size).standard_normal((2, len(positions))))
        return made

    y = random(layout.size, own)
    y[:, last] = 0.0
    out = [backend.xp.zeros((2, found.coarse.size)) for _ in range(3)]
    found.restriction.local.batched(2).restrict_full(y, out[0])
    for n in range(2):
        found.restriction.local.restrict_full(y[n], out[1][n])
        want.restriction.local.restrict_full(y[n], out[2][n])
    assert (out[0] == out[1]).all()
    assert (out[1] == out[2]).all()
    assert abs(out[0]).max() > 0.0

    xc = random(found.columns.size, found.columns.position)
    in_order = backend.xp.zeros((2, want.columns.size))
    in_order[:, want.columns.position] = xc[:, found.columns.position]
    x = [y.copy() for _ in range(3)]
    found.prolongation.local.batched(2).prolong_add(xc, x[0])
    for n in range(2):
        found.prolongation.local.prolong_add(xc[n], x[1][n])
        want.prolongation.local.prolong_add(in_order[n], x[2][n])
    assert (x[0] == x[1]).all()
    x[2][:, last] = 0.0
    assert (x[1] == x[2]).all()
    assert (x[0] != y).any()


def test_colors_that_do_not_fit() -> None:
    ring = (True, False, False)
    assert fits((5, 5, 5), NONE, (2, 2, 2))
    assert fits((8, 5, 5), ring, (2, 2, 2))
    for grid, factors in (
        ((5, 4, 4), (1, 2, 2)),
        ((6, 4, 4), (2, 2, 2)),
        ((2, 4, 4), (2, 1, 1)),
        ((8, 4, 4), (1, 1, 1)),
    ):
        assert not fits(grid, ring, factors)


def test_weights_of_all_classes() -> None:
    assert starts((8, 8, 8), (2, 2, 2)) == (0, 0, 8, 16, 20, 28, 32, 36, 36)
    assert starts((8, 8, 8), (1, 1, 2)) == (0, 0, 4, 8, 12, 12, 12, 12, 12)
