"""Rows of a window's ghosts: sent by the chunks that own them, and put among a chunk's own rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, Messages, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.general.rows import SplitRows
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.global_rows import ROWS
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows


@dataclass(frozen=True, kw_only=True)
class SentRows:
    """Rows of a matrix that a chunk has made, and messages for the chunks that get some."""

    rows: DistributedRows
    lists: Messages
    parts: SplitRows | None = None  # the rows' `split`, where their window is tight


class LeavingRows:
    """Rows on their way into messages for the chunks that have them as ghosts; rows: the level's."""

    def __init__(self, amg: AmgKernels, rows: LevelRows) -> None:
        self._amg, self._sends = amg, rows.plan.sends
        self._begun: list[tuple[int, Callable[[Csr], Csr]]] = []

    def count(self, start: Any) -> None:
        """Ask a device for the sizes of the messages of rows whose pointer is there."""
        self._begun = [(to, self._amg.begun_rows(start, wanted)) for to, wanted in self._sends]

    def lists(self, own: DistributedRows) -> Messages:
        """The messages, of rows that were counted. A device is waited for."""
        return {to: tuple(own.window.numbered(self._amg, taken(own.matrix))) for to, taken in self._begun}


def sent(amg: AmgKernels, rows: LevelRows, own: DistributedRows, *, tight: bool = False) -> SentRows:
    """Rows with messages for those that have them as ghosts; tight: their window has nothing but their columns."""
    leaving = LeavingRows(amg, rows)
    leaving.count(own.matrix.start)
    made, parts = own.tight_and_split(amg) if tight else (own, None)
    return SentRows(rows=made, lists=leaving.lists(own), parts=parts)


def sent_rows(backend: Backend, _: int, rows: LevelRows, own: DistributedRows) -> SentRows:
    """The `sent` rows of a chunk, with a tight window."""
    return sent(backend.amg, rows, own, tight=True)


def ghost_rows(engine: Engine, senders: Senders, made: PerChunk) -> PerChunk:
    """Rows of the ghosts of every chunk, `Message`s by their owners; made: of every chunk an object with `lists`."""
    return engine.deliver(made.at("lists"), senders, ROWS)


def around_it(number: int, around: Messages) -> tuple[list[Csr], list[Csr]]:
    """Rows of the chunks before this one, and behind it, of messages that begin with rows."""
    found = {sender: Csr(*around[sender][:3]) for sender in sorted(around)}
    return [found[c] for c in found if c < number], [found[c] for c in found if c > number]
