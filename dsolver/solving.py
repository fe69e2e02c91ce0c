"""One solve in a session, from a right-hand side to its solution."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np

from dsolver.admission import Guess
from dsolver.checkpoint import checkpoint_of
from dsolver.consistency import for_all_of_b, warn_inconsistent
from dsolver.containers import Container, container_of
from dsolver.errors import InputError
from dsolver.iteration import PATIENCE, Drive, Tolerances
from dsolver.monitor.watch import Watch
from dsolver.notices import warn
from dsolver.nullspace import Excess
from dsolver.options import Options
from dsolver.partition import Triple
from dsolver.preconditioners import Function
from dsolver.recovery import Keeper
from dsolver.session import Session
from dsolver.solution import Solution, Status

DOUBTFUL: Final = (Status.STAGNATED, Status.INDEFINITE, Status.NOT_FINITE, Status.DIVERGED)
"""Ends of a solve for which a preconditioner in float32 may be the reason."""


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


def loaded(session: Session, b: Any, x0: Any) -> Load:
    """Bring a right-hand side and a first guess to the program.

    Raises:
        InputError: values are NaN, infinite, too large, or so small that b's norm is zero.
    """
    began, setup = time.perf_counter(), session.took
    job, partition, client = session.job, session.partition, session.runtime.client
    right = container_of("b", b, partition, client)
    guess: Guess = x0 if x0 is None or isinstance(x0, str) else container_of("x0", x0, partition, client)
    if isinstance(session.recipe, Function):
        session.recipe.host = right.host
    job.load("b", right.blocks())
    excess = Excess() if session.problem.singular is False else job.call("excess")
    warn_inconsistent(excess)
    session.begin(guess)
    b_norm, x_norm = job.call("norms")
    _check_norms(b_norm, x_norm)
    if b_norm == 0.0:
        if session.problem.rule is None and not session.problem.singular and not right.is_zero():
            raise InputError("b is not zero, but so small that its norm is zero: scale it, and x in return")
        job.call("fill", "x", 0.0)
    return Load(
        right=right,
        guess=guess,
        excess=excess,
        b_norm=b_norm,
        setup=setup,
        began=began,
        loaded=time.perf_counter(),
    )


def patience(grid: Triple) -> int:
    """Iterations without progress that a solve is allowed.

    A value takes as many as there are points along the axes to cross the grid, and until it has the residual may stay
    as it is.
    """
    return max(PATIENCE, sum(grid))


def solution_of(session: Session, load: Load, drive: Drive, status: Status, solve_seconds: float) -> Solution:
    """What a drive has made of what was loaded; x is fetched."""
    x = session.x_like(load.right)
    times = {"setup": load.setup, "load": load.loaded - load.began, "solve": solve_seconds}
    return Solution(
        x=x,
        status=status,
        iterations=len(drive.residuals) - 1,
        residuals=tuple(drive.residuals),
        true_residual=drive.true_residual,
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
    notes: tuple[str, ...] = ()
    drive = Drive(job, tolerances, load.b_norm, options.callback, progress, patience(session.problem.grid), watch)
    session.solving = load.right
    try:
        with watch:
            status = drive.run()
            if session.spec.lowered and status in DOUBTFUL:
                notes = (doubt(session, drive, status),)
                session.precondition("float64")
                if spoiled(drive):
                    session.begin_again(load.guess)
                status = drive.resume()
            status = load.judged(status, tolerances)
            watch.end(str(status), len(drive.residuals) - 1, drive.true_residual)
    finally:
        session.solving = None
    solution = solution_of(session, load, drive, status, time.perf_counter() - load.loaded)
    return replace(solution, spans=watch.spans, exposure=watch.exposure, notes=notes)


def doubt(session: Session, drive: Drive, status: Status) -> str:
    """Tell that a solve goes on with a preconditioner in float64; returns what it says."""
    note = (
        f"with precond_dtype={session.spec.precond_dtype!r} the solve ended as {status} after "
        f"{len(drive.residuals) - 1} iterations, ‖b - Ax‖ = {drive.true_residual:.2e}: it goes on with 'float64'"
    )
    warn(note, RuntimeWarning)
    return note


def spoiled(drive: Drive) -> bool:
    """Whether x is no better than what a solve began with, or NaN."""
    return not drive.true_residual <= drive.residuals[0]


def _check_norms(b_norm: float, x_norm: float) -> None:
    for name, norm in (("b", b_norm), ("x0", x_norm)):
        if not np.isfinite(norm):
            raise InputError(f"{name} has values that are NaN or infinite, or so large that its norm is")
