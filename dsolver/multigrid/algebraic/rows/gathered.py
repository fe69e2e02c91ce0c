"""Rows of a small level, gathered: every owner has the whole level.

Values of its vectors are gathered by `dsolver.multigrid.replicate`.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from dsolver.engines.base import Engine, Message, Messages, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.global_rows import ROWS
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows
from dsolver.multigrid.algebraic.rows.window import Bounds, window_of

KINDS: Final = (*ROWS, "int64", "float64")  # value types of a message with rows, their origins and the near-null space


def gathering(engine: Engine, bounds: Bounds, *, halves: bool = False) -> Callable[[PerChunk], PerChunk]:
    """A function that makes `BroughtRows` (of `HalfRows` if so) of a whole level, on every owner, of every chunk's."""
    hosts, chunks = tuple(engine.hosts), len(engine.partition)
    every, receiving = tuple(range(chunks)), {*hosts}
    senders = [every if number in receiving else () for number in every]
    send, join = partial(_to_hosts, hosts=hosts), partial(_joined, bounds=bounds, halves=halves)
    alone = engine.alone((1, 1, 1))
    return lambda made: alone.per_chunk(join, engine.deliver(engine.per_chunk(send, made), senders, KINDS))


def _to_hosts(backend: Backend, _: int, made: Any, *, hosts: tuple[int, ...]) -> dict[int, Message]:
    return dict.fromkeys(hosts, (*made.rows_to_send(backend.amg), made.origin, made.near.ravel()))


def _joined(backend: Backend, _: int, parts: Messages, *, bounds: Bounds, halves: bool) -> BroughtRows:
    amg, sizes, found = backend.amg, [last - first for first, last in pairwise(bounds)], [*parts.values()]
    window = window_of(amg, (0, bounds[-1]), 0, found[0][0])
    matrix = amg.stacked([Csr(*part[:3]) for part in found], None, [], window, window)
    near = [part[-1].reshape(size, -1) for part, size in zip(found, sizes, strict=True) if size]
    return BroughtRows(
        rows=DistributedRows(window=window, matrix=amg.completed(amg.halved(matrix)) if halves else matrix),
        origin=np.concatenate([part[-2] for part in found]),
        near=np.concatenate(near),
        mirrored=halves,
    )
