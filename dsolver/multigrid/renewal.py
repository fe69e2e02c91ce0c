"""Renewal of a preconditioner that stays while the matrix changes, as in time steps: when it is worth a set-up."""

import math
from collections.abc import Sequence
from typing import Final

WORTH: Final = 30.0
"""Iterations that take as long as a set-up of multigrid. Measured on CPUs: 20 to 60. For iterations that grow linearly
from step to step, half or twice the right number costs a sixteenth of what ageing and renewal cost."""
TOLERATED: Final = 1.0
"""Further iterations of a solve that count as none: the last one is finished, however little is left of it."""
LITTLE: Final = 1.0  # powers of ten by which a residual falls at least in a solve that tells how good M is


class Renewal:
    """The age of M, in iterations: those that solves have taken beyond what they would take with a new one.

    M is renewed when these add up to `WORTH`, a set-up. Where iterations grow by g from each step to the next, this is
    after √(2 `WORTH` / g) steps, at which a step costs least on average; however they grow, the cost is at most about
    twice that of the best choice in hindsight. It is decided by iterations and residuals, which are the same for any
    number of workers, and not by the clock.
    """

    kept: bool = False
    rate: float | None = None  # iterations for each power of ten, with M of this very matrix
    _beyond: float = 0.0

    def solved(self, residuals: Sequence[float], *, converged: bool) -> None:
        """Learn from a solve; residuals: from the first guess on."""
        if not converged:
            self._beyond = math.inf
            return
        done, fall = len(residuals) - 1, _powers(residuals)
        if fall < LITTLE:
            return
        if self.rate is None:
            self.rate = done / fall
        else:
            self._beyond = max(0.0, self._beyond + done - TOLERATED - self.rate * fall)

    @property
    def due(self) -> bool:
        """Whether M is to be set up anew for the next matrix; so it is where nothing is known of it yet."""
        return self.rate is None or self._beyond >= WORTH


def _powers(residuals: Sequence[float]) -> float:
    """Powers of ten by which a residual fell."""
    first, last = residuals[0], residuals[-1]
    return math.log10(first / last) if 0.0 < last < first < math.inf else 0.0
