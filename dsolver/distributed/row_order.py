"""Orders of a chunk's rows: rows that read each other are brought together, so that x stays in caches."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.grid.halo import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.general.rows import split
from dsolver.matrices.chunks.row_block import RowBlock


def own_part(xp: Any, rows: Csr, plan: HaloPlan) -> Csr:
    """The entries of a chunk's rows, whose columns are own ones and then halo slots, in columns that it owns."""
    return split(xp, rows).local if plan.slots else rows


def cuthill_mckee(a: Csr) -> npt.NDArray[np.int32]:
    """Reverse Cuthill-McKee order of a square matrix: the row at each place, int32 (rows,).

    Its own pattern need not be symmetric: an entry counts as a coupling of both rows (George, Liu, Computer Solution of
    Large Sparse Positive Definite Systems, 1981, chapter 4).
    """
    rows = len(a.start) - 1
    ones = np.ones(len(a.columns), dtype=np.int8)  # SciPy adds the transpose: values of two entries could cancel
    pattern = import_module("scipy.sparse").csr_array((ones, a.columns, a.start), shape=(rows, rows))
    found = import_module("scipy.sparse.csgraph").reverse_cuthill_mckee(pattern, symmetric_mode=False)
    return found.astype(np.int32)


ORDERS = {"rcm": cuthill_mckee}  # makers of orders by the names that `dsolver.matrix` takes


def in_order(_: Backend, __: int, block: RowBlock, *, name: str) -> RowBlock:
    """A block with its rows, and own columns, in another order; halo slots and plan, by numbers in A, stay."""
    block = block.here
    return reordered(block, ORDERS[name](own_part(np, block.csr, block.plan)))


def as_other(_: Backend, __: int, block: RowBlock, other: RowBlock) -> RowBlock:
    """A block in the order of another one of the same rows."""
    return block if other.order is None else reordered(block.here, other.order)


def reordered(block: RowBlock, order: npt.NDArray[np.int32]) -> RowBlock:
    """A block in memory of the host, which is in A's order, in another order: the row at each place."""
    rows = len(order)
    place = np.empty(rows, dtype=np.int32)
    place[order] = np.arange(rows, dtype=np.int32)
    wide = max(rows, int(block.columns.max(initial=0)) + 1)
    whole = import_module("scipy.sparse").csr_array((block.values, block.columns, block.start), shape=(rows, wide))
    made = whole[order]
    own = made.indices < rows
    made.indices[own] = place[made.indices[own]]
    made.has_sorted_indices = False
    made.sort_indices()
    start, columns = made.indptr.astype(np.int64), made.indices.astype(np.int32, copy=False)
    return replace(block, start=start, columns=columns, values=made.data, order=order, known=None, parts=None)
