"""Rows that the owner of a chunk takes, cuts and keeps: its side of `dsolver.cluster.rows.sent_rows`.

The functions here run on workers, as those of `dsolver.engines.spmd.worker` do, and have the work done in a thread.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.cluster.rows.placed_rows import GivenRows, cut_piece, placed
from dsolver.dask_types import Worker
from dsolver.engines.spmd.rank_spec import Failure
from dsolver.engines.spmd.worker import values_of
from dsolver.errors import DsolverError, InputError, RankError
from dsolver.grid.halo import HaloPlan
from dsolver.kernels.reductions import some
from dsolver.matrices.chunks.row_block import ChunkCounts, RowBlock

_unwanted: Final = set[str]()  # names of rows that are to be forgotten once they are cut
UNKNOWN: Final = -1  # in place of the number of a chunk that ghosts belong to


@dataclass(frozen=True, kw_only=True)
class TakenRows:
    """Findings about a chunk's rows, from which the plan of all chunks and forecasts follow."""

    ghosts: npt.NDArray[np.int64]  # as of `PlacedPiece`
    counts: ChunkCounts


async def take_rows(
    size: int, options: Mapping[str, Any], given: Mapping[str, GivenRows | str], *, dask_worker: Worker
) -> dict[str, TakenRows] | Failure:
    """Cut rows, given themselves or as keys of the cluster's data, and put them into the worker's memory by name.

    `size`, options: of `cut_given`. What a plan tells of other chunks is for `take_plans`.
    """
    there = await values_of(dask_worker, [rows for rows in given.values() if isinstance(rows, str)])
    try:
        rows = {name: there[each] if isinstance(each, str) else each for name, each in given.items()}
        cut = await asyncio.to_thread(lambda: {name: cut_given(each, size, options) for name, each in rows.items()})
    except DsolverError as error:
        return Failure(error=error)
    except Exception as error:  # whatever stands in the way of one worker
        return Failure(error=RankError(f"worker {dask_worker.address} cannot take rows of the matrix: {error!r}"))
    wanted: dict[Any, object] = {name: block for name, (block, _) in cut.items() if name not in _unwanted}
    _unwanted.difference_update(cut)
    dask_worker.update_data(data=wanted)
    return {name: taken for name, (_, taken) in cut.items()}


async def forget_rows(names: Mapping[str, None], *, dask_worker: Worker) -> None:
    """Let go of rows, as another owner has failed; of those that are being cut, too, which would stay."""
    there = [name for name in names if name in dask_worker.data]
    _unwanted.update(set(names).difference(there))
    dask_worker.stream_handlers["free-keys"](keys=there, stimulus_id="dsolver-rows")  # as the scheduler would


async def take_plans(plans: Mapping[str, HaloPlan], *, dask_worker: Worker) -> None:
    """Complete rows with their exchange."""
    rows: Any = dask_worker.data
    for name, plan in plans.items():
        rows[name] = replace(rows[name], plan=plan)


def cut_given(given: GivenRows, size: int, options: Mapping[str, Any]) -> tuple[RowBlock, TakenRows]:
    """Rows of a chunk as `cut_piece` makes them, with a plan that tells no more than the number of ghosts.

    Args:
        size: columns of the matrix.
        options: of `cut_piece`.

    Raises:
        InputError: rows lead out of their arrays, or to no column: a matrix comes before it was looked at.
    """
    piece = placed(given, options["kernels"])
    start, entries, ghosts = piece.rows.start, len(piece.rows.columns), piece.ghosts
    led_out = some((start[1:] < start[:-1]) | (start[1:] > entries))
    if led_out or (len(ghosts) and (ghosts[0] < 0 or ghosts[-1] >= size)):
        raise InputError("A was changed while it was read: its rows lead out of their arrays")
    receives = ((UNKNOWN, len(ghosts)),) if len(ghosts) else ()
    block = cut_piece(piece, HaloPlan(sends=(), receives=receives), **options)
    assert block.counts is not None
    return block, TakenRows(ghosts=ghosts, counts=block.counts)
