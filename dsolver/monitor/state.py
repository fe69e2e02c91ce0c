"""State of a solve, and the functions that are called with it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class State:
    """State of a solve after an iteration, for callbacks.

    Attributes:
        iteration: how many iterations have been made.
        residual: ‖b - A x‖₂ by the recursion.
        limit: the residual at which the solve is finished.
        b_norm: ‖b‖₂.
    """

    iteration: int
    residual: float
    limit: float
    b_norm: float = 0.0

    @property
    def relative_residual(self) -> float:
        """‖b - A x‖₂ / ‖b‖₂, or the absolute residual when b is zero."""
        return self.residual / (self.b_norm or 1.0)


Callback = Callable[[State], bool | None]
"""Called after each iteration; the solve stops when it returns True, or raises StopIteration."""

Progress = Callable[[State], None]
"""Called now and then with the newest state; it cannot stop the solve, and does not slow it."""
