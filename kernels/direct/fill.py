"""Fill of factors, counted before they are made, by elimination in an order of minimum degree.

P. R. Amestoy, T. A. Davis, I. S. Duff, An approximate minimum degree ordering algorithm, SIAM J. Matrix Anal. Appl. 17,
1996: the quotient graph, approximate degrees, absorption of elements, mass elimination. Rows of equal patterns, such as
those of a node's unknowns, are one supervariable from the beginning; those that become so are not found. Rows are of
the pattern of A + Aᵀ. A library may have a better order, or a worse one where it exchanges rows.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.direct.minimum_degree import eliminated, merged
from dsolver.kernels.direct.transversal import of_largest

DENSE: Final = 10.0
"""Times √n beyond which a row is eliminated with the last ones, as in AMD: it would be looked at in every step."""
PATIENCE: Final = 30.0
"""Times that each entry may be looked at, where multiplications are bounded: 2 to 7 are needed for meshes, 15 for
random graphs, and up to 300 for webs, whose factors are seldom of use."""
ENOUGH: Final = 2.0**26  # looks that are no matter: a third of a second


SPREAD: Final = 16.0
"""Times the multiplications of an envelope that levels of rows may tell of in its place: 0.5 to 4 times on meshes, by
where the first row lies, 7 on a tree, and less where few rows are read by many."""


@dataclass(frozen=True, kw_only=True)
class Fill:
    """Size of the factors L and U of a matrix."""

    entries: float  # of both, their diagonals once; of all places where they are nearly full
    products: float  # multiplications that make them; of all places those of sparse factors that take as long
    more: bool = False  # whether counting ended here, and both are more than that

    def within(self, most: "Fill") -> bool:
        """Whether neither is beyond a bound."""
        return self.entries <= most.entries and self.products <= most.products


FULL: Final = 0.25  # part of all places that factors have entries in, from which on zeros are stored, too
LAPACK: Final = 10.0
"""Times as many multiplications LAPACK makes in a second then: 5 to 15 thousand million on a core, SuperLU 1 or 2."""


def full_fill(rows: int) -> Fill:
    """The fill where zeros are stored, too; multiplications counted as those of sparse factors that take as long."""
    return Fill(entries=float(rows) ** 2, products=float(rows) ** 3 / 3.0 / LAPACK)


ANY: Final = Fill(entries=math.inf, products=math.inf)  # fill without a bound


def fill_of(rows: Any, most: Fill = ANY, *, mirrored: bool = False) -> Fill:
    """The fill of a SciPy CSR array; beyond a bound it is counted no further, and there may be `Fill.more`.

    `mirrored`: (i, j) is known to come with (j, i). Where patience ends, multiplications are taken to be
    infinitely many, so that it is counted again where they are not bounded.
    """
    from scipy.sparse import csr_array

    size = rows.shape[0]
    both = rows
    if not mirrored:
        order = None if rows.diagonal().all() else of_largest(rows)  # libraries exchange rows, too
        rows = rows if order is None else rows[order]
        ones = csr_array((np.ones(rows.nnz, dtype=np.int8), rows.indices, rows.indptr), shape=rows.shape)
        both = csr_array(ones + ones.T)
    start, columns = both.indptr.astype(np.int64), both.indices.astype(np.int64)
    full = full_fill(size)
    bounds = (min(most.entries, 2.0**62) - size) / 2.0, most.products * (LAPACK if full.within(most) else 1.0)
    start, columns, weights = merged(start, columns)
    looks = max(PATIENCE * len(columns), ENOUGH) if most.products < math.inf else math.inf
    below, squares, done = eliminated(start, columns, weights, *bounds, max(16.0, DENSE * math.sqrt(size)), looks)
    found = Fill(entries=2.0 * below + size, products=squares)
    if not done and squares == math.inf:
        return Fill(entries=float(size), products=squares, more=True)
    if not done:
        return Fill(entries=found.entries, products=min(squares, full.products), more=True)
    return full if found.entries >= FULL * full.entries and full.products < found.products else found


def envelope_of(rows: Any, place: npt.NDArray[Any] | None = None) -> Fill:
    """The envelope of A + Aᵀ, A a SciPy CSR array: the most that factors fill where rows are eliminated in an order.

    A. George, J. W. H. Liu, Computer solution of large sparse positive definite systems, 1981, chapter 4: nothing fills
    before the first entry of a row. An order of minimum degree fills less, on a plane a quarter to a tenth of it; but
    this bound takes a hundredth of the time of the factors.

    `place`: of each row in the order, integers (rows,), or None.
    """
    order = np.arange(rows.shape[0], dtype=np.int32) if place is None else place.astype(np.int32, copy=False)
    below, squares = _envelope(rows.indptr.astype(np.int64, copy=False), rows.indices, order)
    return Fill(entries=2.0 * below + len(order), products=below + squares)


@compiled()
def _envelope(start: Any, columns: Any, place: Any) -> tuple[float, float]:
    """Sum of the widths of the rows of A + Aᵀ, each from its first entry to the diagonal, and of their squares."""
    first = np.arange(len(place))
    for i in range(len(place)):
        for k in range(start[i], start[i + 1]):
            p, q = place[i], place[columns[k]]
            if q < first[p]:
                first[p] = q
            if p < first[q]:
                first[q] = p
    below, squares = 0.0, 0.0
    for i in range(len(first)):
        width = float(i - first[i])
        below += width
        squares += width * width
    return below, squares


def is_wide(rows: Any, most: Fill) -> bool:
    """Whether no order of Cuthill and McKee is likely to keep the envelope of a SciPy CSR array within a bound.

    A row is as wide there as the levels of rows at equal distances from one of them: see `SPREAD`. Of 64³ points of a
    grid an eighth is looked at, in a millisecond; to find the order takes 60, a sixth of a first solve.
    """
    return bool(_spread(rows.indptr, rows.indices, SPREAD * most.products))


@compiled()
def _spread(start: Any, columns: Any, most: float) -> bool:
    """Whether squares of the sizes of levels around the first row, each times the rows next to it, exceed a bound.

    Rows next to a level are those of the one before that have found rows of it: a hub finds all, for its leaves.
    """
    seen = np.zeros(len(start) - 1, np.bool_)
    order = np.zeros(len(seen), np.int64)
    first, last, found = 0, min(1, len(seen)), 0.0
    seen[:last] = True
    while first < last and found <= most:
        end, finders = last, 0
        for place in range(first, last):
            before = end
            for k in range(start[order[place]], start[order[place] + 1]):
                if not seen[columns[k]]:
                    seen[columns[k]] = True
                    order[end] = columns[k]
                    end += 1
            finders += end > before
        found += float(finders) * float(end - last) ** 2
        first, last = last, end
    return found > most


def narrow_order(rows: Any, *, mirrored: bool) -> npt.NDArray[Any]:
    """Places of a CSR array's rows in the order of Cuthill and McKee, backwards; mirrored: (i, j) comes with (j, i)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    pattern = csr_array((np.ones(rows.nnz, np.int8), rows.indices, rows.indptr), shape=rows.shape)
    order = reverse_cuthill_mckee(pattern, symmetric_mode=mirrored)
    place: npt.NDArray[Any] = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=order.dtype)
    return place
