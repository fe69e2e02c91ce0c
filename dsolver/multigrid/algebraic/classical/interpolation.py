"""Interpolation "extended+i" from coarse points of a level that is cut into chunks: the same bits however it is cut.

A fine point is interpolated from its coarse neighbors and from those of its fine ones, whose strong couplings to coarse
points come from their owners.
"""

from typing import Any

from dsolver.kernels import Backend
from dsolver.kernels.amg import Counted, uncounted
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.deferred import Deferred
from dsolver.multigrid.algebraic.classical.coarse_couplings import CouplingsAround
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import I64


def interpolated(
    backend: Backend, _: int, rows: LevelRows, bits: Any, near: CouplingsAround, *, most: int
) -> DistributedRows:
    """A chunk's rows of P, at most so many entries each."""
    return begun_interpolation(backend.amg, rows, bits, near, most)()


def begun_interpolation(
    amg: AmgKernels,
    rows: LevelRows,
    bits: Any,
    near: CouplingsAround,
    most: int,
    points: I64 | None = None,
    counted: Counted = uncounted,
) -> Deferred[DistributedRows]:
    """A chunk's rows of P; a device is waited for when it is called.

    `points`: own ones if not all. `counted`: takes the row pointer before.
    """
    seen, below = near.rows, rows.window.below
    given = rows.matrix, points, bits, near.states, below, seen.matrix, near.places, seen.window.size, most
    made = amg.begun_interpolation(*given, counted=counted)
    return Deferred(lambda: DistributedRows(window=seen.window, matrix=made()))
