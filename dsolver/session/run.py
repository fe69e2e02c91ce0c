"""Solves in a session, from right-hand sides to solutions."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np

from dsolver.distributed.nullspace import CONSISTENT, Inconsistency
from dsolver.errors import InconsistentWarning, InputError, warn
from dsolver.krylov.control import ATTAINABLE, STAGNATION, Control
from dsolver.krylov.methods import serving_any
from dsolver.monitor.watch import Watch
from dsolver.program.solve import Begun
from dsolver.session.arguments import FMG, FirstGuess, Pairs, check_guess
from dsolver.session.arrays import Container, container_of
from dsolver.session.batching import grouped
from dsolver.session.checkpoint import checkpoint_of
from dsolver.session.follower import Follower, History
from dsolver.session.options import Options
from dsolver.session.recovery import Keeper
from dsolver.session.session import Session
from dsolver.solution import Solution
from dsolver.status import Status

DOUBTFUL: Final = (Status.STAGNATED, Status.INDEFINITE, Status.NOT_FINITE, Status.DIVERGED)
"""Ends of a solve for which a preconditioner in float32 may be the reason."""

FAR: Final = 4.0
"""Times the limit, beyond which a b - A x that rounding holds there is not tried again with M in float64: it stayed up
to 1.5 times as high with float32."""

ASYMMETRY: Final = 1e-6
"""From where on a preconditioner is not symmetric, as a part of its size: more than rounding, or a solver inside that
stops at a tolerance."""


@final
@dataclass(frozen=True, kw_only=True)
class Load:
    """A right-hand side that a program has, and where its solve begins."""

    right: Container
    guess: FirstGuess
    begun: Begun


def solve_all(session: Session, pairs: Pairs, options: Options) -> list[Solution]:
    """Solutions for right-hand sides and first guesses that `dsolver.session.arguments` has seen.

    Raises:
        InputError: values cannot be right, or the session is closed or in use.
        ClusterError: the cluster failed during the solve.
    """
    groups, note = grouped(session, pairs, options)
    solutions = [solution for group in groups for solution in _together(session, group, options)]
    return [replace(solution, notes=(*solution.notes, note)) for solution in solutions] if note else solutions


def _together(session: Session, pairs: Pairs, options: Options) -> list[Solution]:
    """Solve for right-hand sides at once; where a worker is lost, go on without it."""
    with session.in_use():
        stores = checkpoint_of(options.checkpoint), checkpoint_of(options.resume)
        cluster = session.runtime.client is not None
        keeper = Keeper(session.given, len(pairs), *stores, cluster=cluster)
        return session.with_recovery(lambda: _attempt(session, pairs, options, keeper))


def _attempt(session: Session, pairs: Pairs, options: Options, keeper: Keeper) -> list[Solution]:
    """Solve, unless a worker is lost meanwhile."""
    began, setup = time.perf_counter(), session.took
    loads = [_loaded(session, b, keeper.guess(i, x0), i, len(pairs)) for i, (b, x0) in enumerate(pairs)]
    loaded = time.perf_counter()
    watch = Watch(session.runtime.client, options.spans)
    watch.events.start(what="solve", **session.about)
    follower = Follower(
        session.program,
        [_control(session, load, options) for load in loads],
        callback=options.callback,
        progress=keeper.watching(session, loads[0].begun.b_norm, options.progress),
        watch=watch,
        closely=options.checkpoint is not None,
    )
    with watch:
        with session.solving_for(loads[0].right):
            follower.run()
            _corrected(session, loads, follower, keeper)
            notes = _resumed(session, loads, follower, options)
        times = {"setup": setup, "load": loaded - began, "solve": time.perf_counter() - loaded}
        times |= {"lost": session.lost} if session.lost else {}
        ends = [
            _for_all_of_b(history.ended, load.begun.excess.part, load.begun.b_norm, options)
            for load, history in zip(loads, follower.histories, strict=True)
        ]
        slowest = follower.histories[follower.slowest]
        failed = next((end for end in ends if not end.converged), Status.CONVERGED)
        watch.end(str(failed), slowest.iterations, slowest.true_residual)
        x = [session.x_like(load.right, column) for column, load in enumerate(loads)]
    asymmetric = _asymmetric(session, ends)
    return [
        Solution(
            x=x[column],
            status=ends[column],
            iterations=history.iterations,
            residuals=tuple(history.residuals),
            true_residual=history.true_residual,
            b_norm=load.begun.b_norm,
            limit=options.limit(load.begun.b_norm),
            closed_regions=load.begun.excess.closed,
            timings={**times, "total": setup + session.lost + time.perf_counter() - began},
            engine=session.described,
            spans=watch.spans,
            exposure=watch.exposure,
            notes=(
                *session.notes,
                *keeper.notes,
                *notes.get(column, ()),
                *(asymmetric if not ends[column].converged else ()),
            ),
        )
        for column, (load, history) in enumerate(zip(loads, follower.histories, strict=True))
    ]


def _loaded(session: Session, b: Any, x0: Any, column: int, width: int) -> Load:
    """Bring a right-hand side and a first guess to a column of the program.

    Raises:
        InputError: values are NaN, infinite, too large, or so small that b's norm is zero.
    """
    partition, client = session.partition, session.runtime.client
    right = container_of("b", b, partition, client, session.given)
    guess: FirstGuess = None
    if x0 is not None:
        guess = FMG if isinstance(x0, str) else container_of("x0", x0, partition, client, session.given)
    check_guess(session.first, x0)
    if isinstance(guess, str) and not session.preconditioner.can.guesses:  # it has taken the place of the first one
        guess = None
    session.preconditioner.expect(host=right.host)
    begun = session.begin(right, guess, column, width)
    for name, norm, values in (("b", begun.b_norm, right), ("x0", begun.x_norm, guess)):
        if not np.isfinite(norm):
            if isinstance(values, Container) and not session.problem.masked:
                values.examine()
            raise InputError(f"{name} has values that are NaN or infinite, or so large that its norm is")
    _warn_inconsistent(begun.excess)
    problem = session.problem  # which may add to b (values at faces) and take from it (null vectors)
    linear = not (problem.lattice and problem.loaded) and not problem.singular and not problem.null_vectors
    if begun.b_norm == 0.0 and linear and not right.is_zero():
        raise InputError("b is not zero, but so small that its norm is zero: scale it, and x in return")
    return Load(right=right, guess=guess, begun=begun)


def _control(session: Session, load: Load, options: Options) -> Control:
    """Control of a solve, with what its system and its right-hand side allow.

    A value takes as many iterations as there are points along the axes to cross the grid, and until it has the residual
    may stay as it is. Multigrid in float32 is given up sooner: there is float64 to go on with.
    """
    can, other = session.preconditioner.can, session.alternative_to(load.begun.chosen)
    return Control(
        limit=options.limit(load.begun.b_norm),
        b_norm=load.begun.b_norm,
        maxiter=options.iterations,
        stagnation=max(STAGNATION, sum(session.problem.grid)),
        fallback=can.fallback if session.spec.lowered else None,
        patience=None if other is None else other.further,
        interruptible=options.callback is not None,
        singular=load.begun.excess.closed + load.begun.excess.vectors > 0,
        one_level=not can.multilevel,
        replaces=session.spec.traits.replaces,
        breakdown=session.spec.traits.breakdown,
    )


def _asymmetric(session: Session, ends: Sequence[Status]) -> tuple[str, ...]:
    """A note where solves have not converged and M is not symmetric."""
    traits = session.spec.traits
    if not traits.symmetric or all(end.converged or end is Status.STOPPED for end in ends):
        return ()
    found = session.preconditioner.asymmetry()
    if not found > ASYMMETRY:
        return ()
    flexible = "" if session.spec.method == "fcg" else "'fcg', "
    note = (
        f"M is not symmetric: xᵀMy and yᵀMx of random x and y differ by {found:.1g} of their size, and "
        f"method={session.spec.method!r} needs M = Mᵀ. Incomplete LU factors (spilu) are not: use a preconditioner of "
        f"dsolver's, or method={flexible}{serving_any()}"
    )
    warn(note, RuntimeWarning)
    return (note,)


def _corrected(session: Session, loads: Sequence[Load], follower: Follower, keeper: Keeper) -> None:
    """Go on with the other preconditioner where "auto" has taken one that is slow, and tell so."""
    slow = [column for column, history in enumerate(follower.histories) if history.ended is Status.SLOW]
    other = session.alternative_to(loads[0].begun.chosen)
    if not slow or other is None:
        return
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
        session.precondition(m=other.m)
    follower.resume(slow)


def _may_be_m(history: History, load: Load, session: Session, options: Options) -> bool:
    """Whether a preconditioner in float32 may be the reason for a solve's end.

    It is not where the recursion of r by A p has reached the limit, and b - A x stays far above it: what A x rounds is
    in the way, and with M in float64 about as much of it is left.
    """
    limit, b_norm = options.limit(load.begun.b_norm), load.begun.b_norm
    if history.ended is Status.STAGNATED and session.spec.traits.replaces:
        return history.residuals[-1] > max(limit, ATTAINABLE * b_norm) or history.true_residual <= FAR * limit
    return history.ended in DOUBTFUL


def _resumed(
    session: Session, loads: Sequence[Load], follower: Follower, options: Options
) -> dict[int, tuple[str, ...]]:
    """Go on in float64 with columns that a preconditioner in float32 may have ended; a note for each."""
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
    for column in doubtful:
        history = histories[column]
        if not history.true_residual <= history.residuals[0]:  # x is no better than the first guess, or NaN
            session.begin(loads[column].right, loads[column].guess, column, len(loads))
    follower.resume(doubtful)
    return notes


# -- right-hand sides of singular systems, of which no x can reach a part ----------------------------------------------


def _warn_inconsistent(excess: Inconsistency) -> None:
    """Tell that there was no solution for the b that was given."""
    if excess.part <= CONSISTENT:
        return
    balance = "it and the fluxes through the boundary balance"
    if excess.vectors:
        balance = "b balances, as forces and moments on a free body do"
        what = (
            f"the vectors of nullspace= solve A x = 0, and b should be orthogonal to them, but {excess.part:.1e} of it "
            f"lies along them. That part was subtracted"
        )
    elif excess.cell is None:
        what = (
            f"constants solve A x = 0, and the sum of b should be zero but is {excess.part:.1e} of ‖1‖ ‖b‖. A constant "
            f"was subtracted from the source"
        )
    elif not excess.regions:  # each is within the bound, of which all together are not
        what = (
            f"in {excess.closed} closed regions constants solve A x = 0, and the sum of b should be zero; in all "
            f"together it misses that by {excess.part:.1e} of ‖b‖, in none by much. A constant was subtracted from the "
            f"source in each"
        )
    else:
        what = (
            f"in closed regions constants solve A x = 0, and the sum of b should be zero, but it is not in "
            f"{excess.regions} of {excess.closed}; in the worst, that of cell {excess.cell}, it is {excess.worst:.1e} "
            f"of ‖1‖ ‖b‖. A constant was subtracted from the source in each"
        )
    warn(
        f"the right-hand side has no solution: {what}. Check that {balance}",
        InconsistentWarning,
    )


def _for_all_of_b(status: Status, inconsistency: float, b_norm: float, options: Options) -> Status:
    """Status of a solve for the b that was given, of which a part may be out of A's reach.

    Args:
        status: for the rest of b.
        inconsistency: the length of that part over that of b.
        b_norm: the length of the rest.
        options: of the solve.
    """
    if inconsistency <= CONSISTENT:
        return status
    rest = math.sqrt(max(0.0, 1.0 - inconsistency * inconsistency))
    if rest <= CONSISTENT:  # what is left of b is rounding, and so is what became of it
        return Status.INCOMPATIBLE_RHS
    whole = b_norm / rest
    missed = inconsistency * whole > options.limit(whole)
    return Status.INCOMPATIBLE_RHS if status.converged and missed else status
