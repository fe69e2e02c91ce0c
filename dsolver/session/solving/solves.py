"""Solves in a session, from right-hand sides to solutions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dsolver.discretize.lifting import OutOfRangeError, times
from dsolver.errors import InputError, warn
from dsolver.session.checkpoints.checkpoint import checkpoint_of
from dsolver.session.operator import Residual
from dsolver.session.options import Options
from dsolver.session.recovery import Keeper
from dsolver.session.session import Session
from dsolver.session.solving import last_attempts
from dsolver.session.solving.attempt import attempt
from dsolver.session.solving.batching import grouped, why_not_together
from dsolver.session.solving.complex_sides import solved_in_parts
from dsolver.session.solving.loading import is_fed
from dsolver.session.solving.report import INSULATED
from dsolver.session.solving.second_attempts import find_pieces
from dsolver.session.user_arrays import is_complex
from dsolver.session.user_arrays.several import Pairs, RightHandSides, together
from dsolver.solution import Solution, Solutions
from dsolver.status import Status

LEAST_RTOL: Final = 2.0**-23  # smallest rtol of systems in float32: half a unit in the last place of each item of x
FLOAT32_RTOL: Final = 1e-5  # tolerance in place of smaller ones


def solved(session: Session, sides: RightHandSides, options: Options) -> Solution | Solutions:
    """The solution of one right-hand side, or those of several; raises as `solve_all`."""
    found = solve_all(session, sides.pairs, options)
    if not sides.several:
        return found[0]
    # What a residual keeps is the user's array, not what was made of it.
    found = [replace(one, remade=Residual(session, b)) for one, b in zip(found, sides.given, strict=True)]
    return Solutions(found, together([one.x for one in found], sides.b))


def solve_all(session: Session, pairs: Pairs, options: Options) -> list[Solution]:
    """Solutions for right-hand sides and guesses that were looked at; raises as `dsolver.solve`."""
    notes: tuple[str, ...] = ()
    if session.spec.dtype == "float32" and options.rtol < LEAST_RTOL and not options.atol:
        notes = (f"rtol={options.rtol:g} is out of reach in float32: {FLOAT32_RTOL:g} was taken",)
        options = replace(options, rtol=FLOAT32_RTOL)
    solutions = _solved_all(session, pairs, options)
    solutions = [replace(each, notes=(*notes, *each.notes)) for each in solutions] if notes else solutions
    return [replace(each, remade=Residual(session, b)) for each, (b, _) in zip(solutions, pairs, strict=True)]


def _solved_all(session: Session, pairs: Pairs, options: Options) -> list[Solution]:
    """As `solve_all`, of solutions that cannot make their residuals."""
    if not session.problem.complex and any(is_complex(values) for pair in pairs for values in pair):
        if is_fed(session.problem):
            raise InputError(
                "b is complex, and values at faces or in cells are real: give one of these as a complex number, "
                "such as Dirichlet(1.0 + 0j)"
            )
        return solved_in_parts(lambda parts, each: _solved_all(session, parts, each), pairs, options)
    groups, note = grouped(session, pairs, options)
    several = len(pairs) > 1
    solutions = [
        solution
        for number, group in enumerate(groups)
        for solution in _in_range(session, group, _with_own_saves(options, number) if several else options)
    ]
    return [replace(solution, notes=(*solution.notes, note)) for solution in solutions] if note else solutions


def _with_own_saves(options: Options, number: int) -> Options:
    """Options of one of several right-hand sides, of which each has saves of its own."""
    saves, resumed = checkpoint_of(options.checkpoint), checkpoint_of(options.resume)
    return replace(options, checkpoint=saves and saves.of(number), resume=resumed and resumed.of(number))


def _in_range(session: Session, pairs: Pairs, options: Options) -> list[Solution]:
    """Solve for right-hand sides, of which any that are too small or too large are multiplied by a power of two."""
    lift = session.lift
    try:
        if not lift:
            return _solved(session, pairs, options)
        lifted = [(times(b, lift), x0) for b, x0 in pairs]
        return _lowered(_solved(session, lifted, replace(options, atol=times(options.atol, lift))), lift)
    except OutOfRangeError as error:
        exponent = error.exponent
    if len(pairs) > 1:
        return [solution for pair in pairs for solution in _in_range(session, [pair], options)]
    session.lift += exponent
    try:
        return _in_range(session, pairs, options)
    finally:
        session.lift = 0


def _lowered(solutions: Sequence[Solution], exponent: int) -> list[Solution]:
    """Solutions for lifted right-hand sides, whose x is right already, with the residuals of those that were given."""
    return [
        replace(
            each,
            residuals=tuple(times(norm, -exponent) for norm in each.residuals),
            true_residual=times(each.true_residual, -exponent),
            b_norm=times(each.b_norm, -exponent),
            limit=times(each.limit, -exponent),
        )
        for each in solutions
    ]


def _solved(session: Session, pairs: Pairs, options: Options) -> list[Solution]:
    """Solve for right-hand sides at once, or one by one where that ends with another method to take, or M to keep.

    The method may have no kernels for several any more: factors have been bought, or a group before has changed it.
    """
    last_attempts.buy_factors(session)
    alone = len(pairs) > 1 and why_not_together(session, options)
    found = None if alone else _together(session, pairs, options)
    if found is None:
        found = [solution for pair in pairs for solution in _together(session, [pair], options) or ()]
    lost = [number for number, solution in enumerate(found) if last_attempts.needs_factors(session, solution, options)]
    if lost and last_attempts.take_factors(session, last_attempts.why_factors(found[lost[0]])):
        for number in lost:
            for solution in _together(session, [pairs[number]], options) or ():
                found[number] = min(found[number], solution, key=lambda each: each.true_residual)
    for needed, fine in ((last_attempts.needs_least_squares, False), (last_attempts.is_of_unclear_rank, True)):
        for number, solution in enumerate(found):
            if needed(session, solution, options) and last_attempts.take_least_squares(session, fine=fine):
                for other in _together(session, [pairs[number]], options) or ():
                    found[number] = other if last_attempts.is_better(other, solution) else solution
    return found


def _together(session: Session, pairs: Pairs, options: Options) -> list[Solution] | None:
    """Solve for right-hand sides at once; where a worker is lost, go on without it. None where it has to be anew."""
    with session.in_use():
        stores = checkpoint_of(options.checkpoint), checkpoint_of(options.resume)
        cluster = session.runtime.client is not None
        keeper = Keeper(session.given, len(pairs), *stores, cluster=cluster)
        return session.with_recovery(lambda: _with_pieces(session, pairs, options, keeper))


def _with_pieces(session: Session, pairs: Pairs, options: Options, keeper: Keeper) -> list[Solution] | None:
    """As `attempt`; where that fails since pieces of a matrix float that were not looked for, once more, with these.

    A warning where they do not float, and are hardly joined to the rest.

    To look for them takes a tenth of a large set-up, and nearly all matrices have none.
    """
    solutions = attempt(session, pairs, options, keeper)
    ends = {solution.status for solution in solutions or ()}
    insulated = any(INSULATED in solution.notes for solution in solutions or ())
    if (ends <= {Status.CONVERGED, Status.STOPPED} and not insulated) or not find_pieces(session):
        if insulated:
            warn(INSULATED, RuntimeWarning)
        return solutions
    failed = next((end for end in ends if not end.converged), Status.CONVERGED)
    note = (
        f"the first attempt ended as {failed}: A has pieces that nothing fixes, connected rows that add up to zero. x "
        f"has mean zero in each of them, and b is balanced there"
    )
    keeper.notes += (note,)
    return attempt(session, pairs, options, keeper)
