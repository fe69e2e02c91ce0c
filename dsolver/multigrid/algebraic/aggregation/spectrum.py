"""The largest eigenvalue of D⁻¹A of a level that is cut into chunks: the same bits however it is cut."""

from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.distributed.setup_exchange import GhostExchange, values_of
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg import WORD
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.measures import Measures
from dsolver.multigrid.algebraic.rows.window import F64

STEPS: Final = 15  # steps of the power method


def largest_eigenvalue(
    engine: Engine, rows: PerChunk, measures: PerChunk, exchange: GhostExchange, level: int, total: int, size: int
) -> float:
    """The largest eigenvalue of D⁻¹A, from below: `STEPS` steps of the power method in the norm of D.

    Terms of the two sums become integers of a scale that follows from the largest: their sum is the same in any order.
    """
    sought = engine.per_chunk(partial(_sought, size=size), rows)
    diagonal = engine.per_chunk(_diagonal, measures)
    made = engine.per_chunk(partial(_rough, level=level), rows, diagonal)
    for _ in range(STEPS):
        made = engine.per_chunk(_step, sought, diagonal, exchange.in_window(made))
    last = engine.per_chunk(_terms, rows, sought, diagonal, exchange.in_window(made))
    largest = [max(values_of(engine, last.at(which))) for which in range(2)]
    if not all(0.0 < one < np.inf for one in largest):
        return 1.0
    first, second = (WORD - total.bit_length() - int(np.frexp(one)[1]) for one in largest)
    sums = engine.sums(engine.per_chunk(partial(_scaled_sums, shifts=(first, second)), last.at(2)))
    return float(np.sqrt(np.ldexp(sums[1], -second) / np.ldexp(sums[0], -first)))


def _sought(backend: Backend, _: int, rows: LevelRows, *, size: int) -> Any:
    return backend.amg.aggregation.sought(rows.matrix, rows.window.size, size)


def _diagonal(_: Backend, __: int, measures: Measures) -> F64:
    """D, float64 (rows,)."""
    return measures.share * measures.diagonal


def _rough(backend: Backend, _: int, rows: LevelRows, diagonal: F64, *, level: int) -> Any:
    """A rough vector, everywhere the same in the norm of D."""
    window = rows.window
    numbers = np.arange(window.first, window.first + window.rows, like=rows.origin)
    found = backend.amg.aggregation.words(numbers, level)
    return (found / (1 << WORD - 1) - 1.0) / np.sqrt(diagonal)


def _step(backend: Backend, _: int, sought: Any, diagonal: F64, x: Any) -> Any:
    """D⁻¹ A x; x: of all points of the window."""
    return backend.amg.aggregation.scaled_product(sought, diagonal, x)


def _terms(backend: Backend, _: int, rows: LevelRows, sought: Any, diagonal: F64, x: Any) -> tuple[float, float, F64]:
    """The largest terms of xᵀDx and of yᵀDy with y = D⁻¹ A x, and these terms; x: as of `_step`."""
    terms = backend.amg.aggregation.terms
    made, largest = terms(sought, rows.window.below, diagonal, x)
    return *largest, made


def _scaled_sums(backend: Backend, _: int, terms: F64, *, shifts: tuple[int, int]) -> tuple[float, float]:
    """Sums of the integers next to terms 2^shift: less than 2⁵², so that all sums of chunks are exact."""
    return backend.amg.aggregation.scaled_sums(terms, shifts)
