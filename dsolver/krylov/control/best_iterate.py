"""Iterate that a solve goes back to where it ends with a worse one."""

import math
from typing import Final

from dsolver.krylov.control.norms import ResidualNorms
from dsolver.krylov.control.requests import ColumnIterations

WORSE: Final = 2.0
"""Times the smallest residual of a recursion that the one of its end must be, for the iterations up to the smallest one
to be made again: that takes as long as they took."""


class BestIterate:
    """Best x that the recursion began from, or that was kept on the way; repeatable: whether it began with it."""

    def __init__(self) -> None:
        self.norm, self.at, self.repeatable = math.inf, 0, False

    def keep_beginning(self, column: ColumnIterations, norms: ResidualNorms, *, zero: bool = False) -> None:
        """Keep the x that the recursion begins from, unless what is kept is better; zero takes no memory."""
        self.repeatable = norms.begun <= self.norm
        if not self.repeatable:
            return
        self.norm, self.at = norms.begun, norms.begun_at
        if zero:
            column.keep_zero()
        else:
            column.keep()

    def keep(self, column: ColumnIterations, truth: float, at: int) -> None:
        """Keep the x that is there, if it is better."""
        if truth < self.norm:
            self.norm, self.at, self.repeatable = truth, at, False
            column.keep()

    def exchange(self, column: ColumnIterations, truth: float, at: int) -> None:
        """Go back to the x that is kept; the one that is there is kept in its place, if it is better."""
        if truth < self.norm:
            column.exchange()
            self.norm, self.at = truth, at
        else:
            column.recall()

    def is_passed(self, norms: ResidualNorms, truth: float) -> bool:
        """Whether the recursion has seen a better x than that of its beginning, and one much better than at its end.

        The residual of conjugate gradients may rise for a while, and without bound where A is singular, or not
        definite; that of BiCGStab does as it likes.
        """
        if not self.repeatable or not norms.begun_at < norms.best_at < norms.done:
            return False
        bound = min(WORSE * norms.best, self.norm)
        return norms.best < self.norm and not (norms.newest <= bound or truth <= bound)
