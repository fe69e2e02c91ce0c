"""Rent of solves without factors, until these are bought: ski rental."""

import math

from dsolver.preconditioners.alternatives import PRODUCTS
from dsolver.preconditioners.base import Preconditioner
from dsolver.preconditioners.direct.choice import have_paid
from dsolver.problems import Problem
from dsolver.units import counted


class Rent:
    """Cost of solves with one matrix without factors of it, in products with A.

    Factors are bought when, made at first, they would have cost no more by now. However many solves are to come, all
    then take at most about twice as long as with the better of both (R. M. Karp, On-line algorithms versus off-line
    algorithms, IFIP 1992). It is counted by iterations, and not by the clock, so that all ranks and runs agree.
    """

    def __init__(self) -> None:
        self._spent, self._solves, self._iterations = 0.0, 0, 0

    def pay(self, m: Preconditioner, iterations: int, columns: int) -> None:
        """Count so many solves at once, the slowest of which took so many iterations; none where M has no price."""
        if price := PRODUCTS.get(type(m)):
            self._spent += price * iterations
            self._iterations += iterations
            self._solves += columns

    def is_due(self, problem: Problem) -> bool:
        """Whether factors are to be bought."""
        return self._spent > 0.0 and have_paid(problem, self._spent, self._solves)

    def end(self) -> None:
        """Count no further: factors are made, or cannot be."""
        self._spent = -math.inf

    @property
    def note(self) -> str:
        """Why there are factors, for notes."""
        solves, iterations = counted(self._solves, "solve"), counted(self._iterations, "iteration")
        return (
            f"{solves} with this matrix took {iterations}, in whose time factors would have been made and would have "
            f"served as well: M='direct' from then on"
        )
