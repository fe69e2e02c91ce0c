"""Smoothing of the tentative prolongation: P = (I − ω D⁻¹ A_F) P̂ with ω = 4/3 / λ, λ the largest eigenvalue of D⁻¹A.

D is the smoother's, (a_ii + Σ_j |a_ij|) / 2: so a few bad elements of a mesh do not decide about all others.
"""

from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.distributed.setup_exchange import GhostExchange, Senders
from dsolver.engines.base import Engine, Messages, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg import BlockSizes
from dsolver.kernels.formats.csr import of_entries
from dsolver.multigrid.algebraic.aggregation.aggregates import NodeGraph
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.ghost_rows import SentRows, around_it, ghost_rows, sent
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.measures import Measures

OVER: Final = 4.0 / 3.0
"""ω λ: the Chebyshev polynomial of degree one whose largest value over the part of P̂ that is far from B is least."""


def smoothed(
    engine: Engine,
    rows: PerChunk,
    measures: PerChunk,
    p: PerChunk,
    graph: PerChunk | None,  # the `NodeGraph` whose couplings A_F has, where nodes are rows; None for all of A
    exchange: GhostExchange,
    senders: Senders,
    omega: float,
    blocks: BlockSizes,
) -> PerChunk:
    """The rows of P of every chunk: `SentRows` with messages for those that have them as ghosts."""
    around = ghost_rows(engine, senders, p)
    near = engine.per_chunk(_first_near, rows)
    more = () if graph is None else (graph, exchange.in_window(near))
    make = partial(_smoothed, omega=omega, blocks=blocks)
    return engine.per_chunk(make, rows, measures, p, around, *more)


def _first_near(_: Backend, __: int, rows: LevelRows) -> Any:
    """The first near-null vector."""
    return rows.near[:, 0].copy()


def _smoothed(
    backend: Backend,
    number: int,
    rows: LevelRows,
    measures: Measures,
    p: SentRows,
    around: Messages,
    graph: NodeGraph | None = None,
    near: Any = None,
    *,
    omega: float,
    blocks: BlockSizes,
) -> SentRows:
    amg, below, a = backend.amg, rows.window.below, rows.matrix
    keep, damping = None, omega / measures.share
    if graph is not None:
        lonely = np.diff(p.rows.matrix.start) == 0
        keep = amg.aggregation.kept_entries(a, below, graph.graph)
        keep |= lonely[of_entries(a.start, len(a.columns))]
        damping = np.where(lonely, 1.0, damping)
    smoother = amg.aggregation.prolongation_smoother(a, below, keep, near, damping, measures.diagonal)
    whole = p.rows.among(amg, *around_it(number, around))
    made = amg.product(smoother, whole.matrix, whole.window.size, blocks=blocks)
    return sent(amg, rows, DistributedRows(window=whole.window, matrix=made), tight=True)
