"""The levels of a multigrid hierarchy, built on an engine from the finest level's matrix rows.

Everything follows from the rows: no boundary condition, mask or spacing is special here. For each level the rows around
a chunk are exchanged once; interpolation and the coarser level's rows are then each owner's own work.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np

from dsolver import algebraic
from dsolver.constant import MakeFinest, MakeStarDescent, way_down
from dsolver.engines.base import Engine, Field, Halo, PerChunk
from dsolver.grids import (
    WIDE,
    Coarse,
    colored,
    direct_layout,
    halo_layout,
    in_lattice_order,
    numbered,
    partition_of,
    received,
    shell,
    stencil_rows,
    surrounded,
)
from dsolver.kernels.backend import Backend
from dsolver.kernels.coarsening import Coarsening
from dsolver.kernels.contract import COPY, DOT
from dsolver.kernels.layout import HaloLayout, Layout, Route
from dsolver.kernels.stencil import ConstantStencil
from dsolver.partition import Box, Offsets, Partition, Triple
from dsolver.problems import BOX_OFFSETS
from dsolver.roughness import is_rough

STRONG: Final = 0.5
"""An axis is coarsened when its couplings are at least this part of the strongest axis'."""


@final
@dataclass(frozen=True, kw_only=True)
class GridLevel:
    """One level of one chunk.

    Attributes:
        layout: the storage order of its rows.
        matrix: the local part of its rows, in the backend's form.
        halo: what it exchanges when A is applied.
        halo_matrix: what multiplies that halo.
    """

    layout: Layout
    matrix: Any
    halo: HaloLayout
    halo_matrix: Any


@final
@dataclass(frozen=True, kw_only=True)
class Descent:
    """The way of one chunk from a level to the next coarser one and back.

    Attributes:
        weights: float64 (27 coarse rows,), the coarser level's matrix rows, offset after offset.
        coarse: the storage order of the restricted residual: the coarser level's; lattice order where that is gathered.
        lattice: the lattice order of what is prolonged: the chunk's coarse points; where they are gathered, all.
        restriction: R, in own fine points.
        prolongation: P, in own coarse points, or in all where the level is gathered.
        residual_halo: what is exchanged of the residual before R is applied.
        restriction_halo: what multiplies that.
        solution_halo: what is exchanged of the coarser level's solution before P is applied; nothing where it is
            gathered.
        prolongation_halo: what multiplies that.
    """

    weights: Any
    coarse: Layout
    lattice: Layout
    restriction: Any
    prolongation: Any
    residual_halo: HaloLayout
    restriction_halo: Any
    solution_halo: HaloLayout
    prolongation_halo: Any


Numbered = tuple[Any, ...]
"""What is made for a level, at the level's number: engines tell people the number of what an operation belongs to."""


def _numbered(depth: int, made: Any) -> Numbered:
    return (*(None,) * depth, made)


# -- what is made on the owners ----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class MakeLayout:
    """Makes the storage order of a chunk's rows."""

    partition: Partition
    offsets: Offsets

    def __call__(self, backend: Backend, number: int) -> Layout:
        """The layout of a chunk; of the only one where a level lives whole on every owner."""
        return colored(backend, self.partition, self.partition[_own(self.partition, number)].box, self.offsets)


@final
@dataclass(frozen=True, kw_only=True)
class MakeLevel:
    """Makes a level of a chunk from its rows."""

    depth: int
    partition: Partition
    offsets: Offsets

    def __call__(
        self, backend: Backend, number: int, layout: Layout, weights: Any, stencil: ConstantStencil | None = None
    ) -> Numbered:
        """The `GridLevel` of a chunk: weights (K rows,), offset after offset, or (K,); what they are, if not stored."""
        number = _own(self.partition, number)
        rows = stencil_rows(backend.xp, self.partition, number, self.offsets, _by_offset(weights, self.offsets))
        made = GridLevel(
            layout=layout,
            matrix=backend.matrix(layout, rows, None) if stencil is None else backend.constant_matrix(stencil),
            halo=halo_layout(backend, layout, self.partition, number, self.offsets),
            halo_matrix=backend.halo_matrix(layout, rows),
        )
        backend.synchronize()
        return _numbered(self.depth, made)


@final
@dataclass(frozen=True, kw_only=True)
class MakeCouplings:
    """Makes the sums that tell which axes are worth coarsening."""

    offsets: Offsets

    def __call__(self, backend: Backend, _: int, weights: Any) -> tuple[Any, Any, Any]:
        """float64 (1,) for each of x, y, z."""
        sums = backend.couplings(self.offsets, _by_offset(weights, self.offsets))
        return sums[0:1], sums[1:2], sums[2:3]


def ones(backend: Backend, _: int) -> Any:
    """float64 (1,)."""
    return backend.xp.ones(1)


@final
@dataclass(frozen=True, kw_only=True)
class MakeShell:
    """Packs the rows that the neighbors need."""

    partition: Partition

    def __call__(self, backend: Backend, number: int, weights: Any) -> Any:
        """float64, neighbor after neighbor."""
        nx, ny, nz = self.partition[number].box.shape
        values = weights.reshape(-1, nz, ny, nx)
        parts = [part.reshape(-1) for _, found in shell(self.partition, number, values) for part in found]
        return backend.xp.concatenate(parts) if parts else backend.xp.zeros(0)


@final
@dataclass(frozen=True, kw_only=True)
class MakeShellPlan:
    """Makes the plan by which shells are exchanged; count is the number of values of a point."""

    partition: Partition
    count: int

    def __call__(self, backend: Backend, number: int) -> HaloLayout:
        """The plan of a chunk."""
        sends = [
            (neighbor, dict(received(self.partition, neighbor, self.count))[number])
            for neighbor in self.partition.neighbors(number, WIDE)
        ]
        return direct_layout(backend, sends, received(self.partition, number, self.count))


@final
@dataclass(frozen=True, kw_only=True)
class MakeSurrounded:
    """Puts a chunk's rows and what came from the neighbors into one array."""

    partition: Partition

    def __call__(self, backend: Backend, number: int, weights: Any, halo: Any = None) -> Any:
        """float64 (K, nz + 4, ny + 4, nx + 4)."""
        number = _own(self.partition, number)
        nx, ny, nz = self.partition[number].box.shape
        return surrounded(backend, self.partition, number, weights.reshape(-1, nz, ny, nx), halo)


@final
@dataclass(frozen=True, kw_only=True)
class MakeDescent:
    """Makes a chunk's way to the coarser level from the rows in and around it."""

    depth: int
    partition: Partition
    offsets: Offsets
    coarse: Coarse

    def __call__(self, backend: Backend, number: int, layout: Layout, weights: Any) -> Numbered:
        """The `Descent` of a chunk whose rows have this layout; weights as from `MakeSurrounded`, or (K,)."""
        number = _own(self.partition, number)
        xp, below = backend.xp, self.coarse
        whole = below.gathered
        box, coarse_box = self.partition[number].box, below.boxes[number]
        made = Coarsening(
            lo=box.lo,
            shape=box.shape,
            grid=self.partition.grid,
            periodic=self.partition.periodic,
            factors=below.factors,
        )
        p = backend.interpolation(made, self.offsets, weights)
        rows = backend.galerkin(made, self.offsets, weights, p)
        coarse_number = 0 if whole else number
        around = numbered(xp, below.partition, coarse_number, BOX_OFFSETS)
        if whole:
            target = in_lattice_order(backend, coarse_box.shape)
        else:
            target = colored(backend, below.partition, coarse_box, BOX_OFFSETS)
        lattice = in_lattice_order(backend, below.partition[coarse_number].box.shape)
        reads = numbered(xp, self.partition, number, BOX_OFFSETS)
        restriction = backend.restriction(made, p, reads)
        restrict = backend.product(target, layout, restriction, in_order=True)
        restrict_halo = backend.halo_product(target, layout, restriction)
        del restriction
        prolongation = backend.prolongation(made, p, around, coarse_box.lo if whole else (0, 0, 0))
        del p  # what follows is when set-up needs most
        prolong = backend.product(layout, lattice, prolongation, in_order=False)
        prolong_halo = backend.halo_product(layout, lattice, prolongation)
        no_halo = backend.halo_layout(target, [], [])
        descent = Descent(
            weights=rows.reshape(-1),
            coarse=target,
            lattice=lattice,
            restriction=restrict,
            prolongation=prolong,
            residual_halo=halo_layout(backend, layout, self.partition, number, BOX_OFFSETS),
            restriction_halo=restrict_halo,
            solution_halo=no_halo if whole else halo_layout(backend, target, below.partition, number, BOX_OFFSETS),
            prolongation_halo=prolong_halo,
        )
        backend.synchronize()
        return _numbered(self.depth, descent)


@final
@dataclass(frozen=True, kw_only=True)
class WithoutWeights:
    """Makes a way to the coarser level that does not hold that level's rows, which are needed at set-up alone."""

    depth: int

    def __call__(self, _: Backend, __: int, descent: Any) -> Numbered:
        """Of a chunk."""
        return _numbered(self.depth, replace(descent, weights=None))


@final
@dataclass(frozen=True, kw_only=True)
class MakeGatherPlan:
    """Makes the plan by which every host gets what all other chunks have.

    Attributes:
        hosts: the chunks that receive.
        sizes: how many items each chunk has.
    """

    hosts: tuple[int, ...]
    sizes: tuple[int, ...]

    def __call__(self, backend: Backend, number: int, rows: Layout | None = None) -> HaloLayout:
        """The plan of a chunk; its vector has rows in lattice order, or without a layout nothing else."""
        others = [host for host in self.hosts if host != number]
        sends = [(host, self.sizes[number]) for host in others]
        receives = [(n, size) for n, size in enumerate(self.sizes) if n != number] if number in self.hosts else []
        direct = direct_layout(backend, sends, receives)
        own = backend.xp.arange(self.sizes[number], dtype=np.int32) if rows is None else rows.position
        repeated = backend.xp.tile(own, len(others)) if others else own[:0]
        items = self.sizes[number] if rows is None else rows.size
        return replace(direct, send_rows=repeated, items=items)


@final
@dataclass(frozen=True, kw_only=True)
class MakeGathered:
    """Puts the rows of all chunks into one array.

    Attributes:
        boxes: of the chunks.
        grid: of the whole.
    """

    boxes: tuple[Box, ...]
    grid: Triple

    def __call__(self, backend: Backend, host: int, own: Any, halo: Any) -> Any:
        """float64 (27 rows of the whole level,)."""
        nx, ny, nz = self.grid
        out = backend.xp.empty((len(BOX_OFFSETS), nz, ny, nx))
        first = backend.guard
        for number, box in enumerate(self.boxes):
            x, y, z = box.slices
            place = out[:, z, y, x]
            if number == host:
                place[...] = own.reshape(place.shape)
            else:
                place[...] = halo[first : first + place.size].reshape(place.shape)
                first += place.size
        return out.reshape(-1)


@final
@dataclass(frozen=True, kw_only=True)
class MakeRoutes:
    """Makes the routes by which a gathered vector comes into its storage order: of own items, and of received ones."""

    boxes: tuple[Box, ...]
    grid: Triple

    def __call__(self, backend: Backend, host: int, own: Layout, whole: Layout) -> tuple[Route, Route]:
        """Own items have the layout `own`; received ones follow each other behind the guard."""
        xp, domain = backend.xp, Box(lo=(0, 0, 0), hi=self.grid)
        rows = [xp.asarray(domain.rows_of(box)) for box in self.boxes]
        others = [r for number, r in enumerate(rows) if number != host]
        theirs = xp.concatenate(others) if others else rows[host][:0]
        routes = (
            backend.route(own.position, whole.position[rows[host]]),
            backend.route(backend.guard + xp.arange(len(theirs)), whole.position[theirs]),
        )
        backend.synchronize()  # kernels read routes before they wait for earlier launches
        return routes


def in_order(backend: Backend, _: int, layout: Layout, lattice: Layout) -> Route:
    """From storage order to lattice order."""
    route = backend.route(layout.position, lattice.position)
    backend.synchronize()  # kernels read routes before they wait for earlier launches
    return route


@final
@dataclass(frozen=True, kw_only=True)
class MakeInverse:
    """Makes the inverse of a level that is one chunk; of a singular one, but for what rounding has made of its zero."""

    depth: int
    partition: Partition
    offsets: Offsets
    singular: bool

    def __call__(self, backend: Backend, _: int, layout: Layout, weights: Any) -> Numbered:
        """A `DenseInverse`."""
        rows = stencil_rows(backend.xp, self.partition, 0, self.offsets, _by_offset(weights, self.offsets))
        inverse = backend.dense_inverse(layout, backend.dense_matrix(rows), singular=self.singular)
        backend.synchronize()
        return _numbered(self.depth, inverse)


def _by_offset(weights: Any, offsets: Offsets) -> Any:
    """Weights as `StencilRows` has them: (K, rows), or (K,) for a constant stencil."""
    return weights if weights.size == len(offsets) and weights.ndim == 1 else weights.reshape(len(offsets), -1)


def _own(partition: Partition, number: int) -> int:
    """The chunk's number; where a level lives whole on every owner, the number of its only chunk."""
    return 0 if len(partition) == 1 else number


# -- what an algorithm sees --------------------------------------------------------------------------------------------


@final
class Gathering:
    """How the distributed vectors of a coarse level become one that every owner has.

    Args:
        engine: of the chunks.
        alone: of the whole.
        below: the level.
        descent: the `Descent` of every chunk.
        layout: the storage order of the whole.
    """

    def __init__(self, engine: Engine, alone: Engine, below: Coarse, descent: PerChunk, layout: PerChunk) -> None:
        self._plan = gathering_plan(engine, [box.points for box in below.boxes], descent.at("coarse"))
        self.halo = engine.halo(*self._plan)
        routes = alone.per_chunk(MakeRoutes(boxes=below.boxes, grid=below.partition.grid), descent.at("coarse"), layout)
        self.own, self.others = routes.at(0), routes.at(1)

    def on(self, view: Engine) -> Gathering:
        """The same for vectors of a view of the engine."""
        made = copy(self)
        made.halo = view.halo(*self._plan)
        return made


def gathering_halo(engine: Engine, sizes: Sequence[int]) -> Halo:
    """Room on every host for what all other chunks have, in vectors that hold nothing else."""
    return engine.halo(*gathering_plan(engine, sizes))


def gathering_plan(engine: Engine, sizes: Sequence[int], *layout: PerChunk) -> tuple[PerChunk, list[list[int]]]:
    """How every host gets what all other chunks have, and from whom; layout: of the vectors, if they hold more."""
    hosts = tuple(engine.hosts)
    plan = engine.per_chunk(MakeGatherPlan(hosts=hosts, sizes=tuple(sizes)), *layout)
    chunks = range(len(sizes))
    return plan, [[c for c in chunks if c != number] if number in hosts else [] for number in chunks]


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
        singular: whether a vector of ones, on all rows or on a region of them, is in the null space.
    """

    partition: Partition
    offsets: Offsets
    weights: PerChunk
    constant: bool
    singular: bool = False


def finest(engine: Engine, rows: Rows) -> PerChunk:
    """The finest `GridLevel` of every chunk, in the storage order that `build` chooses, by itself."""
    partition = partition_of(rows.partition.grid, rows.partition.sizes, rows.partition.periodic)
    found = engine.per_chunk(MakeFinest(partition=partition, offsets=rows.offsets), rows.weights)
    make = MakeLevel(depth=0, partition=partition, offsets=rows.offsets)
    return engine.per_chunk(make, found.at("layout"), rows.weights, found.at("stencil")).at(0)


def build(engine: Engine, rows: Rows, dtype: str = "float64") -> list[Level]:
    """All levels, finest first.

    Args:
        engine: of the finest level's chunks, in float64.
        rows: of that level.
        dtype: the value type of what is built. Coarse rows are computed in float64 all the same.
    """
    offsets, weights, constant = rows.offsets, rows.weights, rows.constant
    partition = partition_of(rows.partition.grid, rows.partition.sizes, rows.partition.periodic)
    view = engine if dtype == "float64" else engine.lowered(dtype)
    found = view.per_chunk(MakeFinest(partition=partition, offsets=offsets), weights)
    layout = found.at("layout")
    what: tuple[PerChunk, ...] = (found.at("stencil"),)
    levels: list[Level] = []
    while True:
        depth = len(levels)
        where: dict[str, Any] = {"partition": partition, "offsets": offsets}
        chunks = view.per_chunk(MakeLevel(depth=depth, **where), layout, weights, *what).at(depth)
        level = Level(view, partition, offsets, chunks)
        levels.append(level)
        level.rough = not levels[1:] and not constant and is_rough(engine, offsets, weights)
        if len(partition) == 1 and partition.domain.points <= engine.dense_rows:
            invert = MakeInverse(depth=depth, singular=rows.singular, **where)
            level.inverse = view.per_chunk(invert, layout, weights).at(depth)
            return levels
        if levels[0].rough and levels[1:] and algebraic.wanted(engine, partition, offsets, weights):
            make_rest = algebraic.MakeAlgebraic(depth=depth, last=engine.dense_rows, singular=rows.singular, **where)
            if rest := _algebraic(engine, view, level, depth, view.per_chunk(make_rest, layout, weights)):
                return levels + rest
        below = Coarse.of(partition, factors_of(engine, partition, offsets, weights), early=levels[0].rough)
        level.star = bool(what) and _known(engine, partition, below, *what)
        if level.star:
            descent = level.descent = view.per_chunk(MakeStarDescent(coarse=below), *what).at(depth)
        else:
            around = weights if constant else surrounded_rows(engine, partition, weights, len(offsets))
            make = MakeDescent(depth=depth, coarse=below, **where)
            descent = level.descent = view.per_chunk(make, layout, around).at(depth)
            del around
        what = ()
        weights, layout = descent.at("weights"), descent.at("coarse")
        level.descent = view.per_chunk(WithoutWeights(depth=depth), descent).at(depth)
        if below.gathered:
            alone = engine.alone(below.partition.grid)
            layout = alone.per_chunk(MakeLayout(partition=below.partition, offsets=BOX_OFFSETS))
            weights = gathered_rows(engine, alone, below, weights)
            narrow = alone if dtype == "float64" else alone.lowered(dtype)
            level.gathering = Gathering(view, narrow, below, descent, layout)
            engine, view = alone, narrow
        level.in_order = view.per_chunk(in_order, layout, descent.at("lattice"))
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


def _known(engine: Engine, partition: Partition, below: Coarse, stencil: PerChunk) -> bool:
    """Whether the way from the finest level to the next is `dsolver.constant.StarDescent`'s."""
    if len(partition) > 1 or below.factors != (2, 2, 2):
        return False
    flag, one, parts = engine.per_chunk(way_down, stencil), engine.per_chunk(ones), engine.parts()
    known = engine.scalar(0.0)
    engine.run(DOT, flag, one, parts)
    engine.total(parts, known)
    return engine.read(known)[0] == 1.0


def factors_of(engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk) -> Triple:
    """Which axes to coarsen: those along which rows are strongly coupled."""
    sums = engine.per_chunk(MakeCouplings(offsets=offsets), weights)
    one, parts = engine.per_chunk(ones), engine.parts()
    scalars = [engine.scalar(0.0) for _ in range(3)]
    for axis, scalar in enumerate(scalars):
        engine.run(DOT, sums.at(axis), one, parts)
        engine.total(parts, scalar)
    found = engine.read(*scalars)
    strongest = max((s for s, n in zip(found, partition.grid, strict=True) if n > 1), default=0.0)
    x, y, z = (2 if n > 1 and not s < STRONG * strongest else 1 for s, n in zip(found, partition.grid, strict=True))
    return x, y, z


def surrounded_rows(engine: Engine, partition: Partition, weights: PerChunk, count: int) -> PerChunk:
    """The rows in and around every chunk."""
    make = MakeSurrounded(partition=partition)
    if len(partition) == 1:
        return engine.per_chunk(make, weights)
    packed = engine.per_chunk(MakeShell(partition=partition), weights)
    senders = [partition.neighbors(number, WIDE) for number in range(len(partition))]
    halo = engine.halo(engine.per_chunk(MakeShellPlan(partition=partition, count=count)), senders)
    engine.exchange(_field_of(engine, packed), halo)
    return engine.per_chunk(make, weights, halo)


def gathered_rows(engine: Engine, alone: Engine, below: Coarse, weights: PerChunk) -> PerChunk:
    """The rows of all chunks of a level, on the engine for the whole."""
    count = len(BOX_OFFSETS)
    halo = gathering_halo(engine, [count * box.points for box in below.boxes])
    engine.exchange(_field_of(engine, weights), halo)
    return alone.per_chunk(MakeGathered(boxes=below.boxes, grid=below.partition.grid), weights, halo)


def _field_of(engine: Engine, values: PerChunk) -> Field:
    """Arrays as a distributed vector."""
    field = engine.field(values)
    engine.run(COPY, values, field)
    return field
