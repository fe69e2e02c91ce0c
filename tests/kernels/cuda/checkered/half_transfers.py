"""R and P of rows of some colors, beside those of all rows on a GPU: what tests of corners and parities share."""

from __future__ import annotations

from typing import Any

import numpy as np

from dsolver import kernels
from dsolver.grid.box import Flags, Offsets, Triple
from dsolver.grid.coarse_grid import CoarseGrid
from dsolver.grid.coloring import colored_layout
from dsolver.grid.partition import Partition
from dsolver.kernels.formats.layout import Layout
from dsolver.multigrid.geometric.transfer import chunk_transfer


def half_and_whole(
    grid: Triple, wraps: Flags, factors: Triple, offsets: Offsets, weights: Any, kind: type, *, in_place: bool
) -> tuple[Layout, Any, Any]:
    """The rows' layout, and two transfers with the same coarse weights: with R and P of this kind, and with slices.

    Args:
        grid: points of the chunk, which is the whole grid.
        wraps: which axes are periodic.
        factors: 2 for axes that are coarsened.
        offsets: of the entries of a row.
        weights: of the rows, with two ghost layers around them.
        kind: of the format.
        in_place: whether the first one prolongs what is stored as restricted residuals are.
    """
    backend, partition = kernels.load("cuda"), Partition(grid, periodic=wraps)
    layout = colored_layout(backend, partition, partition.domain, offsets)
    given: dict[str, Any] = {
        "depth": 0,
        "partition": partition,
        "offsets": offsets,
        "below": CoarseGrid.of(partition, factors),
    }
    half, whole = (
        chunk_transfer(backend, 0, layout, backend.asarray(weights), half=some, in_place=some and in_place, **given)[0]
        for some in (True, False)
    )
    assert [isinstance(one.restriction.local, kind) for one in (half, whole)] == [True, False]
    assert (half.weights == whole.weights).all()
    return layout, half, whole


def check_bits(half: Any, whole: Any, size: int, read: Any, unread: Any) -> None:
    """Check R and P of one and of two columns: for places that are read, the bits of R and P of all rows.

    Args:
        half: the transfer of rows of some colors.
        whole: that of all rows.
        size: of a vector of rows.
        read: places where a vector to be restricted, or to be added to, is not zero.
        unread: places of the rows of the other colors, which are not corrected.
    """
    xp = kernels.load("cuda").xp
    y = _random(size, read)
    out = [xp.zeros((2, half.coarse.size)) for _ in range(3)]
    half.restriction.local.batched(2).restrict_full(y, out[0])
    for n in range(2):
        half.restriction.local.restrict_full(y[n], out[1][n])
        whole.restriction.local.restrict_full(y[n], out[2][n])
    assert (out[0] == out[1]).all()
    assert (out[1] == out[2]).all()
    assert abs(out[0]).max() > 0.0

    xc = _random(half.columns.size, half.columns.position)
    as_whole = xp.zeros((2, whole.columns.size))
    as_whole[:, whole.columns.position] = xc[:, half.columns.position]
    x = [y.copy() for _ in range(3)]
    half.prolongation.local.batched(2).prolong_add(xc, x[0])
    for n in range(2):
        half.prolongation.local.prolong_add(xc[n], x[1][n])
        whole.prolongation.local.prolong_add(as_whole[n], x[2][n])
    assert (x[0] == x[1]).all()
    x[2][:, unread] = 0.0
    assert (x[1] == x[2]).all()
    assert (x[0] != y).any()


def _random(size: int, places: Any) -> Any:
    """Two columns of numbers at these places of vectors that are zero elsewhere."""
    backend = kernels.load("cuda")
    made = backend.xp.zeros((2, size))
    made[:, places] = backend.asarray(np.random.default_rng(size).standard_normal((2, len(places))))
    return made
