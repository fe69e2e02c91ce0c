"""A complex system on an engine: what right-hand sides and solutions need is done to both parts."""

import math
from dataclasses import replace
from typing import Any

from dsolver.discretize.system import System
from dsolver.distributed.nullspace import Inconsistency, dots
from dsolver.engines.base import PerChunk
from dsolver.engines.complex import ComplexEngine
from dsolver.engines.complex_handles import ComplexField


class ComplexSystem:
    """A `System` for complex vectors; `system` is of the matrix for both parts. Null vectors are common to A and Aᵀ."""

    def __init__(self, system: System, engine: ComplexEngine, layout: PerChunk) -> None:
        self._system, self._engine, self._layout = system, engine, layout
        self._centered: ComplexField | None = None

    def assemble(self, b: Any) -> Inconsistency:
        """b, which may hold the source on a grid, becomes the right-hand side; returns its inconsistent part."""
        real = self._engine.real
        for number, part in enumerate((b.re, b.im)):
            self._system.feed(part, number)
        squares = dots(real, real.partial_sums(), (b.re, b.re), (b.im, b.im))
        found = [self._system.balanced(part) for part in (b.re, b.im)]
        lost = [each.part * math.sqrt(square) for each, square in zip(found, squares, strict=True)]
        worse = found[lost.index(max(lost))]
        return replace(worse, part=math.hypot(*lost) / math.sqrt(sum(squares)) if any(squares) else 0.0)

    def turn(self, b: Any) -> None:
        """b = -b, where -A is solved."""
        self._system.turn(b.re)
        self._system.turn(b.im)

    def set_known(self, b: Any, x: Any) -> bool:
        """As of `System`, by rows that have no imaginary part."""
        return all([self._system.set_known(b.re, x.re), self._system.set_known(b.im, x.im)])

    def balance(self, r: Any) -> None:
        """As of `System`."""
        for part in (r.re, r.im):
            self._system.balance(part)

    def clear(self, x: Any) -> None:
        """Nothing: complex rows are those of a matrix, and all of unknowns."""

    def centered(self, x: Any) -> Any:
        """As of `System`."""
        found = self._system.centered(x.re)
        if found is x.re:
            return x
        if self._centered is None:
            self._centered = self._engine.field(self._layout)
        self._engine.real.copy(found, self._centered.re)
        self._engine.real.copy(self._system.centered(x.im), self._centered.im)
        return self._centered
