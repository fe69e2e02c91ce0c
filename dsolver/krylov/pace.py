"""Pace of a system's iterations: what one took and gained when the system was last solved."""

import math
from dataclasses import dataclass


@dataclass(kw_only=True)
class Pace:
    """Pace with one matrix and M, the same on all ranks: seconds of an iteration, and what it takes off log ‖r‖."""

    seconds: float = math.inf
    gain: float = 0.0

    def needed(self, begun: float, target: float) -> float:
        """Iterations from one residual's norm to another at this pace; 0 where none is known."""
        return math.log(begun / target) / self.gain if self.gain > 0.0 and 0.0 < target < begun < math.inf else 0.0

    def learn(self, begun: float, ended: float, iterations: int) -> None:
        """Learn from a solve that has converged after so many iterations."""
        if iterations > 0 and 0.0 < ended < begun:
            self.gain = math.log(begun / ended) / iterations
