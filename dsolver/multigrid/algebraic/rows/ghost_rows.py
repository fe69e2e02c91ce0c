"""Rows of a window's ghosts: sent by the chunks that own them, and put among a chunk's own rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, Message, PerChunk
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.rows.global_rows import ROWS, Rows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import I64, Window


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
    lists: Mapping[int, Message]
    sent: Mapping[int, I64] = field(default_factory=dict)
    named: tuple[int, ...] = ()
    factor: tuple[Csr, Window] | None = None


def sent(rows: LevelRows, own: Rows) -> SentRows:
    """Rows with messages for those that have them as ghosts."""
    return SentRows(rows=own, lists={to: own.selected(wanted).message for to, wanted in rows.plan.sends})


def ghost_rows(engine: Engine, senders: Senders, made: PerChunk) -> PerChunk:
    """Rows of the ghosts of every chunk, `Message`s by their owners.

    Args:
        engine: of the chunks.
        senders: the chunks whose rows each chunk reads.
        made: of every chunk an object with `lists`, such as `SentRows`.
    """
    return engine.deliver(made.at("lists"), senders, ROWS)


def stacked(window: Window, own: Rows, around: Mapping[int, Message]) -> Rows:
    """Rows of a whole window: own ones and those of ghosts, which their owners have sent."""
    if not around:
        return own
    ghosts = Rows.joined([Rows.of_message(around[sender]) for sender in sorted(around)])
    return Rows.joined([ghosts.part(0, window.below), own, ghosts.part(window.below, ghosts.size)])
