"""Second attempts of solves that ended badly: with another preconditioner or method, or with the same M in float64."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from dsolver.cost.room import check_memory
from dsolver.errors import DeviceError, DeviceMemoryError, DsolverError, InputError, warn
from dsolver.krylov.control.control import ATTAINABLE
from dsolver.krylov.control.norms import still_needed
from dsolver.krylov.methods import FOR_FACTORS
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners import Direct, Preconditioner
from dsolver.preconditioners.alternatives import (
    Alternative,
    alternative_to,
    factors_for,
    for_broken,
    for_indefinite,
)
from dsolver.preconditioners.direct.choice import may_be_for_least_squares, may_be_last
from dsolver.preconditioners.direct.preconditioner import NEARBY
from dsolver.preconditioners.registry import AUTO
from dsolver.program.solve import Solve
from dsolver.session.follower import ATTAINED, Follower, History
from dsolver.session.options import Options
from dsolver.session.recovery import Keeper
from dsolver.session.session import Session
from dsolver.session.solving.loading import LoadedColumn
from dsolver.solution import Solution
from dsolver.status import Status

DOUBTFUL: Final = (Status.STAGNATED, Status.INDEFINITE, Status.NOT_FINITE, Status.DIVERGED)
"""Ends of a solve for which a preconditioner in float32 may be the reason."""

BROKEN: Final = (Status.STAGNATED, Status.NOT_FINITE, Status.DIVERGED, Status.BREAKDOWN)
"""Ends of a solve by BiCGStab after which GMRES may go on."""

LOST: Final = (*DOUBTFUL, Status.BREAKDOWN)
"""Ends of a solve after which factors of the matrix are the last attempt; and where the iterations have run out, if
the user has not said how many there may be."""

REACHED: Final = 1e-12
"""Part of ‖b‖ to which b - A x has come where rounding alone is in the way."""

FAR: Final = 4.0
"""Times the limit, beyond which a b - A x that rounding holds there is not tried again with M in float64: it stayed up
to 1.5 times as high with float32."""


def replaceable(session: Session) -> bool:
    """Whether another preconditioner may take the place of the one that "auto" has chosen."""
    return session.first.free and session.wishes.m is session.first.m and not session.refused


def try_other_preconditioner(
    session: Session, loads: Sequence[LoadedColumn], follower: Follower, keeper: Keeper, options: Options
) -> bool:
    """Go on with another preconditioner where "auto" has taken one that is slow, and say so in a note.

    Where that one is slow, too, factors follow as soon as they take less time than the iterations that are needed.

    Returns whether columns have to be solved anew, with the one that is slow, as the other one cannot be made.
    """
    while slow := [column for column, history in enumerate(follower.histories) if history.ended is Status.SLOW]:
        history, begun = follower.histories[slow[0]], loads[slow[0]].begun
        pace, further = _pace(history, options.limit(begun.b_norm))
        factors = session.first.method is None and not session.system.renewal.kept
        others, reserve = _alternatives(session, begun.chosen, further, factors=factors)
        for other in others:
            if not (shortage := _shortage(session, m=other.m)):
                break
        note = (
            f"M='auto' took {other.taken!r}: after {history.iterations} iterations each multiplies the residual by "
            f"{pace:.3g}, so that more than {other.further} are still needed, as long as {other.name!r} takes with its "
            f"set-up: the solve goes on with "
        )
        session.reserve = None
        if shortage:
            keeper.notes += (f"{note}{other.taken!r} all the same, as {other.name!r} has no room: {shortage}",)
        else:
            keeper.notes += (f"{note}{other.name!r}",)
            try:
                session.precondition(m=other.m)
            except (InputError, DeviceError) as error:  # a pivot vanishes, no library, or memory runs out after all
                session.refused = f"{note}{other.taken!r} all the same, begun anew, as {other.name!r} fails: {error}"
                return True
            session.reserve = reserve
        follower.resume(slow, session.reserve and session.reserve.further)
    return False


def _pace(history: History, limit: float) -> tuple[float, float]:
    """Factor of the residual in an iteration, in the mean of the last half, and iterations that are still needed so."""
    done, half = history.iterations, history.iterations // 2
    norm, before = history.residuals[done], history.residuals[done - half]
    pace: float = (norm / before) ** (1 / half)
    return pace, still_needed(half, before, norm, limit)


def _alternatives(
    session: Session, chosen: Preconditioner, further: float, *, factors: bool
) -> tuple[list[Alternative], Alternative | None]:
    """Preconditioners in place of one that is slow, the best one first, and factors for where that is slow, too.

    Args:
        session: theirs.
        chosen: the one that is slow.
        further: iterations that are still needed, as far as is known.
        factors: whether there may be factors.
    """
    if session.reserve is not None:
        return [session.reserve], None
    anew = session.wishes.m if session.system.renewal.kept else None
    other = alternative_to(chosen, session.problem, session.spec.method, anew) if replaceable(session) else None
    assert other is not None  # else no solve ends as slow
    if not factors:
        return [other], None
    instead, reserve = factors_for(other, session.given, session.runtime.device, further)
    return [other] if instead is None else [instead, other], reserve


def _shortage(session: Session, **changes: Any) -> str:
    """Numbers of the memory that `Session.precondition` with these changes lacks; "" if it has room."""
    try:
        plan = session.system.plan.changed(cuda=session.system.cuda, **changes)
        check_memory(plan.spec, session.runtime, session.spec)
    except DeviceMemoryError as error:
        return str(error)
    return ""


def try_other_method(session: Session, loads: Sequence[LoadedColumn], follower: Follower, keeper: Keeper) -> bool:
    """Go on with MINRES where conjugate gradients have found that A is not definite, and say so in a note.

    GMRES follows BiCGStab where that ends without x, unless a method was asked for.

    Returns whether columns that were solved together have to be solved anew, each alone.
    """
    broken = [column for column, history in enumerate(follower.histories) if history.ended in BROKEN]
    free = bool(broken) and session.first.method is None
    if other := for_broken(loads[0].begun.chosen, session.spec.method) if free else None:
        _go_on_by(session, other, follower, broken, keeper)
        return False
    columns = [column for column, history in enumerate(follower.histories) if history.ended is Status.INDEFINITE]
    first = session.first
    free = bool(columns) and first.free and first.method is None
    other = for_indefinite(loads[0].begun.chosen, session.problem, session.spec.method) if free else None
    if other is None or _shortage(session, m=other.m, method=other.method):
        return False
    history = follower.histories[columns[0]]
    session.precondition(m=other.m, method=other.method)
    note = (
        f"A is symmetric, but not positive definite, as was seen after {history.iterations} iterations of conjugate "
        f"gradients: the solve goes on with {session.spec.traits.title}"
    )
    keeper.notes += (note,)
    if len(loads) > 1:
        return True
    follower.resume(columns)
    return False


def _go_on_by(session: Session, other: Alternative, follower: Follower, columns: Sequence[int], keeper: Keeper) -> None:
    """Go on with another method in columns whose solves have ended, where it has room."""
    if _shortage(session, m=other.m, method=other.method):
        return
    history, title = follower.histories[columns[0]], session.spec.traits.title
    session.precondition(m=other.m, method=other.method)
    note = (
        f"{title} ended as {history.ended} after {history.iterations} iterations: the solve goes on with "
        f"{session.spec.traits.title}"
    )
    keeper.notes += (note,)
    follower.resume(columns)


def needs_factors(solution: Solution, options: Options) -> bool:
    """Whether a solve has ended so that factors of the matrix are left as the last attempt."""
    ran_out = solution.status is Status.MAX_ITERATIONS and options.maxiter is None
    rounding = solution.true_residual <= REACHED * solution.b_norm or ATTAINED in solution.notes
    return (ran_out or solution.status in LOST) and not rounding


def take_factors(session: Session, why: str) -> bool:
    """Take factors of the whole matrix for M from now on, where "auto" may and there is room; whether it does.

    Args:
        session: whose solve has ended badly.
        why: for notes of the solves that follow.
    """
    with session.in_use():
        given, first = session.given, session.first
        done = isinstance(session.wishes.m, Direct) and session.spec.method == FOR_FACTORS
        free = first.free and first.method is None and not done and given.operator is None
        factors: dict[str, Any] = {"m": Direct(), "method": FOR_FACTORS}
        if not free or not may_be_last(given) or _shortage(session, **factors):
            return False
        try:
            session.precondition(**factors)
        except DsolverError:  # no library where they would be made, or memory: the program is started anew
            return False
    session.factored = why
    return True


def needs_least_squares(solution: Solution, options: Options) -> bool:
    """Whether a solve has ended so that A may be singular, and no x reach b, which factors of A do not tell."""
    return NEARBY not in solution.notes and needs_factors(solution, options)


def is_of_unclear_rank(solution: Solution, options: Options) -> bool:
    """Whether factors of a singular matrix, or of its least squares, have led to no end."""
    return NEARBY in solution.notes and needs_factors(solution, options)


def take_least_squares(session: Session) -> bool:
    """Take factors for least squares from now on, where M has others and there is room; whether M has them."""
    with session.in_use():
        m = session.wishes.m
        if not isinstance(m, Direct) or session.spec.traits.symmetric:
            return False
        other = replace(m, least_squares=True)
        if m.least_squares or not may_be_for_least_squares(session.given) or _shortage(session, m=other):
            return m.least_squares
        return _made(session, other)


def take_fine_least_squares(session: Session) -> bool:
    """Take factors for least squares that leave out less of x from now on, where M has some; whether it does.

    Others have led to no end, so that the singular values of A have no gap where these leave out what is smaller.
    """
    with session.in_use():
        m = session.wishes.m
        if not (session.first.free and session.first.method is None and isinstance(m, Direct)):
            return False
        other = replace(m, least_squares=True, fine=True)
        if m.fine or not may_be_for_least_squares(session.given) or _shortage(session, m=other):
            return m.fine
        return _made(session, other)


def _made(session: Session, m: Preconditioner) -> bool:
    """Take a preconditioner from now on; whether it could be made."""
    try:
        session.precondition(m=m)
    except DsolverError:
        return False
    return True


def find_pieces(session: Session) -> bool:
    """Whether A has pieces that nothing fixes: it is set up anew to see, and not looked at again."""
    given, plan = session.given, session.system.plan
    if not (isinstance(given, MatrixProblem) and given.may_have_pieces):
        return False
    began = time.perf_counter()
    unknown = replace(given, singular=None), replace(session.problem, singular=None)
    session.system.plan = plan.with_problem(*unknown)
    session.precondition()
    session.took = time.perf_counter() - began
    return session.program.call(Solve.closed_regions) > 0


def why_factors(solution: Solution) -> str:
    """A note on what had led to no end before factors were made."""
    part = solution.true_residual / solution.b_norm if solution.b_norm else math.inf
    return (
        f"the solve by iterations ended as {solution.status} after {solution.iterations} of them, with "
        f"‖b - Ax‖/‖b‖ = {part:.1e}: this one is with factors of the whole matrix, M='direct'"
    )


def try_float64(
    session: Session, loads: Sequence[LoadedColumn], follower: Follower, options: Options
) -> dict[int, tuple[str, ...]]:
    """Go on with M in float64 in columns whose solves it may have ended in float32; a note for each such column."""
    histories, dtype, usual = follower.histories, session.spec.precond_dtype, session.wishes.precond_dtype == AUTO
    doubtful = [column for column, load in enumerate(loads) if _may_be_m(histories[column], load, session, options)]
    if not (session.spec.lowered and loads[0].begun.chosen.can.lowered and doubtful):
        return {}
    notes: dict[int, tuple[str, ...]] = {}
    shortage = _shortage(session, precond_dtype="float64")
    then = f"it cannot go on with 'float64': {shortage}" if shortage else "it goes on with 'float64'"
    for column in doubtful:
        history = histories[column]
        note = (
            f"with precond_dtype={dtype!r}{', as is usual here,' if usual else ''} the solve ended as {history.ended} "
            f"after {history.iterations} iterations, ‖b - Ax‖ = {history.true_residual:.2e}: {then}"
        )
        if not usual:
            warn(note, RuntimeWarning)
        notes[column] = (note,)
    if shortage:
        return notes
    session.precondition(precond_dtype="float64")
    follower.resume(doubtful)
    return notes


def _may_be_m(history: History, load: LoadedColumn, session: Session, options: Options) -> bool:
    """Whether a preconditioner in float32 may be the reason for a solve's end.

    It is not where the recursion of r by A p has reached the limit, and b - A x stays far above it: what A x rounds is
    in the way, and with M in float64 about as much of it is left.
    """
    limit, b_norm = options.limit(load.begun.b_norm), load.begun.b_norm
    if history.ended is Status.STAGNATED and session.spec.traits.replaces:
        return history.residuals[-1] > max(limit, ATTAINABLE * b_norm) or history.true_residual <= FAR * limit
    return history.ended in DOUBTFUL
