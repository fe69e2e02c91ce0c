"""Check of a function for A: what the matrix for M makes zero, it makes zero."""

from functools import partial
from typing import Final

from dsolver.distributed.nullspace import dots
from dsolver.engines.base import Engine, PerChunk
from dsolver.errors import InputError
from dsolver.kernels.contract import LOAD, WAXPBY
from dsolver.krylov.method import KrylovMethod
from dsolver.preconditioners.relaxation.chebyshev import noise
from dsolver.program.batches.column import Sides

FIXED: Final = 1e-6  # ‖A n‖ over ‖A v‖, for a part n of a vector v, up to which A makes n zero


def check_null_space(engine: Engine, layout: PerChunk, method: KrylovMethod, sides: Sides) -> None:
    """Refuse a function for A under which null vectors of M's matrix, which b and x have none of, do not vanish."""
    squares, parts = [], engine.partial_sums()
    v, av = method.work
    engine.run(LOAD, layout, engine.per_chunk(partial(noise, engine.partition)), v)
    for _ in range(2):  # of a rough vector, and of its part in the null space
        method.operator.multiply(v, av)
        squares.append(dots(engine, parts, (av, av), (v, v)))
        engine.run(WAXPBY, 1.0, v, -1.0, sides.centered(v), v)
    (rough, _), (left, of_part) = squares
    if left > FIXED**2 * rough and of_part == 0.0:
        raise InputError("A is not linear: A(0) is not 0. What does not depend on x belongs to b")
    if left > FIXED**2 * rough:
        raise InputError(
            "M_from is singular, and A is not: b and x would lose what M_from makes zero. Add something to the "
            "diagonal of M_from"
        )
