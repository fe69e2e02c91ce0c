"""Reasons to end a solve without success, as its norms tell."""

import math
from typing import Final

from dsolver.krylov.control.norms import HARDLY, ResidualNorms
from dsolver.krylov.control.requests import ColumnIterations
from dsolver.krylov.method import DIVERGED
from dsolver.status import Status

STAGNATION: Final = 200
"""Iterations without a new smallest residual after which a solve is given up, unless more are asked for."""
ONE_LEVEL: Final = 10
"""Times as many are allowed a solve whose preconditioner, if it has one, has no coarse grid. With log-normal κ
on 24³ cells plain conjugate gradients stay at 1e-2 ‖b‖ for 243 iterations on end, and converge after 2838."""
ONE_LEVEL_DOWN_TO: Final = 2.0**-26
"""Part of ‖b‖ down to which that holds: below √ε a residual that stays is taken for what rounding leaves."""
UNSYMMETRIC: Final = 0.01
"""Asymmetry of M, as a part of its size, from which on it is taken for the reason why a residual no longer falls, where
the method needs M = Mᵀ. Incomplete LU factors (spilu) of Laplacians had 0.03 to 0.45; with 0.01 and less conjugate
gradients still converged on log-normal κ, if in more iterations."""
UNSYMMETRIC_FROM: Final = 200  # iterations after which M is looked at for that, if the residual hardly falls
RISEN: Final = 300.0
"""Growth of the residual in a first iteration after which a preconditioner is given up, where there is another one to
go on with. Multigrid in float32 loses a constant that only a tiny σ fixes: residuals grew by 500 to 2e7 times, and
solves took up to 850 iterations in place of 24. Elsewhere they grew by 220 at most."""
SLOW_FROM: Final = 20  # iterations after which it is looked at whether too many more are needed, for the first time
SLOW_EVERY: Final = 10  # iterations between such looks
UNSURE: Final = 4
"""A residual that has risen tells nothing before a part of 1/UNSURE of the iterations that there is patience for, nor
one that has hardly fallen after a change of M: that of conjugate gradients may rise at first, that of GMRES stay where
it is, and what would follow then takes as long as thousands of iterations."""
SURE: Final = 100
"""Iterations after which it does. GMRES stays for 200 on a network of 10,000 rows, where factors take 3 s."""


class GivingUp:
    """Reasons to give a solve up; fewer once it goes on with another preconditioner, or another method."""

    def __init__(
        self,
        *,
        maxiter: int,
        b_norm: float,
        stagnation: int,
        fallback: int | None,
        patience: int | None,
        one_level: bool,
        breakdown: Status,
    ) -> None:
        self._maxiter = maxiter
        self._allowed = stagnation if fallback is None else min(stagnation, fallback)
        self._allowed_later = stagnation
        self._risen = DIVERGED if fallback is None else RISEN
        self._far = ONE_LEVEL_DOWN_TO * b_norm if one_level else math.inf
        self._patience, self._falls = patience, 1.0
        self._suspicious = True
        self.breakdown = breakdown

    def resume(self, patience: int | None) -> None:
        """Know the patience from now on; None where there is nothing else to go on with."""
        self._allowed, self._risen = self._allowed_later, DIVERGED
        self._patience, self._falls = patience, HARDLY

    def trust(self) -> None:
        """Take M for symmetric."""
        self._suspicious = False

    def to_look(self, norms: ResidualNorms) -> float:
        """Iterations until it is looked at whether too many more are needed, or the residual no longer falls.

        Of no more than are allowed none stagnates where one has been the smallest, however long supersteps are.
        """
        done, left = norms.done, min(self._allowed, self._left(norms))
        return left if self._patience is None else min(left, max(SLOW_FROM - done, SLOW_EVERY - done % SLOW_EVERY))

    def verdict(self, norms: ResidualNorms, health: float) -> Status | None:
        """End by the newest norm, success as well; None where the solve goes on."""
        norm = norms.newest
        if norm <= norms.target:
            return Status.CONVERGED
        if health <= 0.0:
            return Status.INDEFINITE if health < 0.0 else self.breakdown
        if not math.isfinite(norm) or not math.isfinite(health):
            return Status.NOT_FINITE
        if norm > (self._risen if norms.done == norms.begun_at + 1 else DIVERGED) * norms.begun:
            return Status.DIVERGED  # after a solve that converged, more iterations have been run: x is theirs
        norms.compare()
        return None

    def stagnates(self, norms: ResidualNorms) -> bool:
        """Whether no iteration has brought a smaller residual for as long as is allowed."""
        return self._left(norms) <= 0

    def _left(self, norms: ResidualNorms) -> int:
        """Iterations that may still bring no smaller residual."""
        return self._allowed * (ONE_LEVEL if norms.best > self._far else 1) - (norms.done - norms.best_at)

    def is_slow(self, norms: ResidualNorms) -> bool:
        """Whether more iterations are needed than there is patience for; asked at numbers that do not depend on pace.

        Conjugate gradients become faster as they go on, so what the last half of them tells is rather too much. It
        tells nothing where the recursion has begun anew in it, and no other M helps where no iterations are left.
        """
        done = norms.done
        if self._patience is None or done < SLOW_FROM or done % SLOW_EVERY:
            return False
        if done >= self._maxiter or done - done // 2 < norms.begun_at:
            return False
        sure = norms.have_fallen(self._falls) or done - norms.begun_at >= min(self._patience // UNSURE, SURE)
        if not sure:
            return False
        return norms.further() > self._patience

    def is_unsymmetric(self, column: ColumnIterations, norms: ResidualNorms, *, ended: bool = False) -> bool:
        """Whether M is not symmetric, and the residual hardly falls or has not reached its limit when a solve ended.

        M is asked once, which applies it twice. Where κ jumps, the residual of such a solve may fall in steps for
        thousands of iterations, and no pace tells it from that of a symmetric M: only the end does.
        """
        if not self._suspicious or norms.done < UNSYMMETRIC_FROM or not (ended or norms.hardly_fall()):
            return False
        self._suspicious = column.asymmetry() > UNSYMMETRIC
        return self._suspicious
