"""Alternatives to what "auto" has chosen, for solves that are slow or come to a bad end."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, final

from dsolver.krylov.methods import FOR_ANY, FOR_COMPLEX_SYMMETRIC, FOR_INDEFINITE, METHODS
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners.algebraic.preconditioner import Algebraic
from dsolver.preconditioners.auto import DEFINITE
from dsolver.preconditioners.base import Preconditioner
from dsolver.preconditioners.direct.choice import in_products
from dsolver.preconditioners.direct.preconditioner import Direct
from dsolver.preconditioners.multigrid import Multigrid
from dsolver.preconditioners.relaxation.chebyshev import Chebyshev
from dsolver.preconditioners.relaxation.jacobi import Identity, Jacobi
from dsolver.preconditioners.relaxation.sweeps import ILU0
from dsolver.problems import Problem

FURTHER: Final = {"kept": 30, "mg": 75, "amg": 100, "chebyshev": 150, "jacobi": 300}
"""Iterations of each that take as long as to set the other kind up and to solve with it. On CPUs, set-up of multigrid
is 60, 50 and 130 of these (of Chebyshev's "amg"), and of Jacobi's that of "amg" or of incomplete factors."""

PRODUCTS: Final[Mapping[type[Preconditioner], float]] = {
    Multigrid: 7.0,
    Algebraic: 4.0,
    Chebyshev: 3.0,
    ILU0: 3.0,
    Jacobi: 2.0,
    Identity: 2.0,
}
"""Products with A that take as long as an iteration with each."""

SURELY: Final = 2.0
"""Times as long as the iterations that seem to be needed factors may take, which are sure to lead to an end. Those of
elastic bodies in a plane become slower: 2.5 times as many were needed."""
ENOUGH: Final = 600
"""Iterations that take longer than to see whether the other preconditioner is slow, too: factors that cost more have to
wait for that."""


SOON: Final = 600.0
"""Products with A that factors of an indefinite matrix may take in place of MINRES: waves in a plane take 200 to 400 of
them, where 1000 iterations of MINRES come to no end."""


@final
@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Another preconditioner for a solve that is slow, or another method for one that cannot go on."""

    taken: str
    name: str
    m: Preconditioner
    further: int = 0  # iterations of the first one that cost as much as to change and to solve with the other
    method: str | None = None  # the other method; None for the one that it has


def new_one(m: Preconditioner, rate: float, part: float) -> Alternative:
    """M of this matrix, where M is of an older one.

    rate: iterations for each power of ten that one of its own matrix takes; part: of ‖b‖ that may be left.
    """
    further = FURTHER["kept"] + math.ceil(-rate * math.log10(part) if 0.0 < part < 1.0 else 0.0)
    return Alternative(taken="M of an earlier matrix", name="a new one", m=m, further=further)


def alternative_to(taken: Preconditioner, problem: Problem, method: str) -> Alternative | None:
    """A preconditioner that may replace the chosen one, or None."""
    if METHODS[method].symmetric and method not in (*DEFINITE, FOR_COMPLEX_SYMMETRIC):  # MINRES, where A is indefinite
        return None
    if isinstance(taken, Multigrid):
        return Alternative(taken="mg", name="amg", m=Algebraic(), further=FURTHER["mg"])
    if isinstance(taken, Algebraic):
        name, m = _below(problem)
        return Alternative(taken="amg", name=name, m=m, further=FURTHER["amg"])
    if isinstance(taken, Chebyshev):
        if isinstance(problem, MatrixProblem) and not problem.mirrored:
            return None
        return Alternative(taken="chebyshev", name="amg", m=Algebraic(), further=FURTHER["chebyshev"])
    if isinstance(taken, Identity) and problem.asymmetry and problem.hollow:
        return Alternative(taken="none", name="ilu0", m=ILU0(shift="auto"), further=FURTHER["jacobi"])
    if not isinstance(taken, Jacobi):
        return None
    serves = problem.elliptic or not problem.asymmetry
    name, m = ("amg", Algebraic()) if serves else ("ilu0", ILU0(shift="auto"))
    return Alternative(taken="jacobi", name=name, m=m, further=FURTHER["jacobi"])


def factors_for(
    taken: Preconditioner, other: Alternative, problem: Problem, device: str, further: float
) -> tuple[Alternative | None, Alternative | None]:
    """Factors of a matrix in place of the alternative, and after it.

    In its place where they cost less than the iterations still needed with the preconditioner that is slow; after it
    where it is slow, too. Neither where it is algebraic multigrid for an elliptic matrix, which takes few iterations.

    `further`: iterations that are still needed, as far as is known.
    """
    sure = problem.elliptic and isinstance(other.m, Algebraic)
    cost = None if sure else in_products(problem, device)
    if cost is None:
        return None, None
    now, later = PRODUCTS[type(taken)], PRODUCTS[type(other.m)]
    if cost <= now * min(SURELY * further, ENOUGH):
        return replace(other, name="direct", m=Direct(), further=math.ceil(cost / now)), None
    return None, Alternative(taken=other.name, name="direct", m=Direct(), further=math.ceil(cost / later))


def _below(problem: Problem) -> tuple[str, Preconditioner]:
    """The preconditioner that needs less of a matrix than algebraic multigrid, by name."""
    if problem.lattice:
        return "mg", Multigrid()
    return ("ilu0", ILU0(shift="auto")) if problem.asymmetry else ("chebyshev", Chebyshev())


def by_gmres(taken: Preconditioner) -> Alternative:
    """GMRES with the same preconditioner, where BiCGStab has broken down or got stuck, or M is not symmetric."""
    return Alternative(taken=taken.asked, name=taken.asked, m=taken, method=FOR_ANY)


def for_indefinite(taken: Preconditioner, problem: Problem, method: str, device: str) -> Alternative | None:
    """MINRES for a symmetric matrix that conjugate gradients have found to be indefinite; None where it is no help.

    Nor is it where factors, the last attempt, cost less. A function has none, and keeps M, which is of another matrix.
    """
    cost, called = in_products(problem, device), problem.operator is not None
    if method not in DEFINITE or (problem.lattice and not called) or (cost is not None and cost <= SOON):
        return None
    m = taken if called else Identity() if problem.indefinite else Jacobi()
    return Alternative(taken=taken.asked, name=m.asked, m=m, method=FOR_INDEFINITE)
