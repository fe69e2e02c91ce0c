"""Systems that fix their solution only up to a constant, on the whole grid or on one region of its cells."""

from __future__ import annotations

from typing import final

import numpy as np

from dsolver.engines.base import Engine, Field
from dsolver.kernels.contract import WAXPBY


@final
class NullSpace:
    """The vector n of ones on a region and zeros elsewhere, with A n = 0.

    A x = b has solutions only if n·b = 0. Where b = f V comes from a source f on cells of volume V, a constant is
    subtracted from f in the region; and of all solutions the one is taken whose mean there, weighted by volume, is 0.

    Args:
        engine: runs the kernels.
        ones: n.
        volumes: of the cells, zero where n is.
        work: a field like them that nobody else uses.
    """

    def __init__(self, engine: Engine, ones: Field, volumes: Field, work: Field) -> None:
        self._engine = engine
        self._ones, self._volumes, self._work = ones, volumes, work
        self._parts = engine.parts()
        self._count, self._volume = self._dots((ones, ones), (ones, volumes))

    def project(self, b: Field) -> float:
        """Make b consistent. Returns how far it was from that: |n·b| / (‖n‖ ‖b‖), and 0 for a b of zeros."""
        excess, square = self._dots((self._ones, b), (b, b))
        self._engine.copy(self._less(b, excess / self._volume, self._volumes), b)
        return abs(excess) / float(np.sqrt(self._count * square)) if square else 0.0

    def centered(self, x: Field) -> Field:
        """x less its mean, until the next use of this; x stays, so that a solve may be looked at and go on."""
        (total,) = self._dots((self._volumes, x))
        return self._less(x, total / self._volume, self._ones)

    def _less(self, x: Field, factor: float, y: Field) -> Field:
        """x - factor y, in the work field."""
        self._engine.run(WAXPBY, 1.0, x, -factor, y, self._work)
        return self._work

    def _dots(self, *pairs: tuple[Field, Field]) -> tuple[float, ...]:
        scalars = [self._engine.scalar(0.0) for _ in pairs]
        for (x, y), scalar in zip(pairs, scalars, strict=True):
            self._engine.dot(x, y, self._parts, scalar)
        return self._engine.read(*scalars)
