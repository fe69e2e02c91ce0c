"""Placement of a coarser level: in as many chunks as the finer one, or gathered, whole on every owner."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, PerChunk
from dsolver.multigrid.algebraic.coarser_level import CoarserLevel
from dsolver.multigrid.algebraic.rows.gathered import gathering
from dsolver.multigrid.algebraic.rows.window import Bounds
from dsolver.multigrid.algebraic.storage import plain_layout


@dataclass(frozen=True, kw_only=True)
class Place:
    """Place of the rows of a coarser level; `view` is its engine in the value type of the levels."""

    engine: Engine
    view: Engine
    layout: PerChunk
    bounds: Bounds
    reach: Senders
    # makes one chunk's rows, on every owner, of those of all chunks; None where they stay.
    gather: Callable[[PerChunk], PerChunk] | None = None

    @property
    def alone(self) -> bool:
        """Whether it is one chunk."""
        return len(self.bounds) == 2


def place_of(
    engine: Engine, view: Engine, made: CoarserLevel, bounds: Bounds, *, dtype: str, gathered_rows: int
) -> tuple[Place, PerChunk]:
    """Place of a coarser level, and the `Layout` there; it is whole on every owner up to `gathered_rows`."""
    parts = view.per_chunk(partial(plain_layout, bounds=bounds))
    few = bounds[-1] <= gathered_rows or any(first == last for first, last in pairwise(bounds))
    if len(bounds) > 2 and few:
        return _whole(engine, bounds, dtype, halves=made.halves), parts
    return Place(engine=engine, view=view, layout=parts, bounds=bounds, reach=made.reach), parts


def _whole(engine: Engine, bounds: Bounds, dtype: str, *, halves: bool) -> Place:
    """Place of a coarser level that lives whole on every owner."""
    gather = gathering(engine, bounds, halves=halves)
    alone = engine.alone((bounds[-1], 1, 1))
    view, whole = alone if dtype == "float64" else alone.lowered(dtype), (0, bounds[-1])
    return Place(
        engine=alone,
        view=view,
        layout=view.per_chunk(partial(plain_layout, bounds=whole)),
        bounds=whole,
        reach=[()],
        gather=gather,
    )
