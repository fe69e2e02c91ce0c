"""Rounding in a solve: what it leaves of residuals, of parts that no x can reach, and in rows of small scales."""

import math
from typing import Final

from dsolver.krylov.control.norms import ResidualNorms
from dsolver.krylov.control.requests import ColumnIterations

CLEAR: Final = 0.1  # residual over that of x = 0 up to which the difference is no rounding
ATTAINABLE: Final = 2.0**-53
"""Limit down to which the recursion is followed, as a part of ‖b‖ or of the true residual that it begins anew from:
below what rounding leaves it tells nothing about the truth, and its squares would end at zero."""
ALIKE: Final = 2.0
"""Times what rounding makes of b - A x that a residual may be for it to be that: it is 0.8 to 1.4 times as much."""


def is_rounding(residual: float, b_norm: float, column: ColumnIterations) -> bool:
    """Whether rounding makes the residual that is left. An x that has grown makes a larger one, which does not."""
    return residual <= min(CLEAR * b_norm, ALIKE * column.rounding())


def beats_zero(residual: float, b_norm: float, column: ColumnIterations) -> bool:
    """Whether the residual is below that of x = 0 in any order of its sums: x may have grown beyond all digits."""
    clear = residual <= CLEAR * b_norm  # rounding would be in this residual, too
    return clear or residual + column.rounding() <= b_norm


class Balancing:
    """Removal from r, where A is singular, of what rounding has left of the part that no x can reach.

    An iteration leaves what is relative to its step: the first ones most of it, while r is still large. So r is
    balanced after 1, 3, 7, 15 iterations and so on, which costs little.

    `at`: the iteration after which r is balanced next.
    """

    def __init__(self) -> None:
        self.at = 0

    def begin(self, column: ColumnIterations, norms: ResidualNorms) -> None:
        """Balance the r that the recursion begins with."""
        self.at = norms.begun_at + 1
        column.balance()

    def to_look(self, column: ColumnIterations, norms: ResidualNorms) -> float:
        """Iterations until r is balanced between two supersteps."""
        return math.inf if column.quiet else self.at - norms.done

    def within(self, steps: int, column: ColumnIterations, norms: ResidualNorms) -> tuple[int, ...]:
        """After how many of the next iterations r is balanced while they go on."""
        found, at = [], self.at
        while column.quiet and at <= norms.done + steps:
            found.append(at - norms.done)
            at += at - norms.begun_at + 1
        return tuple(found)

    def follow(self, column: ColumnIterations, norms: ResidualNorms) -> None:
        """Balance r if it is time and that was not done."""
        while self.at <= norms.done:
            if not column.quiet:
                column.balance()
            self.at += self.at - norms.begun_at + 1


ROWS: Final = 1e4  # times the tolerance that `ColumnIterations.by_rows` may be
MOST: Final = 0.01  # what it may be at most, if that is more than the part that is wanted: beyond, no digit is right
ROWS_WANTED: Final = 10.0  # times the tolerance at which such a solve aims when it goes on
ROUNDS: Final = 4  # times that a solve goes on


class RowScales:
    """The residual at which a solve aims, lower each time that rows of small scales have not converged.

    Attributes:
        goal: that residual.
        rounds: how often the solve went on.
        part: `ColumnIterations.by_rows`, where it is large or the solve went on as it was; else None.
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
