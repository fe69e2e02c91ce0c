"""Status of a solve at its end, and advice about it."""

from enum import Enum
from typing import Final, final


@final
class Status(Enum):
    """Status of a solve at its end. The value is a short name; `advice` says what to do."""

    CONVERGED = "converged"
    MAX_ITERATIONS = "max_iterations"
    STAGNATED = "stagnated"
    DIVERGED = "diverged"
    INDEFINITE = "indefinite"
    BREAKDOWN = "breakdown"
    UNSYMMETRIC_M = "unsymmetric_m"
    NOT_FINITE = "not_finite"
    INCOMPATIBLE_RHS = "incompatible_rhs"
    STOPPED = "stopped_by_callback"
    SLOW = "slow"
    ILL_CONDITIONED = "ill_conditioned"

    @property
    def advice(self) -> str:
        """Advice: the meaning of the status, and what to do."""
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
        "The tolerance was not reached: raise maxiter, loosen rtol, or use M='auto' or 'amg', or 'ilu0' for a "
        "matrix that is not symmetric. If M is yours, check that it is symmetric where the method needs that: "
        "incomplete LU factors are not. x is the best iterate: pass it as x0 to go on."
    ),
    Status.STAGNATED: (
        "The residual no longer falls. If it is small, the tolerance is below what rounding lets this system reach:"
        " loosen rtol, or raise atol. If it is large, use M='auto' if it was off: without multigrid "
        "residuals may stay for hundreds of iterations where coefficients are rough. For GMRES raise restart. If the "
        "matrix is singular, name its null vectors by dsolver.matrix(A, nullspace=...). Coefficients or cells may also"
        " differ by more orders of magnitude than float64 has digits, or a tiny sigma be all that fixes a constant: "
        "leave out what is so small. Else check that the matrix, and M if it is yours, is symmetric positive "
        "definite: incomplete LU factors are not."
    ),
    Status.DIVERGED: (
        "The residual grew without bound: check that the matrix, and M if it is yours, is symmetric positive definite "
        "and that the right-hand side is scaled sensibly. If the matrix is singular, name its null vectors by "
        "dsolver.matrix(A, nullspace=...)."
    ),
    Status.INDEFINITE: (
        "A vector with pᵀAp <= 0 or rᵀMr <= 0 was met: the matrix or its preconditioner is not positive definite, so "
        "conjugate gradients do not apply. Check the sign of the stencil: a Laplacian needs a positive diagonal. If M "
        "is a function of yours, check that it is linear and symmetric. For a symmetric matrix that is indefinite use "
        "method='minres', which needs a positive definite M, too. If it is singular, name its null vectors by "
        "dsolver.matrix(A, nullspace=...). x is the best iterate before that."
    ),
    Status.BREAKDOWN: (
        "The method had to divide by zero and cannot go on from here: the matrix may be singular, or BiCGStab had bad "
        "luck. Use method='gmres', another M, or another x0; x is the best iterate before that."
    ),
    Status.UNSYMMETRIC_M: (
        "M is not symmetric, as this method needs it, and the residual hardly falls, or has not reached its limit: "
        "use method='gmres', or 'fcg', which bears an M that is not far from symmetric, or another M. Incomplete LU "
        "factors (spilu) are not symmetric. x is the best iterate."
    ),
    Status.NOT_FINITE: (
        "NaN or infinity appeared: check the matrix, x0 and M for such values and for overflow, which is "
        "beyond 3e38 with dtype='float32'."
    ),
    Status.INCOMPATIBLE_RHS: (
        "The matrix is singular (constants, the vectors of nullspace=, or vectors that the solve has met are in "
        "its kernel) and b has a part that no x can reach: x solves the system without it. Check the sources and the "
        "boundary fluxes, which must balance, or take its mean off b, in each closed region by itself, if that is "
        "meant."
    ),
    Status.STOPPED: "The callback asked to stop. x is the iterate that it saw.",
    Status.ILL_CONDITIONED: (
        "The condition number of A, as far as it was met, reached conlim: what rounding and noise of b make of the "
        "smallest singular values would spoil x. x is a regularized solution of those above: use damp=, "
        'scale="columns" where columns have different units, or a larger conlim.'
    ),
    Status.SLOW: "The residual falls so slowly that another preconditioner takes over: no solve ends with this.",
}
