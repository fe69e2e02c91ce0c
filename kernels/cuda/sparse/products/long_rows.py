"""Rows of products and of transposes that are too long for tables in shared memory, with the same bits.

Rows of products are made by a block each (wide_rows.cu). Those of very many terms, which it would take one after the
other, and rows of transposes are sorted: few matrices have any, so these are calls of CuPy's, each of them parallel
over all entries of all such rows.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import NOTHING, for_each, kernel
from dsolver.kernels.cuda.sparse.starts import starts_of
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, WIDE, DTYPE = "sparse/products/product.cu", "sparse/products/wide_rows.cu", "float64"
THREADS: Final = 256
AT_ONCE: Final = 1 << 25  # most products that are held at once, 60 bytes each; a row with more is by itself
TALL: Final = 1 << 16  # entries of a row of A above which its products are sorted
GROUP: Final = 128  # columns in whose multiples ranges are cut, as in wide_rows.cu
RANGE: Final = 1 << 20  # columns that a block looks at together, at most
SHARED: Final = (28 << 10, 54 << 10, 110 << 10, 220 << 10)
"""Bytes of shared memory with which eight, four, two and one block share a multiprocessor."""
SPARE: Final = 16 << 10  # bytes of them for sums and for rows of B, at least
OF_ROWS: Final = 6 << 10  # bytes for rows of B
MOST_SUMS: Final = 1 << 14  # sums in shared memory, at most


class _SharedMemory(NamedTuple):
    """Shared memory of a block, in bytes; columns that it looks at together, and sums that it has room for."""

    range: int
    sums: int
    shared: int

    def launch(self, name: str, rows: Array, a: Csr, b: Csr, columns: int, more: tuple[Any, ...]) -> None:
        """Launch a kernel of wide_rows.cu, a block for each of some rows."""
        function = kernel(WIDE, name, DTYPE)
        if function.max_dynamic_shared_size_bytes < self.shared:
            function.max_dynamic_shared_size_bytes = self.shared
        arguments = (rows, *a, *b, np.int32(columns), np.int32(self.range), *more)
        function((len(rows),), (THREADS,), arguments, shared_mem=self.shared)


def _room(columns: int) -> _SharedMemory:
    """Shared memory of blocks that make rows with so many columns."""
    width = min(RANGE, -(-columns // (2 * GROUP)) * 2 * GROUP)  # sums behind the bits and counts begin at 8 bytes
    bits = width // 8 + 4 * (width // GROUP)
    shared = next(size for size in SHARED if bits + SPARE <= size)
    sums = min((shared - bits - OF_ROWS) // 8, MOST_SUMS)
    return _SharedMemory(width, sums, bits + 8 * sums)


def count(rows: Array, a: Csr, b: Csr, columns: int) -> Array:
    """Numbers of columns, int64, of some rows (int32, at least one) of A B."""
    room, lengths = _room(columns), cupy.empty(len(rows), dtype=np.int64)
    room._replace(shared=room.range // 8).launch("count_wide", rows, a, b, columns, (lengths,))
    return lengths


def fill(rows: Array, a: Csr, b: Csr, columns: int, out: Csr, *, ascending: bool) -> None:
    """Write some rows (int32, at least one) of A B to their places, columns ascending or as of `products.product`."""
    terms = a.start[rows + 1] - a.start[rows]
    tall = terms > TALL
    if bool(tall.any()):
        for part in _batches(rows[tall], a, b):
            put(_sorted_product(part, a, b, columns, ascending=ascending), part, out)
        rows, terms = rows[~tall], terms[~tall]
    rows = rows[cupy.argsort(-terms)]  # those that take longest come first
    if not len(rows):
        return
    room, starts = _room(columns), out.start[rows]
    lengths = out.start[rows + 1] - starts
    if ascending:
        arguments = (np.int32(room.sums), starts, lengths, out.columns, out.values, NOTHING)
        room.launch("fill_wide", rows, a, b, columns, arguments)
        return
    made = starts_of(lengths)
    entries = int(made[-1])
    found, values, turns = cupy.empty(entries, dtype=np.int32), cupy.empty(entries), cupy.empty(entries, dtype=np.int64)
    room.launch("fill_wide", rows, a, b, columns, (np.int32(room.sums), made, lengths, found, values, turns))
    order = cupy.argsort(turns)
    put(Csr(made, found[order], values[order]), rows, out)


def put(long: Csr, rows: Array, out: Csr) -> None:
    """Write rows to where they belong: their numbers, int32, in a matrix with room for as many entries of each."""
    places, _ = _entries(out.start, rows)
    out.columns[places] = long.columns
    out.values[places] = long.values


def sort_long(rows: Array, a: Csr, columns: int, out: Csr) -> None:
    """Sort some rows' entries by their columns into a matrix with the same starts, which may be the same one."""
    places, of_row = _entries(a.start, rows)
    entries = places[cupy.argsort(of_row * columns + a.columns[places], kind="stable")]
    found, values = a.columns[entries], a.values[entries]
    out.columns[places], out.values[places] = found, values


def _entries(start: Array, rows: Array) -> tuple[Array, Array]:
    """Two arrays, int64: places of the entries of some rows, and the place of each one's row among the rows."""
    return _spread(start[rows], start[rows + 1] - start[rows])


def _spread(first: Array, lengths: Array) -> tuple[Array, Array]:
    """The numbers of some ranges, one after the other, and for each the range that it is of."""
    ends = cupy.cumsum(lengths)
    numbers = cupy.arange(int(ends[-1]), dtype=np.int64)
    of_range = cupy.searchsorted(ends, numbers, side="right")
    return numbers + (first - ends + lengths)[of_range], of_range


def _batches(rows: Array, a: Csr, b: Csr) -> Iterator[Array]:
    """The rows in parts that have at most `AT_ONCE` products, where one row has not more."""
    places, of_row = _entries(a.start, rows)
    j = a.columns[places]
    sums = starts_of(b.start[j + 1] - b.start[j])
    lengths = cupy.bincount(of_row, minlength=len(rows))
    found = sums[starts_of(lengths)].get()  # products of the rows before each one
    first = 0
    while first < len(rows):
        last = max(first + 1, int(np.searchsorted(found, found[first] + AT_ONCE, side="right")) - 1)
        yield rows[first:last]
        first = last


def _sorted_product(rows: Array, a: Csr, b: Csr, columns: int, *, ascending: bool) -> Csr:
    """Rows of A B: all products are sorted by row and column, and keep their order."""
    entries, of_row = _entries(a.start, rows)
    j = a.columns[entries]
    places, of_entry = _spread(b.start[j], b.start[j + 1] - b.start[j])
    values = a.values[entries][of_entry] * b.values[places]
    keys = of_row[of_entry] * columns + b.columns[places]
    order = cupy.argsort(keys, kind="stable")
    keys = keys[order]
    new = cupy.ones(len(keys), dtype=np.bool_)
    new[1:] = keys[1:] != keys[:-1]
    begin = cupy.flatnonzero(new)
    keys, sums = keys[begin], cupy.empty(len(begin))
    if len(sums):
        ends = cupy.concatenate([begin, cupy.asarray([len(order)])])
        for_each(FILE, "add_sorted", len(sums), ends, np.int64(len(sums)), order, values, sums)
    lengths = cupy.bincount(keys // columns, minlength=len(rows))
    if not ascending:  # products have the order of the rows, so their first ones have that in which they are found
        found = cupy.argsort(order[begin], kind="stable")
        keys, sums = keys[found], sums[found]
    return Csr(starts_of(lengths), (keys % columns).astype(np.int32), sums)
