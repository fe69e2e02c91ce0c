"""Systems that fix their solution only up to constants, on the whole grid or on regions, or up to given vectors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from dsolver.engines.base import Engine, Field, PartialSums
from dsolver.grid.box import Triple
from dsolver.kernels.contract import WAXPBY

CONSISTENT: Final = 1e-10
"""Largest n·b / (‖n‖ ‖b‖) without a warning where A n = 0: far above rounding, far below a forgotten flux."""


@dataclass(frozen=True, kw_only=True)
class Inconsistency:
    """Inconsistent part of a right-hand side: what no x can reach."""

    closed: int = 0  # how many regions have a constant of their own that nothing fixes; the whole grid may be one
    part: float = 0.0  # the length of what cannot be reached over that of all of b; infinite where that is
    regions: int = 0  # in how many regions |n·b| / (‖n‖ ‖b‖) is more than `CONSISTENT`
    worst: float = 0.0  # the largest of these numbers
    cell: Triple | None = None  # a cell of that region; None where there is only one region, the whole grid
    vectors: int = 0  # how many null vectors were given, in place of regions
    # whether there are boundary conditions that fix solutions, but all cells are in closed regions.
    sealed: bool = False


class NullSpace(Protocol):
    """Vectors n with A n = 0: ones on a region and zeros elsewhere, of one region or of several, or given ones.

    A x = b has solutions only if n·b = 0 for each of them. In regions where b = f V comes from a source f on cells of
    volume V, a constant is subtracted from f; and of all solutions the one is taken whose mean there, weighted by
    volume, is 0. Of given ones, which are orthonormal, the part is subtracted that b has of them, and x has none.
    """

    vectors: Sequence[Field] = ()
    """Vectors of the whole grid, or given ones; none of several regions, which may be thousands."""

    def project(self, b: Field) -> Inconsistency:
        """Make b consistent. Returns the part that was not."""

    def balance(self, r: Field) -> None:
        """Remove from a residual its part along n, which rounding leaves and no x can reach.

        Not in a region of one cell, whose row is a positive diagonal in place of zeros.

        That part stays while the rest falls, and a preconditioner makes more of it than of all else: where r is little
        more than it, conjugate gradients diverge.
        """

    def centered(self, x: Field) -> Field:
        """x less its mean in each region, until the next use of this. x stays: a solve may be looked at and go on."""


class Constants(NullSpace):
    """The vector of ones on the whole grid; volumes: of the cells; work: a field for this alone."""

    def __init__(self, engine: Engine, ones: Field, volumes: Field, work: Field) -> None:
        self._engine = engine
        self._ones, self._volumes, self._work = ones, volumes, work
        self._parts = engine.partial_sums()
        self._count, self._volume = dots(engine, self._parts, (ones, ones), (ones, volumes))
        self.vectors = (ones,)

    def project(self, b: Field) -> Inconsistency:
        """As in `NullSpace`."""
        excess, square = dots(self._engine, self._parts, (self._ones, b), (b, b))
        self._engine.copy(self._less(b, excess / self._volume, self._volumes), b)
        part = share(abs(excess), float(np.sqrt(self._count * square)))
        return Inconsistency(closed=1, part=part, regions=int(part > CONSISTENT), worst=part)

    def balance(self, r: Field) -> None:
        """As in `NullSpace`."""
        (excess,) = dots(self._engine, self._parts, (self._ones, r))
        self._engine.copy(self._less(r, excess / self._count, self._ones), r)

    def centered(self, x: Field) -> Field:
        """As in `NullSpace`."""
        (total,) = dots(self._engine, self._parts, (self._volumes, x))
        return self._less(x, total / self._volume, self._ones)

    def _less(self, x: Field, factor: float, y: Field) -> Field:
        """x - factor y, in the work field."""
        self._engine.run(WAXPBY, 1.0, x, -_finite(factor), y, self._work)
        return self._work


class NullVectors(NullSpace):
    """Given orthonormal vectors; work: two fields like them for this alone."""

    def __init__(self, engine: Engine, vectors: Sequence[Field], work: tuple[Field, Field]) -> None:
        self._engine, self.vectors, self._work = engine, tuple(vectors), work
        self._parts = engine.partial_sums()

    def project(self, b: Field) -> Inconsistency:
        """As in `NullSpace`."""
        *found, square = dots(self._engine, self._parts, *((n, b) for n in self.vectors), (b, b))
        self._engine.copy(self._less(b, found), b)
        part = share(float(np.sqrt(sum(each * each for each in found))), float(np.sqrt(square)))
        return Inconsistency(vectors=len(found), part=part)

    def balance(self, r: Field) -> None:
        """As in `NullSpace`."""
        self._engine.copy(self.centered(r), r)

    def centered(self, x: Field) -> Field:
        """As in `NullSpace`."""
        return self._less(x, dots(self._engine, self._parts, *((n, x) for n in self.vectors)))

    def _less(self, x: Field, factors: Sequence[float]) -> Field:
        """x less the sum of factor times vector, in a work field."""
        for number, (factor, vector) in enumerate(zip(factors, self.vectors, strict=True)):
            less = self._work[number % 2]
            self._engine.run(WAXPBY, 1.0, x, -_finite(factor), vector, less)
            x = less
        return x


def _finite(factor: float) -> float:
    """A factor, and 0 for what is no number.

    Its products with zeros would stay where the next b is not loaded, as beside a masked grid's cells, and be in each
    of its sums.
    """
    return factor if math.isfinite(factor) else 0.0


def dots(engine: Engine, parts: PartialSums, *pairs: tuple[Field, Field]) -> tuple[float, ...]:
    """Dot products."""
    scalars = [engine.scalar(0.0) for _ in pairs]
    for (x, y), scalar in zip(pairs, scalars, strict=True):
        engine.dot(x, y, parts, scalar)
    return engine.read(*scalars)


def share(length: float, norm: float) -> float:
    """The length of a part of b over that of b: 0 where b is zero, infinite where the length of b is."""
    if math.isinf(norm):
        return math.inf
    return length / norm if norm else 0.0
