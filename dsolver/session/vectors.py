"""Vectors of a session as its user has them: x of a solve, and products with A and M."""

from typing import Any

from dsolver.discretize.lifting import lowered, times
from dsolver.engines.dask.blocks import gather_blocks
from dsolver.engines.running_program import Blocks
from dsolver.errors import InputError
from dsolver.matrices.problem import MatrixProblem
from dsolver.problems.functions import UserFunction
from dsolver.program import commands
from dsolver.program.solve import Solve
from dsolver.session.session import Session
from dsolver.session.user_arrays import Container, container_of, is_complex


def exponent(session: Session) -> int:
    """Exponent of two by which the program's A was multiplied."""
    return session.given.exponent if isinstance(session.given, MatrixProblem) else 0


def shift(session: Session) -> int:
    """Exponent of two by which the program's x is to be multiplied: that of its A over that of its b."""
    return exponent(session) - session.lift


def functions(session: Session) -> tuple[UserFunction, ...]:
    """Functions of the user's."""
    m = session.wishes.m
    called = [getattr(each, "called", None) for each in (m, *getattr(m, "parts", ()))]
    return tuple(each for each in (session.problem.operator, *called) if each is not None)


def expect(session: Session, *, host: bool) -> None:
    """Take notice of whether right-hand sides come in NumPy arrays."""
    for function in functions(session):
        function.expect(host=host)


def solution(session: Session, right: Container, column: int = 0) -> Any:
    """x of a column, in the kind of array that its right-hand side came in."""
    return scaled(session, right, _brought(session, right, Solve.solution, column))


def scaled(session: Session, right: Container, blocks: Blocks) -> Any:
    """x of the given matrix from blocks, in a right-hand side's kind of array. InputError: x has no finite numbers."""
    return lowered(_like(session, right, blocks), shift(session), here=right.here)


def iterate(session: Session) -> Any:
    """Newest iterate of the solve that is running, like its b. InputError: none is running."""
    if session.solving is None:
        raise InputError("no solve is running: call this in a callback")
    return solution(session, session.solving)


def preconditioned(session: Session, right: Container) -> Any:
    """M r for a vector r, in r's kind of array. Raises as `product`."""

    def applied() -> Any:
        session.program.load("r", right.blocks(), commands.precondition_vector)
        return scaled(session, right, _brought(session, right, commands.preconditioned))

    return session.used(applied)


def product(session: Session, x: Any) -> Any:
    """A x, in x's kind of array, as of the matrix that was given.

    InputError: x is no vector of the problem; a solve is going on, or the session is closed. ClusterError: the cluster
    failed.
    """
    if is_complex(x) and not session.problem.complex:
        return product(session, x.real) + 1j * product(session, x.imag)
    right = container_of("x", x, session.partition, session.runtime.client, session.given)
    right.check()

    def multiplied() -> Any:
        expect(session, host=right.host)
        session.program.load("x", right.blocks(), commands.multiply_vector)
        return times(_like(session, right, _brought(session, right, commands.product)), -exponent(session))

    return session.used(multiplied)


def residual(session: Session, b: Any, x: Any) -> Any:
    """b - A x like b, less the part of b that no x can reach, and with what boundaries add. Raises as `product`."""
    if is_complex(b) and not session.problem.complex:
        return residual(session, b.real, x.real) + 1j * residual(session, b.imag, x.imag)
    where: Any = session.partition, session.runtime.client, session.given
    right, at = container_of("b", b, *where), container_of("x", times(x, -shift(session)), *where)

    def computed() -> Any:
        expect(session, host=right.host)
        session.program.load("x", at.blocks(), Solve.set_x)
        session.program.load("b", right.blocks(), Solve.set_b)
        return _like(session, right, _brought(session, right, commands.residual))

    return session.used(computed)


def _brought(session: Session, right: Container, command: Any, *args: Any) -> Blocks:
    """Blocks that a command makes, for the kind of array of a vector."""
    take = session.program.fetch if right.here else session.program.unload
    return take(command, *args, host=right.host)


def _like(session: Session, right: Container, blocks: Blocks) -> Any:
    """Blocks as an array of the kind that a vector came in."""
    client, workers = session.runtime.client, session.runtime.workers
    return right.like(gather_blocks(client, blocks, workers) if right.here else blocks)
