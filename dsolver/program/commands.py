"""Commands beside solves, run on every rank: A and M applied to one vector, and facts about what was made."""

from dataclasses import replace

from dsolver.engines.running_program import Blocks
from dsolver.kernels import Backend
from dsolver.kernels.formats.choice import Choice
from dsolver.multigrid.level import Level
from dsolver.multigrid.summary import LevelSummary, summary_of
from dsolver.program.prepared import PreparedProgram
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


def hierarchy(program: PreparedProgram) -> tuple[LevelSummary, ...]:
    """The preconditioner's levels in numbers, finest first; empty where it is no multigrid, or the benchmark's."""
    levels = program.prepared.site.levels
    if not all(isinstance(level, Level) for level in levels):
        return ()
    values = program.spec.precond_dtype if program.spec.lowered else program.spec.dtype
    return tuple(replace(summary_of(level), values=values) for level in levels)


def formats(program: PreparedProgram) -> Blocks:
    """The format in which each chunk's rows of a general matrix are stored, and why, by chunk number."""
    return program.engine.fetch(program.engine.per_chunk(_format, program.prepared.site.chunks.at("local", "choice")))


def _format(_: Backend, __: int, choice: Choice) -> str:
    return str(choice)
