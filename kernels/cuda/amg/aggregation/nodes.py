"""Couplings of nodes on a GPU: the bits of `dsolver.kernels.cpu.amg.aggregation.nodes`."""

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import NOTHING, for_each
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.cuda.sparse.products.mirrors import ascending
from dsolver.kernels.cuda.sparse.starts import add_up, unfilled, without_rows
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE: Final = "amg/aggregation/nodes.cu"
MANY: Final = 64  # entries of a node, on average, from which it has 32 lanes in place of 8
OF_LANE: Final = 9  # squares of a lane in shared memory, as in nodes.cu
LANES_OF_MOVE: Final = 8  # lanes of a node whose couplings are moved, too


def strong_nodes(a: Csr, below: int, scale: Array, size: int, node: Array, count: int, theta: float) -> Csr:
    """See `dsolver.kernels.cpu.amg.aggregation.nodes.strong_nodes`. It waits for the number of couplings.

    Rows of full blocks take one pass. Whether they are, that pass finds out; where they are not, there are two more.
    """
    own = a.size // size
    if not own:
        return without_rows()
    lanes = 32 if len(a.columns) >= MANY * own else 8
    numbers = np.int32(own), np.int32(below), np.int32(size)
    rows = (*a, node, *numbers, scale, np.float64(theta * theta * size))
    if size * size <= OF_LANE * lanes and (found := _of_full_blocks(a, own, size, lanes, rows)):
        return found
    start, known = cupy.empty(own + 1, dtype=np.int64), counters(2)
    nothing = (NOTHING,) * 3
    for_each(FILE, f"strong_{lanes}_0", own, *rows, start[1:], known[1:], *nothing, lanes=lanes)
    add_up(start, known)
    entries, late = map(int, read_back(known))
    out = unfilled(start, entries)
    for_each(FILE, f"strong_{lanes}_1", own, *rows, *nothing[:2], *out, lanes=lanes)
    return ascending(out, count) if late else out


def _of_full_blocks(a: Csr, own: int, size: int, lanes: int, rows: tuple[Any, ...]) -> Csr | None:
    """The couplings where blocks are full, else None."""
    room, known = len(a.columns) // (size * size), counters(2)
    start, columns, values = unfilled(cupy.empty(own + 1, dtype=np.int64), room)
    for_each(FILE, f"full_strong_{lanes}", own, *rows, start[1:], known[1:], columns, values, lanes=lanes)
    add_up(start, known)
    entries, otherwise = map(int, read_back(known))
    if otherwise:
        return None
    out = unfilled(start, entries)
    arguments = (a.start, np.int32(own), np.int32(size), columns, values, *out)
    for_each(FILE, "move_strong", own, *arguments, lanes=LANES_OF_MOVE)
    return out
