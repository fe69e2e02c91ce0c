"""Part of a right-hand side that no x can reach, as a solve finds it."""

import math
from collections.abc import Callable
from typing import Final

from dsolver.distributed.nullspace import dots
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels.contract import LOAD, WAXPBY
from dsolver.krylov.method import KrylovMethod

NULL: Final = 1e-6
"""Largest ‖A z‖ / ‖A w‖ of a z that is taken for a null vector of A, where w has items of the same size."""


LEFT: Final = 1e-6  # largest ‖A M r‖ / ‖r‖ of an r of which A M leaves nothing, where it projects on what A reaches


def take_residual(engine: Engine, method: KrylovMethod) -> float:
    """Take r = b - A x, which is set, from b if A M r = 0 for an M of least squares; its length, or zero."""
    z, az = method.work
    method.precondition(method.r, z)
    (method.given or method.operator).multiply(z, az)
    image, square = dots(engine, engine.partial_sums(), (az, az), (method.r, method.r))
    if not math.sqrt(image) <= LEFT * math.sqrt(square):
        return 0.0
    engine.run(WAXPBY, 1.0, method.b, -1.0, method.r, method.b)
    return math.sqrt(square)


def take_unreachable(
    engine: Engine, layout: PerChunk, method: KrylovMethod, roughened: Callable[[Field], PerChunk]
) -> float:
    """Take from b its part along z = M r, if A z = 0, where r = b - A x is set; its length, or zero.

    MINRES makes r . M r least, so that A M r = 0 at its end. What is left of b has a solution if A has no other null
    vectors, and x is nearly it: where M is the identity, x is.

    `roughened`: blocks of a vector with other signs and nearly the same size everywhere: rows of a small scale alone
    make no null vector.
    """
    z, az = method.work
    parts = engine.partial_sums()
    method.precondition(method.r, z)
    method.operator.multiply(z, az)
    square, image, along = dots(engine, parts, (z, z), (az, az), (z, method.r))
    engine.run(LOAD, layout, roughened(z), z)
    method.operator.multiply(z, az)
    (rough,) = dots(engine, parts, (az, az))
    if not (square > 0.0 and math.sqrt(image) <= NULL * math.sqrt(rough)):
        return 0.0
    method.precondition(method.r, z)
    engine.run(WAXPBY, 1.0, method.b, -along / square, z, method.b)
    return abs(along) / math.sqrt(square)
