"""Semicoarsening: a level is made coarser along the axes along which its rows are strongly coupled."""

import math
from functools import partial
from typing import Any, Final

from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.box import Offsets, Triple
from dsolver.grid.numbering import by_offset
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend

STRONG: Final = 0.5  # an axis is coarsened when its couplings are at least this part of the strongest axis'


def coarsening_factors(engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk) -> Triple:
    """The factor of each axis: 2, or 1 where rows are weakly coupled along it; the same on every rank.

    At least one axis of several points is: the strongest, or all where rows are hardly coupled at all. Far down in a
    porous medium what is left of couplings may even have the other sign, which makes no axis better than another.
    """
    sums = engine.per_chunk(partial(_couplings, offsets=offsets), weights)
    return engine.decided(partial(_factors, partition.grid), *(sums.at(axis) for axis in range(3)))


def _factors(grid: Triple, *found: float) -> Triple:
    strongest = max((s for s, n in zip(found, grid, strict=True) if n > 1), default=0.0)
    weak = STRONG * strongest if strongest > 0.0 else -math.inf
    x, y, z = (2 if n > 1 and not s < weak else 1 for s, n in zip(found, grid, strict=True))
    return x, y, z


def _couplings(backend: Backend, _: int, weights: Any, *, offsets: Offsets) -> tuple[Any, Any, Any]:
    """Sums of the couplings along x, y, z: float64 (1,) each."""
    sums = backend.lattice.couplings(offsets, by_offset(weights, offsets))
    return sums[0:1], sums[1:2], sums[2:3]
