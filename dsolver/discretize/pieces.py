"""Pieces of a symmetric matrix that nothing fixes: connected rows that add up to zero, each with a constant of its own.

To the rest of this package they are the closed regions of a grid of rows. They are found where the rows are, chunk by
chunk, with labels as `components` has them.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.discretize.closed_regions import ClosedRegions
from dsolver.discretize.components import RegionCells
from dsolver.distributed.setup_exchange import GhostExchange, Senders
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.general.look import CANCELED
from dsolver.kernels.lattice.components import GROUNDED
from dsolver.matrices.canonical import imported
from dsolver.matrices.chunks.row_block import RowBlock


def closed_pieces(engine: Engine, blocks: PerChunk, senders: Senders, *volumes: PerChunk) -> ClosedRegions:
    """The pieces of a symmetric matrix, in `RowBlock`s, that nothing fixes; volumes: of rows that are cells."""
    graphs = engine.per_chunk(partial(_graph, partition=engine.partition), blocks)
    labels = graphs.at("labels")
    if engine.coupled:
        exchange = GhostExchange(engine, blocks.at("plan"), senders)
        changed = True
        while changed:
            spread = engine.per_chunk(_spread, graphs, labels, exchange(labels))
            labels = spread.at(0)
            changed = engine.global_sums(spread.at(1))[0] > 0.0
    members = engine.per_chunk(_members, graphs, labels, *volumes)
    rows, inside = engine.sums(engine.per_chunk(_numbers, graphs, members))
    return ClosedRegions(engine, members, int(rows), lambda: inside)


@dataclass(frozen=True, kw_only=True)
class _Graph:
    """The rows of a chunk as a graph, in A's order, and in memory of the host unless told otherwise."""

    rows: int
    first: int
    part: npt.NDArray[np.int32]  # int32 (rows,), which rows are connected within the chunk
    across: npt.NDArray[np.int64]  # int64 (ghost entries,), rows with entries in ghosts' columns
    slots: npt.NDArray[np.int64]  # int64 (ghost entries,), these ghosts
    inside: int
    labels: Any  # float64 (rows,) on the device: one for each part, see `components`


def _graph(backend: Backend, number: int, block: RowBlock, *, partition: Partition) -> _Graph:
    here = block.here
    count, first = len(here.start) - 1, partition[number].box.lo[0]
    order = np.arange(count) if block.order is None else np.asarray(block.order, dtype=np.int64)
    place = np.repeat(np.arange(count), np.diff(here.start))
    sums, sizes = (np.bincount(place, values, minlength=count) for values in (here.values, abs(here.values)))
    fixed = abs(sums) > CANCELED * sizes
    coupled = (here.values != 0.0) & (here.columns != place)
    ghost = coupled & (here.columns >= count)
    own = coupled & ~ghost
    ones = np.ones(int(own.sum()), dtype=np.int8)
    graph = imported("sparse").csr_array((ones, (place[own], here.columns[own])), shape=(count, count))
    parts, part = imported("sparse.csgraph").connected_components(graph, directed=False)
    least = np.full(parts, np.inf)
    np.minimum.at(least, part, first + order + 1.0)
    least[part[fixed]] = GROUNDED
    part[order] = part.copy()
    return _Graph(
        rows=count,
        first=first,
        part=part,
        across=order[place[ghost]],
        slots=here.columns[ghost].astype(np.int64) - count,
        inside=len(ones),
        labels=backend.asarray(least[part]),
    )


def _spread(backend: Backend, _: int, graph: _Graph, labels: Any, ghosts: Any) -> tuple[Any, Any]:
    """Labels after all parts of a chunk have looked at the ghosts that they are coupled to; and how many have changed.

    The latter is float64 (1,).
    """
    before = backend.to_host(labels)
    least = np.full(int(graph.part.max()) + 1, np.inf)
    np.minimum.at(least, graph.part, before)
    np.minimum.at(least, graph.part[graph.across], backend.to_host(ghosts)[graph.slots])
    after = least[graph.part]
    changed = np.full(1, float((after != before).sum()))
    return backend.asarray(after), backend.asarray(changed)


def _members(backend: Backend, _: int, graph: _Graph, labels: Any, *volumes: Any) -> RegionCells:
    """A chunk's rows in pieces that nothing fixes, by their labels."""
    xp, asarray = backend.xp, backend.asarray
    known, across = backend.to_host(labels), np.zeros(graph.rows, dtype=np.bool_)
    across[graph.across] = True
    found = np.flatnonzero(known > GROUNDED)
    order, groups = backend.lattice.grouped(asarray(known[found]))
    places = asarray(found)[order]
    shared = xp.zeros(len(groups.keys), dtype=np.bool_)
    shared[groups.of[asarray(across)[places]]] = True
    return RegionCells(
        cells=places.astype(np.int32),
        volumes=asarray(volumes[0]).ravel()[places] if volumes else xp.ones(len(places)),
        groups=groups,
        begun=(graph.first + places[groups.starts] + 1.0 == groups.keys).astype(np.float64),
        beyond=xp.flatnonzero(shared),
    )


def _numbers(_: Backend, __: int, graph: _Graph, members: RegionCells) -> tuple[float, float]:
    """A chunk's rows in no such piece, and its couplings."""
    return float(graph.rows - len(members.cells)), float(graph.inside)
