"""The choice between coarsening a lattice and following couplings, by statistics of a level's rows."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.box import Offsets
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.views import without_base
from dsolver.multigrid.algebraic.rows.measures import not_positive
from dsolver.multigrid.geometric.matrix_statistics import coarsening_factors, ending, jumping, turning

BLOCKY: Final = 0.25
"""Fraction of the pairs of neighbors between which couplings jump, above which the lattice says little of a level.
Random blocks of one cell have a third to a half, of two to four cells more than a quarter, white noise a fifth."""
ENDS: Final = 0.12
"""Fraction of the points at which a line of them ends, beside those at the faces of the grid, above which the grid
follows couplings from its finest level on. Where a tenth of the cells is masked at random it is a sixth, where a half
is, two thirds."""
LEFT_OUT: Final = 0.2
"""Part of the cells that are left out from which on the open ones are coarsened by couplings: levels are then made of
these alone."""
TURNS: Final = ((30.0, 0.06), (1e3, 0.003))
"""Ratios of `matrix_statistics.turning`, each with the fraction of the rows above which the grid follows couplings from
its finest level on; one that is exceeded is enough. Packed spheres have 0.5 % of such rows at any size and take 13,
then 71 iterations on a lattice of 48³, 96³ cells; a surface that is one cell thick has fewer the larger the grid is."""
TURNS_IN_PLANES: Final = ((30.0, 0.002),)
"""Ratios and fractions as of `TURNS`, where the grid has one point along an axis. What flows there has fewer ways
around, so fewer rows spoil the lattice, and couplings take no longer to set up."""
JUMPS: Final = {"cpu": 0.015, "cuda": 0.03}
"""Fraction of the pairs of neighbors between which couplings jump, from which on a grid that would not be coarsened
along all of its axes follows them on a device. Large bodies have 0.01, a medium of small ones 0.06 to 0.08, and
packages of chips, whose cells are flat, 0.02 to 0.04.

With more, "amg" takes 0.5 to 0.9 of the processor time of "mg" on CPUs, first and later. On an H200 it takes 0.6 to
1.1 of the time for a first solve of 128³ or 256³ points, and 0.5 to 0.9 for a later one: 1.3 to 1.4 and 0.7 to 0.8 with
a package of chips or a few films, which have as many jumps as layers with lenses of clay, where it is 0.6 to 0.7."""
JUMPS_AROUND: Final = 0.1
"""As `JUMPS`, of a grid that would be coarsened along all of its axes: the next level has an eighth of the points.

With fewer jumps, "mg" takes 0.6 to 0.9 of the processor time of "amg" on CPUs for a first solve of 64³ or 96³ points,
and 0.8 to 1.3 for a later one, on an H200 0.7 to 0.9 of its time for a first solve of 256³ (`bench/choice.py --fields
blocks bubbles fractal`)."""
FEW: Final = {"cpu": 0, "cuda": 1 << 22}
"""Points up to which `JUMPS` is for any grid: on an H200 "mg" takes 1.2 to 1.3 times as long as "amg" with blocks and
bubbles of 128³ points, where launches of kernels take the most of both set-ups' time."""


def follows_couplings(
    engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk, *, left_out: float, jumps: float | None
) -> bool:
    """Whether `M="auto"` follows couplings from a grid's finest level on.

    So it does where `leaves_lattice_at_once` says so, where many cells are left out, and where `JUMPS` and
    `JUMPS_AROUND` do.

    `jumps`: of the rows, see `jumping`; None for text-book kernels.
    """
    if left_out >= LEFT_OUT or (jumps is not None and _jump(engine, partition, offsets, weights, jumps)):
        return _positive(engine, offsets, weights)
    return leaves_lattice_at_once(engine, partition, offsets, weights, masked=left_out > 0.0)


def leaves_lattice(engine: Engine, offsets: Offsets, weights: PerChunk) -> bool:
    """Whether a rough problem leaves its lattice below a level; the same on every rank."""
    blocky = jumping(engine, offsets, weights, lambda found: found > BLOCKY)
    return blocky and _positive(engine, offsets, weights)


def leaves_lattice_at_once(
    engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk, *, masked: bool
) -> bool:
    """Whether a problem is coarsened by couplings from its finest level on; the same on every rank, for any cut.

    So are media of whose cells many are left out, and rows whose anisotropy differs from place to place.
    """
    found = _porous(engine, partition, offsets, weights, masked=masked) or _turns(engine, partition, offsets, weights)
    return found and _positive(engine, offsets, weights)


def _jump(engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk, found: float) -> bool:
    """Whether so many couplings jump that a lattice does not pay."""
    if found <= JUMPS[engine.kernels]:
        return False
    if found > JUMPS_AROUND or math.prod(partition.grid) <= FEW[engine.kernels]:
        return True
    factors = coarsening_factors(engine, partition, offsets, weights)
    return any(n > 1 and factor == 1 for n, factor in zip(partition.grid, factors, strict=True))


def _porous(engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk, *, masked: bool) -> bool:
    """Whether lines of cells end inside the grid in many places."""
    return masked and ending(engine, offsets, weights, lambda found: found - _at_faces(partition) > ENDS)


def _turns(engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk) -> bool:
    """Whether anisotropy turns in more rows than one of the bounds allows."""
    bounds = TURNS_IN_PLANES if 1 in partition.grid else TURNS

    def beyond(found: Sequence[float]) -> bool:
        return any(part > least for part, (_, least) in zip(found, bounds, strict=True))

    return turning(engine, offsets, weights, beyond, [ratio for ratio, _ in bounds])


def _positive(engine: Engine, offsets: Offsets, weights: PerChunk) -> bool:
    """Whether all diagonal entries are positive and finite, as algebraic coarsening needs them."""
    counts = engine.per_chunk(partial(_wrong, center=offsets.index((0, 0, 0)), count=len(offsets)), weights)
    return engine.sums(counts)[0] == 0.0


def _wrong(backend: Backend, _: int, weights: Any, *, center: int, count: int) -> tuple[float]:
    return not_positive(backend, without_base(weights.reshape(count, -1)[center]))


def _at_faces(partition: Partition) -> float:
    """Fraction of the points at which a line ends where all cells are there: two of each line that is not closed."""
    each = [0.0 if p else 2.0 / n for n, p in zip(partition.grid, partition.periodic, strict=True) if n > 1]
    return sum(each) / len(each) if each else 0.0
