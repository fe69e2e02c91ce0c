"""Size of the factors that a matrix would have, looked for where it is asked for, and no further than that."""

from functools import cached_property
from typing import Any, Final

from dsolver.kernels.direct.fill import FULL, Fill, envelope_of, fill_of, full_fill, is_wide, narrow_order
from dsolver.matrices.checked import on_host

SMALL: Final = 100  # rows up to which factors are taken to be full: there is nothing to be gained by looking
NARROW: Final = 5e6
"""Entries up to which an envelope stands for the fill itself, several times of which it may be: tens of megabytes."""
FAR: Final = 64.0
"""Times the multiplications of the factors that an envelope may take, where they are in a plane: with more they are
beyond a bound that is not worth counting for."""

LAST: Final = Fill(entries=1e9, products=4e11)
"""Fill of a last attempt's factors: a few minutes, as of an elastic body in a plane with a million rows."""
NEARLY: Final = 1 / 64
"""Part of that from which on a bound is not looked for alone: most of the time goes before it is reached."""


class Elimination:
    """Elimination of a matrix, as `checked` has it, on paper; mirrored: it has an entry (j, i) for each (i, j)."""

    def __init__(self, rows: Any, *, mirrored: bool) -> None:
        self._rows, self._mirrored = rows, mirrored
        self._found: Fill | None = None
        self._least = Fill(entries=0.0, products=0.0)
        self._beyond = 0.0  # multiplications that no envelope is likely to be within

    @property
    def entries(self) -> int:
        """Entries of the matrix itself."""
        return int(self._rows.nnz)

    def within(self, most: Fill) -> Fill | None:
        """The fill of its factors, or more where that is little; None where it is beyond a bound."""
        full = full_fill(self._rows.shape[0])
        if self._found is None and self._rows.shape[0] <= SMALL:
            self._found = full
        if self._found is None and self._is_open(most):
            bound = Fill(entries=min(most.entries, NARROW, FULL / 2 * full.entries), products=most.products)
            if (narrow := self.narrow(bound)) is not None:
                return narrow
        return self.counted(most)

    def counted(self, most: Fill) -> Fill | None:
        """The fill of its factors; None where it is beyond a bound."""
        if self._found is None and self._is_open(most):
            near = most.within(LAST) and most.products >= NEARLY * LAST.products
            counted = fill_of(on_host(self._rows), LAST if near else most, mirrored=self._mirrored)
            if counted.more:
                self._least = counted
            else:
                self._found = counted
        return self._found if self._found is not None and self._found.within(most) else None

    def _is_open(self, most: Fill) -> bool:
        """Whether the fill may be within a bound, by what has been counted so far."""
        return self.entries <= most.entries and self._least.within(most)

    def narrow(self, most: Fill) -> Fill | None:
        """The envelope, of rows as they are or in a better order; None beyond a bound. Nothing is counted."""
        if self.entries > most.entries:
            return None
        if self._as_it_is.within(most):
            return self._as_it_is
        if "_in_order" not in vars(self) and most.products > self._beyond and is_wide(on_host(self._rows), most):
            self._beyond = most.products
        if most.products <= self._beyond:
            return None
        return self._in_order if self._in_order.within(most) else None

    def promises(self, most: Fill) -> bool:
        """Whether the fill may be within a bound, as far as the envelope tells."""
        far = Fill(entries=FAR * most.entries, products=FAR * most.products)
        return self._is_open(most) and self.narrow(far) is not None

    @cached_property
    def _as_it_is(self) -> Fill:
        return envelope_of(on_host(self._rows))

    @cached_property
    def _in_order(self) -> Fill:
        rows = on_host(self._rows)
        return envelope_of(rows, narrow_order(rows, mirrored=self._mirrored))
