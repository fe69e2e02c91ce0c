"""Restriction and prolongation of the first color of a star, against those of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver import kernels
from dsolver.grid.coarse_grid import CoarseGrid
from dsolver.grid.coloring import colored_layout
from dsolver.grid.partition import STAR_OFFSETS, Flags, Partition, Triple
from dsolver.kernels.formats.checkered.corners import Corners
from dsolver.multigrid.geometric.transfer import chunk_transfer
from tests.kernels.test_faces import symmetric

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("grid", "wraps", "factors"),
    [
        ((66, 9, 7), (False, False, False), (2, 2, 2)),
        ((4, 3, 2), (False, False, False), (2, 2, 2)),
        ((6, 4, 8), (True, True, True), (2, 2, 2)),
        ((6, 5, 7), (False, False, False), (1, 1, 2)),
        ((6, 5, 4), (False, False, False), (2, 1, 2)),
        ((6, 4, 8), (True, True, True), (1, 2, 1)),
    ],
)
def test_corners_have_the_bits_of_slices(grid: Triple, wraps: Flags, factors: Triple) -> None:
    backend, partition = kernels.load("cuda"), Partition(grid, periodic=wraps)
    layout = colored_layout(backend, partition, partition.domain, STAR_OFFSETS)
    ghosted = np.pad(symmetric(grid, wraps), [(0, 0), (2, 2), (2, 2), (2, 2)], mode="wrap" if wraps[0] else "constant")
    given: dict[str, Any] = {
        "depth": 0,
        "partition": partition,
        "offsets": STAR_OFFSETS,
        "below": CoarseGrid.of(partition, factors),
    }
    found, want = (
        chunk_transfer(backend, 0, layout, backend.asarray(ghosted), half=half, **given)[0] for half in (True, False)
    )
    kinds = [isinstance(one.restriction.local, Corners) for one in (found, want)]
    assert kinds == [True, False]
    assert (found.weights == want.weights).all()
    first = slice(*(32 * int(at) for at in layout.color_slices[:2]))  # the first color, and its padding

    def random(*shape: int) -> Any:
        return backend.asarray(np.random.default_rng(len(shape)).standard_normal(shape))

    y = backend.xp.zeros((2, layout.size))
    y[:, first] = random(2, first.stop - first.start)
    coarse, columns = found.coarse, found.columns
    out = [backend.xp.zeros((2, coarse.size)) for _ in range(3)]
    found.restriction.local.batched(2).restrict_full(y, out[0])
    for n in range(2):
        found.restriction.local.restrict_full(y[n], out[1][n])
        want.restriction.local.restrict_full(y[n], out[2][n])
    assert (out[0] == out[1]).all()
    assert (out[1] == out[2]).all()
    assert abs(out[0]).max() > 0.0

    xc = backend.xp.zeros((2, columns.size))
    xc[:, columns.position] = random(2, columns.rows)
    x = [y.copy() for _ in range(3)]
    found.prolongation.local.batched(2).prolong_add(xc, x[0])
    for n in range(2):
        found.prolongation.local.prolong_add(xc[n], x[1][n])
        want.prolongation.local.prolong_add(xc[n], x[2][n])
    assert (x[0] == x[1]).all()
    assert (x[1][:, first] == x[2][:, first]).all()
    assert (x[0][:, first.stop :] == 0.0).all()
    assert (x[0] != y).any()
