"""Halo layouts: which items of a distributed vector chunks send to each other, and where received ones go."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dsolver.grid.box import Offsets
from dsolver.grid.halo import HaloPlan
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend
from dsolver.kernels.formats.layout import HaloLayout, Layout

Counts = Sequence[tuple[int, int]]  # per neighbor, its chunk number and how many items go to it or come from it


def halo_layout(backend: Backend, layout: Layout, partition: Partition, number: int, offsets: Offsets) -> HaloLayout:
    """The exchange of a chunk's vector whose neighbors read it at these offsets."""
    if len(partition) == 1:
        return plan_layout(backend, layout, partition.halo_plan(number, offsets))
    around = sum(piece.box.points for piece in partition.halo_pieces(number, offsets))
    sent = backend.layouts.kept(
        "sent rows",
        around,
        (*partition.cut, number, offsets),
        lambda: _sent(backend, partition.halo_plan(number, offsets)),
    )
    return _ordered(backend, layout, *sent)


def plan_layout(backend: Backend, layout: Layout, plan: HaloPlan) -> HaloLayout:
    """The exchange of a chunk's vector by a plan of rows and slots."""
    return _ordered(backend, layout, *_sent(backend, plan))


def direct_layout(backend: Backend, sends: Counts, receives: Counts) -> HaloLayout:
    """An exchange of vectors that hold what is sent, neighbor after neighbor, and nothing else."""
    items = sum(size for _, size in sends)
    return _layout(backend, backend.xp.arange(items, dtype=np.int32), sends, receives, items)


def row_layout(backend: Backend, plan: HaloPlan) -> HaloLayout:
    """The exchange, by a plan of rows and slots, of vectors whose items are in the order of the rows."""
    rows, sends, receives = _sent(backend, plan)
    return _layout(backend, rows.astype(np.int32), sends, receives)


def gather_layout(
    backend: Backend, number: int, rows: Layout | None = None, *, hosts: Sequence[int], sizes: Sequence[int]
) -> HaloLayout:
    """An exchange by which every host gets what all other chunks have, in the order of their numbers.

    Args:
        hosts: the chunks that receive.
        sizes: how many items each chunk has.
        rows: the storage order of its vector, whose items go in lattice order; None where it holds nothing else.
    """
    sends = [(host, sizes[number]) for host in hosts if host != number]
    receives = [(other, size) for other, size in enumerate(sizes) if other != number] if number in hosts else []
    own = backend.xp.arange(sizes[number], dtype=np.int32) if rows is None else rows.position
    repeated = backend.xp.tile(own, len(sends)) if sends else own[:0]
    return _layout(backend, repeated, sends, receives, sizes[number] if rows is None else rows.size)


def gather_senders(hosts: Sequence[int], chunks: int) -> list[list[int]]:
    """The chunks that each of so many chunks gets something from in such an exchange."""
    every, receiving = list(range(chunks)), {*hosts}
    return [every[:number] + every[number + 1 :] if number in receiving else [] for number in every]


def _sent(backend: Backend, plan: HaloPlan) -> tuple[Any, Counts, Counts]:
    """int64, all rows that a plan sends, on the device, wherever its arrays lie; how many go, and how many come."""
    rows = [backend.asarray(rows) for _, rows in plan.sends]
    joined = rows[0] if len(rows) == 1 else backend.xp.concatenate([backend.xp.empty(0, dtype=np.int64), *rows])
    return joined, [(chunk, len(rows)) for chunk, rows in plan.sends], plan.receives


def _ordered(backend: Backend, layout: Layout, rows: Any, sends: Counts, receives: Counts) -> HaloLayout:
    """The exchange of rows in the storage order of a vector."""
    places = layout.position[rows] if sends else backend.xp.empty(0, dtype=np.int32)
    return _layout(backend, places, sends, receives, layout.size)


def _layout(backend: Backend, send_rows: Any, sends: Counts, receives: Counts, items: int | None = None) -> HaloLayout:
    return HaloLayout(
        send_rows=send_rows,
        sends=_ranges(sends, 0),
        receives=_ranges(receives, backend.guard),
        size=sum(size for _, size in receives) + 2 * backend.guard,
        items=items,
    )


def _ranges(counts: Counts, first: int) -> tuple[tuple[int, int, int], ...]:
    """(chunk, begin, end) of consecutive runs whose lengths are given."""
    out = []
    for chunk, count in counts:
        out.append((chunk, first, first + count))
        first += count
    return tuple(out)
