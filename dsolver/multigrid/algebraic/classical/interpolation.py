"""Interpolation "extended+i" from coarse points of a level that is cut into chunks: the same bits however it is cut.

A fine point is interpolated from its coarse neighbors and from those of its fine ones, whose strong couplings to coarse
points come from their owners.
"""

from functools import partial
from typing import Any

from dsolver.engines.base import PerChunk
from dsolver.kernels import Backend
from dsolver.multigrid.algebraic.classical.coarse_couplings import Couplings, CouplingsAround
from dsolver.multigrid.algebraic.fine_level import FineLevel
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import I64


def interpolated(level: FineLevel, bits: PerChunk, most: int, couplings: Couplings) -> PerChunk:
    """The rows of P of every chunk, `DistributedRows`, at most so many entries each."""
    return level.engine.per_chunk(partial(interpolation, most=most), level.rows, bits, couplings.around)


def interpolation(
    backend: Backend, _: int, rows: LevelRows, bits: Any, near: CouplingsAround, points: I64 | None = None, *, most: int
) -> DistributedRows:
    """A chunk's rows of P; points: own ones if not all."""
    seen, amg = near.rows, backend.amg
    p = amg.interpolation(
        rows.matrix, points, bits, near.states, rows.window.below, seen.matrix, near.places, seen.window.size, most
    )
    return DistributedRows(window=seen.window, matrix=p)
