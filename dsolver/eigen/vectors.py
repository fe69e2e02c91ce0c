"""Vectors of a search, brought to their user."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from dsolver.engines.dask.blocks import gather_blocks
from dsolver.engines.running_program import RunningProgram
from dsolver.kernels.cpu.loops.copying import HostRoom, copying_team
from dsolver.program.eigen import EigenProgram
from dsolver.session.session import Session
from dsolver.session.user_arrays import Container
from dsolver.session.user_arrays.several import stacked


def room_for(session: Session, kind: Container, count: int) -> HostRoom | None:
    """Room for so many vectors that one GPU will bring to this process, made ready meanwhile; None for others."""
    runtime, grid = session.runtime, session.partition.grid
    alone = runtime.device == "cuda" and runtime.client is None and len(session.partition) == 1
    return HostRoom.worthwhile((count, *grid), np.dtype(np.float64)) if alone and kind.here and kind.host else None


def brought(
    session: Session,
    program: RunningProgram[EigenProgram],
    kind: Container,
    columns: Sequence[tuple[int, bool]],
    room: HostRoom | None,
) -> list[Any]:
    """Arrays of vectors, each a column of the iterates, or of known null vectors."""
    options: list[dict[str, Any]] = [{"column": column, "known": known, "host": kind.host} for column, known in columns]
    if not kind.here:
        return [kind.like(program.unload(EigenProgram.vector, **each)) for each in options]
    client, workers = session.runtime.client, session.runtime.workers
    if room is not None:
        options = [{**each, "room": part} for each, part in zip(options, room.parts(), strict=True)]
    fetched = program.fetch_each(EigenProgram.vector, options)
    return [kind.like(gather_blocks(client, blocks, workers)) for blocks in fetched]


def together(vectors: list[Any], like: Any) -> Any:
    """Vectors as one array of their kind, whose last axis counts them; of xarray with the name "mode".

    In memory each lies without gaps, as SciPy's do: writing them side by side takes three times as long. Threads copy
    one each on a host, where most of the time is the first touch of new pages.
    """
    package = sys.modules[type(vectors[0]).__module__.partition(".")[0]]
    if package.__name__ == "xarray":
        return package.concat(vectors, "mode").transpose(..., "mode")
    if package.__name__ == "numpy":
        if (made := _whole(vectors)) is None:
            made, count = np.empty((len(vectors), *vectors[0].shape), vectors[0].dtype), len(vectors)
            copying_team().each(lambda number: np.copyto(made[number], vectors[number]), count)
        return np.moveaxis(made, 0, -1)
    if package.__name__ == "cupy":
        return package.moveaxis(package.stack(vectors), 0, -1)
    return stacked(vectors, like)


def _whole(vectors: list[Any]) -> Any | None:
    """The array whose parts vectors are, one after the other, as they came to their room; None where there is none."""
    whole, first = vectors[0].base, vectors[0]
    if not isinstance(whole, np.ndarray) or not whole.flags.c_contiguous or whole.dtype != first.dtype:
        return None
    apart = [each.ctypes.data - whole.ctypes.data for each in vectors]
    if apart != [*range(0, whole.nbytes, first.nbytes)] or not all(each.flags.c_contiguous for each in vectors):
        return None
    return whole.reshape(len(vectors), *first.shape)
