"""Rows of a coarser level, finished where they have come to their place."""

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, PerChunk
from dsolver.multigrid.algebraic.rows.half_rows import completed_rows
from dsolver.multigrid.algebraic.rows.symmetric import symmetric_rows
from dsolver.multigrid.algebraic.rows.unsymmetric import with_symmetric_part
from dsolver.multigrid.algebraic.rows.window import Bounds


def finished_rows(
    engine: Engine, made: PerChunk, reach: Senders, bounds: Bounds, *, halves: bool, symmetric: bool
) -> PerChunk:
    """The `LevelRows` of every chunk; made: `HalfRows` of a symmetric matrix if so, else `BroughtRows`."""
    if halves:
        return completed_rows(engine, made, reach, bounds)
    return (symmetric_rows if symmetric else with_symmetric_part)(engine, made, reach, bounds)
