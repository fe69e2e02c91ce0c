"""Some rows of a matrix, with their entries in some columns, on a GPU: see `dsolver.kernels.cpu.amg.selection`.

And rows in two parts, as `dsolver.kernels.general.rows.split` has them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.amg import EVERY
from dsolver.kernels.cuda.launch.counters import counters
from dsolver.kernels.cuda.launch.loader import kernel, type_of
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.cuda.sparse.starts import running_sums, starts_of
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.general.rows import SplitRows, whole

FILE: Final = "sparse/selection.cu"
THREADS: Final = 256
LANES: Final = 8
"""Lanes that share a row, as in selection.cu."""


def selected(a: Csr, rows: Array | None = None, columns: tuple[int, int] = EVERY) -> Csr:
    """See `dsolver.kernels.cpu.amg.selection.selected`. It waits once, for the number of entries."""
    count = a.size if rows is None else len(rows)
    if not count:
        return Csr(cupy.zeros(1, dtype=np.int64), a.columns[:0], a.values[:0])
    lengths, total = cupy.empty(count, dtype=np.int32), counters(1)
    name, head = f"select_{a.columns.itemsize}", (*a, rows, np.int32(count), *map(np.int64, columns))
    _launch(name, a, count, (*head, lengths, None, None, None))
    start = starts_of(lengths, total)
    entries = int(read_back(total)[0])
    out = Csr(start, cupy.empty(entries, dtype=a.columns.dtype), cupy.empty(entries, dtype=a.values.dtype))
    if entries:
        _launch(name, a, count, (*head, lengths, *out))
    return out


def bordered(a: Csr, width: int, before: int, after: int) -> Csr:
    """A matrix of so many columns between rows with a one each, the first of them in columns before its own."""
    rows, entries = a.size + before + after, len(a.columns) + before + after
    out = Csr(
        cupy.empty(rows + 1, dtype=np.int64), cupy.empty(entries, dtype=np.int32), cupy.empty(entries, a.values.dtype)
    )
    sizes = np.int64(len(a.columns)), *map(np.int32, (a.size, width, before, after))
    grid = (-(-max(rows + 1, entries) // THREADS),)
    kernel(FILE, "border", type_of(a.values))(grid, (THREADS,), (*a, *sizes, *out))
    return out


def parted(a: Csr, low: int, high: int) -> tuple[Csr, Array, Csr]:
    """See `dsolver.kernels.cpu.amg.selection.parted`. It waits once."""
    return _split(a, low, high, 0)[:3]


def nonempty(start: Array) -> tuple[Array, Array]:
    """See `dsolver.kernels.cpu.amg.selection.nonempty`. It waits, for how many there are."""
    rows, total = len(start) - 1, counters(1)
    if not rows:
        return start[:0], start
    marks, out, begins = (cupy.empty(size, dtype=kind) for size, kind in ((rows, "i4"), (rows, "i8"), (rows + 1, "i8")))
    run, grid = partial(kernel, FILE, dtype="float64"), (rows // THREADS + 1,)
    run("mark_nonempty")(grid, (THREADS,), (start, np.int32(rows), marks))
    run("take_nonempty")(grid, (THREADS,), (start, np.int32(rows), starts_of(marks, total), out, begins))
    found = int(read_back(total)[0])
    return out[:found], begins[: found + 1]


def split(rows: Csr, own_columns: int) -> SplitRows:
    """See `dsolver.kernels.general.rows.split`. It waits once, for the numbers of entries and of rows."""
    return _split(rows, 0, own_columns, own_columns)


def _split(rows: Csr, low: int, high: int, shift: int) -> SplitRows:
    """Rows by their entries in columns low .. high, numbered from there on, and in others, numbered from `shift` on.

    Entries are read twice, and nothing is made for each of them beside the parts.
    """
    count = rows.size
    counts, totals = cupy.empty((count, 3), dtype=np.int32), counters(4)
    _launch("count_parts", rows, count, (*rows[:2], np.int32(count), np.int32(low), np.int32(high), counts, totals[3:]))
    sums, _ = running_sums(counts, totals[:3])
    own, ghosts, boundary, longest = map(int, read_back(totals))
    if not ghosts and not low:
        return whole(cupy, rows)
    kind = rows.values.dtype
    local = Csr(cupy.empty(count + 1, dtype=np.int64), cupy.empty(own, dtype=np.int32), cupy.empty(own, dtype=kind))
    numbers = cupy.empty(boundary, dtype=np.int64)
    ghost = Csr(
        cupy.empty(boundary + 1, dtype=np.int64), cupy.empty(ghosts, dtype=np.int32), cupy.empty(ghosts, dtype=kind)
    )
    sizes = map(np.int32, (count, low, high, shift))
    _launch("fill_parts", rows, count, (*rows, *sizes, sums, *local, numbers, *ghost))
    return SplitRows(local, numbers, ghost, longest)


def _launch(name: str, a: Csr, count: int, arguments: Any) -> None:
    """Launch a kernel with `LANES` threads for each of so many rows."""
    if count:
        kernel(FILE, name, type_of(a.values))((-(-count * LANES // THREADS),), (THREADS,), arguments)
