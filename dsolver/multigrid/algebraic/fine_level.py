"""A level that is to be coarsened, as its set-up knows it."""

from collections.abc import Callable
from dataclasses import dataclass

from dsolver.distributed.setup_exchange import GhostExchange, Senders
from dsolver.engines.base import Engine, PerChunk
from dsolver.multigrid.algebraic.rows.window import Bounds


@dataclass(frozen=True, kw_only=True)
class FineLevel:
    """A level that is to be coarsened, in float64."""

    engine: Engine
    rows: PerChunk
    exchange: GhostExchange
    senders: Senders
    reach: Senders
    bounds: Bounds
    depth: int
    measures: PerChunk
    # what is done once the host has launched the search for coarse points, for which a device works long enough.
    beside: Callable[[], object] = lambda: None
