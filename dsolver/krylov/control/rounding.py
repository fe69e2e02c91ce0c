"""Rounding in a solve: what it leaves of residuals, and of parts of them that no x can reach."""

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
