"""Iterate that a solve may go back to. Sees neither arrays nor Dask."""

from collections.abc import Callable

from dsolver.engines.base import Engine, Field, PerChunk


class KeptIterate:
    """An iterate that a solve may go back to. Zero takes no memory, and most solves begin from it.

    Another one is there from a solve's beginning to its end, while no block of values is: forecasts count one for it.
    """

    def __init__(self, engine: Engine, layout: PerChunk) -> None:
        self._engine, self._layout = engine, layout
        self._field: Field | None = None
        self._zero = True

    def keep(self, x: Field) -> None:
        """Keep x as it is."""
        self._zero = False
        self._engine.copy(x, self._made())

    def keep_zero(self) -> None:
        """Keep zero, and give back the memory of what was kept."""
        self._zero, self._field = True, None

    def recall(self, x: Field) -> None:
        """x = what is kept."""
        if self._zero:
            self._engine.fill(self._layout, 0.0, x)
        else:
            self._engine.copy(self._made(), x)

    def exchange(self, x: Field, work: Field) -> None:
        """x = what is kept, and x is kept; work: any field that is free."""
        self._engine.copy(x, work)
        self.recall(x)
        self.keep(work)

    def lay_out(self, other: "KeptIterate", bring: Callable[[Field, Field], None]) -> None:
        """Have another one, in another layout, keep the same; bring: copies from this layout to that one."""
        other._zero = self._zero
        if not self._zero:
            bring(self._made(), other._made())

    def _made(self) -> Field:
        if self._field is None:
            self._field = self._engine.field(self._layout)
        return self._field
