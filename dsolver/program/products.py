"""Commands that apply M and A to one vector: functions of a `Solve`, run on every rank."""

from __future__ import annotations

from dsolver.engines.running_program import Blocks
from dsolver.program.solve import Solve


def precondition_vector(program: Solve, blocks: Blocks) -> None:
    """x = M b in the only column, where b becomes the given vector."""
    method = program.method
    program.vectors.load(blocks, program.layout, method.b)
    program.prepared.sides.turn(method.b)
    method.precondition(method.b, method.x)


def multiply_vector(program: Solve, blocks: Blocks) -> None:
    """b = A x in the only column, where x becomes the given vector; of the matrix that was given."""
    method = program.method
    program.vectors.load(blocks, program.layout, method.x)
    program.prepared.sides.clear(method.x)
    (method.given or method.operator).multiply(method.x, method.b)
    program.prepared.sides.turn(method.b)


def product(program: Solve, *, host: bool = False) -> Blocks:
    """The result of `multiply_vector` as blocks by chunk number; host: NumPy arrays are wanted."""
    return program.unloaded(program.method.b, host=host)


def residual(program: Solve, *, host: bool = False) -> Blocks:
    """b - A x of the only column, whose b and x are set, as blocks by chunk number; host: as of `product`."""
    program.method.residual()
    program.prepared.sides.turn(program.method.r)
    return program.unloaded(program.method.r, host=host)


def preconditioned(program: Solve, *, host: bool = False) -> Blocks:
    """The result of `precondition_vector` as blocks by chunk number; host: NumPy arrays are wanted."""
    return program.unloaded(program.method.x, host=host)
