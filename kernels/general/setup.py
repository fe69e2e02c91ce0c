"""Set-up of general matrices on a device: statistics of rows, a format for them, and the parts of a chunk."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, final

import numpy as np

from dsolver.kernels.casts import in_range, narrowed
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.choice import Choice
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.look import Look
from dsolver.kernels.general.matrix import GeneralMatrix, GhostRows, OnePassMatrix
from dsolver.kernels.general.rectangular import Diagonal, RectangularPart
from dsolver.kernels.general.rows import SplitRows, split
from dsolver.kernels.general.selection import MEASURE, candidates, chosen
from dsolver.kernels.reductions import some

ENOUGH: Final = 1e-3
"""Seconds of products that tell formats apart."""
ROUNDS: Final = 3
BALANCED: Final = Choice(name="chunks", why="rows of any length")


@final
@dataclass(frozen=True, kw_only=True)
class Between:
    """Rows between two levels, and where they lie.

    Attributes:
        shape: rows and columns.
        rows: on the device, in the order of the vector that is written; columns in that of the vector that is read,
            ascending in each row.
        written: where the rows lie in a vector, which has guards around them.
        read: where the columns lie in a vector, which has guards around them.
        blocks: rows and columns of the blocks in which entries come as a rule; that may save time.
        measured: of these rows, as of `GeneralSetup.measured_transfer`, where that was asked for before.
    """

    shape: tuple[int, int]
    rows: Csr
    written: slice
    read: slice
    blocks: tuple[int, int] = (1, 1)
    measured: Any = None

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of a `TransferRows`, but for its vector kernels."""
        return {"shape": self.shape, "entries": self.rows, "written": self.written, "read": self.read}


class GeneralSetup(ABC):
    """Set-up of general matrices.

    Args:
        xp: the array module.
        vectors: the vector kernels.
        guard: zero items before the first and after the last item of vectors.
        gpu: whether formats are chosen for a GPU.

    Attributes:
        colored: whether `transfer` takes vectors of several colors.
    """

    colored: ClassVar[bool] = False

    def __init__(self, xp: Any, vectors: Any, guard: int, *, gpu: bool = False) -> None:
        self._xp, self._vectors, self._guard, self._gpu = xp, vectors, guard, gpu

    @abstractmethod
    def statistics(self, rows: Csr, columns: int, blocks: Sequence[int] = BLOCKS) -> Statistics:
        """Statistics of rows on the device, by which formats are chosen, for some sizes of blocks."""

    @abstractmethod
    def look(self, rows: Csr, allowed: float) -> Look:
        """Findings about all entries of a square matrix on the device.

        Args:
            rows: with any faults, which are told.
            allowed: difference of mirrored entries up to which no place is asked for, as a part of the largest one.
        """

    def places(self, start: Array, entries: int) -> Array:
        """The row of each entry of compressed rows, int64, or the column of compressed columns."""
        return self._xp.searchsorted(start, self._xp.arange(entries), side="right") - 1

    def compressed(self, row: Array, column: Array, values: Array, rows: int) -> Csr:
        """Entries in any order as compressed rows with ascending columns; those in the same place are added in order.

        Args:
            row: of each entry, from 0 on, on the device like the others.
            column: of each entry.
            values: float64.
            rows: how many rows and columns there are.
        """
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
        """Rows on the device in a format, with its products. It may share their memory.

        measured: of them, as of `measured`.
        """

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

    def stored_diagonal(self, rows: Csr, layout: Layout, known: Array | None = None) -> Array:
        """The diagonal as a vector of the backend's value type, 1 on padding and guards.

        known: float64 (rows,), the diagonal on the device, where it is known.
        """
        diagonal = self._xp.ones(layout.size, dtype=self._vectors.dtype)
        places = slice(self._guard, self._guard + layout.rows) if layout.in_order else layout.position
        found = self.diagonal(rows) if known is None else known
        diagonal[places] = in_range(found, self._vectors.dtype)
        return diagonal

    @abstractmethod
    def ghost(self, boundary: Array, rows: Csr, slots: int, layout: Layout, longest: int | None = None) -> GhostRows:
        """The ghost part of a chunk.

        Args:
            boundary: int64 (B,), the rows that have entries in halo slots, ascending.
            rows: these entries, on the device.
            slots: of the halo.
            layout: of the chunk's vectors.
            longest: as of `SplitRows`.
        """

    def no_ghost(self, layout: Layout) -> GhostRows:
        """The ghost part of a chunk whose rows read no slots."""
        xp = self._xp
        rows = Csr(xp.zeros(1, dtype=np.int64), xp.empty(0, dtype=np.int32), xp.empty(0))
        return self.ghost(xp.empty(0, dtype=np.int64), rows, 0, layout)

    @abstractmethod
    def between(self, levels: Between) -> Any:
        """Rows between two levels in their form, with its kernels."""

    def evened(self, rows: Csr) -> Csr:
        """Rows between two levels, with holes in short ones where a device's kernels are faster so."""
        return rows

    def reordered(self, rows: Csr, order: Array) -> Csr:
        """The rows in another order, each of them once, on the device."""
        return rows.selected(order)

    def ascending(self, rows: Csr, columns: int) -> Csr:
        """Rows with so many columns, which do not ascend, as products want them, on the device."""
        return rows

    @abstractmethod
    def wait(self) -> None:
        """Wait until everything launched by this thread has run."""

    def choice(self, rows: Csr, formats: str | None, blocks: Sequence[int] = BLOCKS) -> Choice:
        """The format of that name, or by statistics, for rows on the device; blocks: sizes that are of interest."""
        return chosen(formats, self.statistics(rows, rows.size, blocks), gpu=self._gpu)

    def matrix(
        self,
        rows: Csr,
        layout: Layout,
        formats: str | None = None,
        *,
        choice: Choice | None = None,
        known: Statistics | None = None,
        blocks: Sequence[int] = BLOCKS,
        borrowed: bool = False,
        measured: Any = None,
        diagonal: Array | None = None,
        wait: bool = True,
    ) -> GeneralMatrix:
        """The local part of a chunk.

        Args:
            rows: its entries, on the device; columns ascend in each row.
            layout: of the chunk's vectors.
            formats: a format's name, "measure" for the fastest one, None for a choice by statistics.
            choice: one that was made for rows with entries in the same places, in place of `formats`.
            known: statistics of the rows, where they are known.
            blocks: sizes of blocks that are of interest, where there are no statistics.
            borrowed: whether the rows are a user's, who may change them, so that they are copied where they are kept.
            measured: of these rows, as of `measured`, where it was asked for before.
            diagonal: float64 (rows,), theirs, where it is known.
            wait: until it is there: products read a matrix before they wait for earlier launches. Else its user
                waits before.
        """
        rows = self._writable(rows)
        stored_diagonal = self.stored_diagonal(rows, layout, diagonal)
        rows = self._rounded(rows)
        if choice is not None:
            product = self.product(self._own(rows) if borrowed else rows, rows.size, choice)
        elif formats == MEASURE:
            rows = self._own(rows) if borrowed else rows
            known = known or self.statistics(rows, rows.size, blocks)
            choice, product = self._fastest(rows, candidates(known, gpu=self._gpu))
        else:
            choice = self.choice(rows, formats, blocks) if known is None else chosen(formats, known, gpu=self._gpu)
            rows = self._own(rows) if borrowed and choice.name != "slices" else rows
            product = self.product(rows, rows.size, choice, measured)
        if wait:
            self.wait()
        return self._assembled(layout, stored_diagonal, product, choice)

    def matrices(
        self, rows: Csr, layout: Layout, narrow: GeneralSetup, formats: str | None = None, **given: Any
    ) -> tuple[GeneralMatrix, GeneralMatrix | None]:
        """A `matrix` of float64, and the same one in a narrower value type as of `narrowed`; narrow: its set-up.

        The other arguments are those of `matrix`. Callers wait before they use them.
        """
        made = self.matrix(rows, layout, formats, **given, wait=False)
        return made, narrow.narrowed(made)

    def _assembled(self, layout: Layout, diagonal: Array, product: Any, choice: Choice) -> GeneralMatrix:
        """A matrix of its parts, as `GeneralMatrix` names them."""
        kind = OnePassMatrix if getattr(product, "finishes", False) else GeneralMatrix
        return kind(
            layout=layout,
            diagonal=diagonal,
            product=product,
            choice=choice,
            rows=slice(self._guard, self._guard + layout.rows),
            vectors=self._vectors,
        )

    def narrowed(self, matrix: GeneralMatrix) -> GeneralMatrix | None:
        """A matrix of float64 in the backend's value type, with its columns; None where it is to be made anew.

        Callers wait before they use it.
        """
        return None

    def prepare_dots(self, matrix: GeneralMatrix) -> None:  # noqa: B027  # most make nothing
        """Make what the first product with a dot product would make, so that an engine may record one before."""

    def transfer(
        self,
        rows: Csr,
        written: Layout,
        read: Layout,
        *,
        wait: bool = True,
        blocks: tuple[int, int] = (1, 1),
        measured: Any = None,
    ) -> Any:
        """Rows between two levels.

        Args:
            rows: entries in own columns, on the device.
            written: the storage order of the vectors that products are written to, of one color unless `colored`.
            read: the storage order of the vectors that are multiplied.
            wait: as of `matrix`.
            blocks: as of `Between`.
            measured: as of `Between`.
        """
        rows, guard = self.evened(rows), self._guard
        order, places = written.row[guard : guard + written.rows], read.position
        if not written.in_order and (order[1:] < order[:-1]).any():
            rows = self.reordered(rows, order)
        if not read.in_order and (places[1:] < places[:-1]).any():
            rows = self.ascending(rows._replace(columns=places[rows.columns] - np.int32(guard)), read.rows)
        made = self.between(
            Between(
                shape=(rows.size, read.rows),
                rows=self._rounded(rows),
                written=slice(guard, guard + written.rows),
                read=slice(guard, guard + read.rows),
                blocks=blocks,
                measured=measured,
            )
        )
        if wait:
            self.wait()
        return made

    def rectangular(
        self, rows: Csr, written: Layout, read: Layout, formats: str | None = None, *, known: Statistics | None = None
    ) -> RectangularPart:
        """The local part of a chunk of a rectangular matrix. Callers wait before they use it.

        Args:
            rows: its entries, on the device; columns ascend in each row.
            written: of the vectors that products are written to, in order.
            read: of the vectors that are multiplied, in order.
            formats: as of `matrix`, a name or None.
            known: as of `matrix`.
        """
        rows, guard = self._rounded(self._writable(rows)), self._guard
        choice = chosen(formats, known or self.statistics(rows, read.rows, (1,)), gpu=self._gpu)
        return RectangularPart(
            product=self.product(rows, read.rows, choice),
            choice=choice,
            written=slice(guard, guard + written.rows),
            read=slice(guard, guard + read.rows),
            vectors=self._vectors,
        )

    def row_norms(self, rows: Csr, columns: int, layout: Layout) -> Diagonal:
        """Norms of rows of a matrix with so many columns, as a diagonal; 1 for a row without entries, or of zeros."""
        xp, of = self._xp, slice(self._guard, self._guard + layout.rows)
        squares = xp.empty(rows.size)
        self.product(rows._replace(values=rows.values * rows.values), columns, BALANCED).spmv(xp.ones(columns), squares)
        norms = xp.ones(layout.size, dtype=self._vectors.dtype)
        norms[of] = xp.where(squares > 0.0, xp.sqrt(squares), 1.0)
        return Diagonal(diagonal=norms, vectors=self._vectors)

    def _writable(self, rows: Csr) -> Csr:
        """The rows in arrays that can be written, for which loops are compiled."""
        return rows

    def _rounded(self, rows: Csr) -> Csr:
        """The rows as formats are chosen for them and made of them: with values of the backend's type, if not later."""
        return rows._replace(values=narrowed(rows.values, self._vectors.dtype))

    def _own(self, rows: Csr) -> Csr:
        """The rows in memory of their own."""
        return Csr(*(part.copy() for part in rows))

    def _ghost_fields(
        self, boundary: Array, rows: Csr, slots: int, layout: Layout, choice: Choice = BALANCED
    ) -> dict[str, Any]:
        """Fields of every `GhostRows`. As a rule its rows may have any lengths, for a row may read all other chunks."""
        return {
            "boundary": layout.position[boundary] if len(boundary) else layout.position[:0],
            "product": self.product(self._rounded(rows), slots, choice),
            "slots": slice(self._guard, self._guard + slots),
            "vectors": self._vectors,
        }

    def _fastest(self, rows: Csr, choices: Sequence[Choice]) -> tuple[Choice, Any]:
        """The fastest of some formats, on this device and now, and the rows in it. Two are held at a time."""
        x, y = (self._xp.ones(rows.size, dtype=self._vectors.dtype) for _ in range(2))
        best: tuple[float, Choice, Any] | None = None
        for choice in choices:
            product = self.product(rows, rows.size, choice)
            took = self._seconds(product, x, y)
            if best is None or took < best[0]:
                best = took, choice, product
        assert best is not None
        why = f"the fastest of {len(choices)}, measured: {best[0] * 1e6:.0f} us"
        return replace(best[1], why=why), best[2]

    def _seconds(self, product: Any, x: Array, y: Array) -> float:
        """Seconds of a product, the least of some rounds; the first calls compile and are not counted."""
        times = 1
        found = []
        for _ in range(ROUNDS + 2):
            self.wait()
            began = time.perf_counter()
            for _ in range(times):
                product.spmv(x, y)
            self.wait()
            found.append((time.perf_counter() - began) / times)
            times = int(np.clip(ENOUGH / max(found[-1], 1e-7), 1, 100))
        return min(found[2:])
