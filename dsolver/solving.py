"""One solve in a session, from a right-hand side to its solution."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict, final

import numpy as np

from dsolver.admission import Guess
from dsolver.checkpoint import checkpoint_of
from dsolver.consistency import for_all_of_b, warn_inconsistent
from dsolver.containers import Container, container_of
from dsolver.drive import PATIENCE, Drive
from dsolver.errors import InputError
from dsolver.iteration import Follower, Tolerances
from dsolver.monitor.watch import Watch
from dsolver.notices import warn
from dsolver.nullspace import Excess
from dsolver.options import Options
from dsolver.preconditioners import Function
from dsolver.recovery import Keeper
from dsolver.session import Session
from dsolver.solution import Solution, Status

DOUBTFUL: Final = (Status.STAGNATED, Status.INDEFINITE, Status.NOT_FINITE, Status.DIVERGED)
"""Ends of a solve for which a preconditioner in float32 may be the reason."""
DOUBT: Final = 40
"""Iterations without progress after which multigrid in float32 may be the reason: more than it takes as a rule."""

History = Follower | Drive
"""What has the residuals of a solve."""


@final
@dataclass(frozen=True, kw_only=True)
class Load:
    """A right-hand side that a program has.

    Attributes:
        right: it.
        guess: where the solve begins.
        excess: what no x can reach of it.
        b_norm: the length of the rest.
        setup: seconds of a set-up that this solve is the first to use.
        began: when it was about to be loaded, by `time.perf_counter`.
        loaded: when it had been.
    """

    right: Container
    guess: Guess
    excess: Excess
    b_norm: float
    setup: float
    began: float
    loaded: float

    def judged(self, status: Status, tolerances: Tolerances) -> Status:
        """How a solve has ended for all of b, when it has ended so for what x can reach."""
        return for_all_of_b(status, self.excess.part, self.b_norm, tolerances)


def solved(session: Session, b: Any, x0: Any, options: Options) -> Solution:
    """Solve for a right-hand side and a first guess that `dsolver.admission` has seen.

    Raises:
        InputError: its values cannot be right, or the session is closed or in use.
        ClusterError: the cluster failed during the solve.
    """
    with session.in_use():
        keeper = Keeper(
            session.problem.grid,
            checkpoint_of(options.checkpoint),
            checkpoint_of(options.resume),
            cluster=session.runtime.client is not None,
        )
        return session.lasting(lambda: _attempt(session, b, keeper.guess(x0), options, keeper))


def loaded(session: Session, b: Any, x0: Any, column: int | None = None) -> Load:
    """Bring a right-hand side and a first guess to the program, or to a column of its batch.

    Raises:
        InputError: values are NaN, infinite, too large, or so small that b's norm is zero.
    """
    began, setup = time.perf_counter(), session.took
    partition, client = session.partition, session.runtime.client
    right = container_of("b", b, partition, client)
    guess: Guess = x0 if x0 is None or isinstance(x0, str) else container_of("x0", x0, partition, client)
    if isinstance(session.recipe, Function):
        session.recipe.host = right.host
    begun = session.begin(right, guess, column)
    warn_inconsistent(begun.excess)
    _check_norms(begun.b_norm, begun.x_norm)
    linear = session.problem.rule is None and not session.problem.singular
    if begun.b_norm == 0.0 and linear and not right.is_zero():
        raise InputError("b is not zero, but so small that its norm is zero: scale it, and x in return")
    return Load(
        right=right,
        guess=guess,
        excess=begun.excess,
        b_norm=begun.b_norm,
        setup=setup,
        began=began,
        loaded=time.perf_counter(),
    )


@final
class Allowances(TypedDict):
    """What a system and its right-hand side allow a `Drive`; see there."""

    patience: int
    singular: bool
    doubt: int | None
    slow: bool


def allowances(session: Session, load: Load) -> Allowances:
    """Those of a solve.

    A value takes as many iterations as there are points along the axes to cross the grid, and until it has the residual
    may stay as it is. Multigrid in float32 is given up sooner: there is float64 to go on with.
    """
    recipe = session.recipe
    return Allowances(
        patience=max(PATIENCE, sum(session.problem.grid)),
        singular=load.excess.closed > 0,
        doubt=DOUBT if session.spec.lowered and recipe.galerkin else None,
        slow=recipe.levels == 1 and not recipe.galerkin,
    )


def solution_of(
    session: Session, load: Load, told: History, status: Status, solve_seconds: float, column: int | None = None
) -> Solution:
    """What a solve has made of what was loaded; x is fetched, of a column if there is one."""
    x = session.x_like(load.right, *(() if column is None else ("give", column)))
    times = {"setup": load.setup, "load": load.loaded - load.began, "solve": solve_seconds}
    return Solution(
        x=x,
        status=status,
        iterations=len(told.residuals) - 1,
        residuals=tuple(told.residuals),
        true_residual=told.true_residual,
        b_norm=load.b_norm,
        closed_regions=load.excess.closed,
        timings={**times, "total": load.setup + time.perf_counter() - load.began},
        engine=session.described,
    )


def _attempt(session: Session, b: Any, guess: Any, options: Options, keeper: Keeper) -> Solution:
    """Solve, unless a worker is lost meanwhile."""
    load, job, runtime = loaded(session, b, guess), session.job, session.runtime
    watch = Watch(runtime.client, options.spans)
    watch.feed.start(what="solve", **session.about)
    progress = keeper.watching(job, runtime, session.partition, load.b_norm, options.progress)
    tolerances = options.tolerances()
    notes = keeper.notes
    follower = Follower(
        job,
        tolerances,
        load.b_norm,
        options.callback,
        progress,
        watch=watch,
        closely=options.checkpoint is not None,
        **allowances(session, load),
    )
    session.solving = load.right
    try:
        with watch:
            status = follower.run()
            if session.spec.lowered and status in DOUBTFUL:
                notes = (*notes, doubt(session, follower, status))
                session.precondition("float64")
                if spoiled(follower):
                    session.begin_again(load.guess)
                status = follower.resume()
            status = load.judged(status, tolerances)
            took = time.perf_counter() - load.loaded
            watch.end(str(status), len(follower.residuals) - 1, follower.true_residual)
            session.solving = None
            solution = solution_of(session, load, follower, status, took)  # while the end is told
    finally:
        session.solving = None
    return replace(solution, spans=watch.spans, exposure=watch.exposure, notes=notes)


def doubt(session: Session, told: History, status: Status) -> str:
    """Tell that a solve goes on with a preconditioner in float64; returns what it says."""
    note = (
        f"with precond_dtype={session.spec.precond_dtype!r} the solve ended as {status} after "
        f"{len(told.residuals) - 1} iterations, ‖b - Ax‖ = {told.true_residual:.2e}: it goes on with 'float64'"
    )
    warn(note, RuntimeWarning)
    return note


def spoiled(told: History) -> bool:
    """Whether x is no better than what a solve began with, or NaN."""
    return not told.true_residual <= told.residuals[0]


def _check_norms(b_norm: float, x_norm: float) -> None:
    for name, norm in (("b", b_norm), ("x0", x_norm)):
        if not np.isfinite(norm):
            raise InputError(f"{name} has values that are NaN or infinite, or so large that its norm is")
