"""Rows of a level whose matrix is not symmetric: A, and its symmetric part, which coarsening follows.

Strength, coarse points, aggregates and interpolation are made for symmetric matrices. With (A + Aᵀ) / 2 in their place
they see convection as couplings along the flow, and R = Pᵀ. Coarse matrices are Pᵀ A P with A itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from dsolver.distributed.messages import Senders, delivered, mutual, on_host, receivers_of, senders_of
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.partition import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.level_rows import (
    F64,
    Bounds,
    BroughtRows,
    LevelRows,
    Rows,
    others,
    own_bounds,
    owners_of,
    received,
    window_of,
)


@final
@dataclass(frozen=True, kw_only=True)
class Turned:
    """Entries that a chunk has in others' columns: entries of Aᵀ in the rows of these.

    Attributes:
        lists: for each other chunk a message.
        named: these chunks, ascending.
    """

    lists: Mapping[int, F64]
    named: tuple[int, ...]


def with_symmetric_part(engine: Engine, made: PerChunk, bounds: Bounds) -> tuple[PerChunk, Senders]:
    """The `LevelRows` of every chunk: `matrix` is the symmetric part, `full` is A with zeros where Aᵀ has entries.

    Args:
        engine: of the chunks.
        made: of every chunk `rows`, `origin` and `near`, as in `Coarsened`.
        bounds: of the level.

    Returns:
        them, and the chunks whose rows each chunk reads.
    """
    turned = engine.per_chunk(partial(_turned, bounds=bounds), made)
    named = senders_of(engine, turned.at("named"))
    around = delivered(engine, receivers_of(named), turned.at("lists"))
    return engine.per_chunk(partial(_both, bounds=bounds), made, around), mutual(named)


def as_brought(engine: Engine, rows: PerChunk) -> PerChunk:
    """The `BroughtRows` of every chunk."""
    return engine.per_chunk(_as_brought, rows)


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _as_brought(_: Backend, __: int, rows: LevelRows) -> BroughtRows:
    return BroughtRows(rows=Rows.of(rows.matrix, rows.window.numbers), origin=rows.origin, near=rows.near)


def _entries(rows: Rows, first: int) -> tuple[Any, Any, Any]:
    """Global rows, columns and values of all entries."""
    return first + rows.of_entries, rows.columns, rows.values


def _turned(_: Backend, number: int, made: Any, *, bounds: Bounds) -> Turned:
    row, column, value = _entries(made.rows, own_bounds(bounds, number)[0])
    owners = owners_of(bounds, column)
    named = others(bounds, number, owners)
    lists = {
        to: np.concatenate([part[owners == to].astype(np.float64) for part in (column, row, value)]) for to in named
    }
    return Turned(lists=lists, named=named)


def _both(backend: Backend, number: int, made: Any, around: Mapping[int, F64], *, bounds: Bounds) -> LevelRows:
    first, last = own_bounds(bounds, number)
    row, column, value = _entries(made.rows, first)
    own = (column >= first) & (column < last)
    rows, columns, halves = [row, column[own]], [column, row[own]], [value / 2, value[own] / 2]
    for message in on_host(backend, around).values():
        theirs, mine, entries = message.reshape(3, -1)
        rows.append(theirs.astype(np.int64))
        columns.append(mine.astype(np.int64))
        halves.append(entries / 2)
    full = np.concatenate([value, np.zeros(sum(map(len, halves)) - len(value))])
    row, column = np.concatenate(rows), np.concatenate(columns)
    order = np.lexsort((column, row))  # of A and of Aᵀ each place has one entry at most: a sum of two has one order
    row, column = row[order], column[order]
    begin = np.flatnonzero(np.concatenate([[True], (np.diff(row) != 0) | (np.diff(column) != 0)]))
    half, full = (np.add.reduceat(part[order], begin) for part in (np.concatenate(halves), full))
    row, column = row[begin], column[begin]
    window = window_of(bounds, number, column)
    start = np.concatenate([[0], np.cumsum(np.bincount(row - first, minlength=last - first))])
    owners = owners_of(bounds, column)
    sends = tuple((to, np.unique(row[owners == to]) - first) for to in others(bounds, number, owners))
    matrix = Csr(start, window.places(column), half)
    return LevelRows(
        window=window,
        matrix=matrix,
        full=matrix._replace(values=full),
        origin=made.origin,
        near=made.near,
        plan=HaloPlan(sends=sends, receives=received(bounds, window)),
        bounds=bounds,
    )
