"""Operations on the rows of general matrices that each device has in its own way."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.choice import Choice
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.look import Look
from dsolver.kernels.general.matrix import GeneralMatrix, GhostRows
from dsolver.kernels.general.rows import SplitRows, split
from dsolver.kernels.reductions import some


@dataclass(frozen=True, kw_only=True)
class Between:
    """Rows between two levels, and where rows (written) and columns (read) lie in vectors with guards around them."""

    shape: tuple[int, int]
    # on the device, in the order of the vector that is written; columns in that of the vector that is read, ascending
    # in each row.
    rows: Csr
    written: slice
    read: slice
    # rows and columns of the blocks in which entries come as a rule; that may save time.
    blocks: tuple[int, int] = (1, 1)
    measured: Any = None  # of these rows, as of `GeneralSetup.measured_transfer`, where that was asked for before


class RowOperations(ABC):
    """Operations on the rows of general matrices, on a device.

    `guard`: zero items before the first and after the last item of vectors. `gpu`: whether formats are chosen for a
    GPU.
    """

    colored: ClassVar[bool] = False  # whether `transfer` takes vectors of several colors

    def __init__(self, xp: Any, vectors: Any, guard: int, *, gpu: bool = False) -> None:
        self._xp, self._vectors, self._guard, self._gpu = xp, vectors, guard, gpu

    @abstractmethod
    def statistics(self, rows: Csr, columns: int, blocks: Sequence[int] = BLOCKS) -> Statistics:
        """Statistics of rows on the device, by which formats are chosen, for some sizes of blocks."""

    @abstractmethod
    def look(self, rows: Csr, allowed: float) -> Look:
        """Findings about all entries of a square matrix on the device.

        `allowed`: difference of mirrored entries up to which no place is asked for, as a part of the largest one.
        """

    def places(self, start: Array, entries: int) -> Array:
        """The row of each entry of compressed rows, int64, or the column of compressed columns."""
        bounds = start.astype(np.int64, copy=False)
        counts = self._xp.bincount(bounds, minlength=entries + 1)  # rows that begin at each entry; one ends behind all
        return self._xp.cumsum(counts[:entries]) - 1

    def compressed(self, row: Array, column: Array, values: Array, rows: int) -> Csr:
        """Entries in any order as compressed rows, columns ascending; those in one place are added in order."""
        xp = self._xp
        key = row.astype(np.int64) * rows + column
        if some(key[1:] < key[:-1]):
            order = xp.argsort(key, kind="stable")
            key, values = key[order], values[order]
        first = xp.flatnonzero(xp.concatenate([xp.ones(1, dtype=bool), key[1:] != key[:-1]]))
        if len(first) < len(key):
            times = xp.diff(xp.append(first, len(key)))
            sums, number = values[first], 1
            while len(more := xp.flatnonzero(times > number)):
                sums[more] += values[first[more] + number]
                number += 1
            key, values = key[first], sums
        start = xp.searchsorted(key, xp.arange(rows + 1) * rows)
        return Csr(start.astype(np.int64), (key % rows).astype(np.int32), values)

    def split(self, rows: Csr, own_columns: int | None = None) -> SplitRows:
        """A chunk's rows on the device in two parts: see `rows.split`."""
        return split(self._xp, rows, own_columns)

    @abstractmethod
    def product(self, rows: Csr, columns: int, choice: Choice, measured: Any = None) -> Any:
        """Rows on the device in a format, with products; it may share their memory; measured: as of `measured`."""

    def asked(self, rows: Csr, blocks: Sequence[int] = BLOCKS) -> Callable[[], Statistics] | None:
        """Statistics for which `matrix` would wait, on their way, to be called for. None where it would not."""
        return None

    def measured(self, rows: Csr, formats: str | None, known: Statistics | None) -> Any:
        """Sizes for which `matrix` would wait, on their way: arguments as there. None where there are none."""
        return None

    def measured_transfer(self, rows: Csr, written: Layout, read: Layout) -> Any:
        """Sizes for which `transfer` would wait, on their way: arguments as there. None where there are none."""
        return None

    @abstractmethod
    def diagonal(self, rows: Csr) -> Array:
        """The diagonal, 0 where a row has no such entry."""

    @abstractmethod
    def ghost(self, boundary: Array, rows: Csr, slots: int, longest: int | None = None) -> GhostRows:
        """The ghost part of a chunk; boundary: int32 (B,), storage positions of rows with entries in halo slots."""

    @abstractmethod
    def between(self, levels: Between) -> Any:
        """Rows between two levels in their form, with its kernels."""

    def reordered(self, rows: Csr, order: Array) -> Csr:
        """The rows in another order, each of them once, on the device."""
        return rows.selected(order)

    def ascending(self, rows: Csr, columns: int) -> Csr:
        """Rows with so many columns, which do not ascend, as products want them, on the device."""
        return rows

    @abstractmethod
    def wait(self) -> None:
        """Wait until everything launched by this thread has run."""

    def narrowed(self, matrix: GeneralMatrix) -> GeneralMatrix | None:
        """A float64 matrix in the value type, with its columns, to be waited for; None where it is to be made anew."""
        return None

    def prepare_dots(self, matrix: GeneralMatrix) -> None:  # noqa: B027  # most make nothing
        """Make what the first product with a dot product would make, so that an engine may record one before."""

    def _writable(self, rows: Csr) -> Csr:
        """The rows in arrays that can be written, for which loops are compiled."""
        return rows
