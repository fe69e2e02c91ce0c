"""Set-up of general matrices on a device: statistics of rows, a format for them, and the parts of a chunk."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from dsolver.kernels.casts import in_range, narrowed
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.choice import Choice
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.matrix import Diagonal, GeneralMatrix, GhostRows, OnePassMatrix, RectangularPart
from dsolver.kernels.general.operations import Between, RowOperations
from dsolver.kernels.general.selection import MEASURE, candidates, chosen, fastest

BALANCED: Final = Choice(name="chunks", why="rows of any length")
COPIED: Final = ("slices", "octets")  # formats that are made of copies of all entries


class OtherValues(NamedTuple):
    """Values of a matrix in the places of another one's: float64 (entries,), and its diagonal, float64 (rows,)."""

    entries: Array
    diagonal: Array


class GeneralSetup(RowOperations):
    """Set-up of general matrices."""

    def stored_diagonal(self, rows: Csr, layout: Layout, known: Array | None = None) -> Array:
        """The diagonal as a vector in the value type, 1 on padding and guards; known: float64 (rows,), if it is."""
        diagonal = self._xp.ones(layout.size, dtype=self._vectors.dtype)
        places = slice(self._guard, self._guard + layout.rows) if layout.in_order else layout.position
        found = self.diagonal(rows) if known is None else known
        diagonal[places] = in_range(found, self._vectors.dtype)
        return diagonal

    @cached_property
    def no_ghost(self) -> GhostRows:
        """The ghost part of every chunk whose rows read no slots."""
        xp = self._xp
        none = xp.empty(0, dtype=np.int32)
        return self.ghost(none, Csr(xp.zeros(1, dtype=np.int64), none, xp.empty(0)), 0)

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
            formats: a format's name, "measure" for the fastest one, None for a choice by statistics.
            choice: one that was made for rows with entries in the same places, in place of `formats`.
            blocks: sizes of blocks that are of interest, where there are no statistics.
            borrowed: whether the rows are a user's, who may change them, so that they are copied where they are kept.
            measured: of these rows, as of `measured`, where it was asked for before.
            wait: until it is there: products read a matrix before they wait for earlier launches. Else its user
                waits before.
        """
        rows = self._writable(rows)
        stored_diagonal = self.stored_diagonal(rows, layout, diagonal)
        rows = self._rounded(rows)
        if choice is None and formats == MEASURE:
            rows = self._own(rows) if borrowed else rows
            known = known or self.statistics(rows, rows.size, blocks)
            x, y = (self._xp.ones(rows.size, dtype=self._vectors.dtype) for _ in range(2))
            choice, product = fastest(self, rows, candidates(known, gpu=self._gpu), x, y)
        else:
            if choice is None:
                choice = self.choice(rows, formats, blocks) if known is None else chosen(formats, known, gpu=self._gpu)
            rows = self._own(rows) if borrowed and choice.name not in COPIED else rows
            product = self.product(rows, rows.size, choice, measured)
        if wait:
            self.wait()
        return self._assembled(layout, stored_diagonal, product, choice)

    def matrices(
        self,
        rows: Csr,
        layout: Layout,
        narrow: "GeneralSetup",
        formats: str | None = None,
        others: OtherValues | None = None,
        **given: Any,
    ) -> tuple[GeneralMatrix, GeneralMatrix | None]:
        """A `matrix` of float64, and the same one in a narrower value type, or None where it is to be made by itself.

        `narrow`: its set-up. `others`: its values, if they are others. The other arguments are those of `matrix`.
        Callers wait before they use them.
        """
        made = self.matrix(rows, layout, formats, **given, wait=False)
        return made, narrow.narrowed(made) if others is None else None

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
        """Rows between two levels; written: the order of vectors of products, of one color unless `colored`."""
        guard = self._guard
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
        """The local part of a chunk of a rectangular matrix. Callers wait before they use it."""
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

    def _rounded(self, rows: Csr) -> Csr:
        """The rows as formats are chosen for them and made of them: with values of the backend's type, if not later."""
        return rows._replace(values=narrowed(rows.values, self._vectors.dtype))

    def _own(self, rows: Csr) -> Csr:
        """The rows in memory of their own."""
        return Csr(*(part.copy() for part in rows))

    def _ghost_fields(self, boundary: Array, rows: Csr, slots: int, choice: Choice = BALANCED) -> dict[str, Any]:
        """Fields of every `GhostRows`. As a rule its rows may have any lengths, for a row may read all other chunks."""
        return {
            "boundary": boundary,
            "product": self.product(self._rounded(rows), slots, choice),
            "slots": slice(self._guard, self._guard + slots),
            "vectors": self._vectors,
        }
