"""Parts of a set-up that are kept for a matrix with new values in the same places, which takes over its P and R.

Coarse points, aggregates, P and R are kept, and so are patterns of the levels and the formats that they are stored in;
`galerkin_numeric` has the coarse rows.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Layout
from dsolver.multigrid.algebraic.galerkin_numeric import Again, bare
from dsolver.multigrid.algebraic.placement import Place
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows, LevelRows
from dsolver.multigrid.correction import StoredTransfer
from dsolver.multigrid.reuse import Reuse


@dataclass(frozen=True, kw_only=True)
class Mirrors:
    """Rows of a level in one chunk without values, and of each entry the place in R A P: its own, or its image's."""

    rows: LevelRows
    sources: Any


@dataclass(frozen=True, kw_only=True)
class KeptLevel:
    """A level's transfer to its coarser one, and what makes coarse rows of other values."""

    transfer: StoredTransfer
    place: Place
    again: Again
    mirrors: PerChunk | None = None
    choices: PerChunk | None = None  # of every chunk's format there; None before they are made
    # of every chunk's own rows which are coarse points, where sweeps go over those and others in turn.
    coarse: PerChunk | None = None


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Parts of a hierarchy kept for new values: the finest `LevelRows` without values, their layout, the steps."""

    first: PerChunk
    layout: PerChunk
    steps: tuple[KeptLevel, ...]


def found_in(reuse: Reuse, engine: Engine, rows: PerChunk, layout: PerChunk) -> Kept:
    """The `Kept` of the set-up before, where its P and R serve again; else a new one."""
    found, reuse.kept = reuse.kept, None
    reuse.outcome = "first"
    if isinstance(found, Kept):
        elsewhere = engine.per_chunk(_elsewhere, rows, layout, found.first, found.layout)
        reuse.outcome = "pattern" if engine.global_sums(elsewhere)[0] else "used"
        if reuse.outcome == "used":
            return found
    return Kept(first=engine.per_chunk(_pattern, rows), layout=layout, steps=())


def _pattern(_: Backend, __: int, rows: LevelRows) -> LevelRows:
    """Rows without values, in memory of their own."""
    start, columns, values = rows.matrix
    return replace(rows, matrix=bare(Csr(start.copy(), columns.copy(), values)), full=None)


def _elsewhere(
    backend: Backend, _: int, rows: LevelRows, layout: Layout, before: LevelRows, layout_before: Layout
) -> Any:
    """float64 (1,), zero where entries are in the same places, and vectors in the same order."""
    pairs = (
        (layout.position, layout_before.position),
        (rows.window.ghosts, before.window.ghosts),
        (rows.matrix.start, before.matrix.start),
        (rows.matrix.columns, before.matrix.columns),
    )
    same = all(backend.amg.same(new, old) for new, old in pairs)
    return backend.xp.full(1, float(not same))


def mirrors_of(backend: Backend, _: int, made: Any, rows: LevelRows) -> Mirrors:
    """The `Mirrors` of a level in one chunk: `made` has R A P, of which the rows were made."""
    amg = backend.amg
    raw: Csr = made.rows.matrix
    count = len(raw.columns)
    numbered = raw._replace(values=np.arange(count, like=raw.values).astype(np.float64))
    sources, _ = amg.mirrored(numbered)
    number = np.int32 if count < 2**31 else np.int64
    return Mirrors(rows=replace(rows, matrix=bare(rows.matrix)), sources=sources.values.astype(number))


def rows_again(_: Backend, __: int, made: BroughtRows, mirrors: Mirrors) -> LevelRows:
    """The rows of a level in one chunk from its R A P, symmetric to the bit."""
    rows = mirrors.rows
    return replace(rows, matrix=rows.matrix._replace(values=made.rows.matrix.values[mirrors.sources]))
