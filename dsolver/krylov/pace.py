"""Pace of a system's iterations: what one took and gained when the system was last solved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final


@final
@dataclass(kw_only=True)
class Pace:
    """Pace of iterations with one matrix and one preconditioner, the same on all ranks.

    Attributes:
        seconds: that one takes, as far as that was looked at; infinite before.
        gain: by which one lowers log ‖r‖, in the mean over the last solve that converged; 0 before.
    """

    seconds: float = math.inf
    gain: float = 0.0

    def needed(self, begun: float, target: float) -> float:
        """Iterations from one residual's norm to another at this pace; 0 where none is known."""
        return math.log(begun / target) / self.gain if self.gain > 0.0 and 0.0 < target < begun < math.inf else 0.0

    def learn(self, begun: float, ended: float, iterations: int) -> None:
        """Learn from a solve that has converged after so many iterations."""
        if iterations > 0 and 0.0 < ended < begun:
            self.gain = math.log(begun / ended) / iterations
