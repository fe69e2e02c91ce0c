"""An attempt at a solve: columns are brought and followed to their ends; what became of each is a solution."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dsolver.monitor.watch import Watch
from dsolver.program.terms import Terms
from dsolver.session.follower import Follower
from dsolver.session.notes import notes_of
from dsolver.session.options import Options
from dsolver.session.recovery import Keeper
from dsolver.session.session import Session
from dsolver.session.solving import second_attempts
from dsolver.session.solving.advice import advice_on
from dsolver.session.solving.loading import StartedSolve, given_column, start
from dsolver.session.solving.report import (
    asymmetric,
    case_of,
    for_all_of_b,
    insulated,
    of_cells,
    sealed,
    solved_by,
    uneven,
)
from dsolver.session.user_arrays.several import Pairs
from dsolver.session.vectors import scaled, shift, solution
from dsolver.solution import Solution
from dsolver.status import Status

LOST: Final = "the cluster has lost a worker on the way: the solve began again from the iterate kept last"
"""Note on a solve that has outlived a worker."""

Notes = tuple[str, ...]


def attempt(session: Session, pairs: Pairs, options: Options, keeper: Keeper) -> list[Solution] | None:
    """Solve, unless a worker is lost meanwhile; None where the columns have to be solved one by one."""
    began, setup, renewal = time.perf_counter(), session.took, session.system.renewal
    given = [given_column(session, b, keeper.guess(i, x0)) for i, (b, x0) in enumerate(pairs)]
    watch = Watch(session.runtime.client, options.spans, session.feed.begin())
    closely = options.checkpoint is not None or watch.asked
    terms, slice_seconds = _terms(session, options, closely=closely), 0.0 if closely else session.program.stride
    with watch:
        started = start(session, given, terms, slice_seconds)
        loads, loaded = started.loads, time.perf_counter() - started.seconds
        follower = Follower(
            session.program,
            [terms.control(session.spec, load.begun) for load in loads],
            slice_seconds,
            callback=options.callback,
            progress=keeper.watching(session.system, loads[0].begun.b_norm, options.progress, shift(session)),
            watch=watch,
        )
        notes = _followed(session, started, follower, keeper, options)
        if notes is None:
            first = follower.histories[0]
            watch.end(str(first.ended), first.iterations, first.true_residual)
            return None
        times = {"setup": setup, "load": loaded - began, "solve": time.perf_counter() - loaded}
        times |= {"lost": session.lost} if session.lost else {}
        ends = [
            for_all_of_b(session, load, history.ended, options)
            for load, history in zip(loads, follower.histories, strict=True)
        ]
        slowest = follower.histories[follower.slowest]
        failed = next((end for end in ends if not end.converged), Status.CONVERGED)
        session.learnt = session.learnt if failed in (Status.CONVERGED, Status.STOPPED) else {}
        if session.system.renewal is renewal:  # with one M from beginning to end
            renewal.solved(slowest.residuals, converged=failed is Status.CONVERGED)
            if failed is Status.CONVERGED and not loads[0].begun.excess.closed:
                session.rent.pay(loads[0].begun.chosen, slowest.iterations, len(loads))
        watch.end(str(failed), slowest.iterations, slowest.true_residual)
        x = _solved_columns(session, started)
    ended = _Ended(
        session=session,
        options=options,
        started=started,
        follower=follower,
        ends=ends,
        x=x,
        watch=watch,
        lopsided=asymmetric(session, ends),
        before=sealed(loads[0].begun.excess) + keeper.notes + ((LOST,) if session.lost else ()),
        of_columns=notes,
        times={**times, "total": setup + session.lost + time.perf_counter() - began},
    )
    return [ended.solution(column) for column in range(len(loads))]


def _terms(session: Session, options: Options, *, closely: bool) -> Terms:
    """Terms of a solve: tolerances, iterations, and how closely it is followed."""
    return Terms(
        rtol=options.rtol,
        atol=options.atol,
        maxiter=options.iterations,
        interruptible=options.callback is not None,
        replaceable=second_attempts.replaceable(session),
        kept=session.system.renewal.rate or 0.0 if session.system.renewal.kept else None,
        patience=session.reserve and session.reserve.further,
        closely=closely,
    )


def _followed(
    session: Session, started: StartedSolve, follower: Follower, keeper: Keeper, options: Options
) -> Mapping[int, Notes] | None:
    """Follow columns to their ends: notes on some of them; None where the columns have to be solved one by one."""
    loads = started.loads
    session.solving = loads[0].right
    try:
        follower.run(started.slices)
        anew = second_attempts.try_other_preconditioner(session, loads, follower, keeper, options)
        notes = {} if anew else second_attempts.try_float64(session, loads, follower, options)
        return None if anew or second_attempts.try_other_method(session, loads, follower, keeper, options) else notes
    finally:
        session.solving = None


def _solved_columns(session: Session, started: StartedSolve) -> list[Any]:
    """x of each column in its user's form."""
    if started.x is not None:
        return [scaled(session, started.loads[0].right, started.x)]
    return [solution(session, load.right, column) for column, load in enumerate(started.loads)]


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """An attempt that has ended."""

    session: Session
    options: Options
    started: StartedSolve
    follower: Follower
    ends: Sequence[Status]  # of each column, as its x
    x: Sequence[Any]
    watch: Watch
    times: dict[str, float]  # seconds
    before: Notes  # on all columns
    of_columns: Mapping[int, Notes]  # on some
    lopsided: Notes  # on those that have not converged

    def solution(self, column: int) -> Solution:
        """The solution of a column."""
        session, load, history = self.session, self.started.loads[column], self.follower.histories[column]
        end, begun = self.ends[column], load.begun
        return Solution(
            x=self.x[column],
            status=end,
            advice=advice_on(case_of(session, load, history, end, self.options)),
            iterations=history.iterations,
            residuals=tuple(history.residuals),
            true_residual=history.true_residual,
            b_norm=begun.b_norm,
            limit=self.options.limit(begun.b_norm),
            closed_regions=begun.excess.closed,
            timings=dict(self.times),
            engine=session.system.described,
            solved_by=solved_by(session, load),
            spans=self.watch.spans,
            exposure=self.watch.exposure,
            problem=of_cells(session.given),
            notes=(
                *notes_of(session),
                *begun.chosen.remarks,
                *self.before,
                *self.of_columns.get(column, ()),
                *history.notes,
                *insulated(load, end),
                *uneven(session, load, history, self.options),
                *(() if end.converged else self.lopsided),
            ),
        )
