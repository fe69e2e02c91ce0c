"""Rows of a window's ghosts: sent by the chunks that own them, and put among a chunk's own rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.rows.global_rows import Rows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Window


@final
@dataclass(frozen=True, kw_only=True)
class SentRows:
    """Rows of a matrix that a chunk has made, and what others get of them.

    Attributes:
        rows: of the chunk.
        lists: for each chunk that gets some, a message.
        sent: for each of them, the numbers of the rows within this chunk, ascending.
        named: the chunks that get some, ascending.
        factor: P with columns as places in a window, and this window, where `rows` are of A P and will be made again of
            other values of A; else None.
    """

    rows: Rows
    lists: Mapping[int, F64]
    sent: Mapping[int, I64] = field(default_factory=dict)
    named: tuple[int, ...] = ()
    factor: tuple[Csr, Window] | None = None


def sent(rows: LevelRows, own: Rows) -> SentRows:
    """Rows with messages for those that have them as ghosts."""
    return SentRows(rows=own, lists={to: own.selected(wanted).packed for to, wanted in rows.plan.sends})


def stacked(rows: LevelRows, own: Rows, around: Mapping[int, F64]) -> Rows:
    """Rows of a whole window: own ones and those of ghosts, which their owners have sent."""
    return with_ghosts(rows.window, dict(rows.plan.receives), own, around)


def with_ghosts(window: Window, counts: Mapping[int, int], own: Rows, around: Mapping[int, F64]) -> Rows:
    """Own rows among those of the ghosts of a window; counts: of the ghosts that each sender owns."""
    if not around:
        return own
    parts = [Rows.unpacked(around[sender], counts[sender])[0] for sender in sorted(around)]
    ghosts = Rows.joined(parts)
    return Rows.joined([ghosts.part(0, window.below), own, ghosts.part(window.below, ghosts.size)])
