"""Transfers of reduction-based multigrid for matrices without symmetry: R nearly ideal, P from one point.

With fine points F and coarse points C the ideal restriction is [-A_CF A_FF⁻¹, I]: then a coarse correction and a solve
with A_FF leave no error. Here A_FF⁻¹ is two terms of its Neumann series, 2 D⁻¹ - D⁻¹ A_FF D⁻¹ (nAIR of degree 1:
Manteuffel, McCormick, Münzenmaier, Ruge, Southworth, arXiv:1704.05001): exact where no more than two fine points in a
row follow a flow. Each fine point takes the value of the coarse point that it is coupled to most; what that leaves,
sweeps over fine points solve.

Rᵀ is made, by rows of fine points, as an interpolation of Aᵀ; entries of that are the other half of the symmetric part.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, Messages, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.formats.csr import Csr, of_entries
from dsolver.multigrid.algebraic.classical.coarse_couplings import coarse_places, coarse_points
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.ghost_rows import SentRows, around_it, ghost_rows, sent
from dsolver.multigrid.algebraic.rows.global_rows import starts
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.measures import Measures
from dsolver.multigrid.algebraic.rows.window import I64, Bounds

COUPLED: Final = 0.02
"""Couplings that R follows, over the diagonal, at least. Without a threshold levels have twice to five times as many
entries where convection is strong, for as many iterations."""


@dataclass(frozen=True, kw_only=True)
class IdealTransfers:
    """Transfers between a level and its coarse points."""

    p: PerChunk  # `SentRows` of every chunk, the rows of P
    restriction: PerChunk  # `DistributedRows` of every chunk, the rows of Rᵀ


@dataclass(frozen=True, kw_only=True)
class _RestrictionFactors:
    """Factors of a chunk's rows of Rᵀ, and P."""

    series: Csr  # I - D⁻¹ (Aᵀ)_FF, own rows; columns are places in the window
    first: SentRows  # `SentRows` of the other factor: -D⁻¹ (Aᵀ)_FC, and ones for coarse points
    lists: Messages
    p: SentRows


def ideal_transfers(
    engine: Engine, rows: PerChunk, measures: PerChunk, numbers: PerChunk, senders: Senders, bounds: Bounds
) -> IdealTransfers:
    """The transfers of a level to coarse points of these numbers (int64, of every window; -1 for fine ones)."""
    made = engine.per_chunk(partial(_factors, bounds=bounds), rows, measures, numbers)
    restriction = engine.per_chunk(_multiplied, made, ghost_rows(engine, senders, made))
    return IdealTransfers(p=made.at("p"), restriction=restriction)


def _factors(
    backend: Backend, number: int, rows: LevelRows, measures: Measures, numbers: I64, *, bounds: Bounds
) -> _RestrictionFactors:
    amg, window, s = backend.amg, rows.window, rows.matrix
    coarse = coarse_points(amg, bounds, number, window, numbers)
    places = coarse_places(amg, coarse, numbers, amg.states_of(numbers)[1])
    row = of_entries(s.start, len(s.columns))
    center, from_coarse = s.columns == window.below + row, places[window.below + row] >= 0
    weights = (rows.a.values - 2.0 * s.values) / measures.diagonal[row]  # of -D⁻¹ Aᵀ, and then of I - D⁻¹ Aᵀ
    del row
    followed = ~from_coarse & ~center & (abs(weights) >= COUPLED)
    weights[center] = 1.0
    to_coarse, kept = places[s.columns] >= 0, from_coarse & center
    first = _only(s, weights, followed & to_coarse | kept, places)
    series = _only(s, weights, followed & ~to_coarse | center)
    candidates = _only(s, s.values, ~from_coarse & to_coarse | kept, places)
    p = amg.kept_product(candidates, _identity(coarse.size, s.start), coarse.size, 1)
    of_first = sent(amg, rows, DistributedRows(window=coarse, matrix=first))
    of_p = DistributedRows(window=coarse, matrix=p._replace(values=np.ones_like(p.values))).tight(amg)
    return _RestrictionFactors(series=series, first=of_first, lists=of_first.lists, p=sent(amg, rows, of_p))


def _multiplied(backend: Backend, number: int, made: _RestrictionFactors, around: Messages) -> DistributedRows:
    whole = made.first.rows.among(backend.amg, *around_it(number, around))
    product = backend.amg.product(made.series, whole.matrix, whole.window.size)
    return DistributedRows(window=whole.window, matrix=product).tight(backend.amg)


def _only(matrix: Csr, values: Any, wanted: Any, names: Any = None) -> Csr:
    """Entries of a matrix that are wanted, with other values, and the names of their columns."""
    before, columns = starts(wanted.astype(np.int64)), matrix.columns[wanted]
    return Csr(before[matrix.start], columns if names is None else names[columns], values[wanted])


def _identity(size: int, like: I64) -> Csr:
    start = np.arange(size + 1, like=like)
    return Csr(start, start[:-1].astype(np.int32), np.ones_like(start[:-1], dtype=np.float64))
