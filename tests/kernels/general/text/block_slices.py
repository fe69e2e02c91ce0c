"""Slices of rows of blocks in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.block_slices import NEAR, NEAR_REACH, RUN, UNIT, WIDE, BlockSlices, require
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.reference.vectors import Dotted

Blocks = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[Any]]
"""Row and column of each block, in the order of both, and the blocks (count, B * B)."""


@final
@dataclass(frozen=True, kw_only=True)
class TextbookBlockSlices(Dotted, BlockSlices):
    """A matrix in slices of rows of blocks with its kernels."""

    def spmv(self, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        b, size = self.block, self.shape[0] // self.block
        for s, (first, place, shape, base) in enumerate(self.slices.astype(np.int64)):
            width, kind = shape >> 2, shape & 3
            words = self.indices[place * UNIT : (place + units_of(int(width), int(kind))) * UNIT]
            if kind == RUN:
                columns = words.view(np.int32)[:width, None] + np.arange(SLICE)
            elif kind == NEAR:
                columns = base + words.reshape(-1, SLICE).astype(np.int64)
            else:
                columns = words.view(np.int32).reshape(-1, SLICE)
            entries = self.values[first : first + width].reshape(width, b, b, SLICE)
            sums = np.einsum("kijl,klj->li", entries, x.reshape(-1, b)[columns])
            lanes = np.arange(s * SLICE, (s + 1) * SLICE)
            own = lanes if self.row is None else self.row[lanes]
            kept = (own >= 0) & (own < size)
            y.reshape(-1, b)[own[kept]] = sums[kept]


def units_of(width: int, kind: int) -> int:
    """Number of units that the columns of so many entry columns take."""
    return -(-width // (UNIT // 2)) if kind == RUN else width * (1 if kind == NEAR else 2)


def sorted_rows(lengths: npt.NDArray[np.int64], window: int) -> npt.NDArray[np.int64]:
    """Rows in the order of slices, longest first within windows; -1 fills the last window, or slice."""
    whole = max(window, SLICE)
    count = -(-len(lengths) // whole) * whole
    order = np.full(count, -1)
    order[: len(lengths)] = np.arange(len(lengths))
    if window > 1:
        padded = np.full(count, -1)
        padded[: len(lengths)] = lengths
        within = np.argsort(-padded.reshape(-1, window), axis=1, kind="stable")
        order = np.take_along_axis(order.reshape(-1, window), within, axis=1).reshape(-1)
    return order


def made(matrix: Csr, columns: int, *, block: int = 1, window: int = 1) -> TextbookBlockSlices:
    """A matrix in slices; columns ascend in each row; window: σ in rows of blocks. ValueError: see `require`."""
    require((matrix.size, columns), block, window)
    rows = matrix.size // block
    at, of, values = blocks(matrix, columns, block)
    starts = np.searchsorted(at, np.arange(rows + 1))
    lengths = np.diff(starts)
    order = sorted_rows(lengths, window)
    parts: list[Any] = [
        _slice(own, starts, of, values, columns // block, window == 1) for own in order.reshape(-1, SLICE)
    ]
    widths = np.array([len(entries) for _, _, _, entries in parts], dtype=np.int64)
    units = np.array([units_of(len(entries), kind) for kind, _, _, entries in parts], dtype=np.int64)
    kinds, bases = ([part[i] for part in parts] for i in range(2))
    head = [np.cumsum(widths) - widths, np.cumsum(units) - units, 4 * widths + kinds, np.array(bases)]
    empty = np.zeros((0, block * block, SLICE), dtype=values.dtype)
    return TextbookBlockSlices(
        shape=(matrix.size, columns),
        block=block,
        slices=np.stack(head, axis=1).astype(np.uint32),
        indices=np.concatenate([np.zeros(0, dtype=np.uint16), *(words for _, _, words, _ in parts)]),
        values=np.concatenate([empty, *(entries for _, _, _, entries in parts)]),
        row=None if window == 1 else order.astype(np.int32),
    )


def blocks(matrix: Csr, columns: int, block: int) -> Blocks:
    """The blocks that have an entry."""
    rows = np.repeat(np.arange(matrix.size), np.diff(matrix.start))
    wide = columns // block
    keys, number = np.unique(rows // block * wide + matrix.columns // block, return_inverse=True)
    values = np.zeros((len(keys), block * block), dtype=matrix.values.dtype)
    values[number, rows % block * block + matrix.columns % block] = matrix.values
    return keys // max(wide, 1), keys % max(wide, 1), values


def most_runs(width: int, kind: int, block_bytes: int) -> int:
    """Most entry columns of a run that takes no more bytes than a slice of another kind (WIDE or NEAR) and width."""
    values = SLICE * block_bytes
    return width * (values + (64 if kind == NEAR else 128)) // values


def _slice(
    own: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    of: npt.NDArray[np.int64],
    values: npt.NDArray[Any],
    columns: int,
    in_order: bool,
) -> tuple[int, int, npt.NDArray[np.uint16], npt.NDArray[Any]]:
    """Storage of a slice: the kind of its columns, their base, they as words, and values (width, B * B, SLICE)."""
    first = np.where(own >= 0, starts[own], 0)
    length = np.where(own >= 0, starts[own + 1] - starts[own], 0)
    lane = np.repeat(np.arange(SLICE), length)
    k = np.arange(len(lane)) - np.repeat(np.cumsum(length) - length, length)
    where = np.repeat(first, length) + k
    width, column = int(length.max()), of[where]
    if width == 0:
        return WIDE, 0, np.zeros(0, dtype=np.uint16), np.zeros((0, values.shape[1], SLICE), dtype=values.dtype)
    kind = NEAR if column.max() - column.min() <= NEAR_REACH else WIDE
    base = int(column.min())
    distances = np.unique(column - lane)
    if (
        in_order
        and len(distances) <= most_runs(width, kind, values.dtype.itemsize * values.shape[1])
        and distances[0] >= 0
        and distances[-1] + SLICE <= columns
    ):
        kind, k, width = RUN, np.searchsorted(distances, column - lane), len(distances)
    entries = np.zeros((width, values.shape[1], SLICE), dtype=values.dtype)
    entries[k, :, lane] = values[where]
    if kind == RUN:
        bases = np.zeros(units_of(width, RUN) * UNIT // 2, dtype=np.int32)
        bases[:width] = distances
        return kind, base, bases.view(np.uint16), entries
    places = np.full((width, SLICE), base)
    places[k, lane] = column
    holes = np.arange(width)[:, None] >= length
    last = np.where(length > 0, of[np.maximum(first + length - 1, 0)], base)
    places = np.where(holes, last, places)
    if kind == NEAR:
        return kind, base, (places - base).astype(np.uint16).reshape(-1), entries
    return kind, base, places.astype(np.int32).reshape(-1).view(np.uint16), entries
