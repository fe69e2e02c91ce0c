"""ResidualNorms of a recursion's residual, and what they tell of iterations to come."""

import math
from typing import Final

LEAST_DECREASE: Final = 1e-9
"""Decrease, as a part of itself, that the smallest residual must have become to count: where rounding alone is left
of a recursion, each iteration may take some units in the last place off, for ever."""
HARDLY: Final = 0.95
"""Smallest residual over the one of half as many iterations, from which on the residual hardly falls. With incomplete
LU factors as M it was 0.98 and more; where M was nearly symmetric and conjugate gradients converged in the end, at most
0.89."""
AT_ONCE: Final = 1e4
"""Fall of a residual within two iterations after which its rows are looked at: rows with a penalty of 1e10 are solved
in the first one, and no other row counts then."""


class ResidualNorms:
    """‖b - A x‖ by the recursion, from the first guess on, and since it last began from the true residual.

    `begun`, `begun_at`: the one that the recursion began with, and its iteration. `best`, `best_at`: the smallest since
    then that counts.
    """

    def __init__(self, target: float, decrease: float = LEAST_DECREASE) -> None:
        self.target, self._least = target, 1.0 - decrease
        self.history: list[float] = []
        self.begun, self.begun_at = math.inf, 0
        self.best, self.best_at = math.inf, 0

    @property
    def done(self) -> int:
        """Iterations made."""
        return len(self.history) - 1

    @property
    def newest(self) -> float:
        """The last one."""
        return self.history[-1]

    def begin(self, norm: float) -> None:
        """Begin from a residual of this norm."""
        if not self.history:
            self.history.append(norm)
        self.begun, self.begun_at = norm, self.done
        self.best, self.best_at = math.inf, self.done

    def replace(self, truth: float) -> None:
        """Go on from the true residual, computed anew after the last iteration."""
        self.history[-1] = self.best = truth
        self.best_at = self.done

    def compare(self) -> None:
        """Take the last one for the smallest if it is clearly so."""
        if self.newest < self._least * self.best:
            self.best, self.best_at = self.newest, self.done

    def expected(self) -> float:
        """Further iterations that are needed at the mean pace since the beginning; infinite where it tells nothing."""
        if not 0.0 < self.target < self.newest < self.begun:
            return math.inf
        gained = math.log(self.begun / self.newest)
        return (self.done - self.begun_at) * math.log(self.newest / self.target) / gained

    def further(self) -> float:
        """Further iterations that are needed at the mean pace of the last half of them."""
        half = self.done // 2
        return still_needed(half, self.history[self.done - half], self.newest, self.target)

    def have_fallen(self, part: float = 1.0) -> bool:
        """Whether the last one is at most a part of that of half as many iterations."""
        return self.newest <= part * self.history[self.done - self.done // 2]

    def hardly_fall(self) -> bool:
        """Whether the second half of the iterations has hardly brought a smaller one."""
        return min(self.history) >= HARDLY * min(self.history[: self.done // 2 + 1])

    def fell_at_once(self) -> bool:
        """Whether two iterations have brought more than any method does where all rows count alike."""
        since = self.history[self.begun_at :]
        return any(norm < since[k] / AT_ONCE for k in range(len(since)) for norm in since[k + 1 : k + 3])


def still_needed(steps: int, before: float, norm: float, target: float) -> float:
    """Iterations that are needed from a residual to a smaller one, at the mean pace of some steps up to it.

    0 where it is there, or is asked for nothing; infinite where these steps have brought none that is smaller.
    """
    if not 0.0 < target < norm:
        return 0.0
    return steps * math.log(norm / target) / math.log(before / norm) if norm < before else math.inf
