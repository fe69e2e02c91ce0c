"""Elimination in an order of minimum degree, on patterns alone."""

from typing import Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled

I64 = npt.NDArray[np.int64]


MERGED: Final = 0.9  # part of the rows that supervariables may be for it to be worth while to make their pattern


def merged(start: I64, columns: I64) -> tuple[I64, I64, I64]:
    """The pattern with one row and column for each set of rows that are equal, and how many each stands for."""
    size = len(start) - 1
    row = np.repeat(np.arange(size), np.diff(start))
    keys = np.random.default_rng(size).integers(1, 2**63 - 1, size)
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.where(columns == row, 0, keys[columns]))))
    _, first, group, weights = np.unique(
        sums[start[1:]] - sums[start[:-1]] + keys, return_index=True, return_inverse=True, return_counts=True
    )
    if len(first) > MERGED * size:
        return start, columns, np.ones(size, np.int64)
    kept = np.zeros(size, np.bool_)
    kept[first] = True
    place, stays = np.cumsum(kept) - 1, kept[row] & kept[columns]
    made = np.concatenate((np.zeros(1, np.int64), np.cumsum(stays)))[start]
    return np.append(made[:-1][kept], made[-1]), place[columns[stays]], weights[group[kept]].astype(np.int64)


NEARLY_ALL: Final = 0.75
"""Part of the rest that rows are coupled to from which on all are taken to be: what is left of a graph without
separators is soon full, and the lists of its elements are long."""


@compiled()
def eliminated(
    start: I64, columns: I64, weights: I64, most: float, most_squares: float, dense: float, patience: float
) -> tuple[float, float, bool]:
    """Entries of L below the diagonal, the sum of the squares of each column's, and whether there are not too many.

    A row stands for as many as its weight says. Its list lies where its columns did: elements first, then variables.
    Long rows, whose lists would be read in every step, are the last ones, and full there; in degrees they do not count.
    Both are infinite where more parts of lists are read than `patience`.
    """
    n, rest = len(start) - 1, weights.sum()
    slots, elements, variables = columns.copy(), np.zeros(n, np.int64), np.zeros(n, np.int64)
    degree, lists, most_degree = np.zeros(n, np.int64), np.empty(n, np.int64), rest
    _leave_out_diagonal(start, columns, weights, slots, variables, degree)
    light = np.where(degree > dense, 0, weights)
    last = rest - light.sum()
    head, after, before = np.full(rest + 1, -1, np.int64), np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    for i in np.flatnonzero(light)[::-1]:
        _put(i, degree[i], lists, head, after, before)
    pool, used = np.empty(len(columns) + n, np.int64), 0
    first, size = np.zeros(n, np.int64), np.full(n, -1, np.int64)  # of each element; -1 for none
    mass = np.zeros(n, np.int64)  # of its rows
    mark, left, stamp = np.full(n, -1, np.int64), np.zeros(n, np.int64), np.full(n, -1, np.int64)
    beyond = np.zeros(n, np.int64)
    below, squares, lowest = 0.0, 0.0, 0
    while rest > last:
        while head[lowest] < 0:
            lowest += 1
        p = head[lowest]
        if degree[p] >= NEARLY_ALL * (rest - last - weights[p]):  # so is that of all others
            break
        _take(p, lists, head, after, before)
        bound = _bound(slots[start[p] : start[p] + elements[p]], variables[p], size)
        if used + bound > len(pool):
            pool, used = _compacted(pool, first, size, bound)
        first[p] = used
        used = _joined(p, slots, start[p], elements[p], variables[p], pool, used, first, size, mark)
        members = pool[first[p] : used]
        size[p], mass[p] = len(members), light[members].sum()
        beside = weights[members].sum() - mass[p]
        _count_outside(p, members, light, slots, start, elements, size, mass, left, stamp)
        pivots, kept, looked = _kept(
            p, members, slots, start, elements, variables, light, size, left, mark, beyond, lists, head, after, before
        )
        pivots, patience = pivots + weights[p], patience - looked
        mass[p] -= pivots - weights[p]
        count = mass[p] + beside
        size[p], used = kept, first[p] + kept
        rest -= pivots
        below += float(pivots) * count + 0.5 * pivots * (pivots - 1)
        squares += float(pivots) * count * count + count * float(pivots) * (pivots - 1)
        squares += float(pivots - 1) * pivots * (2 * pivots - 1) / 6.0
        if below > most or squares > most_squares:
            return below, squares, False
        if patience < 0:
            return np.inf, np.inf, False
        for i in members[:kept]:
            if light[i] > 0:
                degree[i] = min(rest - last, mass[p] + min(beyond[i], degree[i])) - weights[i]
                late = degree[i] > dense and rest > dense
                _put(i, most_degree if late else degree[i], lists, head, after, before)
                lowest = min(lowest, lists[i])
    below += 0.5 * rest * (rest - 1)
    squares += float(rest - 1) * rest * (2 * rest - 1) / 6.0
    return below, squares, below <= most and squares <= most_squares


@compiled()
def _kept(
    p: int,
    members: I64,
    slots: I64,
    start: I64,
    elements: I64,
    variables: I64,
    weights: I64,
    size: I64,
    left: I64,
    mark: I64,
    beyond: I64,
    lists: I64,
    head: I64,
    after: I64,
    before: I64,
) -> tuple[int, int, int]:
    """Members that are not eliminated with p, first; the weight of the others, how many are kept, and parts read."""
    pivots, kept, looked = 0, 0, 0
    for i in members:
        if weights[i] > 0:
            looked += elements[i] + variables[i]
            beyond[i] = _listed(i, p, slots, start[i], elements, variables, weights, size, left, mark)
            _take(i, lists, head, after, before)
            if beyond[i] == 0:  # it makes no more entries than p
                pivots += weights[i]
                continue
        members[kept] = i
        kept += 1
    return pivots, kept, looked


@compiled()
def _leave_out_diagonal(start: I64, columns: I64, weights: I64, slots: I64, variables: I64, degree: I64) -> None:
    """Make each row's list of the columns of its entries beside the diagonal, count them, and sum their weights."""
    for i in range(len(variables)):
        for k in range(start[i], start[i + 1]):
            if columns[k] != i:
                slots[start[i] + variables[i]] = columns[k]
                variables[i] += 1
                degree[i] += weights[columns[k]]


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
    p: int, slots: I64, begin: int, elements: int, rows: int, pool: I64, used: int, first: I64, size: I64, mark: I64
) -> int:
    """Make the element of p: its variables, and those of its elements, which it absorbs. Returns the pool's new end."""
    mark[p] = p
    for k in range(begin + elements, begin + elements + rows):
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
    p: int, rows: I64, weights: I64, slots: I64, start: I64, elements: I64, size: I64, mass: I64, left: I64, stamp: I64
) -> None:
    """Count the rows that each element of the members has outside of them."""
    for i in rows:
        if weights[i] == 0:
            continue
        for k in range(start[i], start[i] + elements[i]):
            e = slots[k]
            if size[e] < 0:
                continue
            if stamp[e] != p:
                stamp[e], left[e] = p, mass[e]
            left[e] -= weights[i]


@compiled()
def _listed(
    i: int, p: int, slots: I64, begin: int, elements: I64, variables: I64, weights: I64, size: I64, left: I64, mark: I64
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
            outside += weights[slots[k]]
            found += 1
    if kept == elements[i]:
        for k in range(found - 1, -1, -1):
            slots[end + 1 + k] = slots[end + k]
    else:
        for k in range(found):
            slots[begin + kept + 1 + k] = slots[end + k]
    slots[begin + kept] = p
    elements[i], variables[i] = kept + 1, found
    return outside


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
