"""Scales of rows: a residual that is small enough as a whole may be so in rows of a large scale alone."""

import math
from typing import Final

from dsolver.krylov.control.requests import ColumnIterations
from dsolver.krylov.control.rounding import ATTAINABLE

ROWS: Final = 1e4  # times the tolerance that ‖D⁻¹r‖ / ‖D⁻¹b‖ may be with D = diag(A)
MOST: Final = 0.01  # what it may be at most, if that is more than the part that is wanted: beyond, no digit is right
ROWS_WANTED: Final = 10.0  # times the tolerance at which such a solve aims when it goes on
ROUNDS: Final = 4  # times that a solve goes on


class RowScales:
    """The residual at which a solve aims, lower each time that rows of small scales have not converged.

    Attributes:
        goal: that residual.
        rounds: how often the solve went on.
        part: ‖D⁻¹r‖ / ‖D⁻¹b‖ with D = diag(A), where it is large or the solve went on as it was; else None.
    """

    def __init__(self, limit: float) -> None:
        self.goal, self.rounds = limit, 0
        self.part: float | None = None

    def go_on(self, column: ColumnIterations, residual: float, limit: float, b_norm: float, *, may: bool) -> bool:
        """Whether the solve goes on, to a lower goal; may: whether it can."""
        part, tolerance = column.by_rows(), limit / b_norm if b_norm else math.inf
        large = part > max(min(ROWS * tolerance, MOST), ROWS_WANTED * tolerance)
        self.part = part if large or self.rounds else None
        if not large or not may or self.rounds == ROUNDS:
            return False
        goal = max(residual * ROWS_WANTED * tolerance / part, ATTAINABLE * b_norm)
        if goal >= residual:
            return False
        self.goal, self.rounds = goal, self.rounds + 1
        return True
