"""The levels of a multigrid hierarchy, built on an engine from the finest level's matrix rows.

Everything follows from the rows: no boundary condition, mask or spacing is special here. For each level the rows around
a chunk are exchanged once; interpolation and the coarser level's rows are then each owner's own work.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, final

from dsolver import algebraic
from dsolver.constant import MakeFinest, MakeStarDescent, knows_way
from dsolver.descents import MakeDescent, WithoutWeights, in_order
from dsolver.engines.base import Engine, PerChunk
from dsolver.gathering import Gathering, gathered_rows
from dsolver.gridlevels import MakeInverse, MakeLayout, MakeLevel, RaisedRows, raised_level
from dsolver.grids import Coarse, partition_of
from dsolver.partition import BOX_OFFSETS, Offsets, Partition
from dsolver.roughness import is_rough
from dsolver.semicoarsening import factors_of
from dsolver.surroundings import surrounded_rows


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
        star: whether that is a `dsolver.constant.StarDescent` instead.
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
        singular: whether the vector of ones on all rows is in the null space.
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
    offsets, weights, constant, singular = rows.offsets, rows.weights, rows.constant, rows.singular
    look, raised, masked = rows.look(), rows.raised, rows.masked
    partition = partition_of(rows.partition.grid, rows.partition.sizes, rows.partition.periodic)
    del rows  # rows are most of what set-up needs: those of a level go as soon as nobody reads them any more
    view = engine if dtype == "float64" else engine.lowered(dtype)
    found = view.per_chunk(look, weights)
    layout = found.at("layout")
    what: tuple[PerChunk, ...] = (found.at("stencil"),)
    levels: list[Level] = []
    pores = masked and algebraic.has_pores(engine, partition, offsets, weights)
    while True:
        depth = len(levels)
        where: dict[str, Any] = {"partition": partition, "offsets": offsets}
        chunks = view.per_chunk(MakeLevel(depth=depth, **where), layout, weights, *what).at(depth)
        level = Level(view, partition, offsets, chunks)
        if raised is not None:
            weights = engine.per_chunk(RaisedRows(offsets=offsets), weights, raised)
            level.chunks, raised = view.per_chunk(raised_level, chunks, raised).at(depth), None
        levels.append(level)
        level.rough = not levels[1:] and not constant and is_rough(engine, offsets, weights)
        if len(partition) == 1 and partition.domain.points <= engine.dense_rows:
            invert = MakeInverse(depth=depth, singular=singular, **where)
            level.inverse = view.per_chunk(invert, layout, weights).at(depth)
            return levels
        if (pores and len(partition) == 1) or (
            levels[0].rough and levels[1:] and algebraic.wanted(engine, partition, offsets, weights)
        ):
            make_rest = algebraic.MakeAlgebraic(depth=depth, last=engine.dense_rows, singular=singular, **where)
            if rest := _algebraic(engine, view, level, depth, view.per_chunk(make_rest, layout, weights)):
                return levels + rest
            pores = False
        # Rows that are coarsened by couplings live whole on every owner, so those of several chunks are gathered first.
        factors = (1, 1, 1) if pores and not levels[1:] else factors_of(engine, partition, offsets, weights)
        below = Coarse.of(partition, factors, early=levels[0].rough or pores)
        level.star = bool(what) and knows_way(engine, partition, below, *what)
        if level.star:
            descent = level.descent = view.per_chunk(MakeStarDescent(coarse=below), *what).at(depth)
        else:
            around = weights if constant else surrounded_rows(engine, partition, weights, len(offsets))
            del weights
            make = MakeDescent(depth=depth, coarse=below, **where)
            descent = level.descent = view.per_chunk(make, layout, around).at(depth)
            del around
        what = ()
        weights, layout = descent.at("weights"), descent.at("coarse")
        level.descent = view.per_chunk(WithoutWeights(depth=depth), descent).at(depth)
        del descent
        if below.gathered:
            alone = engine.alone(below.partition.grid)
            layout = alone.per_chunk(MakeLayout(partition=below.partition, offsets=BOX_OFFSETS))
            weights = gathered_rows(engine, alone, below, weights)
            narrow = alone if dtype == "float64" else alone.lowered(dtype)
            level.gathering = Gathering(view, narrow, below, level.descent, layout)
            engine, view = alone, narrow
        level.in_order = view.per_chunk(in_order, layout, level.descent.at("lattice"))
        partition, offsets, constant = below.partition, BOX_OFFSETS, False


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
