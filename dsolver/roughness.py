"""How rough coefficients are, as the matrix shows it: whether multigrid does better with more smoothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.coarsening import leanings
from dsolver.partition import Offsets

RATIO: Final = 10.0
"""Between the couplings of a point to its two neighbors along an axis, from where on coefficients jump there."""
PART: Final = 0.01
"""Of all points along all axes, from where on jumps are no longer an exception, such as the surface of one body."""


def is_rough(engine: Engine, offsets: Offsets, weights: PerChunk) -> bool:
    """Whether couplings jump from point to point in more than `PART` of the rows: see `jumping`."""
    return jumping(engine, offsets, weights) > PART


def jumping(engine: Engine, offsets: Offsets, weights: PerChunk) -> float:
    """In which part of the rows, along each axis, couplings jump from point to point; the same on every rank.

    Anisotropy is not rough, for the two neighbors along one axis are compared; nor are boundaries and masked cells,
    where one of the couplings is zero.

    Args:
        engine: of the chunks.
        offsets: of the rows' columns.
        weights: float64 (K rows,) of every chunk, offset after offset.
    """
    counts = engine.per_chunk(MakeCounts(offsets=offsets), weights)
    found, among = engine.totals(counts.at(0), counts.at(1))
    return found / among if among else 0.0


def ending(engine: Engine, offsets: Offsets, weights: PerChunk) -> float:
    """At which part of the points that have neighbors along an axis a line of them ends; the same on every rank.

    At two of n in lines of n points. Arguments as for `jumping`.
    """
    counts = engine.per_chunk(MakeCounts(offsets=offsets), weights)
    inner, ends = engine.totals(counts.at(1), counts.at(2))
    return ends / (inner + ends) if ends else 0.0


def turning(engine: Engine, offsets: Offsets, weights: PerChunk, ratios: Sequence[float]) -> list[float]:
    """Which part of the rows is anisotropic in another way than others; the same on every rank.

    A lattice is made coarser along the axes that suit most rows, on each level.

    Args:
        engine: of the chunks.
        offsets: of the rows' columns.
        weights: float64 (K rows,) of every chunk, offset after offset.
        ratios: between how strongly such a row prefers an axis to another and how strongly rows do in the geometric
            mean, at least. There is a result for each.
    """
    made = engine.per_chunk(MakeLeanings(offsets=offsets), weights)
    found = engine.totals(*(made.at(number) for number in range(6)))
    means = tuple(total / count if count else 0.0 for total, count in zip(found[::2], found[1::2], strict=True))
    counts = engine.per_chunk(MakeTurns(offsets=offsets, means=means, ratios=tuple(ratios)), weights)
    rows, *turned = engine.totals(*(counts.at(number) for number in range(len(ratios) + 1)))
    return [number / rows for number in turned]


@final
@dataclass(frozen=True, kw_only=True)
class MakeLeanings:
    """Adds up `leanings`, and of how many rows they are, pair of axes after pair."""

    offsets: Offsets

    def __call__(self, backend: Backend, _: int, weights: Any) -> tuple[Any, ...]:
        """float64 (1,) six times."""
        xp = backend.xp
        lean = leanings(xp, self.offsets, weights.reshape(len(self.offsets), -1))
        found = xp.stack([xp.nansum(lean, axis=1), xp.isfinite(lean).sum(axis=1)], axis=1).reshape(-1)
        return tuple(found[i : i + 1] for i in range(6))


@final
@dataclass(frozen=True, kw_only=True)
class MakeTurns:
    """Counts all rows, and those whose `leanings` are far from their means."""

    offsets: Offsets
    means: tuple[float, ...]
    ratios: tuple[float, ...]

    def __call__(self, backend: Backend, _: int, weights: Any) -> tuple[Any, ...]:
        """float64 (1,) each."""
        xp = backend.xp
        lean = leanings(xp, self.offsets, weights.reshape(len(self.offsets), -1))
        means = xp.asarray(self.means)[:, None]
        far = xp.where(xp.isfinite(lean), xp.abs(lean - means), 0.0).max(axis=0)
        turned = [(far > np.log(ratio)).sum().astype(np.float64).reshape(1) for ratio in self.ratios]
        return (xp.full(1, float(far.size)), *turned)


@final
@dataclass(frozen=True, kw_only=True)
class MakeCounts:
    """Counts jumps, where there could be one, and where there is a coupling on one side alone."""

    offsets: Offsets

    def __call__(self, backend: Backend, _: int, weights: Any) -> tuple[Any, Any, Any]:
        """float64 (1,) each."""
        counts = backend.jumps(self.offsets, weights.reshape(len(self.offsets), -1), RATIO)
        return counts[0:1], counts[1:2], counts[2:3]
