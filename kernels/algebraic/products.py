"""Transposes, and coarse matrices PᵀAP."""

from __future__ import annotations

from typing import Any

import numpy as np

from dsolver.kernels.algebraic.rows import Rows, filled, joined
from dsolver.kernels.cpu.compiled import compiled
from dsolver.kernels.cpu.team import Team


def transposed(a: Rows, columns: int, team: Team) -> Rows:
    """Aᵀ of a matrix with so many columns."""
    return filled(team, columns, _count_mirrored, _fill_mirrored, a)


def galerkin(r: Rows, a: Rows, p: Rows, team: Team) -> Rows:
    """R A P."""
    return joined(team, team.run(_galerkin, 0, r.size, r, a, p))


# -- loops -------------------------------------------------------------------------------------------------------------


@compiled()
def _count_mirrored(first: Any, last: Any, a: Any, counts: Any) -> None:
    for j in a.columns:
        if first <= j < last:
            counts[j] += 1


@compiled()
def _fill_mirrored(first: Any, last: Any, a: Any, out: Any) -> None:
    """Rows first .. last of Aᵀ. Every thread reads all columns: that takes less than to sort them among threads."""
    place = out.start[first:last].copy()
    for i in range(len(a.start) - 1):
        for k in range(a.start[i], a.start[i + 1]):
            j = a.columns[k]
            if first <= j < last:
                out.columns[place[j - first]] = i
                out.values[place[j - first]] = a.values[k]
                place[j - first] += 1


@compiled()
def _galerkin(first: Any, last: Any, r: Any, a: Any, p: Any) -> Any:
    """Rows first .. last of R A P, each one as (a row of R A) P: nothing between is stored, and nothing is counted.

    The rows of Gustavson (ACM Trans. Math. Softw. 4, 1978), where each column finds its sum by its number.

    Returns:
        the rows' lengths, columns and values.
    """
    lengths = np.empty(last - first, np.int64)
    columns, values = np.empty(64 * (last - first) + 64, np.int32), np.empty(64 * (last - first) + 64)
    near, sums = np.empty(len(a.start), np.int32), np.empty(len(a.start))  # the row of R A
    near_place, place = np.full(len(a.start), -1, np.int64), np.full(len(r.start), -1, np.int64)
    base = used = 0
    for i in range(first, last):
        n = _row_of_product(i, r, a, base, near_place, near, sums)
        base += n
        most = used
        for j in near[:n]:
            most += p.start[j + 1] - p.start[j]
        if most > len(columns):
            columns, values = _longer(columns, 2 * most), _longer(values, 2 * most)
        begin = used
        for q in range(n):
            for m in range(p.start[near[q]], p.start[near[q] + 1]):
                c = p.columns[m]
                if place[c] < begin:
                    place[c] = used
                    columns[used] = c
                    values[used] = 0.0
                    used += 1
                values[place[c]] += sums[q] * p.values[m]
        lengths[i - first] = used - begin
    return lengths, columns[:used], values[:used]


@compiled()
def _row_of_product(i: Any, r: Any, a: Any, base: Any, place: Any, near: Any, sums: Any) -> Any:
    """Row i of R A into near and sums; place is at least base where a column is in that row."""
    n = 0
    for k in range(r.start[i], r.start[i + 1]):
        j = r.columns[k]
        for m in range(a.start[j], a.start[j + 1]):
            c = a.columns[m]
            if place[c] < base:
                place[c] = base + n
                near[n] = c
                sums[n] = 0.0
                n += 1
            sums[place[c] - base] += r.values[k] * a.values[m]
    return n


@compiled()
def _longer(values: Any, size: Any) -> Any:
    out = np.empty(size, values.dtype)
    out[: len(values)] = values
    return out
