"""Coarse levels that live whole on every owner while the finer one is distributed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from dsolver.distributed.halo import gather_layout, gather_senders
from dsolver.engines.base import Engine, Message, Messages, PerChunk
from dsolver.grid.box import Box, Triple
from dsolver.grid.coarse_grid import CoarseGrid
from dsolver.kernels.backend import Backend
from dsolver.kernels.formats.layout import Layout, Route

Places = Callable[[Backend, int], tuple[Any, Any]]
"""Makes the rows of the whole that a chunk has, in the order of its items, and those of others: int64. Picklable."""


@dataclass(frozen=True, kw_only=True)
class Replication:
    """The exchange that makes of the chunks' parts of a vector one that every owner has whole."""

    plan: PerChunk  # the `HaloLayout` of every chunk by which owners get the other chunks' parts
    senders: Sequence[Sequence[int]]  # the chunks that each chunk's plan names
    own: PerChunk
    others: PerChunk


def replication(engine: Engine, alone: Engine, below: CoarseGrid, parts: PerChunk, whole: PerChunk) -> Replication:
    """The replication of a level's vectors; parts and whole: the `Layout`s of every chunk's part, and of the whole."""
    places = partial(_rows_of_boxes, below.boxes, below.partition.grid)
    return _replication(engine, alone, [box.points for box in below.boxes], places, parts, whole)


def row_replication(
    engine: Engine, alone: Engine, bounds: Sequence[int], parts: PerChunk, whole: PerChunk
) -> Replication:
    """The replication of vectors of a level without a lattice; arguments as of `replication`."""
    sizes = [last - first for first, last in pairwise(bounds)]
    return _replication(engine, alone, sizes, partial(_ranges, tuple(bounds)), parts, whole)


def _replication(
    engine: Engine, alone: Engine, sizes: Sequence[int], places: Places, parts: PerChunk, whole: PerChunk
) -> Replication:
    hosts = tuple(engine.hosts)
    plan = engine.per_chunk(partial(gather_layout, hosts=hosts, sizes=tuple(sizes)), parts)
    routes = alone.per_chunk(partial(_routes, places=places), parts, whole)
    return Replication(plan=plan, senders=gather_senders(hosts, len(sizes)), own=routes.at(0), others=routes.at(1))


def replicated_rows(engine: Engine, alone: Engine, below: CoarseGrid, weights: PerChunk, count: int) -> PerChunk:
    """The matrix rows of all chunks of a level, float64 (count rows,), on the engine for the whole."""
    hosts, boxes = tuple(engine.hosts), below.boxes
    senders = gather_senders(hosts, len(boxes))
    sent = engine.per_chunk(partial(_to_hosts, hosts=hosts), weights)
    around = engine.deliver(
        sent, senders, ("float64",), lambda number: {other: count * boxes[other].points for other in senders[number]}
    )
    return alone.per_chunk(partial(_joined, count=count, boxes=boxes, grid=below.partition.grid), weights, around)


def _to_hosts(_: Backend, number: int, weights: Any, *, hosts: tuple[int, ...]) -> dict[int, Message]:
    """A chunk's rows as a message to every other host."""
    return {host: (weights,) for host in hosts if host != number}


def _joined(
    backend: Backend, host: int, own: Any, around: Messages, *, count: int, boxes: tuple[Box, ...], grid: Triple
) -> Any:
    """All chunks' rows in one array: float64 (count rows of the whole level,)."""
    nx, ny, nz = grid
    out = backend.xp.empty((count, nz, ny, nx))
    for number, box in enumerate(boxes):
        x, y, z = box.slices
        place, (values,) = out[:, z, y, x], (own,) if number == host else around[number]
        place[...] = values.reshape(place.shape)
    return out.reshape(-1)


def _rows_of_boxes(boxes: tuple[Box, ...], grid: Triple, backend: Backend, number: int) -> tuple[Any, Any]:
    xp, domain = backend.xp, Box(lo=(0, 0, 0), hi=grid)

    def make() -> tuple[Any, Any]:
        none = xp.zeros(0, dtype=np.int64)
        own, *others = (domain.rows_of(box, none) for box in (boxes[number], *boxes[:number], *boxes[number + 1 :]))
        return own, xp.concatenate([none, *others])

    return backend.layouts.kept("rows of boxes", domain.points, (boxes, grid, number), make)


def _ranges(bounds: tuple[int, ...], backend: Backend, number: int) -> tuple[Any, Any]:
    first, last = bounds[number : number + 2]
    own, *others = (backend.xp.arange(*ends) for ends in ((first, last), (0, first), (last, bounds[-1])))
    return own, backend.xp.concatenate(others)


def _routes(backend: Backend, host: int, own: Layout, whole: Layout, *, places: Places) -> tuple[Route, Route]:
    """The routes into the whole of an owner's items, and of those received, one after the other behind the guard."""
    xp = backend.xp
    rows, theirs = places(backend, host)
    routes = (
        backend.layouts.route(own.position, whole.position[rows]),
        backend.layouts.route(backend.guard + xp.arange(len(theirs)), whole.position[theirs]),
    )
    backend.synchronize()  # kernels read routes before they wait for earlier launches
    return routes
