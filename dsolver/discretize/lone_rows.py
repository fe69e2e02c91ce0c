"""Rows that tell their unknown alone, which other rows are solved without."""

from typing import Any

from dsolver.kernels import Backend
from dsolver.kernels.formats.layout import Layout
from dsolver.matrices.chunks.row_block import RowBlock


def inverses_of(backend: Backend, number: int, block: RowBlock, *real: RowBlock) -> Any:
    """1 / a_ii of a chunk's rows that have no other entry, and 0 of all others: (rows, 1, 1) in A's order.

    real: the real part of complex rows, whose stand-in the block is: a row that has another part is no such row.
    """
    xp, rows = backend.xp, len(block.start) - 1
    start, columns, values = (backend.asarray(part) for part in block.csr)
    place = xp.searchsorted(start, xp.arange(len(columns)), side="right") - 1
    filled = xp.bincount(place[values != 0.0], minlength=rows)
    found = xp.zeros(rows)
    own = (columns == place) & (values != 0.0) & (filled == 1)[place]
    found[place[own]] = 1.0 / values[own]
    if block.order is not None:
        in_order = xp.zeros(rows)
        in_order[backend.asarray(block.order)] = found
        found = in_order
    found = found.reshape(rows, 1, 1)
    for part in real:
        found = xp.where(inverses_of(backend, number, part) == found, found, 0.0)
    return found


def with_known(backend: Backend, _: int, layout: Layout, b: Any, x: Any, inverses: Any) -> Any:
    """A block of x with the unknowns that rows tell alone."""
    right, values = (backend.vectors.unload(layout, vector) for vector in (b, x))
    return backend.xp.where(inverses != 0.0, right * inverses, values)
