"""Closed regions: cells that hang together and that no boundary and no σ fixes, each with a constant of its own.

A porous medium has thousands. They are numbered by their labels (`dsolver.regions`); sums over them are taken chunk by
chunk in a fixed tree, and for those that go on in other chunks put together in the order of the chunks, so that they
are the same to the last bit for any number of workers, and cost one small exchange however many regions there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from dsolver.coefficients import Coefficients, cells
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.everywhere import Everywhere
from dsolver.kernels import Backend
from dsolver.kernels.contract import LOAD
from dsolver.kernels.groups import Groups, grouped
from dsolver.kernels.layout import Layout
from dsolver.kernels.views import layer
from dsolver.nullspace import CONSISTENT, Excess, NullSpace, dots
from dsolver.partition import Triple
from dsolver.regions import GROUNDED, LABELS, SOLID, rows
from dsolver.rules import CellRule, Patch

LEAST: Final = 1e-8
"""What the diagonal of a region however large is raised by where a preconditioner is made: see `Raise`."""


# -- what is made on the owners ----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class Members:
    """What of the closed regions lies in one chunk. Its regions are numbered in the order of their labels.

    Attributes:
        cells: int32 (cells,), numbers in lattice order, region after region.
        volumes: float64 (cells,), of each.
        groups: which region they are of; its keys are the labels.
        begun: float64 (regions,), 1 for a region whose first cell is here, so that each counts once; else 0.
        beyond: int (shared regions,), those with a cell that is coupled to one in another chunk.
        others: float64 (1,), cells of regions that are not closed.
        inside: float64 (1,), couplings within the chunk.
    """

    cells: Any
    volumes: Any
    groups: Groups
    begun: Any
    beyond: Any
    others: Any
    inside: Any


@final
@dataclass(frozen=True, kw_only=True)
class MakeMembers:
    """Finds a chunk's closed regions by their labels."""

    rule: CellRule

    def __call__(self, _: Backend, __: int, patch: Patch) -> Members:
        """Of one chunk."""
        xp, labels = patch.xp, patch.own[LABELS].reshape(-1)
        found = xp.flatnonzero((labels > GROUNDED) & (labels < SOLID))
        order, groups = grouped(xp, labels[found])
        places = found[order]
        first = places[groups.starts]
        across, inside = xp.zeros(patch.shape, dtype=np.bool_), xp.zeros(1)
        for axis in range(3):
            linked = self.rule.linked(patch, axis)
            inside += linked[tuple(slice(1, -1) if i == 2 - axis else slice(None) for i in range(3))].sum()
            for side in (0, 1):
                across[layer(axis, side)] |= linked[layer(axis, side)]
        shared = xp.zeros(len(groups.keys), dtype=np.bool_)
        shared[groups.of[across.reshape(-1)[places]]] = True
        volumes = xp.broadcast_to(self.rule.source(patch).volumes(), patch.shape).reshape(-1)
        return Members(
            cells=places.astype(np.int32),
            volumes=volumes[places],
            groups=groups,
            begun=(rows(patch).reshape(-1)[first] + 1.0 == groups.keys).astype(np.float64),
            beyond=xp.flatnonzero(shared),
            others=xp.full(1, 1.0) * (labels <= GROUNDED).sum(),
            inside=inside,
        )


def shared_count(backend: Backend, _: int, members: Members) -> Any:
    """float64 (1,): how many items a chunk tells the others, the first of which stands for nothing."""
    return backend.xp.full(1, 1.0 + len(members.beyond))


def shared_labels(backend: Backend, _: int, members: Members) -> Any:
    """float64 (1 + shared regions,)."""
    return _headed(backend.xp, members.groups.keys[members.beyond])


def shared_sums(backend: Backend, _: int, members: Members, sums: Any) -> Any:
    """float64 (1 + shared regions,), of sums over own cells."""
    return _headed(backend.xp, sums[members.beyond])


def _headed(xp: Any, values: Any) -> Any:
    """One more item in front, so that there is one."""
    return xp.concatenate([xp.zeros(1), values])


def where_shared(backend: Backend, _: int, members: Members, labels: Any) -> Any:
    """int (shared regions,): the places of a chunk's shared regions among all that are shared."""
    return backend.xp.searchsorted(labels, members.groups.keys[members.beyond])


def with_others(_: Backend, __: int, members: Members, sums: Any, where: Any, totals: Any) -> Any:
    """float64 (regions,): sums over own cells, or over all where a region goes on in other chunks."""
    out = sums.copy()
    out[members.beyond] = totals[where]
    return out


@final
@dataclass(frozen=True, kw_only=True)
class OfCells:
    """Sums over a chunk's part of each region: of the "cells", of their "volumes", of "x", or of "x times volumes"."""

    what: str

    def __call__(self, backend: Backend, _: int, members: Members, layout: Layout | None = None, x: Any = None) -> Any:
        """float64 (regions,)."""
        if self.what == "cells":
            return members.groups.counts.astype(np.float64)
        if self.what == "volumes":
            return members.groups.sums(backend.xp, members.volumes)
        assert layout is not None
        values = cells(backend, layout, x).reshape(-1)[members.cells]
        return members.groups.sums(backend.xp, values if self.what == "x" else values * members.volumes)


@final
@dataclass(frozen=True, kw_only=True)
class Subtract:
    """x less each region's total / size, which is multiplied by the cells' volumes for a right-hand side."""

    right: bool

    def __call__(
        self, backend: Backend, _: int, members: Members, layout: Layout, x: Any, totals: Any, sizes: Any
    ) -> Any:
        """A block (nx, ny, nz)."""
        values = cells(backend, layout, x)
        means = (totals / sizes)[members.groups.of]
        values.reshape(-1)[members.cells] -= means * members.volumes if self.right else means
        return values.T


@final
@dataclass(frozen=True, kw_only=True)
class Raise:
    """What to multiply a chunk's diagonal by so that its matrix, for a preconditioner, has no closed region any more.

    A row's diagonal d becomes d (1 + δ) with δ = 1 / n² for a region of n cells. The smallest eigenvalue of D⁻¹A in it
    that is not zero is that of a chain at least, about 5 / n², so of the correction that it needs a region gets five
    sixths or more. Without it, Gauss-Seidel side by side in two chunks leaves (1, -1) as it is in a region of one cell
    in each, and coarse levels have rows of zeros and rounding.
    """

    def __call__(self, backend: Backend, _: int, members: Members, counts: Any, layout: Layout) -> Any:
        """A block (nx, ny, nz)."""
        xp = backend.xp
        out = xp.ones(layout.shape[::-1])
        by = xp.where(counts > 1.0, xp.maximum(LEAST, 1.0 / counts**2), 0.0)  # one cell alone has a row of its own
        out.reshape(-1)[members.cells] += by[members.groups.of]
        return out.T


@final
@dataclass(frozen=True, kw_only=True)
class Missed:
    """What of a right-hand side each region cannot reach, told for the regions that begin in a chunk."""

    bound: float

    def __call__(self, backend: Backend, _: int, members: Members, totals: Any, counts: Any) -> Any:
        """float64 (4,): the sum of (n·b)² / n·n, how many are beyond bound², the largest one, and that one's label."""
        xp = backend.xp
        squares = _headed(xp, members.begun * totals * totals / counts)
        worst = squares.argmax()
        label = _headed(xp, members.groups.keys)[worst]
        beyond = (squares > self.bound * self.bound).sum().astype(np.float64)
        return xp.stack([squares.sum(), beyond, squares[worst], label])


@final
@dataclass(frozen=True, kw_only=True)
class Merging:
    """How sums over the parts of regions in several chunks become one.

    Attributes:
        order: int64 (parts,), region after region, the chunks of each in their order.
        groups: which region they are of; its keys are the labels.
    """

    order: Any
    groups: Groups


def merging(xp: Any, labels: list[Any]) -> Merging:
    """Of the labels that the chunks have told."""
    order, groups = grouped(xp, xp.concatenate(labels))
    return Merging(order=order, groups=groups)


def merged(xp: Any, sums: list[Any], known: Merging) -> Any:
    """float64 (shared regions of all chunks,)."""
    return known.groups.sums(xp, xp.concatenate(sums)[known.order])


def in_one(xp: Any, numbers: list[Any]) -> Any:
    """float64 (all,)."""
    return xp.concatenate(numbers)


def worst_of(xp: Any, missed: list[Any]) -> tuple[Any, ...]:
    """What `Missed` tells of one chunk, of all: float64 (1,) each."""
    squares, beyond = missed[0][0:1], missed[0][1:2]
    worst = missed[0]
    for each in missed[1:]:
        squares, beyond = squares + each[0:1], beyond + each[1:2]
        worst = xp.where(each[2] > worst[2], each, worst)
    return squares, beyond, worst[2:3], worst[3:4]


# -- what an algorithm sees --------------------------------------------------------------------------------------------


@final
class ClosedRegions:
    """All closed regions of a problem.

    Args:
        engine: runs the kernels.
        coefficients: prepared.
        rule: of the rows.
        labels: of `dsolver.regions.labelled`.

    Attributes:
        count: how many there are.
        alone: how many of them are a single cell, whose row is not zero by construction but a positive diagonal.
        whole: whether there is one alone, of all cells that are not left out, some of which are coupled within a chunk:
            then no diagonal need be raised. See `dsolver.gridlevels.fixed`.
    """

    def __init__(self, engine: Engine, coefficients: Coefficients, rule: CellRule, labels: Field) -> None:
        self._engine = engine
        self._members = coefficients.per_chunk(MakeMembers(rule=rule), {LABELS: labels})
        self._lattice = coefficients.lattice.at("layout")
        self._telling = Everywhere(engine, 4)
        self._merging: tuple[Everywhere, PerChunk, PerChunk] | None = None
        if len(engine.partition) > 1:
            self._merging = self._met()
        self._cells = self.sums("cells")
        self._volumes = self.sums("volumes")
        counted = engine.per_chunk(_counted, self._members, self._cells)
        told = counted.at(0), counted.at(1), self._members.at("others"), self._members.at("inside")
        self.count, self.alone, others, inside = (int(number) for number in engine.totals(*told))
        self.whole = (self.count, self.alone, others) == (1, 0, 0) and inside > 0

    @property
    def factors(self) -> PerChunk | None:
        """What a preconditioner's diagonal is multiplied by, a block for each chunk: see `Raise`. None for ones."""
        if self.count == self.alone:
            return None
        return self._engine.per_chunk(Raise(), self._members, self._cells, self._lattice)

    def constants(self, layout: PerChunk) -> NullSpace:
        """Their null vectors, for vectors with this layout."""
        return RegionConstants(self._engine, self, layout)

    def sums(self, what: str, *vector: PerChunk | Field) -> PerChunk:
        """Sums over each region, float64 (regions,) in every chunk: see `OfCells`; vector: its layout and x."""
        sums = self._engine.per_chunk(OfCells(what=what), self._members, *vector)
        if self._merging is None:
            return sums
        gather, known, where = self._merging
        told = self._engine.per_chunk(shared_sums, self._members, sums)
        merged_sums = gather.shared(gather.made(merged, told, known))
        return self._engine.per_chunk(with_others, self._members, sums, where, merged_sums)

    def missed(self, sums: PerChunk, bound: float) -> tuple[float, float, float, float]:
        """What `Missed` tells, of all chunks."""
        told = self._engine.per_chunk(Missed(bound=bound), self._members, sums, self._cells)
        square, beyond, worst, label = self._telling.read(self._telling.made(worst_of, told), 4)
        return square, beyond, worst, label

    def less(self, layout: PerChunk, x: Field, sums: PerChunk, out: Field, *, right: bool) -> None:
        """out = x less each region's sum / volume: see `Subtract`."""
        self._subtract(Subtract(right=right), layout, x, sums, self._volumes, out)

    def less_mean(self, layout: PerChunk, x: Field, out: Field) -> None:
        """out = x less its mean in each region of more than one cell: the rows of single ones are not zero."""
        sizes = self._engine.per_chunk(_endless_alone, self._cells)
        self._subtract(Subtract(right=False), layout, x, self.sums("x", layout, x), sizes, out)

    def _subtract(
        self, subtract: Subtract, layout: PerChunk, x: Field, sums: PerChunk, sizes: PerChunk, out: Field
    ) -> None:
        blocks = self._engine.per_chunk(subtract, self._members, layout, x, sums, sizes)
        self._engine.run(LOAD, layout, blocks, out)

    def _met(self) -> tuple[Everywhere, PerChunk, PerChunk]:
        """What it takes to add up regions that go on in other chunks."""
        engine, members = self._engine, self._members
        counts = Everywhere(engine, 1)
        sizes = counts.shared(counts.made(in_one, engine.per_chunk(shared_count, members)))
        gather = Everywhere(engine, sizes)
        known = gather.made(merging, engine.per_chunk(shared_labels, members))
        where = engine.per_chunk(where_shared, members, gather.shared(known.at("groups", "keys")))
        return gather, known, where


@final
class RegionConstants(NullSpace):
    """The vectors of ones on each of the closed regions.

    Args:
        engine: runs the kernels.
        regions: them.
        layout: of vectors.
    """

    def __init__(self, engine: Engine, regions: ClosedRegions, layout: PerChunk) -> None:
        self._engine, self._regions, self._layout = engine, regions, layout
        self._parts, self._work = engine.parts(), engine.field(layout)

    def project(self, b: Field) -> Excess:
        """As in `NullSpace`."""
        (square,) = dots(self._engine, self._parts, (b, b))
        sums = self._regions.sums("x", self._layout, b)
        norm = float(np.sqrt(square))
        missed, beyond, worst, label = self._regions.missed(sums, CONSISTENT * norm)
        self._regions.less(self._layout, b, sums, b, right=True)
        if not norm > 0.0:
            return Excess(closed=self._regions.count)
        return Excess(
            closed=self._regions.count,
            part=float(np.sqrt(missed)) / norm,
            regions=int(beyond),
            worst=float(np.sqrt(worst)) / norm,
            cell=self._cell(int(label)),
        )

    def balance(self, r: Field) -> None:
        """As in `NullSpace`."""
        self._regions.less_mean(self._layout, r, r)

    def centered(self, x: Field) -> Field:
        """As in `NullSpace`."""
        sums = self._regions.sums("x times volumes", self._layout, x)
        self._regions.less(self._layout, x, sums, self._work, right=False)
        return self._work

    def _cell(self, label: int) -> Triple:
        """The cell that a label is made of."""
        nx, ny, _ = self._engine.partition.grid
        row = label - 1
        return row % nx, row // nx % ny, row // (nx * ny)


def _endless_alone(backend: Backend, _: int, counts: Any) -> Any:
    """float64 (regions,): the counts, infinite for a region of one cell."""
    return backend.xp.where(counts > 1.0, counts, np.inf)


def _counted(_: Backend, __: int, members: Members, counts: Any) -> tuple[Any, Any]:
    """float64 (1,) each: the regions that begin in a chunk, and those of them that are a single cell."""
    alone = members.begun * (counts == 1.0)
    return members.begun.sum().reshape(1), alone.sum().reshape(1)
