"""Sizes of the rows of a matrix, and the usual one of the small ones, as products with rough vectors tell them."""

import math
from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.contract import LOAD
from dsolver.krylov.blocks.rounds import Numbers, Rounds
from dsolver.krylov.method import Operator
from dsolver.preconditioners.relaxation.chebyshev import noise

GAP: Final = 16
"""Powers of two by which rows are below the mean where others make it: two rough vectors hide none of a row so deep."""


def sizes_of_rows(engine: Engine, layout: PerChunk, a: Operator) -> tuple[Field, float]:
    """Sizes of the rows of A, up to small factors, and the usual power of two of the small ones.

    They are A v for a rough v whose items have the mean square 1. The product with another one tells which are small by
    chance.
    """
    v, sizes, others = (engine.field(layout) for _ in range(3))
    for seed, product in enumerate((sizes, others)):
        engine.run(LOAD, layout, engine.per_chunk(partial(_spread, engine.partition, seed)), v)
        a.multiply(v, product)
    rounds, usual, most = Rounds(engine), 0.0, math.inf
    while True:
        parts = engine.per_chunk(partial(_exponents, most), sizes, others)
        ((total, count),) = rounds.sums(Numbers(parts=parts, shape=(2,)))
        if not count:
            return sizes, math.ldexp(1.0, int(usual))
        usual = total // count
        most = usual - GAP


def _spread(partition: Partition, seed: int, backend: Backend, number: int) -> Any:
    """Rough values at the points of a chunk, whose squares have the mean 1."""
    return noise(partition, backend, number, seed) * math.sqrt(12.0)


def _exponents(most: float, backend: Backend, _: int, values: Any, others: Any) -> Any:
    """Sum of the exponents of two, at most `most`, of what is not zero, and their number: whole, exact everywhere.

    Of the larger one of two values.
    """
    xp = backend.xp
    larger = xp.maximum(abs(values), abs(others))
    exponents = xp.frexp(larger)[1]
    there = (larger != 0.0) & (exponents <= most)
    return xp.stack([xp.where(there, exponents, 0).sum(), there.sum()]).astype(np.float64)
