"""The choice between coarsening a lattice and following couplings, by statistics of a level's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.partition import Offsets, Partition
from dsolver.kernels import Backend
from dsolver.kernels.arrays import apart
from dsolver.multigrid.geometric.matrix_statistics import ending, jumping, turning

BLOCKY: Final = 0.25
"""Fraction of the pairs of neighbors between which couplings jump, above which the lattice says little of a level.
Random blocks of one cell have a third to a half, of two to four cells more than a quarter, white noise a fifth."""
MOST_ROWS: Final = 64**3
"""Most rows of the first level that is coarsened so, in less than a second of one core of the host."""


@final
@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits beyond which the finest level is coarsened by couplings: where that takes less time than the lattice.

    Attributes:
        ends: fraction of the points at which a line of them ends, beside those at the faces of the grid. Where a tenth
            of the cells is masked at random it is a sixth, where a half is, two thirds.
        turns: for ratios of `matrix_statistics.turning`, the fraction of the rows; one that is exceeded is enough.
        in_planes: the same where the grid has one point along an axis. What flows there has fewer ways around, so fewer
            rows spoil the lattice, and couplings take no longer to set up.
        rows: most rows of the finest level, all chunks' copies together: every owner makes the coarser levels whole, at
            600 bytes a row, where on the lattice owners share the work. `MOST_ROWS` are never too many.
    """

    ends: float
    rows: int
    turns: tuple[tuple[float, float], ...] = ()
    in_planes: tuple[tuple[float, float], ...] = ()


_ROWS: Final = 2 * 128**3
_ON_CPUS: Final = Limits(ends=0.12, rows=_ROWS, turns=((30.0, 0.06), (1e3, 0.005)), in_planes=((30.0, 0.002),))
LIMITS: Final = {"numpy": _ON_CPUS, "cpu": _ON_CPUS, "cuda": Limits(ends=0.16, rows=_ROWS)}
"""By the name of the backend. On GPUs, where everything but the choice of coarse points is fast, set-up weighs more: a
first solve takes longer so, a further one a third to a sixth, and the slowest do not end otherwise."""


TURNS: Final = ((30.0, 0.06), (1e3, 0.003))
"""As `Limits.turns`, for `follows_couplings`. Packed spheres have 0.5 % of such rows at any size and take 13, then 71
iterations on a lattice of 48³, 96³ cells; a surface that is one cell thick has fewer the larger the grid is."""
ENDS: Final = 0.12
"""As `Limits.ends`."""
JUMPS: Final = {"cuda": 0.03}
"""Fraction of the pairs of neighbors between which couplings jump, from which on a grid follows them on a device. On
such grids "mg" hands its coarser levels to the host, which takes longer than to make an algebraic hierarchy on a GPU:
at 128³ a first solve took 0.12 to 0.15 s on an H200, and 0.07 to 0.08. Large bodies have 0.01, a medium of small ones
0.06 to 0.08, and packages of chips, where both take as long, 0.02 to 0.04."""


def follows_couplings(
    engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk, *, masked: bool, jumps: float | None
) -> bool:
    """Whether a grid is to be coarsened by couplings all the way, by all chunks; the same on every rank, for any cut.

    GPUs follow couplings where these jump, too: see `JUMPS`.

    Args:
        engine: of the finest level.
        partition: its chunks.
        offsets: of its rows' columns.
        weights: float64 (K rows,) of every chunk.
        masked: whether cells are left out.
        jumps: of the rows, see `jumping`, on devices where `JUMPS` counts; None elsewhere.
    """
    if not _positive(engine, offsets, weights):
        return False
    if masked and ending(engine, offsets, weights) - _at_faces(partition) > ENDS:
        return True
    if jumps is not None and jumps > JUMPS[engine.kernels]:
        return True
    return _turns(engine, offsets, weights, TURNS)


def wanted(engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk) -> bool:
    """Whether a level of a rough problem is to be coarsened by couplings; the same on every rank.

    Args:
        engine: of the level.
        partition: its chunks.
        offsets: of its rows' columns.
        weights: float64 (K rows,) of every chunk.
    """
    if len(partition) > 1 or partition.domain.points > MOST_ROWS:
        return False
    return jumping(engine, offsets, weights) > BLOCKY


def wanted_at_once(engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk, *, masked: bool) -> bool:
    """Whether a problem is to be coarsened by couplings from its finest level on; the same on every rank.

    So are media of whose cells many are left out, and rows whose anisotropy differs from place to place.

    Args:
        engine: of the finest level.
        partition: its chunks.
        offsets: of its rows' columns.
        weights: float64 (K rows,) of every chunk.
        masked: whether cells are left out.
    """
    limits = LIMITS[engine.kernels]
    if partition.domain.points > max(MOST_ROWS, limits.rows // len(partition)):
        return False
    if masked and ending(engine, offsets, weights) - _at_faces(partition) > limits.ends:
        return True
    turns = limits.in_planes if 1 in partition.grid else limits.turns
    return _turns(engine, offsets, weights, turns)


def _turns(engine: Engine, offsets: Offsets, weights: PerChunk, bounds: Sequence[tuple[float, float]]) -> bool:
    """Whether anisotropy turns in more rows than one of the bounds allows; where there are none nobody looks."""
    if not bounds:
        return False
    found = turning(engine, offsets, weights, [ratio for ratio, _ in bounds])
    return any(part > least for part, (_, least) in zip(found, bounds, strict=True))


def _positive(engine: Engine, offsets: Offsets, weights: PerChunk) -> bool:
    """Whether all diagonal entries are positive and finite, as algebraic coarsening needs them."""
    counts = engine.per_chunk(partial(_wrong, center=offsets.index((0, 0, 0)), count=len(offsets)), weights)
    return engine.global_sums(counts) == (0.0,)


def _wrong(backend: Backend, _: int, weights: Any, *, center: int, count: int) -> Any:
    diagonal = apart(weights.reshape(count, -1)[center])
    return backend.xp.full(1, float(backend.lattice.unfit(diagonal, 0.0, left_out=True)))


def _at_faces(partition: Partition) -> float:
    """Fraction of the points at which a line ends where all cells are there: two of each line that is not closed."""
    each = [0.0 if p else 2.0 / n for n, p in zip(partition.grid, partition.periodic, strict=True) if n > 1]
    return sum(each) / len(each) if each else 0.0
