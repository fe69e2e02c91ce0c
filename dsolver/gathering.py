"""Levels that live whole on every owner while the finer one is distributed: how they come there."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, final

from dsolver.engines.base import Engine, PerChunk
from dsolver.grids import Coarse, others_of, to_hosts
from dsolver.kernels.backend import Backend
from dsolver.kernels.layout import HaloLayout, Layout, Route
from dsolver.partition import BOX_OFFSETS, Box, Triple
from dsolver.surroundings import exchange_arrays


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
        self._plan = _plan(engine, [box.points for box in below.boxes], descent.at("coarse"))
        self.halo = engine.halo(*self._plan)
        routes = alone.per_chunk(MakeRoutes(boxes=below.boxes, grid=below.partition.grid), descent.at("coarse"), layout)
        self.own, self.others = routes.at(0), routes.at(1)

    def on(self, view: Engine) -> Gathering:
        """The same for vectors of a view of the engine."""
        made = copy(self)
        made.halo = view.halo(*self._plan)
        return made


def gathered_rows(engine: Engine, alone: Engine, below: Coarse, weights: PerChunk) -> PerChunk:
    """The rows of all chunks of a level, on the engine for the whole."""
    count = len(BOX_OFFSETS)
    halo = engine.halo(*_plan(engine, [count * box.points for box in below.boxes]))
    exchange_arrays(engine, weights, halo)
    return alone.per_chunk(MakeGathered(boxes=below.boxes, grid=below.partition.grid), weights, halo)


def _plan(engine: Engine, sizes: Sequence[int], *layout: PerChunk) -> tuple[PerChunk, list[list[int]]]:
    """How every host gets what all other chunks have, and from whom; layout: of the vectors, if they hold more."""
    hosts = tuple(engine.hosts)
    plan = engine.per_chunk(MakeGatherPlan(hosts=hosts, sizes=tuple(sizes)), *layout)
    return plan, [others_of(number, hosts, len(sizes)) for number in range(len(sizes))]


# -- what is made on the owners ----------------------------------------------------------------------------------------


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
        return to_hosts(backend, number, self.hosts, self.sizes, rows)


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
