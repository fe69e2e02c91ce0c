"""Rows of a coarser level of a symmetric matrix by their halves: each chunk makes entries from the diagonal on.

The others are their mirror images, to the bit; where these are another chunk's, it sends them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, Messages, PerChunk
from dsolver.grid.halo import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.amg import Images
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.formats.csr import Csr, of_entries
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Bounds, Window, received

ENTRIES: Final = ("int64", "int64", "float64", "int64", "int64")
"""Value types of a message with entries: their rows, columns and values; the different ones of their rows, which are
the receiver's, and of their columns, which are rows of the sender's."""


@dataclass(frozen=True, kw_only=True)
class HalfRows:
    """A chunk's rows of a level, from the diagonal on."""

    window: Window  # own numbers, and those of columns behind them
    half: Any  # a `dsolver.kernels.cpu.amg.halves.Halves`, or a device's
    origin: I64
    near: F64

    @classmethod
    def of(cls, half: Any, columns: I64, first: int, origin: I64, near: F64) -> "HalfRows":
        """The rows that a half has; columns: int64, numbers behind own rows; those without entries are left out."""
        window = Window(first=first, rows=len(origin), ghosts=columns[half.tight()], lower=0)
        return cls(window=window, half=half, origin=origin, near=near)

    def rows_to_send(self, amg: AmgKernels) -> Csr:
        """The rows with global columns."""
        return self.window.numbered(amg, self.half.upper)


@dataclass(frozen=True, kw_only=True)
class RowsBehind:
    """Parts of rows behind a chunk's own ones that follow from its half."""

    lists: Messages  # for each chunk that has some of them, the entries that it lacks
    sends: tuple[tuple[int, I64], ...]  # for each of them, the own rows that it reads, ascending


def completed_rows(engine: Engine, made: PerChunk, senders: Senders, bounds: Bounds) -> PerChunk:
    """The `LevelRows` of every chunk of a coarser level, symmetric to the bit."""
    before = [tuple(c for c in names if c < number) for number, names in enumerate(senders)]
    behind = engine.per_chunk(partial(_behind, bounds=bounds), made)
    around = engine.deliver(behind.at("lists"), before, ENTRIES)
    return engine.per_chunk(partial(_completed, bounds=bounds), made, behind.at("sends"), around)


def _entries_before(rows: Csr, numbers: Sequence[int]) -> list[int]:
    """Number of entries before some rows. A device is asked only for rows that are neither the first nor the end."""
    known = {0: 0, rows.size: len(rows.columns)}
    if known.keys() >= set(numbers):
        return [known[number] for number in numbers]
    found: list[int] = rows.start[np.asarray(numbers, like=rows.start)].tolist()
    return found


def _behind(backend: Backend, _: int, half: HalfRows, *, bounds: Bounds) -> RowsBehind:
    amg, window, found = backend.amg, half.window, half.half.behind
    ghosts = window.ghosts_before(bounds)
    parts = {c: slice(*of) for c, of in enumerate(pairwise(_entries_before(found, ghosts))) if of[0] < of[1]}
    read = [(to, amg.named(found.columns[of], 0, window.rows)) for to, of in parts.items()]
    rows = window.ghosts[of_entries(found.start, len(found.columns))]
    entries = rows, found.columns.astype(np.int64) + window.first, found.values
    sends = tuple((to, wanted()) for to, wanted in read)
    lists = {
        to: (*(part[parts[to]] for part in entries), window.ghosts[slice(*ghosts[to : to + 2])], wanted + window.first)
        for to, wanted in sends
    }
    return RowsBehind(lists=lists, sends=sends)


def _completed(
    backend: Backend, _: int, half: HalfRows, sends: tuple[tuple[int, I64], ...], around: Messages, *, bounds: Bounds
) -> LevelRows:
    amg, window, images = backend.amg, half.window, None
    if around:
        rows, columns, values, *read = (np.concatenate(parts) for parts in zip(*around.values(), strict=True))
        seen = np.concatenate([read[-1], window.ghosts])
        window = replace(window, ghosts=seen, lower=len(seen) - len(window.ghosts))
        images = Images(rows - window.first, window.places(amg, columns), values)
    before = [(sender, wanted - window.first) for sender, (*_, wanted, _) in around.items()]
    return LevelRows(
        window=window,
        matrix=amg.completed(half.half, images, window.below),
        origin=half.origin,
        near=half.near,
        plan=HaloPlan(sends=(*before, *sends), receives=received(bounds, window)),
        bounds=bounds,
    )
