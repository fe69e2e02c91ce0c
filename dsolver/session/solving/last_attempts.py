"""Last attempts of solves that ended badly: factors of the whole matrix, and factors for least squares."""

import math
import time
from dataclasses import replace
from typing import Any, Final

from dsolver.cost.room import check_memory
from dsolver.errors import DeviceMemoryError, DsolverError
from dsolver.krylov.methods import FOR_FACTORS
from dsolver.preconditioners import Direct
from dsolver.preconditioners.direct.choice import may_be_for_least_squares, may_be_last
from dsolver.preconditioners.direct.preconditioner import NEARBY
from dsolver.session.follower import ATTAINED
from dsolver.session.options import Options
from dsolver.session.session import Session
from dsolver.solution import Solution
from dsolver.status import Status

LOST: Final = (Status.STAGNATED, Status.INDEFINITE, Status.NOT_FINITE, Status.DIVERGED, Status.BREAKDOWN)
"""Ends of a solve for which a preconditioner in float32 may be the reason, and after which factors of the matrix are
the last attempt; and where the iterations have run out, if the user has not said how many there may be."""

REACHED: Final = 1e-12  # part of ‖b‖ to which b - A x has come where rounding alone is in the way
SINGULAR: Final = {"float64": 1e-5, "float32": 1e-2}
"""Part of ‖b‖ from which on what rounding makes of b - A x may be that of an x with a large part along null vectors, by
the value type of A. In float32 it is 1e-3 of a Laplacian of 400² points."""
CLEARLY: Final = 0.5
"""Part of ‖b - A x‖ that factors for least squares may leave where rounding makes it: to leave out of x what A makes
small, as the bending of a slender beam is, needs a reason."""


def needs_factors(session: Session, solution: Solution, options: Options) -> bool:
    """Whether a solve has ended so that factors of the matrix are left as the last attempt."""
    ran_out = solution.status is Status.MAX_ITERATIONS and options.maxiter is None
    reached = SINGULAR[session.spec.dtype] if ATTAINED in solution.notes else REACHED
    rounding = solution.true_residual <= reached * solution.b_norm
    return (ran_out or solution.status in LOST) and not rounding


def take_factors(session: Session, why: str) -> bool:
    """Take factors of the matrix for M where "auto" may and there is room; whether it does; why: for notes."""
    began = time.perf_counter()
    with session.in_use():
        given, first = session.given, session.first
        done = isinstance(session.wishes.m, Direct) and session.spec.method == FOR_FACTORS
        free = first.free and first.method is None and not done and given.operator is None
        factors: dict[str, Any] = {"m": Direct(), "method": FOR_FACTORS}
        if not free or not may_be_last(given) or shortage(session, **factors):
            return False
        if not _made(session, **factors):
            return False
        session.took = time.perf_counter() - began
    session.factored = why
    return True


def buy_factors(session: Session) -> None:
    """Take factors of the matrix on CPUs once many solves have cost as much as these."""
    rent, first = session.rent, session.first
    free = first.free and first.method is None and session.problem.singular is False
    if free and session.runtime.device == "cpu" and rent.is_due(session.given):
        take_factors(session, rent.note)
        rent.end()


def needs_least_squares(session: Session, solution: Solution, options: Options) -> bool:
    """Whether a solve has ended so that A may be singular, and no x reach b, which factors of A do not tell."""
    return NEARBY not in solution.notes and needs_factors(session, solution, options)


def is_better(other: Solution, solution: Solution) -> bool:
    """Whether x by factors for least squares is better than the one before."""
    return other.true_residual < solution.true_residual * (CLEARLY if ATTAINED in solution.notes else 1.0)


def is_of_unclear_rank(session: Session, solution: Solution, options: Options) -> bool:
    """Whether factors of a singular matrix, or of its least squares, have led to no end."""
    return NEARBY in solution.notes and needs_factors(session, solution, options)


def take_least_squares(session: Session, *, fine: bool) -> bool:
    """Take factors for least squares from now on, where M has factors and there is room; whether M has them.

    `fine`: whether they are to leave out less of x, where "auto" may take them: others have led to no end, so that the
    singular values of A have no gap where these leave out what is smaller.
    """
    with session.in_use():
        m, first = session.wishes.m, session.first
        free = (first.free and first.method is None) if fine else not session.spec.traits.symmetric
        if not (free and isinstance(m, Direct)) or session.given.operator is not None:
            return False
        has, other = (m.fine if fine else m.least_squares), replace(m, least_squares=True, fine=fine or m.fine)
        if has or not may_be_for_least_squares(session.given) or shortage(session, m=other):
            return has
        return _made(session, m=other)


def _made(session: Session, **changes: Any) -> bool:
    """Take factors by `Session.precondition` from now on; whether they could be made."""
    try:
        session.precondition(**changes)
    except DsolverError:  # no library where they would be made, or memory: the program is started anew
        return False
    return True


def why_factors(solution: Solution) -> str:
    """A note on what had led to no end before factors were made."""
    part = solution.true_residual / solution.b_norm if solution.b_norm else math.inf
    return (
        f"the solve by iterations ended as {solution.status} after {solution.iterations} of them, with "
        f"‖b - Ax‖/‖b‖ = {part:.1e}: this one is with factors of the whole matrix, M='direct'"
    )


def shortage(session: Session, **changes: Any) -> str:
    """Numbers of the memory that `Session.precondition` with these changes lacks; "" if it has room."""
    try:
        plan = session.system.plan.changed(cuda=session.system.cuda, **changes)
        check_memory(plan.spec, session.runtime, session.spec)
    except DeviceMemoryError as error:
        return str(error)
    return ""
