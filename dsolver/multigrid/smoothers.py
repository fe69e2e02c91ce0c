"""Smoothers: what a V-cycle does to a level's error before and after the coarse correction."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final

from dsolver.distributed.matrix import GhostPart, Matrix
from dsolver.engines.base import Engine, Field, PartialSums, PerChunk
from dsolver.kernels.contract import CHEBYSHEV, COPY, JACOBI, JACOBI_FIRST, JACOBI_SWEEP, JACOBI_SWEEP_DOT, WAXPBY

RATIO: Final = 4.0  # the polynomial damps eigenvalues of D⁻¹A between the largest / RATIO and the largest
SAFETY: Final = 1.1  # factor by which the largest eigenvalue is multiplied that a few steps have found from below


class Smoother(ABC):
    """A smoother S before the coarse correction, and its transpose after it, so that a cycle is symmetric."""

    @abstractmethod
    def before(self, r: Field, x: Field) -> Field:
        """x = S r. Returns r - A x, in a field that is this smoother's until its next use."""

    def corrected(self, x: Field) -> Field:
        """The field in which `after` expects the corrected x: x itself, or one of this smoother's own."""
        return x

    @abstractmethod
    def after(self, r: Field, x: Field) -> None:
        """x = y + Sᵀ (r - A y), where y is the field `corrected(x)`."""

    def after_dot(self, r: Field, x: Field, _: PartialSums) -> bool:
        """`after`, and r . x of each chunk if that costs no pass of its own. Returns whether there is one."""
        self.after(r, x)
        return False


class GaussSeidel(Smoother):
    """A forward sweep before and a backward one after, in the order of the colors.

    Sweeps are local to a chunk and see its neighbors as they were before.

    `sweeps`: 1, or 2 for a forward and a backward sweep both before and after.
    """

    def __init__(self, engine: Engine, matrix: Matrix, sweeps: int = 1) -> None:
        self._engine, self._a, self._twice = engine, matrix, sweeps > 1
        self._y = engine.field(matrix.layout)
        if self._twice:
            self._t = engine.field(matrix.layout)

    def before(self, r: Field, x: Field) -> Field:
        self._a.solve_lower(r, x)
        self._a.minus_upper(x, self._y)
        if not self._twice:
            return self._y
        self._backward(r, x)
        self._a.residual(r, x, self._t, self._y)
        return self._t

    def after(self, r: Field, x: Field) -> None:
        if self._twice:
            self._forward(r, x)
        self._backward(r, x)

    def _forward(self, r: Field, x: Field) -> None:
        """x = x + (D + L)⁻¹ (r - A x), after a backward sweep."""
        self._a.minus_upper(x, self._y)
        self._engine.run(WAXPBY, 1.0, r, 1.0, self._y, self._t)
        self._a.solve_lower(self._t, x)

    def _backward(self, r: Field, x: Field) -> None:
        """x = x + (D + U)⁻¹ (r - A x)."""
        self._a.sweep_upper(r, x, self._y)


@dataclass(frozen=True, kw_only=True)
class SweptGhosts:
    """The ghost part of a chunk as sweeps of Jacobi add it: -A D⁻¹ times r in the first, -D⁻¹ A times x in others."""

    first: Any
    sweep: Any


class JacobiSmoother(Smoother):
    """Steps x = x + D⁻¹ (r - A x) with a diagonal D such that 2 D - A is positive definite.

    Every pass over the rows is one kernel of the local part, and the ghost part adds what that leaves out. It does so
    after the diagonal has been divided by, so it has that in its entries.

    `scaled`: of every chunk, A's local part with D for its diagonal. `ghosts`: of every chunk, the `SweptGhosts` of A
    and D; None where no row reads other chunks' columns.
    """

    def __init__(
        self, engine: Engine, matrix: Matrix, sweeps: int = 1, *, scaled: PerChunk, ghosts: PerChunk | None = None
    ) -> None:
        self._engine, self._a, self._scaled, self._sweeps = engine, matrix, scaled, sweeps
        self._of_first, self._of_sweep = (
            matrix.ghost.replaced(None if ghosts is None else ghosts.at(name)) for name in ("first", "sweep")
        )
        self._y = engine.field(matrix.layout)
        if sweeps > 1:
            self._w = engine.field(matrix.layout)

    def before(self, r: Field, x: Field) -> Field:
        if self._sweeps == 1:
            self._of_first.exchange(r)  # and not x, which is known only when the pass has ended that hides this
            self._engine.run(JACOBI_FIRST, self._a.local, self._scaled, r, x, self._y)
            self._of_first.add(self._y)
            return self._y
        self._engine.run(JACOBI, self._scaled, r, 1.0, self._w)
        self._sweep(r, self._w, x)
        self._a.one_pass_residual(r, x, self._y)
        return self._y

    def corrected(self, x: Field) -> Field:
        """A sweep reads all of an iterate while it writes the next one."""
        return self._y

    def after(self, r: Field, x: Field) -> None:
        self._sweep(r, self._all_but_one(r), x)

    def after_dot(self, r: Field, x: Field, parts: PartialSums) -> bool:
        y = self._all_but_one(r)
        self._of_sweep.begin_dot(y, r)
        self._engine.run(JACOBI_SWEEP_DOT, self._a.local, self._scaled, r, y, x, parts)
        self._of_sweep.end_dot(x, parts)
        return True

    def _all_but_one(self, r: Field) -> Field:
        """The corrected iterate after all sweeps but the last one."""
        if self._sweeps == 1:
            return self._y
        self._sweep(r, self._y, self._w)
        return self._w

    def _sweep(self, r: Field, x: Field, z: Field) -> None:
        """z = x + D⁻¹ (r - A x)."""
        self._of_sweep.exchange(x)
        self._engine.run(JACOBI_SWEEP, self._a.local, self._scaled, r, x, z)
        self._of_sweep.add(z)


@dataclass(frozen=True, kw_only=True)
class SweptPoints:
    """Diagonals of a sweep of Jacobi over some of the points, infinite for others; `ghosts`: with that diagonal."""

    scaled: PerChunk
    ghosts: PerChunk | None = None


class PostSmoother(Smoother):
    """Sweeps of Jacobi after the coarse correction: twice over fine points, then over coarse ones.

    For coarse corrections that leave little but what fine points solve: see
    `dsolver.multigrid.algebraic.classical.ideal_restriction`. Before them nothing is done, so a cycle is not symmetric.
    """

    def __init__(
        self, engine: Engine, matrix: Matrix, sweeps: int = 1, *, fine: SweptPoints, coarse: SweptPoints
    ) -> None:
        self._engine, self._a, self._sweeps = engine, matrix, sweeps
        self._fine, self._coarse = ((each.scaled, _swept(matrix, each.ghosts)) for each in (fine, coarse))
        self._y, self._w = (engine.field(matrix.layout) for _ in range(2))

    def before(self, r: Field, x: Field) -> Field:
        self._engine.fill(self._a.layout, 0.0, x)
        return r

    def corrected(self, x: Field) -> Field:
        """A sweep reads all of an iterate while it writes the next one."""
        return self._y

    def after(self, r: Field, x: Field) -> None:
        for last in range(self._sweeps - 1, -1, -1):
            self._sweep(self._fine, r, self._y, self._w)
            self._sweep(self._fine, r, self._w, self._y)
            if last:
                self._sweep(self._coarse, r, self._y, self._w)
                self._engine.copy(self._w, self._y)
        self._sweep(self._coarse, r, self._y, x)

    def _sweep(self, points: tuple[PerChunk, GhostPart], r: Field, x: Field, z: Field) -> None:
        scaled, ghosts = points
        ghosts.exchange(x)
        self._engine.run(JACOBI_SWEEP, self._a.local, scaled, r, x, z)
        ghosts.add(z)


def _swept(matrix: Matrix, ghosts: PerChunk | None) -> GhostPart:
    """The ghost part of a matrix for `JACOBI_SWEEP`; ghosts: its `SweptGhosts`."""
    return matrix.ghost.replaced(None if ghosts is None else ghosts.at("sweep"))


class ChebyshevSmoother(Smoother):
    """Two steps of the Chebyshev iteration before and after.

    For rows without a coloring: Gauss-Seidel with the 20 to 30 colors that algebraic levels need takes as many
    iterations, and as many launches a sweep as this takes in all.

    `sweeps`: disregarded: only the finest level takes more than one, and that has a coloring. `scaled`: of every chunk,
    A's local part with a diagonal D for which no eigenvalue of D⁻¹A is larger than 1.
    """

    def __init__(self, engine: Engine, matrix: Matrix, sweeps: int = 1, *, scaled: PerChunk) -> None:
        self._engine, self._a, self._scaled = engine, matrix, scaled
        self._w, self._y, self._d = (engine.field(matrix.layout) for _ in range(3))
        (_, self._first), (self._keep, self._gain) = chebyshev_steps(1.0, RATIO, 2)

    def before(self, r: Field, x: Field) -> Field:
        self._engine.run(JACOBI, self._scaled, r, self._first, x)
        self._engine.run(COPY, x, self._d)
        self._step(r, x, self._keep, self._gain)
        self._a.one_pass_residual(r, x, self._y)
        return self._y

    def after(self, r: Field, x: Field) -> None:
        self._step(r, x, 0.0, self._first)
        self._step(r, x, self._keep, self._gain)

    def _step(self, r: Field, x: Field, keep: float, gain: float) -> None:
        self._a.multiply(x, self._w)
        self._engine.run(CHEBYSHEV, self._scaled, r, self._w, keep, gain, self._d, x)


def chebyshev_steps(largest: float, ratio: float, count: int) -> list[tuple[float, float]]:
    """Coefficients (keep, gain) of Chebyshev steps for eigenvalues of D⁻¹A in largest / ratio .. largest.

    Each step is d = keep d + gain D⁻¹ (r - A x), x += d (Saad, Iterative Methods for Sparse Linear Systems, algorithm
    12.1, with D⁻¹A for A). The first has keep 0.
    """
    smallest = largest / ratio
    center, half = (largest + smallest) / 2.0, (largest - smallest) / 2.0
    sigma = center / half
    rho = 1.0 / sigma
    steps = [(0.0, 1.0 / center)]
    for _ in range(count - 1):
        before, rho = rho, 1.0 / (2.0 * sigma - rho)
        steps.append((rho * before, 2.0 * rho / half))
    return steps
