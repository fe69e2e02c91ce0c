"""Statistics of a matrix: fractions of rows with jumps, ends of lines, own anisotropy; axes that are coarsened."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np

from dsolver.engines.base import Engine, Operand, PerChunk
from dsolver.grid.box import Offsets, Triple
from dsolver.grid.numbering import by_offset
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend

T = TypeVar("T")

RATIO: Final = 10.0
"""Ratio of a point's couplings to its two neighbors along an axis above which coefficients count as jumping there."""
ROUGH: Final = 0.01
"""Fraction of jumping points above which a problem counts as rough: fewer may be the surface of one body."""


def is_rough(engine: Engine, offsets: Offsets, weights: PerChunk, found: float | None = None) -> bool:
    """Whether couplings jump in more than `ROUGH` of the rows: see `jumping`, whose result may be known."""
    return jumping(engine, offsets, weights, _rough) if found is None else _rough(found)


def dominates(engine: Engine, offsets: Offsets, weights: PerChunk, part: float) -> bool:
    """Whether the couplings of each row are together at most a part of its diagonal; the same on every rank."""
    outweighed = engine.per_chunk(partial(_outweighed, offsets=offsets, part=part), weights)
    return engine.decided(lambda found: bool(found == 0.0), outweighed)


def jumping(engine: Engine, offsets: Offsets, weights: PerChunk, decide: Callable[[float], T]) -> T:
    """A decision by the fraction of the rows, along each axis, whose couplings jump from point to point.

    The same on every rank. Anisotropy is not rough, for the two neighbors along one axis are compared; nor are
    boundaries and masked cells, where one of the couplings is zero.

    `decide`: what is concluded of it; set-up may foresee that: see `Engine.decided`.
    """
    counts = engine.per_chunk(partial(_jumps, offsets=offsets), weights)
    return engine.decided(lambda found, among: decide(_part(found, among)), counts.at(0), counts.at(1))


def ending(engine: Engine, offsets: Offsets, weights: PerChunk, decide: Callable[[float], T]) -> T:
    """A decision by the part of points at which a line ends, two in n; the same on every rank; see `jumping`."""
    counts = engine.per_chunk(partial(_jumps, offsets=offsets), weights)
    return engine.decided(lambda inner, ends: decide(_part(ends, inner + ends)), counts.at(1), counts.at(2))


def turning(
    engine: Engine, offsets: Offsets, weights: PerChunk, decide: Callable[[Sequence[float]], T], ratios: Sequence[float]
) -> T:
    """A decision by the fraction of the rows that are anisotropic in another way than most; the same on every rank.

    A lattice is made coarser along the axes that suit most rows, on each level.

    `decide`: what is concluded, from a fraction for each ratio. `ratios`: between how strongly such a row prefers an
    axis to another and how strongly rows do in the geometric mean, at least.
    """
    made = engine.per_chunk(partial(_leanings, offsets=offsets), weights)
    turn = partial(_turns, offsets=offsets, limits=tuple(math.log(ratio) for ratio in ratios))
    alone = len(engine.partition) == 1
    sums: Sequence[Operand] = [made] if alone else engine.totals(made, 6)
    counts = engine.per_chunk(turn, weights, *sums)
    numbers = [counts.at(number) for number in range(len(ratios) + 1)]
    return engine.decided(lambda rows, *turned: decide([number / rows for number in turned]), *numbers)


def _rough(found: float) -> bool:
    return found > ROUGH


def _part(found: float, among: float) -> float:
    return found / among if among else 0.0


# -- what is counted on the owners -------------------------------------------------------------------------------------


def _leanings(backend: Backend, _: int, weights: Any, *, offsets: Offsets) -> Any:
    """The lean of a chunk's rows, and how many lean, for each pair of axes: float64 (6,)."""
    return backend.lattice.leanings(offsets, weights.reshape(len(offsets), -1))


def _turns(
    backend: Backend,
    _: int,
    weights: Any,
    *sums: Any,  # float64, (6,) or six times (1,)
    offsets: Offsets,
    limits: tuple[float, ...],
) -> tuple[Any, ...]:
    """The number of a chunk's rows, and of those that lean in another way than most: float64 (1,) each."""
    weights = weights.reshape(len(offsets), -1)
    turned = backend.lattice.turns(
        offsets, weights, sums[0] if len(sums) == 1 else backend.xp.concatenate(sums), limits
    )
    return (backend.asarray(np.full(1, float(weights.shape[1]))), *(turned[i : i + 1] for i in range(len(limits))))


def _outweighed(backend: Backend, _: int, weights: Any, *, offsets: Offsets, part: float) -> Any:
    """1 where the couplings of some row are more than a part of its diagonal, else 0: float64 (1,)."""
    return backend.lattice.outweighed(offsets, weights.reshape(len(offsets), -1), part)


def _jumps(backend: Backend, _: int, weights: Any, *, offsets: Offsets) -> tuple[Any, Any, Any]:
    """The numbers of jumps, of places where one could be, and of couplings on one side alone: float64 (1,) each."""
    counts = backend.lattice.jumps(offsets, weights.reshape(len(offsets), -1), RATIO)
    return counts[0:1], counts[1:2], counts[2:3]


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
