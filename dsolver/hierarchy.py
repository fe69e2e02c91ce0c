"""The levels of a multigrid hierarchy, built on an engine from the finest level's matrix rows.

Everything follows from the rows: no boundary condition, mask or spacing is special here. For each level the rows around
a chunk are exchanged once; interpolation and the coarser level's rows are then each owner's own work.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, Final, final

from dsolver import algebraic
from dsolver.constant import MakeFinest
from dsolver.descents import MakeDescent, WithoutWeights, in_order
from dsolver.engines.base import Engine, PerChunk
from dsolver.gathering import Gathering, gathered_rows
from dsolver.gridlevels import MakeInverse, MakeLayout, MakeLevel, RaisedRows, raised_level
from dsolver.grids import Coarse, partition_of
from dsolver.kernels import DENSE_ROWS
from dsolver.kernels.stencil import ConstantStencil
from dsolver.partition import BOX_OFFSETS, Offsets, Partition
from dsolver.roughness import is_rough
from dsolver.semicoarsening import factors_of
from dsolver.star_descents import MakeStarDescent, star_of
from dsolver.surroundings import surrounded_rows

THIN_ROWS: Final = 64**3
"""Rows of a level at most that is made whole on every owner because chunks are thin where couplings are strong."""


@final
class Level:
    """One level: the engine that runs it, its matrix, and the way to the next coarser one.

    Attributes:
        engine: of the level's chunks.
        partition: its chunks.
        offsets: of its rows.
        chunks: the `GridLevel` of every chunk.
        inverse: a `DenseInverse` on the coarsest level, else None.
        descent: the `Descent` of every chunk, None on the coarsest level.
        star: whether that is a `dsolver.star_descents.StarDescent` instead.
        exact: of the finest level, `chunks` with the problem's own matrix; theirs may have a raised diagonal.
        algebraic: whether the level has no lattice: `chunks` and `descent` are its `dsolver.algebraic.AlgebraicLevel`.
        gathering: where the next level lives whole on every owner while this one is distributed, else None.
        in_order: from the next level's storage order to the lattice's, on that level's engine.
        rough: on the finest level, whether its coefficients are; see `dsolver.roughness`.
    """

    def __init__(self, engine: Engine, partition: Partition, offsets: Offsets, chunks: PerChunk) -> None:
        self.engine = engine
        self.partition = partition
        self.offsets = offsets
        self.chunks = chunks
        self.exact = chunks
        self.inverse: PerChunk | None = None
        self.descent: PerChunk | None = None
        self.star = False
        self.algebraic = False
        self.gathering: Gathering | None = None
        self.in_order: PerChunk | None = None
        self.rough = False

    def batched(self, width: int) -> Level:
        """The same for vectors of so many columns."""
        view = self.engine.batched(width)
        assert view is not None
        made = copy(self)
        made.engine = view
        made.gathering = None if self.gathering is None else self.gathering.on(view)
        return made


@final
@dataclass(frozen=True, kw_only=True)
class Rows:
    """The finest level's rows of the matrix.

    Attributes:
        partition: the chunks.
        offsets: of the columns.
        weights: float64 (K rows,) of every chunk, offset after offset in lattice order, or (K,) for a constant stencil.
        constant: whether it is one.
        masked: whether cells are left out.
        singular: whether the vector of ones on all rows is in the null space; if masked, on those of cells that are not
            left out.
        raised: what the levels' diagonal is multiplied by, a block for each chunk, so that nothing of the kind is left
            of regions of rows; None for ones.
    """

    partition: Partition
    offsets: Offsets
    weights: PerChunk
    constant: bool
    masked: bool = False
    singular: bool = False
    raised: PerChunk | None = None

    def look(self) -> MakeFinest:
        """What looks at a chunk's rows."""
        partition = partition_of(self.partition.grid, self.partition.sizes, self.partition.periodic)
        return MakeFinest(partition=partition, offsets=self.offsets, stored=self.raised is not None)


def finest(engine: Engine, rows: Rows) -> PerChunk:
    """The finest `GridLevel` of every chunk, in the storage order that `build` chooses, by itself."""
    partition = partition_of(rows.partition.grid, rows.partition.sizes, rows.partition.periodic)
    found = engine.per_chunk(rows.look(), rows.weights)
    make = MakeLevel(depth=0, partition=partition, offsets=rows.offsets)
    return engine.per_chunk(make, found.at("layout"), rows.weights, found.at("stencil")).at(0)


def build(engine: Engine, rows: Rows, dtype: str = "float64") -> list[Level]:
    """All levels, finest first.

    Args:
        engine: of the finest level's chunks, in float64.
        rows: of that level.
        dtype: the value type of what is built. Coarse rows are computed in float64 all the same.
    """
    coarsening = _Coarsening(engine, rows, dtype)
    del rows  # rows are most of what set-up needs: those of a level go as soon as nobody reads them any more
    while not coarsening.ended():
        coarsening.descend()
    return coarsening.levels


@final
class _Coarsening:
    """Levels under way: those that are there, and the rows that the next one is made from.

    Attributes:
        levels: finest first. All but the last one have their descent.
    """

    def __init__(self, engine: Engine, rows: Rows, dtype: str) -> None:
        self.levels: list[Level] = []
        self._dtype, self._singular, self._constant = dtype, rows.singular, rows.constant
        self._engine, self._view = engine, engine if dtype == "float64" else engine.lowered(dtype)
        self._partition = partition_of(rows.partition.grid, rows.partition.sizes, rows.partition.periodic)
        self._offsets, self._weights = rows.offsets, rows.weights
        found = self._view.per_chunk(rows.look(), rows.weights)
        self._layout = found.at("layout")
        self._stencil: tuple[PerChunk, ...] = (found.at("stencil"),)
        self._at_once = not rows.constant and algebraic.wanted_at_once(
            engine, self._partition, rows.offsets, rows.weights, masked=rows.masked
        )
        self._add(rows.raised)
        self.levels[0].rough = not rows.constant and is_rough(engine, rows.offsets, self._weights)

    @property
    def _depth(self) -> int:
        """The last level's number."""
        return len(self.levels) - 1

    @property
    def _where(self) -> dict[str, Any]:
        """What all makers of the last level are told of it."""
        return {"depth": self._depth, "partition": self._partition, "offsets": self._offsets}

    def _add(self, raised: PerChunk | None = None) -> None:
        """The level of the rows that are there; `raised` as in `Rows`, of the finest one."""
        depth, offsets = len(self.levels), self._offsets
        make = MakeLevel(depth=depth, partition=self._partition, offsets=offsets)
        chunks = self._view.per_chunk(make, self._layout, self._weights, *self._stencil).at(depth)
        level = Level(self._view, self._partition, offsets, chunks)
        if raised is not None:
            self._weights = self._engine.per_chunk(RaisedRows(offsets=offsets), self._weights, raised)
            level.chunks = self._view.per_chunk(raised_level, chunks, raised).at(depth)
        self.levels.append(level)

    def ended(self) -> bool:
        """Whether the last level is the coarsest: one that can be inverted, or whose rest needs no lattice."""
        level, alone = self.levels[-1], len(self._partition) == 1
        if alone and self._partition.domain.points <= DENSE_ROWS[self._engine.kernels]:
            invert = MakeInverse(singular=self._singular, **self._where)
            made = self._view.per_chunk(invert, self._layout, self._weights)
            level.inverse = made.at(self._depth)
            return True
        if self._by_couplings(alone):
            last = DENSE_ROWS[self._engine.kernels]
            make = algebraic.MakeAlgebraic(last=last, singular=self._singular, **self._where)
            made = self._view.per_chunk(make, self._layout, self._weights)
            rest = _algebraic(self._engine, self._view, level, self._depth, made)
            self.levels += rest
            self._at_once = False
            return bool(rest)
        return False

    def _by_couplings(self, alone: bool) -> bool:
        """Whether coarse points of the last level should be chosen by couplings."""
        if self._at_once and alone:
            return True
        late = self.levels[0].rough and len(self.levels) > 1
        return late and algebraic.wanted(self._engine, self._partition, self._offsets, self._weights)

    def descend(self) -> None:
        """The way down from the last level, and the level there."""
        level, depth, view = self.levels[-1], self._depth, self._view
        below = self._below()
        star = star_of(self._engine, self._partition, below, *self._stencil) if self._stencil else None
        level.star = star is not None
        descent = self._stored_descent(below) if star is None else self._star_descent(below, star)
        self._weights, self._layout = descent.at("weights"), descent.at("coarse")
        level.descent = view.per_chunk(WithoutWeights(depth=depth), descent).at(depth)
        del descent
        if below.gathered:
            self._gather(level, below)
        level.in_order = self._view.per_chunk(in_order, self._layout, level.descent.at("lattice"))
        self._partition, self._offsets, self._constant, self._stencil = below.partition, BOX_OFFSETS, False, ()
        self._add()

    def _below(self) -> Coarse:
        """The next level's points.

        Rows that are coarsened by couplings live whole on every owner, so those of several chunks are gathered first.
        So are chunks of one point along each axis that rows are strongly coupled along: side by side, Gauss-Seidel
        leaves (1, -1) nearly as it is.
        """
        if self._at_once and len(self.levels) == 1:
            return Coarse.same(self._partition)
        factors = factors_of(self._engine, self._partition, self._offsets, self._weights)
        strong = [max(along) for along, factor in zip(self._partition.sizes, factors, strict=True) if factor > 1]
        if max(strong, default=1) == 1 and self._partition.domain.points <= max(len(self._partition), THIN_ROWS):
            return Coarse.same(self._partition)
        return Coarse.of(self._partition, factors, early=self.levels[0].rough)

    def _star_descent(self, below: Coarse, star: ConstantStencil) -> PerChunk:
        make = MakeStarDescent(partition=self._partition, coarse=below, star=star)
        return self._view.per_chunk(make, self._layout).at(self._depth)

    def _stored_descent(self, below: Coarse) -> PerChunk:
        around = self._weights
        if not self._constant:
            around = surrounded_rows(self._engine, self._partition, around, len(self._offsets))
        del self._weights
        return self._view.per_chunk(MakeDescent(coarse=below, **self._where), self._layout, around).at(self._depth)

    def _gather(self, level: Level, below: Coarse) -> None:
        """The next level lives whole on every owner."""
        alone = self._engine.alone(below.partition.grid)
        narrow = alone if self._dtype == "float64" else alone.lowered(self._dtype)
        self._layout = alone.per_chunk(MakeLayout(partition=below.partition, offsets=BOX_OFFSETS))
        self._weights = gathered_rows(self._engine, alone, below, self._weights)
        assert level.descent is not None
        level.gathering = Gathering(self._view, narrow, below, level.descent, self._layout)
        self._engine, self._view = alone, narrow


def _algebraic(engine: Engine, view: Engine, first: Level, depth: int, made: PerChunk) -> list[Level]:
    """The levels below the first of those that `MakeAlgebraic` has made for a view; none where that gave up."""
    found = [made.at(depth + n) for n in range(algebraic.count_of(engine, made))]
    levels = [Level(view, first.partition, BOX_OFFSETS, chunks) for chunks in found[1:]]
    for level, way in zip((first, *levels), found[:-1], strict=False):
        level.descent, level.in_order = way, view.per_chunk(in_order, way.at("lattice"), way.at("lattice"))
    for level in levels:
        level.algebraic = True
    if levels:
        levels[-1].inverse = found[-1].at("inverse")
    return levels
