"""The levels of a multigrid hierarchy, built on an engine from the finest level's matrix rows.

Everything follows from the rows: no boundary condition, mask or spacing is special here. For each level of a lattice
the rows around a chunk are exchanged once; interpolation and the coarser level's rows are then each owner's own work.
Where a lattice says little of a level, the levels below it are algebraic.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.box import BOX_OFFSETS
from dsolver.grid.coarse_grid import CoarseGrid
from dsolver.kernels import DENSE_ROWS
from dsolver.kernels.deferred import Foresight
from dsolver.kernels.formats.checkered.parities import fits
from dsolver.kernels.formats.stencil.constant import ConstantStencil
from dsolver.kernels.lattice.coarsening import offsets_below
from dsolver.multigrid.algebraic.lattice.choice import leaves_lattice, leaves_lattice_at_once
from dsolver.multigrid.algebraic.lattice.levels import below_lattice
from dsolver.multigrid.coarse_solve import lattice_inverse
from dsolver.multigrid.correction import StoredTransfer
from dsolver.multigrid.finest_rows import FinestRows, foreseen
from dsolver.multigrid.geometric import assembly
from dsolver.multigrid.geometric.constant_star import chunk_passes, star_of
from dsolver.multigrid.geometric.ghost_rows import ghosted_rows
from dsolver.multigrid.geometric.matrix_statistics import coarsening_factors, is_rough
from dsolver.multigrid.geometric.star_layers import StarPasses
from dsolver.multigrid.geometric.transfer import chunk_transfer, column_order, without_weights
from dsolver.multigrid.level import Level, Transfer
from dsolver.multigrid.replicate import Replication, replicated_rows, replication

THIN_ROWS: Final = 64**3
"""Most rows of a level that is made whole on every owner because chunks are thin where couplings are strong."""


def build(
    engine: Engine, take: Callable[[], FinestRows], dtype: str = "float64", sweeps: int | None = None
) -> list[Level]:
    """All levels, finest first.

    `take`: gives the rows of that level; once more where set-up has foreseen what is not so. `sweeps`: of the finest
    level before and after the coarse correction; None for 1 where it is not rough, else for 1 or 2.
    """
    return foreseen(lambda: _levels(engine, take, dtype, sweeps))


def _levels(engine: Engine, take: Callable[[], FinestRows], dtype: str, sweeps: int | None) -> list[Level]:
    rows = take()
    with rows.foreseeing(engine, "levels", dtype, sweeps) as foresight:
        coarsening = _Coarsening(engine, rows, dtype, sweeps, foresight)
        del rows  # rows are most of what set-up needs: those of a level go as soon as they are not read any more
        while not coarsening.ended():
            coarsening.descend()
    return coarsening.levels


class _Coarsening:
    """A hierarchy under way: the levels that are there, finest first, and the rows that the next one is made from."""

    def __init__(self, engine: Engine, rows: FinestRows, dtype: str, sweeps: int | None, foresight: Foresight) -> None:
        self.levels: list[Level] = []
        self._foresight = foresight
        self._dtype, self._singular, self._constant = dtype, rows.singular, rows.constant
        self._engine, self._view = engine, engine if dtype == "float64" else engine.lowered(dtype)
        self._partition, self._offsets, self._weights = rows.chunks, rows.offsets, rows.weights
        self._at_once = not (rows.constant or rows.lattice) and leaves_lattice_at_once(
            engine, self._partition, rows.offsets, rows.weights, masked=rows.masked
        )
        found = rows.looked_at(self._view, stored=self._at_once)  # sweeps that follow couplings read stored rows
        self._layout = found.at("layout")
        self._stencil: tuple[PerChunk, ...] = (found.at("stencil"),)
        self._star = star_of(engine, self._partition, *self._stencil)
        self._add()
        if rows.raised is not None:
            self._raise(rows.raised)
        varies = not rows.constant and self._star is None
        if varies and is_rough(engine, rows.offsets, self._weights, rows.jumping):
            self.levels[0] = replace(self.levels[0], rough=True)
        self._swept_once = sweeps == 1 or (sweeps is None and not self.levels[0].rough)

    @property
    def _depth(self) -> int:
        """The last level's number."""
        return len(self.levels) - 1

    def _where(self, depth: int) -> dict[str, Any]:
        """A level's number, and the last level's chunks and what their rows read."""
        return {"depth": depth, "partition": self._partition, "offsets": self._offsets}

    def _add(self) -> None:
        """Add the level of the rows that are there; the finest one in float64, as A is."""
        depth = len(self.levels)
        engine = self._view if depth else self._engine
        make = partial(assembly.chunk_matrix, **self._where(depth), swept=engine is self._view)
        chunks = engine.per_chunk(make, self._layout, self._weights, *self._stencil).at(depth)
        level = Level(
            engine=self._view, partition=self._partition, offsets=self._offsets, layout=self._layout, chunks=chunks
        )
        self.levels.append(level)

    def _narrow(self) -> None:
        """Give the finest level the value type of the others, once its rows are gone: beside them is least room."""
        if self._depth or self._view is self._engine:
            return
        (level,) = self.levels
        chunks = self._view.per_chunk(partial(assembly.narrowed_matrix, depth=0), level.chunks, *self._stencil).at(0)
        self.levels = [replace(level, chunks=chunks, original=level.exact)]

    def _raise(self, factors: PerChunk) -> None:
        """Multiply the finest level's diagonal, of which the problem's own matrix is kept."""
        (level,) = self.levels
        raised = self._engine.per_chunk(assembly.raised_matrix, level.chunks, factors).at(0)
        self.levels = [replace(level, chunks=raised, original=level.chunks)]
        self._weights = self._engine.per_chunk(
            partial(assembly.raised_rows, offsets=self._offsets), self._weights, factors
        )

    def ended(self) -> bool:
        """Whether all levels are there: the last one can be inverted, or those below it need no lattice."""
        if len(self._partition) == 1 and self._partition.domain.points <= DENSE_ROWS[self._engine.kernels]:
            self._narrow()
            invert = partial(lattice_inverse, singular=self._singular, **self._where(self._depth))
            inverse = self._view.per_chunk(invert, self._layout, self._weights).at(self._depth)
            self.levels[-1] = replace(self.levels[-1], inverse=inverse)
            return True
        if not self._by_couplings():
            return False
        self._narrow()
        level, depth = self.levels[-1], self._depth
        self._foresight.confirm()  # what follows multiplies by what is there
        rest = below_lattice(self._engine, level, self._weights, depth, self._dtype, singular=self._singular)
        self.levels[-1:] = rest or self.levels[-1:]
        return bool(rest)

    def _by_couplings(self) -> bool:
        """Whether coarse points of the last level should be chosen by couplings."""
        if self._depth == 0:
            return self._at_once
        return self.levels[0].rough and leaves_lattice(self._engine, self._offsets, self._weights)

    def descend(self) -> None:
        """Make the transfer from the last level, and the level that it leads to."""
        depth, view = self._depth, self._view
        below = self._below()
        star = self._star if below.factors == (2, 2, 2) else None
        made = self._stored_transfer(below) if star is None else self._star_passes(below, star)
        self._weights, self._layout = made.at("weights"), made.at("coarse")
        chunks = view.per_chunk(partial(without_weights, depth=depth), made).at(depth)
        del made
        self._narrow()  # before the engine may become that of a level that is replicated
        replicated = self._replicate(below, chunks) if below.replicated else None
        in_place = self._in_place(depth, below)
        order = None if in_place else self._view.per_chunk(column_order, self._layout, chunks.at("columns"))
        kind: type[Transfer] = StoredTransfer if star is None else StarPasses
        transfer = kind(chunks=chunks, order=order, replication=replicated)
        self.levels[-1] = replace(self.levels[-1], transfer=transfer)
        self._partition, self._offsets = below.partition, offsets_below(below.factors, self._offsets)
        self._constant, self._stencil = False, ()
        self._star = None
        self._add()

    def _below(self) -> CoarseGrid:
        """The next level's points.

        Chunks of one point along each axis that rows are strongly coupled along are gathered: side by side,
        Gauss-Seidel leaves (1, -1) nearly as it is.
        """
        factors = coarsening_factors(self._engine, self._partition, self._offsets, self._weights)
        strong = [max(along) for along, factor in zip(self._partition.sizes, factors, strict=True) if factor > 1]
        if max(strong, default=1) == 1 and self._partition.domain.points <= max(len(self._partition), THIN_ROWS):
            return CoarseGrid.same(self._partition)
        return CoarseGrid.of(self._partition, factors)

    def _star_passes(self, below: CoarseGrid, star: ConstantStencil) -> PerChunk:
        make = partial(chunk_passes, partition=self._partition, below=below, star=star)
        return self._view.per_chunk(make, self._layout).at(self._depth)

    def _stored_transfer(self, below: CoarseGrid) -> PerChunk:
        around = self._weights
        if not self._constant:
            around = ghosted_rows(self._engine, self._partition, around, self._offsets, below.factors)
        del self._weights
        half = (self._swept_once or self._depth > 0) and not self._engine.coupled
        in_place = self._in_place(self._depth, below)
        make = partial(chunk_transfer, below=below, half=half, in_place=in_place, **self._where(self._depth))
        return self._view.per_chunk(make, self._layout, around).at(self._depth)

    def _in_place(self, depth: int, below: CoarseGrid) -> bool:
        """Whether the transfer from a level reads the next one's solution in the storage order of that level.

        Those of a GPU do between levels of eight colors that are swept once in one chunk, where such colors fit.
        """
        fine = self._partition
        known = depth > 0 and self._engine.kernels == "cuda" and len(fine) == 1 and not below.replicated
        return known and fits(fine.grid, fine.periodic, below.factors)

    def _replicate(self, below: CoarseGrid, chunks: PerChunk) -> Replication:
        """Let the next level live whole on every owner."""
        alone = self._engine.alone(below.partition.grid)
        narrow = alone if self._dtype == "float64" else alone.lowered(self._dtype)
        self._layout = alone.per_chunk(partial(assembly.chunk_layout, partition=below.partition, offsets=BOX_OFFSETS))
        count = len(offsets_below(below.factors, self._offsets))
        self._weights = replicated_rows(self._engine, alone, below, self._weights, count)
        made = replication(self._view, narrow, below, chunks.at("coarse"), self._layout)
        self._engine, self._view = alone, narrow
        return made
