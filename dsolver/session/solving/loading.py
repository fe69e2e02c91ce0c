"""Right-hand sides and first guesses, brought to a program and looked at; with the last of them a solve starts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsolver.discretize.lifting import LARGEST, OutOfRangeError, exponent_for, times
from dsolver.distributed.nullspace import CONSISTENT, Inconsistency
from dsolver.engines.running_program import Blocks
from dsolver.errors import InconsistentWarning, InputError, warn
from dsolver.grid.box import Triple, three
from dsolver.matrices.problem import MatrixProblem
from dsolver.problems import Problem
from dsolver.problems.finite_volumes import Diffusion
from dsolver.program.loop import Slice
from dsolver.program.solve import Guess, Solve
from dsolver.program.terms import Begun, Terms
from dsolver.session.arguments import FMG, FirstGuess, check_guess
from dsolver.session.session import Session
from dsolver.session.user_arrays import Container, container_of
from dsolver.session.vectors import expect, shift


@dataclass(frozen=True, kw_only=True)
class GivenColumn:
    """A right-hand side and its first guess, before the program has them."""

    right: Container
    guess: FirstGuess


@dataclass(frozen=True, kw_only=True)
class LoadedColumn:
    """A column of the program whose b and x are set: right-hand side, first guess, and what was found of them."""

    right: Container
    guess: FirstGuess
    begun: Begun


@dataclass(frozen=True, kw_only=True)
class StartedSolve:
    """A solve that has begun."""

    loads: Sequence[LoadedColumn]  # its columns
    slices: Sequence[Slice]  # of each, the first time slice
    seconds: float  # that the slice took
    x: Blocks | None  # of a single column that is solved already


def given_column(session: Session, b: Any, x0: Any) -> GivenColumn:
    """A user's right-hand side and guess in containers. InputError: no such arrays, or NaN or infinite values here."""
    partition, client = session.partition, session.runtime.client
    dtype = np.dtype(session.spec.dtype)
    right = container_of("b", b, partition, client, session.given, dtype=dtype)
    guess: FirstGuess = None
    if x0 is not None:
        values = x0 if isinstance(x0, str) else times(x0, -shift(session))
        guess = (
            FMG if isinstance(x0, str) else container_of("x0", values, partition, client, session.given, dtype=dtype)
        )
    check_guess(session.first.m, x0)
    if isinstance(guess, str) and not session.wishes.m.can.guesses:  # it has taken the place of the first one
        guess = None
    expect(session, host=right.host)
    return GivenColumn(right=right, guess=guess)


def start(session: Session, given: Sequence[GivenColumn], terms: Terms, seconds: float) -> StartedSolve:
    """Bring columns; the load of the last runs the first time slice, too. InputError: values make no sense."""
    *before, last = given
    program, width, loads = session.program, len(given), []
    for column, each in enumerate(before):
        name = _guessed(session, each.guess, column, width)
        begun = program.load("b", each.right.boxes(), Solve.begin, name, column, width, session.lift)
        _loaded(session, width)
        loads.append(_looked_at(session, each, begun))
    right, name = last.right, _guessed(session, last.guess, width - 1, width)
    more = name, width - 1, width, session.lift, terms, seconds
    started, x = program.exchange("b", right.boxes(), right.here, Solve.load_and_solve, *more, host=right.host)
    _loaded(session, width)
    loads.append(_looked_at(session, last, started.begun))
    return StartedSolve(loads=loads, slices=started.slices, seconds=started.seconds, x=x)


def _guessed(session: Session, guess: FirstGuess, column: int, width: int) -> Guess:
    """Name of a first guess, whose values are brought to the program."""
    if isinstance(guess, Container):
        session.program.bring("x0", guess.boxes(), Solve.set_x, column, width)
        return "x"
    return guess or "zero"


def _loaded(session: Session, width: int) -> None:
    """Note that a column is there."""
    if width > 1:
        session.system.columns = width
    session.took = 0.0


def _looked_at(session: Session, given: GivenColumn, begun: Begun) -> LoadedColumn:
    """A column with what was found of it, unless that is refused."""
    right, guess = given.right, given.guess
    b_norm = math.inf if math.isinf(begun.excess.part) else begun.b_norm
    for name, norm, values in (("b", b_norm, right), ("x0", begun.x_norm, guess)):
        if not np.isfinite(norm):
            if isinstance(values, Container) and session.problem.all_count:
                values.examine()
            message = f"{name} has values that are NaN or infinite, or so large that its norm is infinite"
            if values is None:
                message = (
                    "x is so large, in rows that have a diagonal alone, that its norm is infinite: divide b, or "
                    "multiply these rows, by a power of ten"
                )
            if name == "b" and math.isinf(norm) and session.lift > -LARGEST:
                raise OutOfRangeError(message, exponent_for(norm, session.spec.dtype))
            raise InputError(message)
    _warn_inconsistent(begun.excess, session.given, rounding_of(session, right))
    if begun.b_norm or (
        begun.excess.part == 0.0 and session.lift < LARGEST and (is_fed(session.problem) or not right.is_zero())
    ):
        exponent = exponent_for(begun.b_norm, session.spec.dtype)
        if exponent:
            raise OutOfRangeError("b is so small, or so large, that its norm has lost its digits", exponent)
    return LoadedColumn(right=right, guess=guess, begun=begun)


def is_fed(problem: Problem) -> bool:
    """Whether something is added to b, such as values at faces."""
    grid = problem.of_grid if isinstance(problem, MatrixProblem) else problem
    rule = grid and grid.rule
    return isinstance(rule, Diffusion) and (rule.held != 0.0 or any(each.feeds for each in rule.boundary.conditions))


def rounding_of(session: Session, right: Container) -> float:
    """Part of a right-hand side that rounding may leave out of A's reach: of its type, or of that of the solve."""
    return max(CONSISTENT, right.rounding, float(np.finfo(session.spec.dtype).epsneg))


def _warn_inconsistent(excess: Inconsistency, problem: Problem, rounding: float) -> None:
    """Tell that there was no solution for the b that was given; rounding: as large a part of it may be."""
    if excess.part <= rounding:
        return
    regions, source = "closed regions", "the source"
    if isinstance(problem, MatrixProblem) and problem.of_grid is None:
        regions, source = "pieces of the matrix that nothing fixes", "b"
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
            f"in {excess.closed} {regions} constants solve A x = 0, and the sum of b should be zero; in all together "
            f"it misses that by {excess.part:.1e} of ‖b‖, in none by much. A constant was subtracted from {source} in "
            f"each"
        )
    else:
        what = (
            f"in {regions} constants solve A x = 0, and the sum of b should be zero, but it is not in "
            f"{excess.regions} of {excess.closed}; in the worst, that of {_place(excess.cell, problem)}, it is "
            f"{excess.worst:.1e} of ‖1‖ ‖b‖. A constant was subtracted from {source} in each"
        )
    warn(f"the right-hand side has no solution: {what}. Check that {balance}", InconsistentWarning)


def _place(cell: Triple, problem: Problem) -> str:
    """A cell of a grid, or a row of a matrix as its user counts."""
    if isinstance(problem, MatrixProblem) and problem.of_grid is not None:
        cell = three("cell", np.unravel_index(cell[0], problem.of_grid.grid))
    elif isinstance(problem, MatrixProblem):
        return f"row {cell[0] if problem.numbers is None else problem.numbers[cell[0]]}"
    return f"cell {cell[: problem.dimensions]}"
