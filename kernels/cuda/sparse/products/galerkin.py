"""R A P on a GPU, as of `AmgKernels`, with a single wait after the size of its rows was guessed.

A P has no begins of rows, for which the host would wait: its rows stay in rooms of equal size, where the second product
reads them. Of a symmetric R A P only entries from the diagonal on are made; they and their mirror images are sorted
to their places.

Rows of A P that other chunks have made are rows of P that A takes once, so that one product makes them all.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

import cupy
import numpy as np

from dsolver.kernels.amg import Cut
from dsolver.kernels.cuda.launch.readback import Asked, counters, read_back
from dsolver.kernels.cuda.sparse.products import mirrors
from dsolver.kernels.cuda.sparse.products.expected_columns import EVERY, Expected, expecting
from dsolver.kernels.cuda.sparse.products.halves import SIZES, CudaHalves
from dsolver.kernels.cuda.sparse.products.product import in_rooms, move, pieces_of, product
from dsolver.kernels.cuda.sparse.selection import begun_selection, bordered, windows_of_pieces
from dsolver.kernels.cuda.sparse.stages.stages import COUNTERS, Rooms, Stages
from dsolver.kernels.cuda.sparse.starts import starts_of, unfilled
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

PASSED: Final = COUNTERS // 2  # numbers of 8 bytes that hold the counters of stages
SOME: Final = 1 << 14
"""Rows of a product from which on some are counted first, whatever their mean foretells: beside layers and islands few
rows are far longer than the others. Where they found no room products were made in vain, 10 of 30 ms of a set-up of
chips with 2 million cells; to count some takes 0.05 ms."""
LONG: Final = 1 << 24
"""Entries of P from which on R is begun before rows of A P are known: a GPU is busy for as long as the host then needs.
With fewer the host's launches would take longer, and it makes them while A P is made."""
MOST_PIECES: Final = 64  # pieces in which R A P is made, at most
MOST_READ: Final = 1.5
"""Rows of A P that all pieces read together, at most, over all rows: else each is made once, and compressed."""

Transpose = Callable[[], tuple[Csr, Deferred[None]]]  # makes rows of R, and then what makes the rest of them


class BegunProduct(NamedTuple):
    """A and P, of which A P is made once all rows of it that are not here have come; P has so many columns."""

    a: Csr
    p: Csr
    columns: int

    def rows(self, wanted: Array) -> Deferred[Csr]:
        """Some rows of A P, columns not ascending; those of A are counted here."""
        rows = begun_selection(self.a, wanted)
        return Deferred(lambda: product(rows(), self.p, self.columns, ascending=False))


def galerkin(a: Csr, p: Csr, columns: int, diagonal: Any, *, symmetric: bool = False) -> tuple[Csr, Csr]:
    whole = Cut(fine=p, rows=columns, width=columns)
    if symmetric:
        r, half = half_galerkin(BegunProduct(a, p, columns), whole, diagonal)
        return r, half.completed()
    if made := _in_rooms(a, p, whole, diagonal, symmetric=False):
        return made
    r = mirrors.transposed(p, columns)
    coarse = product(r, product(a, p, columns, ascending=False), columns, ascending=False)
    mirrors.fill_lost(coarse, 0, r, diagonal)
    return r, coarse


def half_galerkin(begun: BegunProduct, cut: Cut, diagonal: Any) -> tuple[Csr, CudaHalves]:
    a, p = _stacked(begun, cut)
    if made := _in_rooms(a, p, cut, diagonal, symmetric=True):
        return made
    r = mirrors.transposed(cut.fine, cut.rows)
    coarse = product(r, product(a, p, cut.width, ascending=False), cut.width, ascending=False)
    mirrors.fill_lost(coarse, cut.below, r, diagonal)
    return r, CudaHalves.of(_from_diagonal(coarse, cut.below), cut.below, cut.width)


def _stacked(begun: BegunProduct, cut: Cut) -> tuple[Csr, Csr]:
    """Two matrices whose product is A P between rows of it that others have made."""
    if cut.stacked is None:
        return begun.a, begun.p
    return bordered(begun.a, begun.p.size, cut.before, cut.after), cut.stacked(begun.p)


def _from_diagonal(a: Csr, below: int) -> Csr:
    """Entries of rows from the diagonal on, which row i has in column below + i."""
    entries = cupy.arange(len(a.columns), dtype=np.int64)
    kept = cupy.flatnonzero(a.columns >= below + cupy.searchsorted(a.start[1:], entries, side="right"))
    return Csr(cupy.searchsorted(kept, a.start).astype(np.int64), a.columns[kept], a.values[kept])


def _in_rooms(a: Csr, p: Csr, cut: Cut, diagonal: Any, *, symmetric: bool) -> tuple[Csr, Any] | None:
    """R and R A P, of which a symmetric one is a half; None where rows found no room."""
    if not len(p.columns) or not len(cut.fine.columns):
        return None
    known = counters(SIZES + 3 * PASSED)  # and rows that stages have passed on
    *of_products, of_r = known[SIZES:].view(np.int32).reshape(3, COUNTERS)
    of_first, stages = expecting(a, Rooms(*p), p.mean, sampled=a.size >= SOME), Stages(cut.rows, of_r)
    begun = Deferred(partial(mirrors.begun_transpose, cut.fine, cut.rows, stages))
    if len(cut.fine.columns) >= LONG:
        begun()
    first = of_first()  # it was there before R, which is not waited for
    if (pieces := pieces_of(a, Rooms(*p), p.mean, first)) > 1:
        left, made = Asked(of_r), _in_pieces(a, p, begun, cut, diagonal, first, pieces, symmetric=symmetric)
        return None if made is None or left()[stages.last] else (begun()[0], made)
    begin = cut.below if symmetric else EVERY
    rooms = _piece(a, p, begun, first, of_products, begin)
    if rooms is None:
        return None
    r, _ = begun()
    mirrors.fill_lost_rooms(rooms, cut.below, r, diagonal)
    result = _result([rooms], cut, known, symmetric=symmetric)
    found = read_back(known, long_wait=True)
    passed = found[SIZES:].view(np.int32).reshape(3, COUNTERS)
    if passed[0, 1] or passed[1, 1] or passed[2, stages.last]:
        return None
    return r, result.known(found)


def _result(pieces: Sequence[Rooms], cut: Cut, known: Array, *, symmetric: bool) -> "_Moved | CudaHalves":
    return CudaHalves(pieces, cut.below, cut.width, known) if symmetric else _Moved(pieces, known)


class _Moved:
    """Rows in rooms that move to their places, columns as found; known: int64, where the number of entries comes."""

    def __init__(self, pieces: Sequence[Rooms], known: Array) -> None:
        self._pieces, self._start = pieces, starts_of(mirrors.all_lengths(pieces), known)

    def known(self, found: Any) -> Csr:
        """The rows, once the number of their entries has been read."""
        entries = int(found[0])
        out, first = unfilled(self._start, entries), 0
        for rooms in self._pieces:
            last = first + rooms.size
            move(rooms, entries / out.size, out._replace(start=self._start[first : last + 1]))
            first = last
        return out


def _in_pieces(
    a: Csr, p: Csr, transpose: Transpose, cut: Cut, diagonal: Any, expected: Expected, pieces: int, *, symmetric: bool
) -> Csr | CudaHalves | None:
    """R A P, piece after piece of its rows, each with the rows of A P that it reads: rooms of a piece, not of all rows.

    None where pieces read too many rows, or rows found no room. Where rows of R are beside each other and read rows of
    A P that are, as on lattices and in banded order, few of these are made twice.

    transpose: as of `_piece`.
    """
    if pieces > MOST_PIECES:
        return None
    r, finish = transpose()
    sent, rows = windows_of_pieces(r, a.start, pieces), list(pairwise(r.size * n // pieces for n in range(pieces + 1)))
    finish()
    windows = sent().tolist()
    if sum(last - first for _, _, first, last, *_ in windows) > MOST_READ * a.size:
        return None
    known = counters(SIZES + 2 * pieces * PASSED)
    passed = known[SIZES:].view(np.int32).reshape(pieces, 2, COUNTERS)
    made = []
    for n, (*entries, first, last, of_a, to_a) in enumerate(windows):
        if first == last:
            return None
        fine, coarse = _part(a, (first, last), (of_a, to_a)), _part(r, rows[n], entries)
        shifted = coarse._replace(columns=coarse.columns - np.int32(first))
        begin = cut.below + rows[n][0]
        one = _piece(fine, p, partial(_sorted, shifted), expected, passed[n], begin if symmetric else EVERY)
        if one is None:
            return None
        mirrors.fill_lost_rooms(one, begin, coarse, diagonal)
        made.append(one)
    result = _result(made, cut, known, symmetric=symmetric)
    found = read_back(known, long_wait=True)
    if found[SIZES:].view(np.int32).reshape(-1, COUNTERS)[:, 1].any():
        return None
    return result.known(found)


def _piece(a: Csr, p: Csr, transpose: Transpose, of_ap: Expected, passed: Sequence[Array], begin: int) -> Rooms | None:
    """Rows of R A P in rooms; None where these would be too large.

    What the host launches here runs behind A P, the longest kernel, or while it learns of rows of R A P.

    Args:
        transpose: makes rows of R, of which columns are read first, in any order, and what makes the rest of them.
        of_ap: expected columns of rows of A P.
        passed: int32 (COUNTERS,) of each product, rows that stages pass on.
        begin: the column of the first row's diagonal, or `EVERY`.
    """
    ap = in_rooms(a, Rooms(*p), p.mean, of_ap, Stages(a.size, passed[0]))
    if ap is None:
        return None
    r, finish = transpose()
    second, stages = expecting(r, ap, of_ap.mean, begin, sampled=r.size >= SOME), Stages(r.size, passed[1])
    finish()
    return in_rooms(r, ap, of_ap.mean, second(), stages, begin)


def _sorted(rows: Csr) -> tuple[Csr, Deferred[None]]:
    """Rows as of `begun_transpose`, of which nothing is left to do."""
    return rows, Deferred(lambda: None)


def _part(matrix: Csr, rows: Sequence[int], entries: Sequence[int]) -> Csr:
    """Rows of a matrix, from the first to before the last, which have these entries, in its memory."""
    (first, last), (begin, end) = rows, entries
    return Csr(matrix.start[first : last + 1] - begin, matrix.columns[begin:end], matrix.values[begin:end])
