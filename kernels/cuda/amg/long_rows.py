"""Rows of products and of transposes that are too long for shared memory: they are sorted, with the same bits.

Few matrices have any, so these are calls of CuPy's, each of them parallel over all entries of all long rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "amg/products.cu", "float64"
THREADS: Final = 256
AT_ONCE: Final = 1 << 25
"""Most products that are held at once, of 60 bytes, where a row has not more of them."""


def long_product(rows: Array, a: Csr, b: Csr, columns: int, *, ascending: bool) -> Csr:
    """Some rows of A B.

    Args:
        rows: int32, their numbers, at least one.
        a: A.
        b: B.
        columns: of B.
        ascending: whether columns ascend in each row; they are in the order of `spgemm.product` otherwise.
    """
    parts = [_product(part, a, b, columns, ascending=ascending) for part in _batches(rows, a, b)]
    lengths, found, values = (cupy.concatenate(pieces) for pieces in zip(*parts, strict=True))
    return Csr(_starts(lengths), found, values)


def put(long: Csr, rows: Array, out: Csr) -> None:
    """Write rows to where they belong.

    Args:
        long: the rows.
        rows: int32, their numbers.
        out: the matrix, which has room for as many entries of each.
    """
    places, _ = _entries(out.start, rows)
    out.columns[places] = long.columns
    out.values[places] = long.values


def sort_long(rows: Array, a: Csr, columns: int, out: Csr) -> None:
    """Sort the entries of some rows by their columns.

    Args:
        rows: int32, their numbers, at least one.
        a: the matrix.
        columns: of a.
        out: a matrix with the same starts, in place of which the arrays of a may be given.
    """
    places, of_row = _entries(a.start, rows)
    entries = places[cupy.argsort(of_row * columns + a.columns[places], kind="stable")]
    found, values = a.columns[entries], a.values[entries]
    out.columns[places], out.values[places] = found, values


def _starts(lengths: Array) -> Array:
    """int64 (rows + 1,), where rows of such lengths begin."""
    start = cupy.zeros(len(lengths) + 1, dtype=np.int64)
    start[1:] = cupy.cumsum(lengths)
    return start


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
    sums = _starts(b.start[j + 1] - b.start[j])
    lengths = cupy.bincount(of_row, minlength=len(rows))
    found = sums[_starts(lengths)].get()  # products of the rows before each one
    first = 0
    while first < len(rows):
        last = max(first + 1, int(np.searchsorted(found, found[first] + AT_ONCE, side="right")) - 1)
        yield rows[first:last]
        first = last


def _product(rows: Array, a: Csr, b: Csr, columns: int, *, ascending: bool) -> tuple[Array, Array, Array]:
    """Lengths, columns and values of rows of A B: all products are sorted by row and column, and keep their order."""
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
        grid = (-(-len(sums) // THREADS),)
        kernel(FILE, "add_sorted", DTYPE)(grid, (THREADS,), (ends, np.int64(len(sums)), order, values, sums))
    lengths = cupy.bincount(keys // columns, minlength=len(rows))
    if not ascending:  # products have the order of the rows, so their first ones have that in which they are found
        found = cupy.argsort(order[begin], kind="stable")
        keys, sums = keys[found], sums[found]
    return lengths, (keys % columns).astype(np.int32), sums
