"""Measures of a level's rows, which coarsening and smoothers follow: the largest coupling, the diagonal, row sums."""

from dataclasses import dataclass
from typing import Any

from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Measures of a chunk's rows."""

    largest: Any  # float64, the size of the most negative coupling
    diagonal: F64  # float64 (rows,)
    # float64 (rows,), (a_ii + Σ_j |a_ij|) / 2 as a part of a_ii: with it for a diagonal Jacobi's method converges, as 2
    # D - A is then diagonally dominant.
    share: F64


def measured(engine: Engine, rows: PerChunk) -> PerChunk:
    """The `Measures` of every chunk."""
    return engine.per_chunk(_measured, rows)


def wrong_diagonals(engine: Engine, measures: PerChunk) -> int:
    """The number of rows of all chunks whose diagonal is not positive."""
    return int(engine.sums(engine.per_chunk(_wrong, measures))[0])


def not_positive(backend: Backend, diagonal: Any) -> tuple[float]:
    """The number of entries of a diagonal that are not positive and finite, as of `Engine.sums`."""
    diagonal = backend.asarray(diagonal)  # which may lie on the host
    return (float(backend.lattice.unfit(diagonal, 0.0, left_out=True)),)


def _measured(backend: Backend, _: int, rows: LevelRows) -> Measures:
    amg, window = backend.amg, rows.window
    largest, diagonal, share = amg.row_measures(rows.matrix, window.below)
    return Measures(largest=largest, diagonal=diagonal, share=share)


def _wrong(backend: Backend, _: int, measures: Measures) -> tuple[float]:
    return not_positive(backend, measures.diagonal)
