"""Several right-hand sides: together where there are kernels and memory for it, else one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from dsolver import devices
from dsolver.batch import AT_ONCE, numbered
from dsolver.containers import check_order
from dsolver.drive import Drive
from dsolver.errors import InputError
from dsolver.estimation import of_spec
from dsolver.memory import amount
from dsolver.monitor.watch import Watch
from dsolver.options import Options
from dsolver.partition import Triple
from dsolver.session import Session
from dsolver.solution import Solution, Status
from dsolver.solving import DOUBTFUL, allowances, doubt, loaded, solution_of, solved, spoiled

ALONE: Final = ("callback", "progress", "spans", "checkpoint", "resume")
"""Options that look into one solve."""
SPARE: Final = 0.9
"""Part of the free memory that may be taken."""

Pairs = Sequence[tuple[Any, Any]]
"""A right-hand side and a first guess each."""


def are_several(b: Any) -> bool:
    """Whether b is several right-hand sides."""
    if isinstance(b, list | tuple):
        return bool(b) and all(hasattr(values, "shape") for values in b)
    return getattr(b, "ndim", 3) == 4


def pairs_of(b: Any, x0: Any, grid: Triple) -> Pairs:
    """Each right-hand side with its first guess.

    Raises:
        InputError: there are no right-hand sides, not as many guesses, or arrays whose first axis does not count them.
    """
    for name, values in (("b", b), ("x0", x0)):
        check_order(name, values)
        shape = tuple(getattr(values, "shape", (0, *grid)))  # elements of lists are looked at one by one
        if len(shape) == 4 and shape[1:] != grid:
            raise InputError(
                f"{name} has shape {shape}, but several for the grid {grid} have (m, nx, ny, nz): the axis that counts "
                f"them is the first"
            )
    if len(b) == 0:
        raise InputError("b has no right-hand side: its first axis has length 0")
    if x0 is None or isinstance(x0, str):
        return [(values, x0) for values in b]
    if not are_several(x0) or len(x0) != len(b):
        raise InputError(f"x0 must be {len(b)} guesses like b, a list or an array with one more dimension in front")
    return list(zip(b, x0, strict=True))


def solved_all(session: Session, pairs: Pairs, options: Options) -> list[Solution]:
    """Solve for right-hand sides that `dsolver.admission` has seen: as many at once as there is room for, or none.

    Raises:
        InputError, ClusterError: as of `dsolver.solving.solved`.
    """
    reason = why_not_together(session, options)
    at_once = 1 if reason else room(session, min(len(pairs), AT_ONCE))
    if at_once < 2:
        solutions = [solved(session, b, x0, options) for b, x0 in pairs]
        if len(pairs) < 2:
            return solutions
        note = f"solved one after the other: {reason or shortage_of(session)}"
        return [replace(solution, notes=(*solution.notes, note)) for solution in solutions]
    # Kernels are compiled for each width, so groups are equal where that goes, else all but the last as wide as there
    # is room for: that is one width, or two, and a single one that is left needs none.
    groups = -(-len(pairs) // at_once)
    width = at_once if len(pairs) % groups else len(pairs) // groups
    parts = [pairs[first : first + width] for first in range(0, len(pairs), width)]
    return [solution for part in parts for solution in solved_together(session, part, options)]


def why_not_together(session: Session, options: Options) -> str:
    """Why several right-hand sides cannot be solved at once; empty if they can."""
    if session.runtime.engine == "graph":
        return "engine='graph' has no kernels for several vectors"
    if not session.recipe.batchable:
        return f"M={session.recipe} has no kernels for several vectors"
    asked = [name for name in ALONE if getattr(options, name) is not None]
    return f"{asked[0]}= looks into one solve" if asked else ""


def room(session: Session, wanted: int) -> int:
    """How many of so many right-hand sides can be solved at once, before anything is allocated for them.

    The reach of row numbers bounds that, and on GPUs the memory that is left.
    """
    wanted = min(wanted, numbered(session.partition))
    if session.runtime.device != "cuda" or wanted <= session.columns:
        return wanted
    for reclaim in (False, True):  # what nothing uses any more is given back before there are fewer
        free = devices.free_memory_of(session.runtime.client, session.runtime.workers, reclaim=reclaim)
        if _fits(session, wanted, free):
            return wanted
    more = range(wanted - 1, session.columns, -1)
    return next((count for count in more if _fits(session, count, free)), session.columns)


def bytes_of(session: Session, count: int) -> tuple[int, ...]:
    """Bytes of each worker that so many right-hand sides take beside the system when they are solved at once."""
    alone, together = (of_spec(session.spec, session.runtime, together=n).workers for n in (0, count))
    return tuple(more.resident + more.blocks - one.resident for one, more in zip(alone, together, strict=True))


def _fits(session: Session, count: int, free: Sequence[int]) -> bool:
    return all(needed <= SPARE * left for needed, left in zip(bytes_of(session, count), free, strict=False))


def shortage_of(session: Session) -> str:
    """Why not even two of them have room, with the numbers."""
    if numbered(session.partition) < 2:
        return "their rows are more than can be numbered"
    free = devices.free_memory_of(session.runtime.client, session.runtime.workers)
    return f"memory is short: two together need {amount(max(bytes_of(session, 2)))} more, {amount(min(free))} are free"


def solved_together(session: Session, pairs: Pairs, options: Options) -> list[Solution]:
    """Solve for several right-hand sides at once."""
    if len(pairs) == 1:
        return [solved(session, *pairs[0], options)]
    with session.in_use():
        return session.lasting(lambda: _attempt(session, pairs, options))


def _attempt(session: Session, pairs: Pairs, options: Options) -> list[Solution]:
    """Solve for all of them, unless a worker is lost meanwhile."""
    began, job, tolerances = time.perf_counter(), session.job, options.tolerances()
    session.widen(len(pairs))
    loads = []
    for number, (b, x0) in enumerate(pairs):
        loads.append(loaded(session, b, x0, number))
    start = time.perf_counter()
    together = [replace(load, setup=loads[0].setup, began=began, loaded=start) for load in loads]
    drives = {
        number: Drive(
            limit=tolerances.limit(load.b_norm),
            b_norm=load.b_norm,
            maxiter=tolerances.maxiter,
            **allowances(session, load),
        )
        for number, load in enumerate(together)
    }
    watch = Watch(session.runtime.client, None)
    watch.feed.start(what="solve", **session.about)
    with watch:
        found = job.call("conduct", drives)
        doubtful = [number for number, (end, _) in found.items() if session.spec.lowered and end in DOUBTFUL]
        notes = {number: doubt(session, found[number][1], found[number][0]) for number in doubtful}
        if doubtful:
            session.precondition("float64")
            for number in filter(lambda number: spoiled(found[number][1]), doubtful):
                job.call("give", number)
                session.begin_again(together[number].guess)
                job.call("take", number)
            found |= job.call("conduct_again", {number: found[number][1] for number in doubtful})
        slowest = max((drive for _, drive in found.values()), key=lambda drive: len(drive.residuals))
        watch.end(_of_all(status for status, _ in found.values()), len(slowest.residuals) - 1, slowest.true_residual)
    took = time.perf_counter() - start
    solutions = []
    for number, load in enumerate(together):
        status, drive = found[number]
        solution = solution_of(session, load, drive, load.judged(status, tolerances), took, number)
        solutions.append(replace(solution, notes=(notes[number],)) if number in notes else solution)
    return solutions


def _of_all(statuses: Iterable[Status]) -> str:
    """Of several: the first that did not converge."""
    return str(next((status for status in statuses if not status.converged), Status.CONVERGED))
