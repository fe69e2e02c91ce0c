"""Classical interpolation (Ruge and Stüben) between coarse points, wherever on the lattice they lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from dsolver.kernels.amg.ruge_stueben import Strong
from dsolver.kernels.cpu.csr.rows import filled
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.lattice.coarsening import NEGLIGIBLE


def interpolation(a: Csr, strong: Strong, number: Any, count: int, team: Team) -> Csr:
    """P, a row for each point.

    Args:
        a: the matrix.
        strong: its strong couplings.
        number: int32 (rows,), of each coarse point, -1 for the others.
        count: how many are coarse.
        team: shares the rows.
    """
    seen = filled(team, a.size, _count_seen, _fill_seen, a, number)
    return filled(team, a.size, _count_weights, _fill_weights, a, strong, seen, number, count)


# -- loops -------------------------------------------------------------------------------------------------------------


@compiled()
def _count_seen(first: Any, last: Any, a: Any, number: Any, counts: Any) -> None:
    for i in range(first, last):
        n = 0
        if number[i] < 0:
            for k in range(a.start[i], a.start[i + 1]):
                if number[a.columns[k]] >= 0 and a.values[k] < 0.0:
                    n += 1
        counts[i] = n


@compiled()
def _fill_seen(first: Any, last: Any, a: Any, number: Any, out: Any) -> None:
    """The negative entries of fine points' rows in coarse columns, by those columns' numbers."""
    for i in range(first, last):
        if number[i] < 0:
            n = out.start[i]
            for k in range(a.start[i], a.start[i + 1]):
                if number[a.columns[k]] >= 0 and a.values[k] < 0.0:
                    out.columns[n] = number[a.columns[k]]
                    out.values[n] = a.values[k]
                    n += 1


@compiled()
def _count_weights(
    first: Any, last: Any, _a: Any, strong: Any, _seen: Any, number: Any, _count: Any, counts: Any
) -> None:
    for i in range(first, last):
        n = 1
        if number[i] < 0:
            n = 0
            for j in strong.columns[strong.start[i] : strong.end[i]]:
                if number[j] >= 0:
                    n += 1
        counts[i] = n


@compiled()
def _fill_weights(first: Any, last: Any, a: Any, strong: Any, seen: Any, number: Any, count: Any, out: Any) -> None:
    """The classical interpolation to fine point i from the coarse points C that it depends on strongly.

    Each other point that it depends on strongly is what its own row makes of C; weakly coupled ones count as the
    point itself, and so do strong ones that see nothing of C (Ruge and Stüben, equations 4.28 and following).
    """
    place = np.full(count, -1, np.int64)  # of coarse points, where the weight of i stands
    leads = np.full(len(number), -1, np.int32)  # the last row that depends on a fine point strongly
    for i in range(first, last):
        begin = n = out.start[i]
        if number[i] >= 0:
            out.columns[n] = number[i]
            out.values[n] = 1.0
            continue
        for j in strong.columns[strong.start[i] : strong.end[i]]:
            if number[j] >= 0:
                out.columns[n] = number[j]
                place[number[j]] = n
                n += 1
            else:
                leads[j] = i
        weights = out.values[begin:n]
        weights[:] = 0.0
        center = _collapsed(i, a, seen, number, leads, place, begin, weights)
        if center > 0.0:
            weights /= -center
        else:
            weights[:] = 0.0


@compiled()
def _collapsed(i: Any, a: Any, seen: Any, number: Any, leads: Any, place: Any, begin: Any, weights: Any) -> Any:
    """Row i of A collapsed onto its coarse points, whose entries are added to weights, and the point itself.

    Returns:
        the entry of the point itself; 0 if it is rounding.
    """
    center = size = 0.0
    for k in range(a.start[i], a.start[i + 1]):
        j, value = a.columns[k], a.values[k]
        size += abs(value)
        if number[j] >= 0:
            if place[number[j]] >= begin:
                weights[place[number[j]] - begin] += value
            else:
                center += value
        elif leads[j] != i or not _shared(value, j, seen, place, begin, weights):
            center += value
    return center if center > NEGLIGIBLE * size else 0.0


@compiled()
def _shared(value: Any, j: Any, seen: Any, place: Any, begin: Any, weights: Any) -> Any:
    """Share an entry among the coarse points that row j sees, as that row weighs them; False if there are none."""
    total = 0.0
    for k in range(seen.start[j], seen.start[j + 1]):
        if place[seen.columns[k]] >= begin:
            total += seen.values[k]
    if total == 0.0:
        return False
    for k in range(seen.start[j], seen.start[j + 1]):
        if place[seen.columns[k]] >= begin:
            weights[place[seen.columns[k]] - begin] += value * (seen.values[k] / total)
    return True
