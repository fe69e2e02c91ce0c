"""Multigrid for any grid, cut and coefficients, as a preconditioner."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar, Final, final

from dsolver.distributed.forecast import CPU_BATCH, CPU_CANDIDATE, F64, MatrixForecast, Part
from dsolver.engines.base import PerChunk
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.multigrid import forecast, hierarchy
from dsolver.multigrid.cycle import VISITED, MultigridCycle
from dsolver.multigrid.finest_rows import FinestRows, finest
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Making, Preconditioner, Site, is_a
from dsolver.preconditioners.builder import Builder
from dsolver.problems import Problem

STAR_BYTES: Final = 84
"""Bytes of each row where the finest level is a constant star, during set-up: the next level's way down."""
COARSENING_BYTES: Final = 264
"""Bytes of each row, while interpolation and the coarser level are made: entries of P and where they are, coarse rows,
and R as it is stored in float64."""
CORNERED_BYTES: Final = 129
"""Such bytes where R and P have corners alone: no entries of P beside its weights, and no R in slices."""
CORNERED: Final = 2  # weights of each row then
RESTRICTED: Final = 27 / 8  # entries of R for each row
GHOSTED: Final = 1.03  # points of a chunk with ghost layers over those without, where memory matters
CORNERS: Final = 8
REACHED: Final = 0.84
"""The part of a GPU's bandwidth at which a cycle of stored matrices moves its bytes: H200, docs/performance.md."""
STAR_REACHED: Final = 0.68  # the part for a constant star, whose two passes are limited by shared memory
PASSES: Final = 12.0  # times that set-up moves what it makes of a row, by the time of 512³ cells on an H200
HOST: Final = (0.75e-3, 0.9e-3)  # seconds of a level in which the host leads, and 40 launches more of one in chunks
QUESTIONS: Final = 5  # of a set-up in chunks, counted on 2, 4 and 8 ranks
GHOSTS: Final = 27  # values of a row that neighbors get
TYPICAL: Final = 10  # iterations that reduce the residual by 1e-8, whatever the grid


@final
@dataclass(frozen=True, kw_only=True)
class Multigrid(Preconditioner):
    """One V-cycle of a multigrid method for any grid, cut and coefficients: ``"mg"``.

    Interpolation follows the coefficients, coarse matrices are PᵀAP, there are as many levels as it takes, and the
    number of iterations hardly depends on the size of the grid (docs/theory.md).

    Attributes:
        sweeps: 1, or 2 for twice the smoothing on the finest level: fewer iterations for coefficients that are rough
            from cell to cell. By default 2 where the matrix is rough (`matrix_statistics`) and no coarse level leaves
            the lattice (`dsolver.multigrid.algebraic.lattice`), else 1.
        visits: 1, or 2 for two visits of the larger coarse levels: fewer iterations where coefficients jump in
            random patches of several cells. By default 2 where the matrix is rough, else 1.

    Raises:
        InputError: one of them is neither 1 nor 2.
    """

    can: ClassVar[Capabilities] = Capabilities(batched=True, lowered=True, multilevel=True, guesses=True, fallback=40)
    kernel_kind: ClassVar[str] = "grids"
    sweeps: int | None = None
    visits: int | None = None

    def __post_init__(self) -> None:
        for name in ("sweeps", "visits"):
            value = getattr(self, name)
            if value is not None and not (is_a(value, Integral) and value in (1, 2)):
                raise InputError(f"{name} must be 1 or 2, not {value!r}")

    def check(self, problem: Problem, partition: Partition) -> None:
        """Refuse a general matrix, which has no grid to coarsen."""
        if not problem.lattice:
            raise InputError(
                "M='mg' coarsens a grid, and a matrix has none, as which complex rows, those of tensors and those "
                "of a flow count: use M='amg', or say by dsolver.matrix(A, grid=...) which grid's points its rows are"
            )

    def build(self, builder: Builder) -> Built:
        """All levels; A is the finest one, or one more in float64."""
        return self.build_from(builder, lambda: builder.rows)

    def build_from(self, builder: Builder, take: Callable[[], FinestRows]) -> Built:
        """All levels from rows that are taken from their maker, who must not keep them; they may be asked for again."""
        levels = hierarchy.build(builder.engine, take, builder.dtype, self.sweeps)  # rows that only this holds
        return levels[0].exact, levels

    def matrix(self, builder: Builder, levels: Sequence[Any]) -> PerChunk:
        """A alone."""
        return finest(builder.engine, builder.rows)

    def on(self, site: Site) -> MultigridCycle:
        """The V-cycle."""
        levels, engine = site.levels, site.engine
        if engine.width > 1:
            levels = [level.batched(engine.width) for level in levels]
        visits = 2 if levels[0].rough else 1
        coarse_left = levels[-1].algebraic and not levels[1].algebraic
        sweeps = 1 if coarse_left else visits
        return MultigridCycle.of(levels, self.sweeps or sweeps, self.visits or visits)

    def forecast(self, part: Part) -> Forecast:
        """Levels that are coarsened along every axis.

        Coefficients that vary may make it smooth more than is known beforehand; then more is moved than this. Where
        `sweeps` and `visits` do not say whether, memory is that of rough ones, at most. Levels that have left the
        lattice are stored in up to twice as much, and set up in that, too.
        """
        levels, problem, value = forecast.levels_of(part, self.sweeps), part.problem, part.value
        corners = forecast.has_corners(part, self.sweeps)
        star, finest, rows, steps = forecast.is_star(part, []), levels[0], levels[0].rows, list(pairwise(levels))
        # The residual; the coarse right-hand side and solution, once more in lattice order unless P reads it in place.
        in_place = [fine.shared and fine is not finest for fine, _ in steps]
        held = sum(fine.size + (3 - read) * coarse.size for (fine, coarse), read in zip(steps, in_place, strict=True))
        held += finest.size * (part.may_close - (star and len(levels) > 1))
        if not star and (problem.rule is not None or problem.coefficients):  # may be rough: `matrix_statistics`
            held += finest.size * (self.sweeps != 1)
            held += 3 * sum(level.size for level in levels[1 : VISITED + 1]) * (self.visits != 1)
        moved = levels[-1].way + 2 * value * levels[-1].rows
        for fine, coarse in steps:
            moved += 4 * value * coarse.rows
            ways = fine.way * (1 + fine.shared)
            if star and fine is finest:  # a pass over r down, and one up
                moved += 3 * value * rows
            elif fine.faces:  # each face four times; alone, P needs half of x, and a backward sweep no w
                moved += 4 * fine.stored(value) + (11 if len(part.partition) == 1 else 14) * value * fine.rows + ways
            else:  # r, d, x; x, y; y; x twice; r, x, w; d, w, x. Then the coarse right-hand side, and the way back
                moved += 2 * fine.stored(value) + 14 * value * fine.rows + ways
        entries = 0 if part.cuda else min(rows, CPU_BATCH) * CORNERS * CPU_CANDIDATE
        coarsening = int((COARSENING_BYTES - RESTRICTED * (F64 - value)) * rows)
        if corners:
            coarsening = int((CORNERED_BYTES + CORNERED * value) * rows)
        exact = part.exact(finest, shared=True)
        # the finest rows beside their matrix, while the next level is made, with ghost layers; A alone is there yet
        beside = 0 if part.constant else int(F64 * len(problem.offsets) * rows * GHOSTED) + exact - exact * value // F64
        return Forecast(
            levels=tuple(levels),
            making=_making(part, levels, 0 if star else CORNERED_BYTES + CORNERED * value if corners else None),
            exact=exact,
            vectors=value * held,
            slots=forecast.exchanged(part, levels),
            rows=beside,
            temporary=STAR_BYTES * rows if star else coarsening + entries,
            moved=moved,
            reached=STAR_REACHED if star else REACHED,
        )

    def iterations(self, alone: float, rtol: float) -> float:
        """Hardly depends on the grid."""
        return TYPICAL * math.log(max(rtol, 1e-16)) / math.log(1e-8)


def _making(part: Part, levels: Sequence[MatrixForecast], finest: int | None) -> Making:
    """Levels of a lattice; finest: bytes that are made of a row of the finest level, if not as of others."""
    each = COARSENING_BYTES - RESTRICTED * (F64 - part.value)
    moved = [PASSES * each * level.rows for level in levels]
    if finest is not None:
        moved[0] = PASSES * finest * levels[0].rows
    cut = sum(level.slots > 0 for level in levels)
    partition = part.partition
    near = len(partition.neighbors(part.number))
    return Making(
        moved=sum(moved[: cut or None]),
        whole=sum(moved[cut:]) if cut else 0.0,
        gathered=GHOSTS * F64 * levels[cut].rows if cut else 0.0,
        sent=GHOSTS * F64 * sum(level.slots for level in levels),
        levels=(cut, len(levels) - cut),
        host=HOST,
        rounds=cut,
        messages=near * cut,
        questions=QUESTIONS * (cut > 0),
        tables=int(cut > 0),
    )
