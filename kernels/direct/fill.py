"""Fill of factors, counted before they are made, by elimination in an order of minimum degree.

P. R. Amestoy, T. A. Davis, I. S. Duff, An approximate minimum degree ordering algorithm, SIAM J. Matrix Anal. Appl. 17,
1996, without its supervariables: the quotient graph, approximate degrees, and absorption of elements. Rows are of the
pattern of A + Aᵀ. A library may have a better order, or a worse one where it exchanges rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled

I64 = npt.NDArray[np.int64]
DENSE: Final = 10.0
"""Times √n beyond which a row is eliminated with the last ones, as in AMD: it would be looked at in every step."""


@final
@dataclass(frozen=True, kw_only=True)
class Fill:
    """Size of the factors L and U of a matrix.

    Attributes:
        entries: of both, their diagonals once; of all places where they are nearly full.
        products: multiplications that make them; of all places those of sparse factors that take as long.
    """

    entries: float
    products: float

    def within(self, most: Fill) -> bool:
        """Whether neither is beyond a bound."""
        return self.entries <= most.entries and self.products <= most.products


FULL: Final = 0.25
"""Part of all places that factors have entries in, from which on zeros are stored, too."""
LAPACK: Final = 10.0
"""Times as many multiplications LAPACK makes in a second then: 5 to 15 thousand million on a core, SuperLU 1 or 2."""


def full_fill(rows: int) -> Fill:
    """The fill where zeros are stored, too; multiplications counted as those of sparse factors that take as long."""
    return Fill(entries=float(rows) ** 2, products=float(rows) ** 3 / 3.0 / LAPACK)


ANY: Final = Fill(entries=math.inf, products=math.inf)
"""Fill without a bound."""


def fill_of(rows: Any, most: Fill = ANY, *, mirrored: bool = False) -> Fill | None:
    """The fill of a SciPy CSR array; None where it is beyond a bound, which is found out soon.

    Args:
        rows: the matrix.
        most: the bound.
        mirrored: whether it is known to have an entry (j, i) for each entry (i, j).
    """
    from scipy.sparse import csr_array

    size = rows.shape[0]
    both = rows
    if not mirrored:
        ones = csr_array((np.ones(rows.nnz, dtype=np.int8), rows.indices, rows.indptr), shape=rows.shape)
        both = csr_array(ones + ones.T)
    start, columns = both.indptr.astype(np.int64), both.indices.astype(np.int64)
    full = full_fill(size)
    bounds = (min(most.entries, 2.0**62) - size) / 2.0, most.products * (LAPACK if full.within(most) else 1.0)
    below, squares, done = _eliminated(start, columns, *bounds, max(16.0, DENSE * math.sqrt(size)))
    if not done:
        return None
    found = Fill(entries=2.0 * below + size, products=squares)
    if found.entries >= FULL * full.entries and full.products < found.products:
        found = full
    return found if found.within(most) else None


@compiled()
def _eliminated(start: I64, columns: I64, most: float, most_squares: float, dense: float) -> tuple[float, float, bool]:
    """Entries of L below the diagonal, the sum of the squares of each column's, and whether there are not too many.

    A row's list lies where its columns did: elements first, then variables.
    """
    n = len(start) - 1
    slots, elements, variables = columns.copy(), np.zeros(n, np.int64), np.zeros(n, np.int64)
    _leave_out_diagonal(start, columns, slots, variables)
    degree, lists = variables.copy(), np.empty(n, np.int64)
    head, after, before = np.full(n + 1, -1, np.int64), np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    for i in range(n - 1, -1, -1):
        _put(i, n if degree[i] > dense else degree[i], lists, head, after, before)
    pool, used = np.empty(len(columns) + n, np.int64), 0
    first, size = np.zeros(n, np.int64), np.full(n, -1, np.int64)  # of each element; -1 for none
    mark, left, stamp = np.full(n, -1, np.int64), np.zeros(n, np.int64), np.full(n, -1, np.int64)
    below, squares, lowest = 0.0, 0.0, 0
    for step in range(n):
        while head[lowest] < 0:
            lowest += 1
        p = head[lowest]
        _take(p, lists, head, after, before)
        bound = _bound(slots[start[p] : start[p] + elements[p]], variables[p], size)
        if used + bound > len(pool):
            pool, used = _compacted(pool, first, size, bound)
        first[p] = used
        used = _joined(p, slots, start[p], elements[p], variables[p], pool, used, first, size, mark)
        count = size[p] = used - first[p]
        below += count
        squares += float(count) * count
        if below > most or squares > most_squares:
            return below, squares, False
        members = pool[first[p] : used]
        _count_outside(p, members, slots, start, elements, size, left, stamp)
        rest = n - step - 2
        for i in members:
            outside = _listed(i, p, slots, start[i], elements, variables, size, left, mark)
            degree[i] = min(rest, count - 1 + outside, degree[i] + count - 1)
            _take(i, lists, head, after, before)
            _put(i, n if degree[i] > dense and rest > dense else degree[i], lists, head, after, before)
            lowest = min(lowest, lists[i])
    return below, squares, True


@compiled()
def _leave_out_diagonal(start: I64, columns: I64, slots: I64, variables: I64) -> None:
    """Make each row's list of the columns of its entries beside the diagonal, and count them."""
    for i in range(len(variables)):
        for k in range(start[i], start[i + 1]):
            if columns[k] != i:
                slots[start[i] + variables[i]] = columns[k]
                variables[i] += 1


@compiled()
def _bound(elements: I64, variables: int, size: I64) -> int:
    """Variables of the element that a row with these elements and so many variables becomes, at most."""
    bound = variables
    for e in elements:
        bound += max(0, size[e])
    return bound


@compiled()
def _put(i: int, number: int, lists: I64, head: I64, after: I64, before: I64) -> None:
    """Put a row in front of a list."""
    lists[i], after[i], before[i] = number, head[number], -1
    if head[number] >= 0:
        before[head[number]] = i
    head[number] = i


@compiled()
def _take(i: int, lists: I64, head: I64, after: I64, before: I64) -> None:
    """Take a row out of its list."""
    if after[i] >= 0:
        before[after[i]] = before[i]
    if before[i] >= 0:
        after[before[i]] = after[i]
    else:
        head[lists[i]] = after[i]


@compiled()
def _joined(
    p: int,
    slots: I64,
    begin: int,
    elements: int,
    variables: int,
    pool: I64,
    used: int,
    first: I64,
    size: I64,
    mark: I64,
) -> int:
    """Make the element of p: its variables, and those of its elements, which it absorbs. Returns the pool's new end."""
    mark[p] = p
    for k in range(begin + elements, begin + elements + variables):
        if mark[slots[k]] != p:
            mark[slots[k]] = p
            pool[used] = slots[k]
            used += 1
    for k in range(begin, begin + elements):
        e = slots[k]
        for place in range(first[e], first[e] + max(0, size[e])):
            if mark[pool[place]] != p:
                mark[pool[place]] = p
                pool[used] = pool[place]
                used += 1
        size[e] = -1
    return used


@compiled()
def _count_outside(
    p: int, members: I64, slots: I64, start: I64, elements: I64, size: I64, left: I64, stamp: I64
) -> None:
    """Count the variables that each element of the members has outside of them."""
    for i in members:
        for k in range(start[i], start[i] + elements[i]):
            e = slots[k]
            if size[e] < 0:
                continue
            if stamp[e] != p:
                stamp[e], left[e] = p, size[e]
            left[e] -= 1


@compiled()
def _listed(
    i: int, p: int, slots: I64, begin: int, elements: I64, variables: I64, size: I64, left: I64, mark: I64
) -> int:
    """Make a member's list: elements that are left, with p, and variables that p does not join it with.

    There is room, for p, or an element that it has absorbed, was in the list. Returns a bound of the degree that all
    but p make.
    """
    kept, outside, end, found = 0, 0, begin + elements[i], 0
    for k in range(begin, end):
        e = slots[k]
        if size[e] < 0:
            continue
        if left[e] == 0:
            size[e] = -1  # p has all that it has
            continue
        outside += left[e]
        slots[begin + kept] = e
        kept += 1
    for k in range(end, end + variables[i]):
        if mark[slots[k]] != p:
            slots[end + found] = slots[k]
            found += 1
    if kept == elements[i]:
        for k in range(found - 1, -1, -1):
            slots[end + 1 + k] = slots[end + k]
    else:
        for k in range(found):
            slots[begin + kept + 1 + k] = slots[end + k]
    slots[begin + kept] = p
    elements[i], variables[i] = kept + 1, found
    return outside + found


@compiled()
def _compacted(pool: I64, first: I64, size: I64, bound: int) -> tuple[I64, int]:
    """The elements that are left, in a pool with room for another one, and where they end."""
    used = 0
    for e in range(len(size)):
        used += max(0, size[e])
    made, end = np.empty(max(len(pool), 2 * used + bound), np.int64), 0
    for e in range(len(size)):
        if size[e] > 0:
            made[end : end + size[e]] = pool[first[e] : first[e] + size[e]]
            first[e] = end
            end += size[e]
    return made, end
