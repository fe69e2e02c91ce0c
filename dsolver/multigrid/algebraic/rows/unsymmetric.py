"""Rows of a level whose matrix is not symmetric: A, and its symmetric part, which coarsening follows.

Strength, coarse points, aggregates and interpolation are made for symmetric matrices. With (A + Aᵀ) / 2 in their place
they see convection as couplings along the flow, and R = Pᵀ. Coarse matrices are Pᵀ A P with A itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, Message, Messages, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.formats.csr import Csr, joined
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.global_rows import starts
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows, LevelRows
from dsolver.multigrid.algebraic.rows.window import I64, Bounds, own_bounds, window_of

ENTRIES: Final = ("int64", "int64", "float64")  # value types of a message with entries: their rows, columns and values


@dataclass(frozen=True, kw_only=True)
class Turned:
    """Entries that a chunk has in others' columns: entries of Aᵀ in the rows of these, a message for each."""

    lists: Messages


def with_symmetric_part(engine: Engine, made: PerChunk, reach: Senders, bounds: Bounds) -> PerChunk:
    """The `LevelRows` of every chunk: `matrix` is the symmetric part, `full` is A with zeros where Aᵀ has entries."""
    turned = engine.per_chunk(partial(_turned, bounds=bounds), made)
    around = engine.deliver(turned.at("lists"), reach, ENTRIES)
    return engine.per_chunk(partial(_both, bounds=bounds), made, around)


def as_brought(_: Backend, __: int, rows: LevelRows) -> BroughtRows:
    """The rows of a level as if they came from elsewhere."""
    own = DistributedRows(window=rows.window, matrix=rows.matrix)
    return BroughtRows(rows=own, origin=rows.origin, near=rows.near)


def _turned(backend: Backend, _: int, made: BroughtRows, *, bounds: Bounds) -> Turned:
    if len(bounds) == 2:
        return Turned(lists={})
    amg, window, matrix = backend.amg, made.rows.window, made.rows.matrix
    lists = {
        to: (window.numbers_at(amg, matrix.columns[of]), window.first + made.rows.rows_at(of), matrix.values[of])
        for to, of in made.rows.elsewhere(amg, bounds).items()
    }
    return Turned(lists=lists)


def _both(backend: Backend, number: int, made: BroughtRows, around: Messages, *, bounds: Bounds) -> LevelRows:
    """Both are products with what there is, A and the parts of Aᵀ, in rows one below the other.

    Each sum has two terms at most, so it has one order.
    """
    (first, last), amg = own_bounds(bounds, number), backend.amg
    turned = amg.transposed(made.rows.own_columns(amg), last - first)
    parts = [made.rows.rows(amg), turned._replace(columns=np.arange(first, last, like=made.origin)[turned.columns])]
    parts += [_received(entries, first, last) for entries in around.values()]
    below = joined(parts)
    window = window_of(amg, bounds, number, below.columns)
    halves = Csr(below.start, window.places(amg, below.columns), below.values / 2)
    matrix = amg.product(_summed([1.0] * len(parts), last - first, made.origin), halves, window.size)
    first_alone = _summed([2.0] + [0.0] * (len(parts) - 1), last - first, made.origin)
    both = DistributedRows(window=window, matrix=matrix)
    rows = replace(made, rows=both).level_rows(bounds, both.read_by(amg, both.elsewhere(amg, bounds)))
    return replace(rows, full=amg.numeric(matrix, first_alone, halves, window.size))


def _received(entries: Message, first: int, last: int) -> Csr:
    """Rows first .. last of what another chunk has `Turned`."""
    row, column, value = entries
    order = np.lexsort(np.stack((column, row)))
    counts = np.bincount(row - first, minlength=last - first)
    return Csr(starts(counts), column[order], value[order])


def _summed(weights: Sequence[float], rows: int, like: I64) -> Csr:
    """The weighted sum of so many matrices of so many rows, one below the other: what they are multiplied by."""
    parts = len(weights)
    columns = np.arange(rows, like=like)[:, None] + rows * np.arange(parts, like=like)
    return Csr(
        np.arange(0, rows * parts + 1, parts, like=like),
        columns.ravel().astype(np.int32),
        np.tile(np.asarray(weights, like=like), rows),
    )
