"""The finest level of a grid, whose chunks are boxes, while the levels below it are made of ranges of rows.

Set-up sees a grid's rows in ranges of lattice order, as many of them as there are chunks, so the levels are the same
however the grid is cut. The finest vectors stay in their boxes: rows go to the ranges once, finished rows of P come
back, and R reads the points of boxes. Boxes that are cut along z alone are ranges, and nothing moves.
"""

from bisect import bisect, bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from math import prod
from typing import Any, Final

import numpy as np

from dsolver.distributed.setup_exchange import Senders, reach_of, receivers_of
from dsolver.engines.base import Engine, Messages, PerChunk
from dsolver.grid.box import Offsets
from dsolver.grid.halo import HaloPlan
from dsolver.grid.numbering import own_number
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.amg import LatticeBox
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr, joined
from dsolver.multigrid.algebraic.coarser_level import Coarsened, CoarserLevel
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.global_rows import ROWS
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows, LevelRows
from dsolver.multigrid.algebraic.rows.window import (
    F64,
    I64,
    Bounds,
    Window,
    others,
    own_bounds,
    owners_in,
    owners_of,
    received,
)

NUMBERED: Final = ("int64", *ROWS)  # value types of a message with rows and their numbers


@dataclass(frozen=True, kw_only=True)
class BoxRows:
    """A chunk's rows of a grid, in lattice order, and what ranges get of them."""

    rows: Csr  # with columns by their numbers in the grid, or, of a `_seen_box`, in what its rows see
    numbers: I64
    share: F64
    lists: Messages


class LatticeRows:
    """Rows of a grid on their way to ranges of rows, and transfers on their way back.

    `weights`: float64 (K rows,) of every chunk, offset after offset, or (K,) for a constant stencil; mirrored ones are
    equal to the bit. `boxes`: the `BoxRows` of every chunk. `rows`: the `LevelRows` of every range.
    """

    def __init__(self, engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk) -> None:
        self._engine, self._partition = engine, partition
        self._moves = partition.counts[:2] != (1, 1)
        self.bounds: Bounds = (0, *accumulate(chunk.box.points for chunk in partition))
        seen = _planes_seen(partition, offsets)
        make = partial(_box_rows, partition=partition, offsets=offsets, bounds=self.bounds, seen=seen)
        self.boxes = engine.per_chunk(make, weights)
        self._ranges = _ranges_of_boxes(partition, self.bounds) if self._moves else [()] * len(partition)
        if self._moves:
            arrived = engine.deliver(self.boxes.at("lists"), receivers_of(self._ranges), NUMBERED)
            self.rows = engine.per_chunk(partial(_range_rows, bounds=self.bounds), self.boxes, arrived)
        else:
            of_slab = partial(_slab_rows, partition=partition, bounds=self.bounds, seen=seen)
            self.rows = engine.per_chunk(of_slab, self.boxes)
        self.reach: Senders = _read_ranges(partition, offsets, self.bounds)
        self.senders: Senders = engine.partners(self.rows.at("neighbors"))

    def transfer(self, made: CoarserLevel, of_transfers: Senders, bounds: Bounds) -> CoarserLevel:
        """The coarser level of ranges, with R and P between boxes of the grid and ranges of coarse rows.

        of_transfers: the reach of P of the ranges.
        """
        if not self._moves:
            return made
        engine, boxes = self._engine, self.boxes
        send = partial(_for_boxes, partition=self._partition, bounds=self.bounds)
        back = engine.per_chunk(send, made.chunks)
        arrived = engine.deliver(back.at("lists"), self._ranges, ROWS)
        p = engine.per_chunk(partial(_p_of_box, bounds=bounds), boxes, back, arrived)
        around = engine.deliver(p.at("lists"), reach_of(self._ranges, of_transfers), NUMBERED)
        chunks = engine.per_chunk(partial(_between, bounds=bounds), boxes, p, made.chunks, around)
        return replace(made, chunks=chunks, partners=engine.partners(chunks.at("neighbors")))


def _ranges_of_boxes(partition: Partition, bounds: Bounds) -> Senders:
    """The other ranges that each box may have rows of."""
    return [_in_planes(partition, bounds, chunk.box.lo[2], chunk.box.hi[2], chunk.number) for chunk in partition]


def _read_ranges(partition: Partition, offsets: Offsets, bounds: Bounds) -> Senders:
    """The other ranges whose rows each one may read, by the planes that it is in and offsets lead to."""
    (nx, ny, _), far = partition.grid, max(abs(along) for _, _, along in offsets)
    planes = [(first // (nx * ny), -(-last // (nx * ny))) for first, last in pairwise(bounds)]
    return [_in_planes(partition, bounds, low - far, high + far, number) for number, (low, high) in enumerate(planes)]


def _planes_seen(partition: Partition, offsets: Offsets) -> list[list[int]]:
    """Planes of z of other chunks that the rows of each chunk may read, ascending, of boxes that are cut along z."""
    nz, far, found = partition.grid[2], max(abs(along) for _, _, along in offsets), []
    for chunk in partition:
        own = range(chunk.box.lo[2], chunk.box.hi[2])
        around = {*range(own.start - far, own.start), *range(own.stop, own.stop + far)}
        around = {z % nz for z in around} if partition.periodic[2] else around.intersection(range(nz))
        found.append(sorted(around.difference(own)))
    return found


def _in_planes(partition: Partition, bounds: Bounds, low: int, high: int, own: int) -> tuple[int, ...]:
    """The ranges, without an own one, that have rows in planes low .. high of z, ascending."""
    nx, ny, nz = partition.grid
    parts = [
        (nx * ny * max(0, low + moved), nx * ny * min(nz, high + moved))
        for moved in ((-nz, 0, nz) if partition.periodic[2] else (0,))
    ]
    near = {n for begin, end in parts for n in range(bisect(bounds, begin) - 1, bisect_left(bounds, end))}
    return tuple(n for n in sorted(near - {own}) if bounds[n] < bounds[n + 1])


def _are_places(partition: Partition) -> bool:
    """Whether planes that a slab sees follow one another, so that numbers in them are places in its window."""
    return partition.counts[:2] == (1, 1) and not partition.periodic[2]


def _seen_box(partition: Partition, number: int, seen: Sequence[int]) -> LatticeBox:
    """A chunk's box in the grid; a slab whose numbers `_are_places` in the planes that its rows read."""
    box, (nx, ny, _) = partition[number].box, partition.grid
    if not _are_places(partition):
        return LatticeBox(partition.grid, partition.periodic, box.lo, box.shape)
    low, high = min((box.lo[2], *seen)), max((box.hi[2], *(z + 1 for z in seen)))
    return LatticeBox((nx, ny, high - low), partition.periodic, (0, 0, box.lo[2] - low), box.shape)


def _box_rows(
    backend: Backend,
    number: int,
    weights: Any,
    *,
    partition: Partition,
    offsets: Offsets,
    bounds: Bounds,
    seen: Sequence[Sequence[int]],
) -> BoxRows:
    amg, number = backend.amg, own_number(partition, number)
    box, where = partition[number].box, _seen_box(partition, number, seen[number])
    rows, share = amg.box_rows(where, offsets, amg.asarray(weights))
    if partition.counts[:2] == (1, 1):
        numbers = np.arange(*own_bounds(bounds, number), like=rows.start)
        return BoxRows(rows=rows, numbers=numbers, share=share, lists={})
    numbers = partition.domain.rows_of(box, like=rows.start)
    owners = owners_of(bounds, numbers)
    lists = {}
    for to in others(bounds, number, owners):
        wanted = np.flatnonzero(owners == to)
        lists[to] = numbers[wanted], *amg.selected(rows, wanted)
    return BoxRows(rows=rows, numbers=numbers, share=share, lists=lists)


def _range_rows(backend: Backend, number: int, box: BoxRows, around: Messages, *, bounds: Bounds) -> LevelRows:
    """The rows of a range from the boxes that have them."""
    first, last = own_bounds(bounds, number)
    own = np.flatnonzero((box.numbers >= first) & (box.numbers < last))
    numbers, parts = [box.numbers[own]], [backend.amg.selected(box.rows, own)]
    for theirs, *part in around.values():
        numbers.append(theirs)
        parts.append(Csr(*part))
    rows = backend.amg.selected(joined(parts), np.argsort(np.concatenate(numbers)))
    found = DistributedRows.of(backend.amg, bounds, number, rows)
    origin = np.arange(first, last, like=box.numbers)
    return level_rows(found, origin, bounds, found.read_by(backend.amg, found.elsewhere(backend.amg, bounds)))


def _slab_rows(
    backend: Backend, number: int, box: BoxRows, *, partition: Partition, bounds: Bounds, seen: Sequence[Sequence[int]]
) -> LevelRows:
    """The rows of a slab, which has whole planes and sees whole ones of others.

    So no column is looked at to find them, and no device waited for.

    `seen`: by slab the planes that it reads of others.
    """
    (first, last), own, plane = own_bounds(bounds, number), own_number(partition, number), prod(partition.grid[:2])
    ghosts = _numbers_in(seen[own], plane, box.numbers)
    lower = plane * sum(plane * z < first for z in seen[own])
    window = Window(first=first, rows=last - first, ghosts=ghosts, whole=len(seen) == 1, lower=lower, end=bounds[-1])
    planes = range(first // plane, last // plane)
    read = {c: [z - planes.start for z in seen[c] if z in planes] for c in owners_in(bounds, window)}
    matrix = box.rows if _are_places(partition) else window.placed(backend.amg, box.rows)
    found = DistributedRows(window=window, matrix=matrix)
    return level_rows(found, box.numbers, bounds, {c: _numbers_in(of, plane, box.numbers) for c, of in read.items()})


def level_rows(rows: DistributedRows, origin: I64, bounds: Bounds, read: Mapping[int, I64]) -> LevelRows:
    """Rows of a grid as those of a level; read: as of `BroughtRows.level_rows`."""
    near = np.empty((len(origin), 0), like=origin)
    return BroughtRows(rows=rows, origin=origin, near=near).level_rows(bounds, read)


def _numbers_in(planes: Sequence[int], points: int, like: I64) -> I64:
    """The numbers of all points of some planes of so many, int64."""
    return np.concatenate([like[:0], *(np.arange(points * z, points * (z + 1), like=like) for z in planes)])


@dataclass(frozen=True, kw_only=True)
class _BoxP:
    """Rows of P by their numbers in the coarser level, and what others get of them."""

    rows: Csr
    lists: Messages
    # for each of them, the numbers of the rows within this box, ascending.
    sent: Mapping[int, I64] = field(default_factory=dict)


def _for_boxes(backend: Backend, number: int, made: Coarsened, *, partition: Partition, bounds: Bounds) -> _BoxP:
    """Rows of P, and for each other box those of its points."""
    first, last = own_bounds(bounds, number)
    nx, ny, _z = partition.grid
    numbers = np.arange(first, last, like=made.coarse.origin)
    places = (numbers % nx, numbers // nx % ny, numbers // (nx * ny))
    x, y, z = (
        np.searchsorted(np.asarray(np.cumsum(sizes), like=place), place, side="right")
        for sizes, place in zip(partition.sizes, places, strict=True)
    )
    boxes = x + partition.counts[0] * (y + partition.counts[1] * z)
    p = made.prolongation.rows(backend.amg)
    rows = {box: backend.amg.selected(p, np.flatnonzero(boxes == box)) for box in np.unique(boxes).tolist()}
    mine = rows.pop(number, backend.amg.selected(p, numbers[:0]))
    return _BoxP(rows=mine, lists={box: tuple(part) for box, part in rows.items()})


def _p_of_box(backend: Backend, number: int, box: BoxRows, back: _BoxP, arrived: Messages, *, bounds: Bounds) -> _BoxP:
    """Rows of P of a box, and for the owners of coarse points those that are restricted to them."""
    parts = {number: back.rows, **{sender: Csr(*part) for sender, part in arrived.items()}}
    p = joined([parts[sender] for sender in sorted(parts)])  # ranges ascend, and so do the rows of a box
    entries = backend.amg.outside(p.columns, *own_bounds(bounds, number))
    owners, of_entry = owners_of(bounds, p.columns[entries]), np.searchsorted(p.start[1:], entries, side="right")
    lists, sent = {}, {}
    for other in others(bounds, number, owners):
        sent[other] = wanted = backend.amg.distinct(of_entry[owners == other])
        lists[other] = box.numbers[wanted], *backend.amg.selected(p, wanted, (bounds[other], bounds[other + 1]))
    return _BoxP(rows=p, lists=lists, sent=sent)


def _between(
    backend: Backend, number: int, box: BoxRows, p: _BoxP, made: Coarsened, around: Messages, *, bounds: Bounds
) -> Coarsened:
    first, last = own_bounds(bounds, number)
    numbers, parts = [box.numbers], [backend.amg.selected(p.rows, None, (first, last))]
    sends, receives = [], []
    for sender, (theirs, *message) in sorted(around.items()):
        numbers.append(theirs)
        parts.append(Csr(*message))
        sends.append((sender, backend.amg.distinct(parts[-1].columns) - first))
        receives.append((sender, len(theirs)))
    ascending = np.argsort(np.concatenate(numbers))
    fine = backend.amg.selected(joined(parts), ascending)
    own = Window(first=first, rows=last - first, ghosts=ascending[:0])
    r = backend.amg.transposed(own.placed(backend.amg, fine), last - first)
    of_slots = r._replace(columns=ascending.astype(np.int32)[r.columns])  # which are in the order of the messages
    prolongation = DistributedRows.of(backend.amg, bounds, number, p.rows)
    return replace(
        made,
        restriction_parts=None,
        prolongation_parts=None,
        restriction=Deferred(lambda: of_slots),
        restriction_plan=HaloPlan(sends=tuple(sorted(p.sent.items())), receives=tuple(receives)),
        prolongation=prolongation,
        prolongation_plan=HaloPlan(sends=tuple(sends), receives=received(bounds, prolongation.window)),
    )
