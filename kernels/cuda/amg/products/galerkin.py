"""R A P on a GPU, with a single wait after the size of its rows was guessed.

A P has no begins of rows that anybody would wait for: its rows stay in rooms of equal size, where the second product
reads them. The rows of R A P are sorted from their rooms to their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.amg.products.mirrors import (
    begun_transpose,
    fill_lost,
    mirror,
    mirrored_means,
    sort_rooms,
    transposed,
)
from dsolver.kernels.cuda.amg.products.product import Expected, expected_of, in_rooms, mean_of, move, pieces_of, product
from dsolver.kernels.cuda.amg.products.stages import COUNTERS, Rooms, Stages
from dsolver.kernels.cuda.csr.starts import starts_of
from dsolver.kernels.cuda.launch.counters import counters
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

PASSED: Final = COUNTERS // 2
"""Numbers of 8 bytes that hold the counters of stages."""
MOST_PIECES: Final = 64
"""Pieces in which R A P is made, at most."""
MOST_READ: Final = 1.5
"""Rows of A P that all pieces read together, at most, over all rows: else each is made once, and compressed."""


def galerkin(a: Csr, p: Csr, columns: int, diagonal: Any, *, symmetric: bool = False) -> tuple[Csr, Csr, int]:
    """See `dsolver.kernels.amg.setup.AlgebraicSetup.galerkin`."""
    if made := _in_rooms(a, p, columns, diagonal, symmetric):
        # Where entries of A have mirror images, so have those of R A P: nobody counts those without.
        return *made, 0
    r = transposed(p, columns)
    coarse = product(r, product(a, p, columns, ascending=False), columns, ascending=False)
    fill_lost(coarse, 0, r, diagonal)
    return (r, *mirrored_means(coarse)) if symmetric else (r, coarse, 0)


def _in_rooms(a: Csr, p: Csr, columns: int, diagonal: Any, symmetric: bool) -> tuple[Csr, Csr] | None:
    """R and R A P, whose columns ascend where it is symmetric; None where rows found no room."""
    if not len(p.columns):
        return None
    known = counters(1 + 3 * PASSED)  # entries of R A P, and rows that stages have passed on
    of_ap, of_coarse, of_r = (known[1:].view(np.int32)[n * COUNTERS : (n + 1) * COUNTERS] for n in range(3))
    stages = Stages(columns, of_r)
    r = begun_transpose(p, columns, stages)
    first = expected_of(a, Rooms(*p), mean_of(p))
    if (pieces := pieces_of(a, Rooms(*p), mean_of(p), first)) > 1:
        sorted_ = pieces <= MOST_PIECES and not read_back(of_r)[stages.last]
        made = _in_pieces(a, p, r, first, pieces, symmetric=symmetric) if sorted_ else None
        if made is None:
            return None
        _finish(made, r, diagonal, symmetric=symmetric)
        return r, made
    ap = in_rooms(a, Rooms(*p), mean_of(p), first, Stages(a.size, of_ap))
    if ap is None:
        return None
    second = expected_of(r, ap, first.mean)
    rooms = in_rooms(r, ap, first.mean, second, Stages(columns, of_coarse))
    if rooms is None:
        return None
    start = starts_of(rooms.lengths, known)
    found = read_back(known, long_wait=True)
    passed = found[1:].view(np.int32).reshape(3, COUNTERS)
    if passed[0, 1] or passed[1, 1] or passed[2, stages.last]:
        return None
    coarse = Csr(start, cupy.empty(int(found[0]), dtype=np.int32), cupy.empty(int(found[0])))
    if symmetric:
        sort_rooms(rooms, coarse)
    else:
        move(rooms, second.mean, coarse)
    _finish(coarse, r, diagonal, symmetric=symmetric)
    return r, coarse


def _in_pieces(a: Csr, p: Csr, r: Csr, expected: Expected, pieces: int, *, symmetric: bool) -> Csr | None:
    """R A P, piece after piece of its rows, each with the rows of A P that it reads: rooms of a piece, not of all rows.

    Where rows of R are beside each other and read rows of A P that are, as on lattices and in banded order, few of
    these are made twice.

    Args:
        a: A.
        p: P.
        r: R.
        expected: of rows of A P.
        pieces: how many.
        symmetric: whether columns shall ascend.

    Returns:
        the rows, before those that rounding left are filled; None where pieces read too many rows, or rows found no
        room.
    """
    edges = [r.size * n // pieces for n in range(pieces + 1)]
    rows, entries = list(pairwise(edges)), list(pairwise(_at(r.start, edges)))
    read = [r.columns[begin:end] for begin, end in entries]
    if not all(map(len, read)):
        return None
    found = read_back(cupy.stack([end(columns) for columns in read for end in (cupy.min, cupy.max)])).tolist()
    windows = [(first, last + 1) for first, last in zip(found[::2], found[1::2], strict=True)]
    if sum(last - first for first, last in windows) > MOST_READ * a.size:
        return None
    of_a = _at(a.start, [end for window in windows for end in window])
    known = counters(1 + 2 * pieces * PASSED)
    passed = known[1:].view(np.int32).reshape(pieces, 2, COUNTERS)
    made = []
    for n, window in enumerate(windows):
        fine, coarse = _part(a, window, of_a[2 * n : 2 * n + 2]), _part(r, rows[n], entries[n])
        coarse = coarse._replace(columns=coarse.columns - np.int32(window[0]))
        one = _piece(fine, p, coarse, expected, passed[n])
        if one is None:
            return None
        made.append(one)
    start = starts_of(cupy.concatenate([rooms.lengths for rooms, _ in made]), known)
    found = read_back(known, long_wait=True)
    if found[1:].view(np.int32).reshape(-1, COUNTERS)[:, 1].any():
        return None
    out = Csr(start, cupy.empty(int(found[0]), dtype=np.int32), cupy.empty(int(found[0])))
    for (rooms, mean), span, places in zip(made, rows, pairwise(_at(start, edges)), strict=True):
        if symmetric:
            sort_rooms(rooms, _part(out, span, places))
        else:
            move(rooms, mean, _part(out, span, places))
    return out


def _piece(a: Csr, p: Csr, r: Csr, expected: Expected, passed: Array) -> tuple[Rooms, float] | None:
    """Rows of R A P in rooms, and their mean length, about; None where they would be too large.

    passed: int32 (2, COUNTERS), rows that stages pass on.
    """
    ap = in_rooms(a, Rooms(*p), mean_of(p), expected, Stages(a.size, passed[0]))
    if ap is None:
        return None
    second = expected_of(r, ap, expected.mean)
    rooms = in_rooms(r, ap, expected.mean, second, Stages(r.size, passed[1]))
    return None if rooms is None else (rooms, second.mean)


def _at(start: Array, rows: Sequence[int]) -> list[int]:
    """Begins of some rows, on the host."""
    found: list[int] = read_back(start[cupy.asarray(rows)]).tolist()
    return found


def _part(matrix: Csr, rows: Sequence[int], entries: Sequence[int]) -> Csr:
    """Rows of a matrix, from the first to before the last, which have these entries, in its memory."""
    (first, last), (begin, end) = rows, entries
    return Csr(matrix.start[first : last + 1] - begin, matrix.columns[begin:end], matrix.values[begin:end])


def _finish(coarse: Csr, r: Csr, diagonal: Any, *, symmetric: bool) -> None:
    """Fill rows that rounding left, and make mirrored entries equal."""
    fill_lost(coarse, 0, r, diagonal)
    if symmetric:
        mirror(coarse)
