"""Drift of a recursion's residual from the true one: a bound of what rounding has made."""

from typing import Final

from dsolver.krylov.control.best_iterate import WORSE, BestIterate
from dsolver.krylov.control.norms import ResidualNorms
from dsolver.krylov.control.requests import ColumnIterations

DRIFT_INTERVAL: Final = 100
"""Iterations between looks at the drift between the recursion and the truth: the same for all engines, however fast, so
that they give the same bits. What a shorter solve has drifted is found at its end."""
EPS: Final = 2.0**-53
DRIFTED: Final = EPS**0.5  # drift, as a part of the residual, at which the recursion takes the true residual
GROWN: Final = 1.1  # growth of the drift since then that makes it worth while again


class Drift:
    """Bound of how far rounding has taken the recursion's residual from the true one.

    It crosses a part of the residual once (van der Vorst and Ye, SIAM J. Sci. Comput. 22, 2000: their rule, looked at
    now and then with the norms that are known then).
    """

    def __init__(self) -> None:
        self._first = self._now = 0.0
        self._small = True
        self._looked_at = 0

    def begin(self, scale: float, norms: ResidualNorms, norm: float) -> None:
        """Begin with a residual of this norm, computed anew from numbers of this size."""
        self._first = self._now = EPS * (scale + norm)
        self._small = self._now <= DRIFTED * norm
        self._looked_at = norms.done

    def crosses(self, scale: float, norms: ResidualNorms) -> bool:
        """Whether it begins to spoil the newest residual, and to compute it anew would help.

        scale: of the numbers that iterations since the last look have added, beside the residuals.
        """
        norm = norms.newest
        added = scale + max(norms.history[self._looked_at :])
        self._now += EPS * (norms.done - self._looked_at) * added
        self._looked_at = norms.done
        was_small, self._small = self._small, self._now <= DRIFTED * norm
        return was_small and not self._small and self._now > GROWN * self._first


def is_at_risk(scale: float, norm: float) -> bool:
    """Whether the iterations between two looks, adding numbers of this size, may spoil a residual of this norm."""
    return not EPS * DRIFT_INTERVAL * scale <= DRIFTED * norm  # NaN is a risk


def has_parted(column: ColumnIterations, norms: ResidualNorms, kept: BestIterate) -> bool:
    """Whether the recursion of a long solve has parted from the truth, where that cannot be mended on the way.

    Where A is singular, x may grow without bound while the recursion's residual stays: the x before is kept.
    """
    norm = norms.newest
    if not is_at_risk(column.magnitude(), norm):
        return False
    norms.history[-1] = truth = column.true_residual()
    kept.keep(column, truth, norms.done)
    return not truth <= WORSE * norm
