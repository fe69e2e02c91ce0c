"""Transposes of compressed rows."""

from itertools import accumulate
from typing import Any

import numpy as np
from numba import uint64

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.scratch import fill, scratch
from dsolver.kernels.cpu.loops.team import Team, rows_worth
from dsolver.kernels.formats.csr import Csr

ONE = uint64(1)

# Places in arrays are unsigned where time counts: numba then needs no test for negative ones.


def transposed(a: Csr, columns: int, team: Team) -> Csr:
    """Aᵀ of a matrix with so many columns."""
    parts = team.run(count_columns, 0, a.size, a, columns, worth=rows_worth(a))
    counts = [of for *_, of in parts]
    start = np.zeros(columns + 1, dtype=np.int64)
    np.cumsum(sum(counts[1:], counts[0]), out=start[1:])
    places = list(accumulate(counts[:-1], np.add, initial=start[:-1].copy()))  # of each part, in each row of Aᵀ
    out = Csr(start, np.empty(start[-1], dtype=np.int32), np.empty(start[-1]))

    def fill(number: int) -> None:
        first, last, _ = parts[number]
        fill_mirrored(first, last, places[number], a, 0, out)

    team.each(fill, len(parts))
    return out


@compiled()
def count_columns(first: Any, last: Any, a: Any, columns: Any) -> Any:
    """These numbers, and how many entries rows first .. last have in each column."""
    counts = scratch(columns, np.int64)
    fill(counts, 0)
    for k in range(uint64(a.start[first]), uint64(a.start[last])):
        counts[uint64(a.columns[k])] += 1
    return first, last, counts


@compiled()
def fill_mirrored(first: Any, last: Any, place: Any, a: Any, before: Any, out: Any) -> None:
    """Entries of rows first .. last of A in rows of Aᵀ, columns before + i; place: where each row goes on."""
    for i in range(uint64(first), uint64(last)):
        for k in range(uint64(a.start[i]), uint64(a.start[i + ONE])):
            c = uint64(a.columns[k])
            n = place[c]
            place[c] = n + 1  # before what is written: the next entry may ask for it
            out.columns[uint64(n)] = before + i
            out.values[uint64(n)] = a.values[k]
