"""HPCG's V-cycle as a preconditioner."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, final

from dsolver.benchmarks.hpcg.levels import HPCG_LEVELS, MakeLevels, partitions
from dsolver.distributed.forecast import I32, Part
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.kernels.contract import SUBTRACT_HALO, TIMES_HALO
from dsolver.kernels.formats import hpcg
from dsolver.kernels.formats.layout import SLICE
from dsolver.multigrid.coarse_solve import Coarsest
from dsolver.multigrid.cycle import MultigridCycle
from dsolver.multigrid.level import Step
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Preconditioner, Site
from dsolver.preconditioners.builder import Builder
from dsolver.problems import Problem

REACHED: Final = 0.915  # the part of a GPU's bandwidth at which an iteration moves its bytes: H200, docs/performance.md
HEADER_BYTES: Final = 16
"""Bytes of each slice on a GPU: where it is, and where its entries at coarse points begin, as everywhere in 4 more."""


@final
@dataclass(frozen=True, kw_only=True)
class Hpcg(Preconditioner):
    """One V-cycle of the HPCG benchmark, four levels with injection between them: ``"hpcg"``."""

    can: ClassVar[Capabilities] = Capabilities(batched=True, lowered=True, multilevel=True)
    kernel_kind: ClassVar[str] = "hpcg"
    levels: int = HPCG_LEVELS  # how many; the extents of every chunk must be divisible by 2 for each but the last

    def __post_init__(self) -> None:
        object.__setattr__(self, "divisor", 2 ** (self.levels - 1))

    def check(self, problem: Problem, partition: Partition) -> None:
        """Refuse rows that differ, periodic grids and chunks that cannot be halved so often."""
        if not problem.constant or any(problem.periodic):
            raise InputError(
                f"HPCG's V-cycle needs a stencil that is the same in all rows on a grid that is not periodic, which "
                f"{problem.name} is not: use another preconditioner"
            )
        for axis, extents in zip("xyz", partition.sizes, strict=True):
            bad = sorted({n for n in extents if n % self.divisor})
            if bad:
                raise InputError(
                    f"{sum(extents)} points along {axis} in {len(extents)} chunks make chunks of {bad[0]} points along "
                    f"{axis} that are not divisible by {self.divisor}, which {self.levels} multigrid levels need: "
                    f"choose a grid and chunks so that every chunk is"
                )

    def build(self, builder: Builder) -> Built:
        """All levels; A is the finest one, or one more in float64."""
        exact = builder.stored(compact=True) if builder.lowered else None
        make = MakeLevels(
            problem=builder.problem,
            partitions=partitions(builder.partition, self.levels),
            order=builder.order,
            diagonal=builder.diagonal,
        )
        chunks = builder.per_chunk(make)
        levels = [chunks.at(depth) for depth in range(self.levels)]
        return (levels[0] if exact is None else exact), levels

    def on(self, site: Site) -> MultigridCycle:
        """The V-cycle."""
        return cycle(site.engine, site.levels)

    def forecast(self, part: Part) -> Forecast:
        """The V-cycle's half sweeps; see `HpcgStep`."""
        levels, value = [part.stored(partition) for partition in partitions(part.partition, self.levels)], part.value
        steps = list(pairwise(levels))
        moved = levels[-1].stored(value) + 6 * value * levels[-1].rows
        for fine, coarse in steps:
            fine.way = I32 * (fine.size + coarse.size)
            # The halves of the pre-smoother and r, d, x; d, x, x, e. Those of the post-smoother, the entries at coarse
            # points, of which a row has an eighth, and r, d, e, x, w; d, w, x.
            moved += 2 * fine.stored(value) + value * (15 * fine.rows + fine.entries // 8 + coarse.rows)
            # The lower entries of coarse rows, e, the map and the coarse right-hand side; then the correction.
            moved += value * (fine.entries // 8 + fine.rows + 3 * coarse.rows) + 2 * I32 * coarse.rows
        shared = sum(fine.halo_matrix // 4 for fine, _ in steps)
        for level in levels:
            level.way += (I32 + part.cuda * HEADER_BYTES) * level.size // SLICE
        return Forecast(
            levels=levels,
            exact=part.exact(levels[0], compact=True),
            vectors=sum(value * (3 * fine.size + 2 * fine.boundary + 2 * coarse.size) for fine, coarse in steps),
            slots=[slots for fine, _ in steps for slots in (fine.slots, fine.slots // 4)],
            shared=shared,
            moved=moved,
            reached=REACHED,
        )

    def iterations(self, alone: float, rtol: float) -> float:
        """Measured at 64³."""
        return 0.29 * alone


class HpcgStep(Step):
    """A level's part: injection to the next coarser level, one SymGS before and one after.

    Chunks are coupled as in block Jacobi: a halo is exchanged before a SymGS and frozen during its two sweeps
    (Dongarra, Heroux, Luszczek, HPCG 3.1; the half sweeps are derived in docs/theory.md).

    Args:
        fine: the `HpcgLevel` of every chunk.
        coarse: that of the next coarser level.
        keeps: whether r is to be as it was after `ascend`: on the finest level, where the caller still needs it.
    """

    def __init__(self, engine: Engine, fine: PerChunk, coarse: PerChunk, *, keeps: bool) -> None:
        self._engine, self._keeps = engine, keeps
        layout, self._local, self._ghost = fine.at("layout"), fine.at("local"), fine.at("ghost")
        self._transfer, self._correction_matrix = fine.at("transfer"), fine.at("correction_matrix")
        self._halo, self._correction = engine.halo(fine.at("halo")), engine.halo(fine.at("correction"))
        # What the half sweeps keep, (U x)/d and the prolonged correction, and their work space; the right-hand side at
        # the boundary rows, and what the halo adds there.
        self._e, self._c, self._w = (engine.field(layout) for _ in range(3))
        self._kept, self._product = (engine.field(self._ghost) for _ in range(2))
        self.rc, self.xc = (engine.field(coarse.at("layout")) for _ in range(2))

    def descend(self, r: Field, x: Field) -> None:
        """See `Step`. What the halo of the smoothed x adds is subtracted from r at the boundary rows, in place.

        It travels beside the restriction.
        """
        engine = self._engine
        if not engine.coupled:
            engine.run(hpcg.PRESMOOTH_RESTRICT, self._local, self._transfer, r, x, self._e, self.rc)
            return
        engine.run(hpcg.PRESMOOTH, self._local, r, x, self._e)
        engine.exchange(x, self._halo)
        engine.run_after(self._halo, TIMES_HALO, self._ghost, self._halo, self._product)
        engine.run(hpcg.RESTRICT, self._local, self._transfer, r, x, self._e, self.rc)
        engine.run(hpcg.RESIDUAL_HALO, self._ghost, self._transfer, self._product, r, self.rc, self._kept)

    def ascend(self, r: Field, x: Field) -> None:
        """See `Step`. Of the smoother's halo the coarse solution's part is left: an eighth of the points.

        It travels beside the prolongation.
        """
        engine = self._engine
        if not engine.coupled:
            engine.run(hpcg.PROLONG_POSTSMOOTH, self._local, self._transfer, r, self.xc, self._e, x, self._c, self._w)
            return
        engine.exchange(self.xc, self._correction)
        engine.run_after(self._correction, SUBTRACT_HALO, self._correction_matrix, self._correction, r)
        engine.run(hpcg.PROLONG, self._transfer, self.xc, self._c)
        engine.run(hpcg.POSTSMOOTH, self._local, r, self._c, self._e, x, self._w)
        if self._keeps:
            engine.run(hpcg.RESTORE, self._ghost, self._kept, r)


class SymmetricSweep(Coarsest):
    """One SymGS from zero; local: the entries of every chunk in own columns."""

    def __init__(self, engine: Engine, local: PerChunk) -> None:
        self._engine, self._local = engine, local

    def apply(self, r: Field, x: Field) -> None:
        """x = M r."""
        self._engine.run(hpcg.SYMGS, self._local, r, x)


def cycle(engine: Engine, levels: Sequence[PerChunk]) -> MultigridCycle:
    """HPCG's V-cycle; levels: the `HpcgLevel` of every chunk for each level, finest first."""
    steps = [HpcgStep(engine, *pair, keeps=depth == 0) for depth, pair in enumerate(pairwise(levels))]
    return MultigridCycle(steps, SymmetricSweep(engine, levels[-1].at("local")))
