"""Closed regions: connected cells that no boundary and no σ fixes, each with a constant of its own.

A porous medium has thousands. They are numbered by their labels (`components`); sums over them are taken chunk by
chunk in a fixed tree, and for those that go on in other chunks put together in the order of the chunks, so that they
are the same to the last bit for any number of workers, and cost one small exchange however many regions there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.discretize.coefficients import Coefficients
from dsolver.discretize.components import RegionCells, members_of
from dsolver.distributed.collectives import AllGather
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg import RaisedCells
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.lattice.components import SOLID
from dsolver.kernels.reductions import GroupedPlaces, Groups, grouped
from dsolver.problems.finite_volumes import Diffusion

F64 = npt.NDArray[np.float64]
LEAST: Final = 1e-8
"""Least factor less 1 by which the diagonal of a region is raised where a preconditioner is made: see `_raising`."""


class ClosedRegions:
    """All closed regions of a problem.

    Attributes:
        count: how many there are.
        alone: how many of them are a single cell, whose row is not zero by construction but a positive diagonal.
        whole: whether there is one alone, of all cells that are not left out, some of which are coupled within a chunk:
            then no diagonal need be raised. See `dsolver.multigrid.coarse_solve.regularized`.
        cells: float64 (regions,) of every chunk, the cells of each region.
        volumes: float64 (regions,) of every chunk, the volume of each region.
    """

    def __init__(
        self,
        engine: Engine,
        members: PerChunk,  # the `RegionCells` of every chunk
        free: int,  # how many cells are neither in one of them nor left out
        inside: Callable[[], float],  # counts couplings within chunks
        # the layout of cells in lattice order, where a preconditioner's diagonal is to be raised.
        lattice: PerChunk | None = None,
    ) -> None:
        self._engine, self._members, self._lattice = engine, members, lattice
        self._merging: tuple[AllGather, PerChunk, PerChunk] | None = None
        if len(engine.partition) > 1:
            self._merging = self._shared()
        self.cells = self._totals(engine.per_chunk(_cell_counts, members))
        self.volumes = self._totals(engine.per_chunk(_volume_sums, members))
        self._begun = engine.per_chunk(_begun, members, self.cells)
        self.count, self.alone = map(int, engine.sums(engine.per_chunk(_counted, self._begun)))
        self.free = free
        self.whole = (self.count, self.alone, self.free) == (1, 0, 0) and inside() > 0.0

    @property
    def factors(self) -> PerChunk | None:
        """Factors for a preconditioner's diagonal, a block for each chunk: see `_raising`. None for ones."""
        if self.count == self.alone or self._lattice is None:
            return None
        return self._engine.per_chunk(_raising, self._members, self._begun, self._lattice)

    @property
    def raised_cells(self) -> PerChunk | None:
        """`factors` of the cells in regions alone, a `RaisedCells` for each chunk; None for ones."""
        if self.count == self.alone:
            return None
        return self._engine.per_chunk(_raised_cells, self._members, self._begun)

    @property
    def endless_alone(self) -> PerChunk:
        """`cells`, infinite for regions of one."""
        return self._engine.per_chunk(_endless_alone, self._begun)

    def placed(self, layout: PerChunk) -> tuple[PerChunk, PerChunk]:
        """The `GroupedPlaces` of every chunk in vectors of a layout: without weights, and with the cells' volumes."""
        ones = self._engine.per_chunk(_placed, self._members, layout)
        return ones, self._engine.per_chunk(_weighted, ones, self._members)

    def sums(self, placed: PerChunk, x: Field) -> PerChunk:
        """Sums of x over each region, float64 (regions,) in every chunk; placed: of `placed`."""
        return self._totals(self._engine.per_chunk(_sums, placed, x))

    def missed(self, sums: PerChunk, bound: float) -> tuple[float, float, float, float]:
        """The inconsistent part of a right-hand side: see `_missed`, of all chunks."""
        missed = self._engine.known(self._engine.per_chunk(partial(_missed, bound=bound), self._begun, sums))
        squares, beyond, _, _ = map(sum, zip(*missed, strict=True))
        _, _, worst, label = max(missed, key=lambda each: each[2])  # of equal ones the first
        return squares, beyond, worst, label

    def _totals(self, sums: PerChunk) -> PerChunk:
        """Sums over regions, of those over the cells of each chunk."""
        if self._merging is None:
            return sums
        gather, known, places = self._merging
        shared = self._engine.per_chunk(_shared_sums, self._members, sums)
        totals = gather.broadcast(gather.combine(_merged, shared, known))
        return self._engine.per_chunk(_with_others, self._members, sums, places, totals)

    def _shared(self) -> tuple[AllGather, PerChunk, PerChunk]:
        """The all-gather that adds up regions in several chunks, its `Merging`, and the places of a chunk's own."""
        engine, members = self._engine, self._members
        counts = AllGather(engine, 1)
        sizes = counts.broadcast(counts.combine(_joined, engine.per_chunk(_shared_count, members)))
        gather = AllGather(engine, sizes)
        known = gather.combine(_merging, engine.per_chunk(_shared_labels, members))
        places = engine.per_chunk(_places, members, gather.broadcast(known.at("groups", "keys")))
        return gather, known, places


def closed_cells(
    engine: Engine, coefficients: Coefficients, rule: Diffusion, labels: PerChunk, seen: PerChunk, free: int
) -> ClosedRegions:
    """The closed regions of a grid.

    `labels`, `seen`: of `components`. `free`: how many cells are neither in one of them nor left out.
    """
    make = partial(members_of, rule=rule, several=len(engine.partition) > 1)
    members = coefficients.per_chunk(make, operands=(labels, seen))

    def inside() -> float:
        return engine.global_sums(engine.per_chunk(_inside, labels))[0]

    return ClosedRegions(engine, members, free, inside, coefficients.lattice.at("layout"))


def _inside(backend: Backend, _: int, labels: Any) -> Any:
    """float64 (1,): couplings within a chunk."""
    count, opened = backend.xp.zeros(1), labels < SOLID
    for axis in range(3):
        flags = backend.xp.moveaxis(opened, axis, 0)
        count += (flags[:-1] & flags[1:]).astype(np.float64).sum()  # CuPy adds flags up in one block
    return count


def _counted(_: Backend, __: int, begun: BegunRegions) -> tuple[float, float]:
    """The regions that begin in a chunk, and those of them that are a single cell."""
    return float(begun.here.sum()), float((begun.here * (begun.counts == 1.0)).sum())


def _cell_counts(_: Backend, __: int, members: RegionCells) -> Any:
    """float64 (regions,), of a chunk's part of each region."""
    return members.groups.counts.astype(np.float64)


def _volume_sums(backend: Backend, _: int, members: RegionCells) -> Any:
    """float64 (regions,), of a chunk's part of each region."""
    return backend.vectors.group_sums(GroupedPlaces(places=None, groups=members.groups), members.volumes)


def _placed(_: Backend, __: int, members: RegionCells, layout: Layout) -> GroupedPlaces:
    return GroupedPlaces(places=layout.position[members.cells], groups=members.groups)


def _weighted(_: Backend, __: int, placed: GroupedPlaces, members: RegionCells) -> GroupedPlaces:
    return replace(placed, weights=members.volumes)


def _sums(backend: Backend, _: int, placed: GroupedPlaces, x: Any) -> Any:
    """Sums over a chunk's part of each region, float64 (regions,)."""
    return backend.vectors.group_sums(placed, x)


def _endless_alone(backend: Backend, _: int, begun: BegunRegions) -> Any:
    """float64 (regions,): the counts, infinite for a region of one cell."""
    return backend.asarray(np.where(begun.counts > 1.0, begun.counts, np.inf))


def _raising(backend: Backend, number: int, members: RegionCells, begun: BegunRegions, layout: Layout) -> Any:
    """Factors for a chunk's diagonal with which, for a preconditioner, no region is closed: a block (nx, ny, nz).

    A row's diagonal d becomes d (1 + δ) with δ = 1 / n² for a region of n cells. The smallest eigenvalue of D⁻¹A in it
    that is not zero is that of a chain at least, about 5 / n², so of the correction that it needs a region gets five
    sixths or more. Without it, Gauss-Seidel side by side in two chunks leaves (1, -1) as it is in a region of one cell
    in each, and coarse levels have rows of zeros and rounding.
    """
    raised, out = _raised_cells(backend, number, members, begun), backend.xp.ones(layout.shape[::-1])
    out.reshape(-1)[raised.cells] = raised.factors
    return out.T


def _raised_cells(backend: Backend, _: int, members: RegionCells, begun: BegunRegions) -> RaisedCells:
    by = np.where(begun.counts > 1.0, np.maximum(LEAST, 1.0 / begun.counts**2), 0.0)  # one alone has a row of its own
    return RaisedCells(cells=members.cells, factors=backend.asarray(1.0 + by)[members.groups.of])


# -- regions that go on in other chunks: labels and sums of all chunks, on every owner ---------------------------------


@dataclass(frozen=True, kw_only=True)
class Merging:
    """Addition of sums over parts of regions in several chunks: order by region, then by chunk; groups by label."""

    order: Any
    groups: Groups


def _headed(xp: Any, values: Any) -> Any:
    """Values with one more item in front, so that there is one."""
    return xp.concatenate([xp.zeros(1), values])


def _shared_count(backend: Backend, _: int, members: RegionCells) -> Any:
    """float64 (1,): the items that a chunk sends to the others, the first of which stands for nothing."""
    return backend.xp.full(1, 1.0 + len(members.beyond))


def _shared_labels(backend: Backend, _: int, members: RegionCells) -> Any:
    """float64 (1 + shared regions,)."""
    return _headed(backend.xp, members.groups.keys[members.beyond])


def _shared_sums(backend: Backend, _: int, members: RegionCells, sums: Any) -> Any:
    """float64 (1 + shared regions,), of sums over own cells."""
    return _headed(backend.xp, sums[members.beyond])


def _places(backend: Backend, _: int, members: RegionCells, labels: Any) -> Any:
    """int (shared regions,): the places of a chunk's shared regions among all that are shared."""
    return backend.xp.searchsorted(labels, members.groups.keys[members.beyond])


def _with_others(_: Backend, __: int, members: RegionCells, sums: Any, places: Any, totals: Any) -> Any:
    """float64 (regions,): sums over own cells, or over all where a region goes on in other chunks."""
    out = sums.copy()
    out[members.beyond] = totals[places]
    return out


def _merging(xp: Any, labels: list[Any]) -> Merging:
    order, groups = grouped(xp, xp.concatenate(labels))
    return Merging(order=order, groups=groups)


def _merged(xp: Any, sums: list[Any], known: Merging) -> Any:
    """float64 (shared regions of all chunks,)."""
    return known.groups.sums(xp, xp.concatenate(sums)[known.order])


def _joined(xp: Any, numbers: list[Any]) -> Any:
    """float64 (all,)."""
    return xp.concatenate(numbers)


# -- the inconsistent part of a right-hand side ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BegunRegions:
    """Regions that begin in a chunk: 1 for those of its regions, else 0; their cells and labels; float64, on hosts."""

    here: F64
    counts: F64
    labels: F64


def _begun(backend: Backend, _: int, members: RegionCells, counts: Any) -> BegunRegions:
    here, counts, labels = backend.to_host(backend.xp.stack([members.begun, counts, members.groups.keys]))
    return BegunRegions(here=here, counts=counts, labels=labels)


def _missed(
    backend: Backend, _: int, begun: BegunRegions, totals: Any, *, bound: float
) -> tuple[float, float, float, float]:
    """The inconsistent part of a right-hand side, for the regions that begin in a chunk.

    The sum of (n·b)² / n·n, how many are beyond bound², the largest one, and that one's label.
    """
    if not len(begun.here):
        return 0.0, 0.0, 0.0, 0.0
    sums = backend.to_host(totals)
    with np.errstate(over="ignore"):  # the length of b is infinite as well then
        squares = begun.here * sums * sums / begun.counts
    worst = int(squares.argmax())
    beyond = float(np.count_nonzero(squares > bound * bound))
    return float(squares.sum()), beyond, float(squares[worst]), float(begun.labels[worst])
