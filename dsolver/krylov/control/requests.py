"""Requests of a control to its column, and what it may ask of it between two iterations."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

R = TypeVar("R")
T = TypeVar("T")

Sample = tuple[float, float]
"""‖r‖ of the recursion after an iteration, and its health: see `dsolver.krylov.method.KrylovMethod.health`."""


class ColumnIterations(Protocol):
    """Iterations for one right-hand side, and what can be asked between two of them."""

    @property
    def quiet(self) -> bool:
        """Whether r is balanced as iterations go on, without a look at them."""

    @property
    def uneven(self) -> bool:
        """Whether rows or columns of A are known to differ much in size."""

    def balance(self) -> None:
        """Take from the recursion's residual what rounding has left of a part that no x can reach."""

    def rounded(self) -> bool:
        """Whether rounding explains that a matrix seems not to be positive definite."""

    def asymmetry(self) -> float:
        """Asymmetry of M, as a part of its size; 0 where the method needs no symmetric one."""

    def magnitude(self) -> float:
        """About ‖A‖ ‖x‖, the size of what rounding is relative to in b - A x."""

    def rounding(self) -> float:
        """About what rounding makes of b - A x, in another order of its sums."""

    def true_residual(self) -> float:
        """‖b - A x‖, computed anew; the recursion goes on from it."""

    def take_unreachable(self) -> float:
        """Take from b a part that no x can reach, as the true residual tells of it; its length, or zero."""

    def by_rows(self) -> float:
        """‖D⁻¹r‖ / min(‖D⁻¹b‖, ‖x‖) of the true residual, with D = diag(A); NaN where that is not to be looked at."""

    def keep(self) -> None:
        """Keep x as it is."""

    def keep_zero(self) -> None:
        """Keep zero, which takes no memory; what was kept gives its own back."""

    def recall(self) -> None:
        """x = what is kept."""

    def exchange(self) -> None:
        """x = what is kept, and x is kept."""


class Request(Generic[R]):
    """Something that columns do together, answered by an R."""


@dataclass(frozen=True)
class Start(Request[float]):
    """Beginning at the x that is set, finished when the residual's norm is at most the limit. Answer: ‖b - A x‖."""

    limit: float


@dataclass(frozen=True)
class Advance(Request[tuple[Sequence[Sample], float]]):
    """Iterations, so many or fewer. Answer: a sample of each, and the seconds that they took, the same on all ranks."""

    steps: int
    balances: tuple[int, ...] = ()  # after how many of them r is balanced, where a column is `quiet`


class End(Request[float]):
    """End of the iterations. Answer: the true residual."""


class Pause(Request[bool]):
    """Pause after an iteration for the callback. Answer: whether to stop."""


Steps = Generator[Request[Any], Any, T]  # requests, one after the other, and what comes of them


def asked(request: Request[R]) -> Steps[R]:
    """Answer to a request."""
    answer: R = yield request
    return answer
