"""Second attempts of solves that ended badly: with another preconditioner or method, or with the same M in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from dsolver.errors import DeviceError, InputError, warn
from dsolver.krylov.control import ATTAINABLE
from dsolver.preconditioners.auto import Alternative
from dsolver.preconditioners.direct import NEARBY
from dsolver.session.follower import Follower, History
from dsolver.session.loading import LoadedColumn
from dsolver.session.options import Options
from dsolver.session.recovery import Keeper
from dsolver.session.session import Session
from dsolver.solution import Solution
from dsolver.status import Status

DOUBTFUL: Final = (Status.STAGNATED, Status.INDEFINITE, Status.NOT_FINITE, Status.DIVERGED)
"""Ends of a solve for which a preconditioner in float32 may be the reason."""

BROKEN: Final = (Status.STAGNATED, Status.NOT_FINITE, Status.DIVERGED, Status.BREAKDOWN)
"""Ends of a solve by BiCGStab after which GMRES may go on."""

LOST: Final = (*DOUBTFUL, Status.BREAKDOWN)
"""Ends of a solve after which factors of the matrix are the last attempt; and where the iterations have run out, if
nobody has said how many there may be."""

REACHED: Final = 1e-12
"""Part of ‖b‖ to which b - A x has come where rounding alone is in the way."""

FAR: Final = 4.0
"""Times the limit, beyond which a b - A x that rounding holds there is not tried again with M in float64: it stayed up
to 1.5 times as high with float32."""


def try_other_preconditioner(
    session: Session, loads: Sequence[LoadedColumn], follower: Follower, keeper: Keeper
) -> bool:
    """Go on with another preconditioner where "auto" has taken one that is slow, and say so in a note.

    Returns whether columns have to be solved anew, with the one that is slow, as the other one cannot be made.
    """
    slow = [column for column, history in enumerate(follower.histories) if history.ended is Status.SLOW]
    other = session.alternative_to(loads[0].begun.chosen) if slow else None
    if other is None:
        return False
    history = follower.histories[slow[0]]
    done, half = history.iterations, history.iterations // 2
    factor = (history.residuals[done] / history.residuals[done - half]) ** (1 / half)
    note = (
        f"M='auto' took {other.taken!r}: after {done} iterations each multiplies the residual by {factor:.3g}, so that "
        f"more than {other.further} are still needed, as long as {other.name!r} takes with its set-up: the solve goes "
        f"on with "
    )
    if shortage := session.shortage(m=other.m):
        keeper.notes += (f"{note}{other.taken!r} all the same, as {other.name!r} has no room: {shortage}",)
    else:
        keeper.notes += (f"{note}{other.name!r}",)
        try:
            session.precondition(m=other.m)
        except (InputError, DeviceError) as error:  # a pivot vanishes, no library, or memory runs out after all
            session.keep_first(f"{note}{other.taken!r} all the same, begun anew, as {other.name!r} fails: {error}")
            return True
    follower.resume(slow)
    return False


def try_other_method(session: Session, loads: Sequence[LoadedColumn], follower: Follower, keeper: Keeper) -> bool:
    """Go on with MINRES where conjugate gradients have found that A is not definite, and say so in a note.

    GMRES follows BiCGStab where that ends without x, unless a method was asked for.

    Returns whether columns that were solved together have to be solved anew, each alone.
    """
    broken = [column for column, history in enumerate(follower.histories) if history.ended in BROKEN]
    if broken and (other := session.for_broken(loads[0].begun.chosen)):
        _go_on_by(session, other, follower, broken, keeper)
        return False
    columns = [column for column, history in enumerate(follower.histories) if history.ended is Status.INDEFINITE]
    other = session.for_indefinite(loads[0].begun.chosen)
    if not columns or other is None or session.shortage(m=other.m, method=other.method):
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
    if session.shortage(m=other.m, method=other.method):
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
    return (ran_out or solution.status in LOST) and not solution.true_residual <= REACHED * solution.b_norm


def needs_least_squares(solution: Solution, options: Options) -> bool:
    """Whether a solve has ended so that A may be singular, and no x reach b, which factors of A do not tell."""
    return NEARBY not in solution.notes and needs_factors(solution, options)


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
    histories, dtype, usual = follower.histories, session.spec.precond_dtype, session.lowered_unasked
    doubtful = [column for column, load in enumerate(loads) if _may_be_m(histories[column], load, session, options)]
    if not session.spec.lowered or not doubtful:
        return {}
    notes: dict[int, tuple[str, ...]] = {}
    shortage = session.shortage(dtype="float64")
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
    session.precondition(dtype="float64")
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
