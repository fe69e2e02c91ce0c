"""What a solve returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, final, overload

from dsolver.monitor.notebook import curve, view
from dsolver.monitor.spans import Exposure, Span


@final
class Status(Enum):
    """How a solve ended. The value is a short name; `advice` says what to do."""

    CONVERGED = "converged"
    MAX_ITERATIONS = "max_iterations"
    STAGNATED = "stagnated"
    DIVERGED = "diverged"
    INDEFINITE = "indefinite"
    NOT_FINITE = "not_finite"
    INCOMPATIBLE_RHS = "incompatible_rhs"
    STOPPED = "stopped_by_callback"

    @property
    def advice(self) -> str:
        """What it means and what to do."""
        return _ADVICE[self]

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached."""
        return self is Status.CONVERGED

    def __str__(self) -> str:
        return self.value


_ADVICE: Final = {
    Status.CONVERGED: "The true residual is within the tolerance.",
    Status.MAX_ITERATIONS: (
        "The tolerance was not reached: raise maxiter, loosen rtol, or use M='mg' if it was off. x is the last "
        "iterate: pass it as x0 to go on."
    ),
    Status.STAGNATED: (
        "The residual no longer falls. If it is small, the tolerance is below what float64 can reach for this system: "
        "loosen rtol, or raise atol. If it is large, use M='mg' if it was off: without, residuals may stay for "
        "hundreds of iterations where coefficients are rough. Coefficients or cells may also differ by more orders of "
        "magnitude than float64 has digits, or a tiny sigma be all that fixes a constant: leave out what is so small. "
        "Else check that the matrix, and M if it is yours, is symmetric positive definite: incomplete LU factors are "
        "not."
    ),
    Status.DIVERGED: (
        "The residual grew without bound: check that the matrix, and M if it is yours, is symmetric positive definite "
        "and that the right-hand side is scaled sensibly."
    ),
    Status.INDEFINITE: (
        "A vector with pᵀAp <= 0 or rᵀMr <= 0 was met: the matrix or its preconditioner is not positive definite, so "
        "conjugate gradients do not apply. Check the sign of the stencil: a Laplacian needs a positive diagonal. If M "
        "is a function of yours, check that it is linear and symmetric. x is the last iterate before that."
    ),
    Status.NOT_FINITE: "NaN or infinity appeared: check the matrix, x0 and M for such values and for overflow.",
    Status.INCOMPATIBLE_RHS: (
        "The matrix is singular (constants are in its kernel) and b has a part that no x can reach: x solves the "
        "system without it. Check the sources and the boundary fluxes, which must balance, or take its mean "
        "off b, in each closed region by itself, if that is meant."
    ),
    Status.STOPPED: "The callback asked to stop. x is the iterate that it saw.",
}


@final
@dataclass(frozen=True, kw_only=True)
class Solution:
    """The result of `dsolver.solve`.

    Attributes:
        x: the solution, shape (nx, ny, nz), float64, in the same kind of container as b.
        status: how the solve ended; `status.advice` says what to do when it did not converge.
        iterations: conjugate gradient iterations made.
        residuals: ‖b - A x_k‖₂ by the recursion, k = 0 .. iterations.
        true_residual: ‖b - A x‖₂, computed anew from x at the end; the status was judged on it. Where b had a part that
            no x can reach (`Status.INCOMPATIBLE_RHS`), that of the rest.
        b_norm: ‖b‖₂.
        timings: seconds of "setup" (0 where an earlier solve of the same `Solver` has paid for it), "load", "solve" and
            "total".
        engine: the engine, device and number of workers that ran it, and what carried values between them.
        closed_regions: how many regions have a constant of their own that no boundary and no σ fixes; the whole grid
            may be one. In each x has mean zero.
        spans: what ran when in the newest measured iterations; see `dsolver.monitor.spans`. Empty where a solve was too
            short to be measured unasked.
        exposure: how much communication they left exposed, in total and by level; None where none was measured.
        notes: what went another way than asked for, in sentences; empty as a rule.
    """

    x: Any
    status: Status
    iterations: int
    residuals: tuple[float, ...]
    true_residual: float
    b_norm: float
    timings: Mapping[str, float]
    engine: str
    closed_regions: int = 0
    spans: tuple[Span, ...] = field(default=(), repr=False)
    exposure: Exposure | None = None
    notes: tuple[str, ...] = ()

    @property
    def exposed_ms(self) -> float | None:
        """Milliseconds of an iteration in which the rank with most exchanged, summed or waited and did nothing else."""
        return None if self.exposure is None else self.exposure.total.ms

    @property
    def exposed_percent(self) -> float | None:
        """The same as a part of the iteration."""
        return None if self.exposure is None else self.exposure.total.percent

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached."""
        return self.status.converged

    @property
    def relative_residual(self) -> float:
        """‖b - A x‖₂ / ‖b‖₂, or the absolute residual when b is zero."""
        return self.true_residual / self.b_norm if self.b_norm else self.true_residual

    def _repr_html_(self) -> str:
        told = [repr(self).strip("<>"), *([] if self.converged else [self.status.advice]), *self.notes]
        title = ". ".join(sentence.rstrip(".") for sentence in told)
        return view(title, curve(range(len(self.residuals)), self.residuals))

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.x.shape))
        return (
            f"<Solution {shape}: {self.status} after {self.iterations} iterations, "
            f"‖b - Ax‖/‖b‖ = {self.relative_residual:.2e}, {self.timings['total']:.2f} s on {self.engine}>"
        )


@final
class Solutions(Sequence[Solution]):
    """The solutions for several right-hand sides, in their order.

    Attributes:
        x: the solutions as one array of shape (m, nx, ny, nz), when the right-hand sides were one; else a list.
    """

    def __init__(self, solutions: Sequence[Solution], x: Any) -> None:
        self._solutions = tuple(solutions)
        self.x = x

    def __len__(self) -> int:
        return len(self._solutions)

    @overload
    def __getitem__(self, index: int) -> Solution: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Solution, ...]: ...
    def __getitem__(self, index: int | slice) -> Solution | tuple[Solution, ...]:
        return self._solutions[index]

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached for every right-hand side."""
        return all(solution.converged for solution in self)

    def __repr__(self) -> str:
        good = sum(solution.converged for solution in self)
        return f"<Solutions: {good} of {len(self)} converged, {sum(s.iterations for s in self)} iterations>"
