"""Octets in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.octets import LANES, NEAR_REACH, NO_BASE, WINDOW, Octets, count_of
from dsolver.kernels.reference.vectors import Dotted


@final
@dataclass(frozen=True, kw_only=True)
class TextbookOctets(Dotted, Octets):
    """A matrix in octets with its kernels."""

    def spmv(self, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        table = self.octets.astype(np.int64)
        for s in range(self.count):
            (first, place, base), (last, end, _) = table[s], table[s + 1]
            words = self.indices[place * LANES : end * LANES]
            columns = words.view(np.int32) if base == NO_BASE else base + words.astype(np.int64)
            products = self.values[first * LANES : last * LANES] * x[columns]
            sums = products.reshape(-1, LANES).sum(axis=0)
            own = s * LANES // WINDOW * WINDOW + self.lanes[s * LANES : (s + 1) * LANES].astype(np.int64)
            y[own[own < len(y)]] = sums[own < len(y)]


def made(matrix: Csr, columns: int) -> TextbookOctets:
    """A matrix, whose columns ascend in each row, in octets."""
    rows, lengths = matrix.size, np.diff(matrix.start)
    count, order = count_of(rows), np.arange(count_of(rows) * LANES)
    for begin in range(0, rows, WINDOW):
        window = slice(begin, min(begin + WINDOW, rows))
        order[window] = begin + np.argsort(-lengths[window], kind="stable")
    table, words, values = np.zeros((count + 1, 3), dtype=np.int64), [], []
    for s, own in enumerate(order.reshape(-1, LANES)):
        base, of, entries = _octet(matrix, own[own < rows])
        table[s + 1, :2] = table[s, :2] + (len(of), len(of) * (2 if base == NO_BASE else 1))
        table[s, 2] = base
        words.append(of.astype(np.int32).view(np.uint16) if base == NO_BASE else (of - base).astype(np.uint16))
        values.append(entries)
    return TextbookOctets(
        shape=(rows, columns),
        octets=table.astype(np.uint32),
        lanes=(order % WINDOW).astype(np.uint8),
        indices=np.concatenate([np.zeros(0, dtype=np.uint16), *(part.reshape(-1) for part in words)]),
        values=np.concatenate([matrix.values[:0], *(part.reshape(-1) for part in values)]),
    )


def _octet(matrix: Csr, own: npt.NDArray[np.int64]) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Base, columns and values of an octet's rows: (width, LANES) both."""
    lengths = matrix.start[own + 1] - matrix.start[own]
    shape = (int(lengths.max()), LANES)
    columns, values = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=matrix.values.dtype)
    if not shape[0]:
        return NO_BASE, columns, values
    columns[:] = matrix.columns[matrix.start[own[0]]]
    for lane, row in enumerate(own[lengths > 0]):  # the first ones, for they are sorted
        of, length = matrix.columns[matrix.start[row] : matrix.start[row + 1]], lengths[lane]
        columns[:length, lane], columns[length:, lane] = of, of[-1]
        values[:length, lane] = matrix.values[matrix.start[row] : matrix.start[row + 1]]
    near = columns.max() - columns.min() <= NEAR_REACH
    return int(columns.min()) if near else NO_BASE, columns, values
