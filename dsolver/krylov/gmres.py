"""GMRES and flexible GMRES, for any matrix. Sees neither arrays nor Dask."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dsolver.engines.base import Engine, Field, PerChunk, Scalar
from dsolver.engines.repetition import Repetition, Samples, StepInParts
from dsolver.kernels.contract import AXPBY, WAXPBY
from dsolver.krylov.method import FEW, KrylovMethod

RESTART: Final = 30  # vectors of the first basis, unless another number is asked for
MOST: Final = 240  # vectors of a basis at most: to make one orthogonal to so many takes as long as dozens of products
ROOM: Final = 1 << 28  # bytes that a basis may grow to
STALLED: Final = 0.1
"""Residual at the end of a basis, as a part of that at its beginning, from which on the next one has twice as many."""


def most_vectors(rows: int) -> int:
    """Vectors to which a basis may grow, unless a number is asked for."""
    return max(RESTART, min(MOST, ROOM // (8 * rows)))


SINGULAR: Final = 2.0**-50
"""Pivot of the least squares problem, as a part of the largest column, that is rounding: y would be so as well."""


class GeneralizedMinimalResidual(KrylovMethod):
    """GMRES with restarts and M on the right, so that its residual is that of A x = b itself.

    Saad and Schultz, SIAM J. Sci. Stat. Comput. 7, 1986; flexible, where M may change: Saad, SIAM J. Sci. Comput. 14,
    1993 (Iterative Methods for Sparse Linear Systems, algorithms 9.5 and 9.6).

    The basis is made orthogonal by modified Gram-Schmidt. Engines sum over ranks one number at a time, so its j + 2
    sums in iteration j are fewer than the 2 j + 3 of classical Gram-Schmidt done twice; and it is backward stable
    (Paige, Rozložník and Strakoš, SIAM J. Matrix Anal. Appl. 28, 2006).

    An iteration is a step in two parts. The product A M v works on the same fields whatever the length of the basis, so
    an engine records it once, and beside it what makes the result orthogonal for each length. For that v is copied into
    the basis, 16 bytes a row, where the products with so many vectors take 40 for each. The products are read at the
    end: the least squares problem is solved with numbers, the same on all ranks. x is left as it is until the basis is
    full or the caller asks for an `iterate` or a `residual`.
    """

    def __init__(
        self,
        engine: Engine,
        layout: PerChunk,
        restart: int = RESTART,  # vectors of the first basis
        most: int | None = None,  # vectors to which one may grow where residuals stall; None for those of the first
        *,
        flexible: bool = False,  # whether M may change; then the vectors M v are kept, too
    ) -> None:
        super().__init__(engine, layout)
        self._flexible, self._first, self._most = flexible, restart, most or restart
        self._basis: list[Field] = []
        self._z: list[Field] = []
        self._products: list[Scalar] = []
        self._length = restart
        self._v, self._mv, self._following = (engine.field(layout) for _ in range(3))
        self._moved, self._free = engine.field(layout), engine.field(layout)
        self._scale = engine.scalar(0.0)
        self._small = HessenbergLeastSquares(0.0)
        self._goal, self._ran = 0.0, False

    def begin(self, limit: float, rr: float) -> None:
        """Begin from a residual r that is set, with r . r = rr."""
        super().begin(limit, rr)
        self._goal = limit

    def _begin(self) -> None:
        self._small, self._ran = HessenbergLeastSquares(0.0), False  # A and M may be others than in the last solve
        self._length = self._first

    def advance(self, steps: int, how: Repetition, *, recorded: bool) -> Samples:
        """(r . r, health) after each of so many iterations, or of fewer where the last of them ends the solve."""
        samples: list[tuple[float, ...]] = []
        for index in range(steps):
            if self._small.size in (0, self._length):
                self._restart()
            column, last = self._small.size, how.measured and index == steps - 1
            *parts, square = self._products_of(column, recorded=recorded, measured=last)
            products = self._numbers(parts)
            length = math.sqrt(square) if square >= 0.0 else math.nan
            sound = self._small.add(products, length)
            norm = self._small.norm
            samples.append((norm * norm, 1.0 if sound else 0.0 if math.isfinite(length) else math.nan))
            if not sound or norm * norm <= self._goal or not math.isfinite(norm):
                break
            self._set((self._scale, 1.0 / length if length else 0.0))
            if index + 1 in how.between:
                how.between[index + 1]()
        return samples

    def _restart(self) -> None:
        """Move x, and begin a basis with the true residual, or with the one that is set."""
        if self._small.size:
            if self._small.norm > STALLED * self._small.beta and self._length < self._most:
                self._length = min(2 * self._length, self._most)
            self.residual()
        else:
            self._dot(self.r, self.r, self.rr)
        norm = math.sqrt(*self._engine.read(self.rr))
        self._small = HessenbergLeastSquares(norm)
        self._engine.copy(self.r, self._following)
        self._clear(self._v)  # whose values times zero are added: there must be no NaN from a solve that broke down
        self._set((self._scale, 1.0 / norm if norm else 0.0))

    def _make_room(self, column: int) -> None:
        """Have room for a vector of the basis: as many again as there are, since few solves fill a basis."""
        if column < len(self._basis):
            return
        engine, layout = self._engine, self._layout
        more = range(max(column + 1, min(2 * len(self._basis), self._length)) - len(self._basis))
        self._basis += [engine.field(layout) for _ in more]
        self._z += [engine.field(layout) for _ in more] if self._flexible else []
        self._products += [engine.coefficient() for _ in more]

    def _products_of(self, column: int, *, recorded: bool, measured: bool) -> tuple[float, ...]:
        """Run the step of a column; its entries of Hessenberg's matrix, the last one squared."""
        self._make_room(column)
        engine, watched = self._engine, (*self._products[: column + 1], self.rr)
        step, ready = StepInParts((self.multiply, Orthogonalization(self, column))), self._ran
        self._ran = True
        if not recorded:
            step()
            return engine.read(*watched)
        ready = ready and engine.partition.domain.points <= FEW
        (row,) = engine.repeat(step, 1, watched, Repetition(measured=measured, ready=ready))
        return row

    def multiply(self) -> None:
        """v = the newest vector of the basis, of length 1, and A M v."""
        self._engine.run(AXPBY, 1.0, self._scale, self._following, self._zero, self._v)
        self.operator.multiply(self._preconditioned(self._v, self._mv), self._following)

    def orthogonalize(self, column: int) -> None:
        """Keep v as a vector of the basis, and take from A M v its parts along all of them; rr is its square."""
        engine, following = self._engine, self._following
        engine.copy(self._v, self._basis[column])
        if self._flexible and self.preconditioner is not None:
            engine.copy(self._mv, self._z[column])
        for before, product in zip(self._basis, self._products[: column + 1], strict=False):
            self._dot(before, following, product)
            self._add(-1.0, product, before, following)
        self._dot(following, following, self.rr)

    def step(self) -> None:
        """The first iteration of a basis."""
        self.multiply()
        self.orthogonalize(0)

    def iterate(self) -> Field:
        """x and what the basis adds to it. It stays what it is until the next use of this."""
        if not self._small.size:
            return self.x
        self._engine.copy(self.x, self._moved)
        self._move(self._moved)
        return self._moved

    def forget(self) -> None:
        """Forget the basis, too, which would be added to another x."""
        super().forget()
        self._small = HessenbergLeastSquares(0.0)

    def residual(self) -> tuple[float, ...]:
        """Move x by what the basis adds to it, set r = b - A x and return r . r. The next iteration begins a basis."""
        if self._small.size:
            self._move(self.x)
            self._small = HessenbergLeastSquares(0.0)
        return super().residual()

    def _move(self, x: Field) -> None:
        """x += M V y, or Z y."""
        engine, weights = self._engine, self._small.solution()
        if self._flexible:
            for weight, z in zip(weights, self._basis if self.preconditioner is None else self._z, strict=False):
                engine.run(WAXPBY, 1.0, x, weight, z, x)
            return
        self._clear(self._free)
        for weight, v in zip(weights, self._basis, strict=False):
            engine.run(WAXPBY, 1.0, self._free, weight, v, self._free)
        self.precondition(self._free, self._mv)
        engine.run(WAXPBY, 1.0, x, 1.0, self._mv, x)

    @property
    def watched(self) -> tuple[Scalar, ...]:
        """Nothing: `advance` tells of an iteration's health itself."""
        return ()

    def health(self, *watched: float) -> float:
        """The health that `advance` has found: zero where A M is singular on the basis."""
        return watched[0]

    @property
    def _work(self) -> tuple[Field, Field]:
        return self._mv, self._free


@dataclass(frozen=True)
class Orthogonalization:
    """The second part of an iteration for one length of the basis, which engines know again by its equality."""

    method: GeneralizedMinimalResidual
    column: int

    def __call__(self) -> None:
        """Run it."""
        self.method.orthogonalize(self.column)


class HessenbergLeastSquares:
    """Least squares problem ‖beta e1 - H y‖ with Hessenberg's matrix H, column after column, by Givens rotations.

    Numbers are real or complex; with the diagonal a and b > 0 below it, c is a / √(|a|² + b²) and s is real.

    `norm`: the least value, for the columns so far.
    """

    def __init__(self, beta: float) -> None:
        self._rotations: list[tuple[complex, float]] = []
        self._columns: list[list[complex]] = []
        self._right: list[complex] = []
        self._rest: complex = beta
        self._largest = 0.0
        self.beta = self.norm = beta

    @property
    def size(self) -> int:
        """Number of columns."""
        return len(self._columns)

    def add(self, products: Sequence[complex], below: float) -> bool:
        """Add a column: its entries down to the diagonal, and the one below. False where it would be singular."""
        column = list(products)
        self._largest = max(self._largest, math.hypot(*map(abs, column), below))
        for row, (c, s) in enumerate(self._rotations):
            first, second = column[row], column[row + 1]
            column[row], column[row + 1] = c.conjugate() * first + s * second, c * second - s * first
        length = math.hypot(abs(column[-1]), below)
        if not SINGULAR * self._largest < length < math.inf:
            return False
        c, s = column[-1] / length, below / length
        column[-1] = length
        self._rotations.append((c, s))
        self._columns.append(column)
        self._right.append(c.conjugate() * self._rest)
        self._rest *= -s
        self.norm = abs(self._rest)
        return True

    def solution(self) -> list[complex]:
        """y."""
        y: list[complex] = [0.0] * self.size
        for row in reversed(range(self.size)):
            known = sum(self._columns[column][row] * y[column] for column in range(row + 1, self.size))
            y[row] = (self._right[row] - known) / self._columns[row][row]
        return y
