"""Strong couplings of a level that is cut into chunks."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from dsolver.distributed.setup_exchange import GhostExchange
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows


@dataclass(frozen=True, kw_only=True)
class StrongCouplings:
    """Strong couplings: uint8 (entries,), see `dsolver.kernels.cpu.amg.couplings`; the rows that depend on each row."""

    bits: Any
    counts: Any


def strong_graph(engine: Engine, rows: PerChunk, measures: PerChunk, exchange: GhostExchange, theta: float) -> PerChunk:
    """The `StrongCouplings` of every chunk."""
    largest = exchange.in_window(measures.at("largest"))
    return engine.per_chunk(partial(_graph, theta=theta), rows, largest)


def _graph(backend: Backend, _: int, rows: LevelRows, largest: Any, *, theta: float) -> StrongCouplings:
    bits, counts = backend.amg.couplings(rows.matrix, rows.window.below, largest, theta)
    return StrongCouplings(bits=bits, counts=counts)
