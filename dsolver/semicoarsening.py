"""Which axes are worth coarsening: those along which rows are strongly coupled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, final

from dsolver.engines.base import Engine, PerChunk
from dsolver.grids import by_offset
from dsolver.kernels.backend import Backend
from dsolver.partition import Offsets, Partition, Triple

STRONG: Final = 0.5
"""An axis is coarsened when its couplings are at least this part of the strongest axis'."""


def factors_of(engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk) -> Triple:
    """How much each axis is coarsened: by 2, or 1 where rows are coupled weakly along it; the same on every rank.

    At least one axis of several points is: the strongest, or all where rows are hardly coupled at all. Far down in a
    porous medium what is left of couplings may even have the other sign, which makes no axis better than another.

    Args:
        engine: of the chunks, in float64.
        partition: the chunks.
        offsets: of the rows' columns.
        weights: float64 (K rows,) of every chunk, offset after offset, or (K,) for a constant stencil.
    """
    sums = engine.per_chunk(MakeCouplings(offsets=offsets), weights)
    found = engine.totals(*(sums.at(axis) for axis in range(3)))
    strongest = max((s for s, n in zip(found, partition.grid, strict=True) if n > 1), default=0.0)
    weak = STRONG * strongest if strongest > 0.0 else -math.inf
    x, y, z = (2 if n > 1 and not s < weak else 1 for s, n in zip(found, partition.grid, strict=True))
    return x, y, z


@final
@dataclass(frozen=True, kw_only=True)
class MakeCouplings:
    """Makes the sums that tell which axes are worth coarsening."""

    offsets: Offsets

    def __call__(self, backend: Backend, _: int, weights: Any) -> tuple[Any, Any, Any]:
        """float64 (1,) for each of x, y, z."""
        sums = backend.couplings(self.offsets, by_offset(weights, self.offsets))
        return sums[0:1], sums[1:2], sums[2:3]
