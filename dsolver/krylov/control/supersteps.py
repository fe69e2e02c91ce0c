"""Lengths of supersteps, iterations that are launched before a residual is looked at, and the pace of a solve."""

import math
from dataclasses import dataclass
from typing import Final

from dsolver.krylov.control.norms import ResidualNorms


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


SUPERSTEP_SECONDS: Final = 0.5
"""Seconds that a superstep should take: long beside what it costs to begin one, short for who watches or cancels."""
SUPERSTEP_ITERATIONS: Final = 50
GROWTH: Final = 8
"""Times as many iterations as the superstep before may one have: at first the pace is known of one iteration alone."""
OVERSHOOT: Final = 8
"""A superstep may launch a part of 1/OVERSHOOT of the iterations made so far beyond those that the pace so far tells
are needed: what is launched past the last one costs as much as what is needed."""


class Supersteps:
    """Lengths of a solve's supersteps by the pace of earlier ones; single: each has one iteration, for callbacks."""

    def __init__(self, pace: Pace, *, single: bool) -> None:
        self._pace, self._single = pace, single

    def forget(self) -> None:
        """Know no pace: M is another one."""
        self._pace = Pace()

    def learn(self, norms: ResidualNorms) -> None:
        """Learn from a solve that has converged."""
        self._pace.learn(norms.begun, norms.newest, norms.done - norms.begun_at)

    def first(self, norms: ResidualNorms) -> int:
        """Most of the iterations that earlier solves tell are needed, or one to learn from.

        What is left then is known well: a solve of 15 iterations is looked at three times in place of five.
        """
        if self._single:
            return 1
        needed = int(min(self._pace.needed(norms.begun, norms.target), SUPERSTEP_ITERATIONS))
        wanted = int(min(SUPERSTEP_SECONDS / self._pace.seconds, SUPERSTEP_ITERATIONS))
        return max(1, min(wanted, needed - needed // OVERSHOOT))

    def following(self, steps: int, seconds: float, norms: ResidualNorms) -> int:
        """Iterations of the superstep after one of so many, which took so long."""
        if self._single:
            return 1
        wanted = int(steps * SUPERSTEP_SECONDS / max(seconds, 1e-6))
        needed = max(int(min(norms.expected(), SUPERSTEP_ITERATIONS)), (norms.done - norms.begun_at) // OVERSHOOT)
        return max(1, min(wanted, GROWTH * steps, SUPERSTEP_ITERATIONS, needed))
