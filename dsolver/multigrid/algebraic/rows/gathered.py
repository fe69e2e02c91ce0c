"""Rows of a small level, gathered: every owner has the whole level.

Values of its vectors are gathered by `dsolver.multigrid.replicate`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, final

import numpy as np

from dsolver.distributed.collectives import AllGather, field_of
from dsolver.distributed.setup_exchange import numbers_of
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.multigrid.algebraic.rows.global_rows import Rows, message
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows
from dsolver.multigrid.algebraic.rows.window import Bounds


def gathering(engine: Engine, made: PerChunk, bounds: Bounds) -> Callable[[PerChunk], PerChunk]:
    """A function that makes the `BroughtRows` of a whole level, on every owner, of those of every chunk.

    Args:
        engine: of the chunks.
        made: an object with the level's `rows`, `origin` and `near` on every chunk. Others that are gathered have
            entries in the same places.
        bounds: of the level.
    """
    sizes = numbers_of(engine, engine.per_chunk(_packed, made).at("size"))
    gather = AllGather(engine, field_of(engine, engine.per_chunk(partial(_constant, values=sizes))))
    unpack = partial(_unpacked, bounds=bounds)
    return lambda made: gather.combine(unpack, engine.per_chunk(_packed, made).at("values"))


# -- what is made on the owners ----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class _Packed:
    values: Any
    size: float


def _packed(backend: Backend, _: int, made: Any) -> _Packed:
    values = message(made.rows.packed, made.origin, made.near.ravel(), made.rows.start[:1])  # and a zero
    return _Packed(values=backend.asarray(values), size=float(len(values)))


def _constant(backend: Backend, _: int, *, values: tuple[int, ...]) -> Any:
    return backend.asarray(np.array(values, dtype=np.float64))


def _unpacked(_: Any, parts: list[Any], *, bounds: Bounds) -> BroughtRows:
    rows, origin, near = [], [], []
    for part, (first, last) in zip(parts, pairwise(bounds), strict=True):
        count = last - first
        found, rest = Rows.unpacked(part, count)
        rows.append(found)
        origin.append(rest[:count].astype(np.int64))
        if count:
            near.append(rest[count:-1].reshape(count, -1))
    return BroughtRows(rows=Rows.joined(rows), origin=np.concatenate(origin), near=np.concatenate(near))
