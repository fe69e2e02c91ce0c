"""Octets on a CPU with their kernels, and how they are made from compressed rows.

Each row has one sum, formed in the value type in the order of its columns, and octets are independent: bits follow from
the rows alone.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit, uint64

from dsolver.kernels.batched import Columns
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.scratch import scratch
from dsolver.kernels.cpu.loops.team import worth_of
from dsolver.kernels.cpu.vectors import CpuVectors, Real
from dsolver.kernels.formats.base import SeparateDot
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.octets import LANES, NEAR_REACH, NO_BASE, WINDOW, Octets, count_of

ENTRIES_WORTH_A_THREAD = 49152
WINDOWS_WORTH_A_THREAD = 16
AT_ONCE = 512  # octets that one vector after the other is multiplied with, as of `products.AT_ONCE` of compressed rows
EIGHT, ONE, TWO, FOUR = uint64(LANES), uint64(1), uint64(2), uint64(4)
WITHIN = uint64(WINDOW - 1)
WIDE = uint64(NO_BASE)


@dataclass(frozen=True, kw_only=True)
class CpuOctets(SeparateDot, Octets):
    """A matrix in octets with its kernels."""

    vectors: CpuVectors

    def batched(self, width: int) -> Columns:
        return OctetsColumns(self, width)

    def spmv(self, x: Real, y: Real) -> None:
        self.vectors.team.run(spmv, 0, self.count, *self.head, x, 0.0, y, y, worth=self.worth)

    @cached_property
    def worth(self) -> int:
        """Octets that are worth a thread."""
        return worth_of(ENTRIES_WORTH_A_THREAD, self.count, len(self.values))

    @cached_property
    def head(self) -> tuple[Any, ...]:
        """The first arguments of the loop after a range of octets."""
        return self.shape[0], self.octets, self.lanes, self.indices, self.indices.view(np.int32), self.values


class OctetsColumns(SeparateDot, Columns):
    """Octets for several vectors: entries are read once."""

    def spmv(self, x: Real, y: Real) -> None:
        a = self.one
        columns = [(x[n], 0.0, y[n], y[n]) for n in range(self.width)]
        a.vectors.team.run_columns(spmv, a.count, a.head, columns, at_once=AT_ONCE, worth=a.worth)


def made(matrix: Csr, columns: int, vectors: CpuVectors) -> CpuOctets:
    """A matrix in octets."""
    rows, team = matrix.size, vectors.team
    count, windows = count_of(rows), -(-rows // WINDOW)
    lanes, found = np.empty(count * LANES, dtype=np.uint8), np.empty((count, 2), dtype=np.int64)
    lines = (matrix.start, matrix.columns)
    team.run(_measure, 0, windows, *lines, lanes, found, worth=WINDOWS_WORTH_A_THREAD)
    width, base = found.T
    octets = np.zeros((count + 1, 3), dtype=np.uint32)
    np.cumsum(width, out=octets[1:, 0])
    np.cumsum(np.where(base == NO_BASE, 2 * width, width), out=octets[1:, 1])
    octets[:-1, 2] = base
    values = np.empty(int(octets[-1, 0]) * LANES, dtype=matrix.values.dtype)
    indices = np.empty(int(octets[-1, 1]) * LANES, dtype=np.uint16)
    arrays = (octets, lanes, indices, indices.view(np.int32), values)
    worth = worth_of(ENTRIES_WORTH_A_THREAD, count, len(values))
    team.run(_fill, 0, count, *matrix, *arrays, worth=worth)
    return CpuOctets(shape=(rows, columns), octets=octets, lanes=lanes, indices=indices, values=values, vectors=vectors)


# Places in arrays are unsigned where time counts: numba then needs no test for negative ones. The eight sums have
# names: an array of them would be written and read with each entry. They are no vector: to gather x by a vector
# instruction takes longer than eight loads where x is in a cache. Both loops are in one function: a call would count
# references.


@compiled(fastmath={"contract"})
def spmv(
    first: Any,
    last: Any,
    rows: Any,
    octets: Any,
    lanes: Any,
    words: Any,
    wide: Any,
    values: Any,
    x: Any,
    keep: Any,
    before: Any,
    y: Any,
) -> None:
    """y = keep before + A x on octets [first, last); keep is 0 or 1. `wide` are the same words as int32."""
    for s in range(uint64(first), uint64(last)):
        i, end = uint64(octets[s, 0]) * EIGHT, uint64(octets[s + ONE, 0]) * EIGHT
        base, p = uint64(octets[s, 2]), s * EIGHT
        a = b = c = d = e = f = g = h = values.dtype.type(0)
        if base == WIDE:
            k = uint64(octets[s, 1]) * FOUR
            while i < end:
                a += values[i] * x[uint64(wide[k])]
                b += values[i + uint64(1)] * x[uint64(wide[k + uint64(1)])]
                c += values[i + uint64(2)] * x[uint64(wide[k + uint64(2)])]
                d += values[i + uint64(3)] * x[uint64(wide[k + uint64(3)])]
                e += values[i + uint64(4)] * x[uint64(wide[k + uint64(4)])]
                f += values[i + uint64(5)] * x[uint64(wide[k + uint64(5)])]
                g += values[i + uint64(6)] * x[uint64(wide[k + uint64(6)])]
                h += values[i + uint64(7)] * x[uint64(wide[k + uint64(7)])]
                i += EIGHT
                k += EIGHT
        else:
            k = uint64(octets[s, 1]) * EIGHT
            while i < end:
                a += values[i] * x[base + uint64(words[k])]
                b += values[i + uint64(1)] * x[base + uint64(words[k + uint64(1)])]
                c += values[i + uint64(2)] * x[base + uint64(words[k + uint64(2)])]
                d += values[i + uint64(3)] * x[base + uint64(words[k + uint64(3)])]
                e += values[i + uint64(4)] * x[base + uint64(words[k + uint64(4)])]
                f += values[i + uint64(5)] * x[base + uint64(words[k + uint64(5)])]
                g += values[i + uint64(6)] * x[base + uint64(words[k + uint64(6)])]
                h += values[i + uint64(7)] * x[base + uint64(words[k + uint64(7)])]
                i += EIGHT
                k += EIGHT
        begin, sums = p - (p & WITHIN), (a, b, c, d, e, f, g, h)
        for lane in range(LANES):
            row = begin + uint64(lanes[p + uint64(lane)])
            if row < uint64(rows):
                y[row] = sums[lane] if keep == 0.0 else before[row] + sums[lane]


@compiled()
def _measure(first: Any, last: Any, start: Any, columns: Any, lanes: Any, found: Any) -> None:
    """Rows of the lanes of windows [first, last); entry columns and bases of their octets into found (octets, 2)."""
    rows, key, order = len(start) - 1, scratch(WINDOW, np.int64), scratch(WINDOW, np.int64)
    for w in range(first, last):
        begin = w * WINDOW
        count = min(WINDOW, rows - begin)
        for k in range(WINDOW):  # longest first; of equally long ones the first one first
            length = start[begin + k + 1] - start[begin + k] if k < count else -1
            key[k] = length * WINDOW - k
        _sort(key, order)
        for s in range(begin // LANES, -(-(begin + count) // LANES)):
            low, high, width = np.int64(NO_BASE), np.int64(-1), np.int64(0)
            for p in range(s * LANES, (s + 1) * LANES):
                lanes[p] = order[p - begin]
                row = begin + order[p - begin]
                if row < rows and start[row + 1] > start[row]:
                    width = max(width, start[row + 1] - start[row])
                    for i in range(start[row], start[row + 1]):
                        low, high = min(low, columns[i]), max(high, columns[i])
            found[s, 0], found[s, 1] = width, low if 0 <= high - low <= NEAR_REACH else NO_BASE


@njit(inline="always")
def _sort(key: Any, order: Any) -> None:
    """Places of different keys, the largest first. To count larger ones takes vector instructions and no branch."""
    for k in range(WINDOW):
        place = 0
        for j in range(WINDOW):
            place += key[j] > key[k]
        order[place] = k


@compiled()
def _fill(first: Any, last: Any, *given: Any) -> None:
    """Columns and values of octets [first, last), all of them: lane after lane, so that a row is read at one go."""
    start, columns, entries, octets, lanes, words, wide, values = given
    rows, none = uint64(len(start) - 1), values.dtype.type(0)
    for s in range(uint64(first), uint64(last)):
        v, width = uint64(octets[s, 0]) * EIGHT, uint64(octets[s + ONE, 0]) - uint64(octets[s, 0])
        place, base = uint64(octets[s, 1]) * EIGHT, np.int64(octets[s, 2])
        begin = s * EIGHT - (s * EIGHT & WITHIN)
        if width == 0:
            continue
        some = uint64(start[begin + uint64(lanes[s * EIGHT])])  # an entry of the longest row
        for lane in range(EIGHT):
            row = begin + uint64(lanes[s * EIGHT + lane])
            at, length, held = some, uint64(0), some
            if row < rows and start[row + ONE] > start[row]:
                at, length, held = (
                    uint64(start[row]),
                    uint64(start[row + ONE] - start[row]),
                    uint64(start[row + ONE]) - ONE,
                )
            for k in range(length):
                values[v + k * EIGHT + lane] = entries[at + k]
            for k in range(length, width):
                values[v + k * EIGHT + lane] = none
            if base == NO_BASE:
                for k in range(width):
                    wide[place // TWO + k * EIGHT + lane] = columns[min(at + k, held)]
            else:
                for k in range(width):
                    words[place + k * EIGHT + lane] = columns[min(at + k, held)] - base
