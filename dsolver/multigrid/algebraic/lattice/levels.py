"""Algebraic levels of a grid: from its finest level on, or below the last one of a lattice.

Where couplings jump from point to point, a coarse point of a lattice stands for points that it is hardly coupled to,
and clusters of strongly coupled points have none at all. Coarse points that are chosen by couplings follow them.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.box import Offsets
from dsolver.grid.numbering import own_number
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.multigrid.algebraic.finest import FinestGrid, FinestLevel
from dsolver.multigrid.algebraic.lattice.rows import LatticeRows
from dsolver.multigrid.algebraic.methods import CoarsePoints
from dsolver.multigrid.algebraic.options import COARSE_ROWS, GATHERED_ROWS, HierarchyOptions
from dsolver.multigrid.algebraic.setup import HierarchySetup
from dsolver.multigrid.geometric.ghost_rows import WIDTH, ghosted_rows
from dsolver.multigrid.level import Level


def finest_of_grid(
    engine: Engine,
    partition: Partition,
    offsets: Offsets,
    weights: PerChunk,
    layout: PerChunk,
    chunks: Callable[[], PerChunk],
    *,
    singular: bool,
    depth: int = 0,
) -> FinestLevel:
    """The `FinestLevel` of a hierarchy that begins with a level of a grid."""
    rows = LatticeRows(engine, partition, offsets, weights)
    return FinestLevel(
        rows=rows.rows,
        layout=layout,
        chunks=chunks,
        bounds=rows.bounds,
        senders=rows.senders,
        reach=rows.reach,
        singular=singular,
        grid=FinestGrid(rows=rows, partition=partition, offsets=offsets),
        depth=depth,
    )


def below_lattice(
    engine: Engine, level: Level, weights: PerChunk, depth: int, dtype: str, *, singular: bool
) -> list[Level]:
    """The last level of a lattice, now with a transfer, and the levels below it; none where nothing is coarsened.

    The finest level is smoothed as those below: where couplings are strong across the cuts between chunks, sweeps of
    chunks side by side leave what coarse points that follow couplings cannot take over.

    `weights`: its rows, float64 (K rows,) of every chunk, of a symmetric matrix but for rounding.
    """
    partition, offsets = level.partition, level.offsets
    if depth:
        weights = symmetric_weights(engine, partition, offsets, weights)
    first = finest_of_grid(
        engine, partition, offsets, weights, level.layout, lambda: level.chunks, singular=singular, depth=depth
    )
    del weights
    on_gpu = engine.kernels == "cuda"
    options = HierarchyOptions(
        method=CoarsePoints(), smoother="jacobi", coarse_rows=COARSE_ROWS[on_gpu], gathered_rows=GATHERED_ROWS[on_gpu]
    )
    setup = HierarchySetup(engine, first, options, dtype)
    while setup.descend():
        pass
    there, *below = setup.levels
    if not below:
        return []
    smoother = level.make_smoother if depth else there.make_smoother
    return [replace(level, transfer=there.transfer, make_smoother=smoother), *below]


def symmetric_weights(engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk) -> PerChunk:
    """The rows of (A + Aᵀ) / 2: products leave roundings, which may be entries on one side alone."""
    around = ghosted_rows(engine, partition, weights, offsets)
    return engine.per_chunk(partial(_symmetric, partition=partition, offsets=offsets), around)


def _symmetric(backend: Backend, number: int, around: Any, *, partition: Partition, offsets: Offsets) -> Any:
    """A chunk's rows, float64 (K rows,), of those in and around it.

    Where a periodic axis has two points, each is the other's neighbor on both sides: one of the two entries has both.
    """
    nx, ny, nz = partition[own_number(partition, number)].box.shape
    out = backend.xp.empty((len(offsets), nz, ny, nx))
    for place, (i, j, k) in enumerate(offsets):
        mirrored = offsets.index((-i, -j, -k))
        here, there = (
            around[of, WIDTH + z : WIDTH + z + nz, WIDTH + y : WIDTH + y + ny, WIDTH + x : WIDTH + x + nx]
            for of, (x, y, z) in ((place, (0, 0, 0)), (mirrored, (i, j, k)))
        )
        out[place] = (here + there) / 2
    for axis, n in enumerate(partition.grid):
        for place, offset in enumerate(offsets):
            if partition.periodic[axis] and n == 2 and offset[axis] < 0:
                same = offsets.index((*offset[:axis], 1, *offset[axis + 1 :]))
                out[same] += out[place]
                out[place] = 0.0
    return out.reshape(-1)
