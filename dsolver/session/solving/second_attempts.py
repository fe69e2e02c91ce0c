"""Second attempts of solves that ended badly: with another preconditioner or method, or with the same M in float64."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dsolver.errors import DeviceError, InputError, warn
from dsolver.krylov.control.norms import still_needed
from dsolver.krylov.control.rounding import ATTAINABLE
from dsolver.krylov.methods import FOR_FLOWS
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners import Direct, Preconditioner
from dsolver.preconditioners.alternatives import (
    Alternative,
    alternative_to,
    by_gmres,
    factors_for,
    for_indefinite,
    new_one,
)
from dsolver.preconditioners.registry import AUTO
from dsolver.program.solve import Solve
from dsolver.session.follower import Follower, History
from dsolver.session.options import Options
from dsolver.session.recovery import Keeper
from dsolver.session.session import Session
from dsolver.session.solving.last_attempts import LOST, shortage
from dsolver.session.solving.loading import LoadedColumn
from dsolver.status import Status
from dsolver.units import counted

BROKEN: Final = (Status.STAGNATED, Status.NOT_FINITE, Status.DIVERGED, Status.BREAKDOWN)
"""Ends of a solve by BiCGStab after which GMRES may go on."""

FAR: Final = 4.0
"""Times the limit, beyond which a b - A x that rounding holds there is not tried again with M in float64: it stayed up
to 1.5 times as high with float32."""


def replaceable(session: Session) -> bool:
    """Whether another preconditioner may take the place of M: of the one that "auto" has chosen, or of an older one."""
    chosen = session.wishes.m is session.first.m or session.system.renewal.kept
    return session.first.free and chosen and not session.refused


def try_other_preconditioner(
    session: Session, loads: Sequence[LoadedColumn], follower: Follower, keeper: Keeper, options: Options
) -> bool:
    """Go on with another preconditioner where "auto" has taken one that is slow, and say so in a note.

    Where that one is slow, too, factors follow as soon as they take less time than the iterations that are needed.

    Returns whether columns have to be solved anew, with the one that is slow, as the other one cannot be made.
    """
    while slow := _ended(follower, Status.SLOW):
        history, begun = follower.histories[slow[0]], loads[slow[0]].begun
        pace, further = _pace(history, options.limit(begun.b_norm))
        others, reserve = _alternatives(session, begun.chosen, further, options.limit(begun.b_norm) / begun.b_norm)
        for other in others:
            if not (lacking := shortage(session, m=other.m)):
                break
        note = (
            f"M='auto' took {other.taken!r}: after {counted(history.iterations, 'iteration')} each multiplies the "
            f"residual by {pace:.3g}, so that more than {other.further} are still needed, as long as {other.name!r} "
            f"takes with its set-up: the solve goes on with "
        )
        session.reserve, older = None, session.system.renewal.kept
        if lacking:
            keeper.notes += (f"{note}{other.taken!r} all the same, as {other.name!r} has no room: {lacking}",)
        else:
            keeper.notes += (f"{note}{other.name!r}",)
            try:
                session.precondition(m=other.m)
            except (InputError, DeviceError) as error:  # a pivot vanishes, no library, or memory runs out after all
                session.refused = f"{note}{other.taken!r} all the same, begun anew, as {other.name!r} fails: {error}"
                return True
            session.reserve = reserve
            if not older:  # of a grid rows tell more; factors may cost more than a solve from a better guess
                session.learnt = {} if session.problem.lattice or isinstance(other.m, Direct) else {"m": other.m}
        follower.resume(slow, session.reserve and session.reserve.further)
    return False


def _pace(history: History, limit: float) -> tuple[float, float]:
    """Factor of the residual in an iteration, in the mean of the last half, and iterations that are still needed so."""
    done, half = history.iterations, history.iterations // 2
    norm, before = history.residuals[done], history.residuals[done - half]
    pace: float = (norm / before) ** (1 / half)
    return pace, still_needed(half, before, norm, limit)


def _alternatives(
    session: Session, chosen: Preconditioner, further: float, part: float
) -> tuple[list[Alternative], Alternative | None]:
    """Preconditioners in place of one that is slow, the best one first, and factors for where that is slow, too.

    `further`: iterations that are still needed, as far as is known; part: of ‖b‖ that may be left.
    """
    if session.system.renewal.kept:
        return [new_one(session.wishes.m, session.system.renewal.rate or 0.0, part)], session.reserve
    if session.reserve is not None:
        return [session.reserve], None
    other = alternative_to(chosen, session.problem, session.spec.method) if replaceable(session) else None
    assert other is not None  # else no solve ends as slow
    if session.first.method is not None:
        return [other], None
    instead, reserve = factors_for(chosen, other, session.given, session.runtime.device, further)
    return [other] if instead is None else [instead, other], reserve


def try_other_method(
    session: Session, loads: Sequence[LoadedColumn], follower: Follower, keeper: Keeper, options: Options
) -> bool:
    """Go on with MINRES where conjugate gradients have found that A is not definite, and say so in a note.

    GMRES follows BiCGStab where that ends without x, and what needs M = Mᵀ where M is not, unless a method was asked
    for.

    Returns whether columns that were solved together have to be solved anew, each alone.
    """
    first, chosen, method = session.first, loads[0].begun.chosen, session.spec.method
    ended = _ended(follower, *(BROKEN if method == FOR_FLOWS else [Status.UNSYMMETRIC_M]))
    columns = [column for column in ended if follower.histories[column].iterations < options.iterations]
    other = by_gmres(chosen) if columns and first.method is None else None
    if other is None:
        columns = _ended(follower, Status.INDEFINITE)
        if columns and first.free and first.method is None:
            other = for_indefinite(chosen, session.given, method, session.runtime.device)
    if other is None or shortage(session, m=other.m, method=other.method):
        return False
    history, title = follower.histories[columns[0]], session.spec.traits.title
    after, indefinite = counted(history.iterations, "iteration"), history.ended is Status.INDEFINITE
    session.precondition(m=other.m, method=other.method)
    if not indefinite:  # the next matrix may be definite
        session.learnt |= {"method": other.method}
    seen = f"{title} ended as {history.ended} after {after}"
    if indefinite:
        seen = f"A is symmetric, but not positive definite, as was seen after {after} of conjugate gradients"
    keeper.notes += (f"{seen}: the solve goes on with {session.spec.traits.title}",)
    if indefinite and len(loads) > 1:
        return True
    follower.resume(columns)
    return False


def _ended(follower: Follower, *ends: Status) -> list[int]:
    """Columns whose solves have ended as one of these."""
    return [column for column, history in enumerate(follower.histories) if history.ended in ends]


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


def try_float64(
    session: Session, loads: Sequence[LoadedColumn], follower: Follower, options: Options
) -> dict[int, tuple[str, ...]]:
    """Go on with M in float64 in columns whose solves it may have ended in float32; a note for each such column."""
    histories, dtype, usual = follower.histories, session.spec.precond_dtype, session.wishes.precond_dtype == AUTO
    doubtful = [column for column, load in enumerate(loads) if _may_be_m(histories[column], load, session, options)]
    if not (session.spec.lowered and loads[0].begun.chosen.can.lowered and doubtful):
        return {}
    notes: dict[int, tuple[str, ...]] = {}
    lacking = shortage(session, precond_dtype="float64")
    then = f"it cannot go on with 'float64': {lacking}" if lacking else "it goes on with 'float64'"
    for column in doubtful:
        history = histories[column]
        note = (
            f"with precond_dtype={dtype!r}{', as is usual here,' if usual else ''} the solve ended as {history.ended} "
            f"after {counted(history.iterations, 'iteration')}, ‖b - Ax‖ = {history.true_residual:.2e}: {then}"
        )
        if not usual:
            warn(note, RuntimeWarning)
        notes[column] = (note,)
    if lacking:
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
    return history.ended in LOST
