"""Rows of a window's ghosts: sent by the chunks that own them, and put among a chunk's own rows."""

from dataclasses import dataclass

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, Messages, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.general.rows import SplitRows
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.global_rows import ROWS, Rows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows


@dataclass(frozen=True, kw_only=True)
class SentRows:
    """Rows of a matrix that a chunk has made, and messages for the chunks that get some."""

    rows: DistributedRows
    lists: Messages
    parts: SplitRows | None = None  # the rows' `split`, where their window is tight


def sent(amg: AmgKernels, rows: LevelRows, own: DistributedRows, *, tight: bool = False) -> SentRows:
    """Rows with messages for those that have them as ghosts; tight: their window has nothing but their columns."""
    lists = begun_lists(amg, rows, own)
    made, parts = own.tight_and_split(amg) if tight else (own, None)
    return SentRows(rows=made, lists=lists(), parts=parts)


def begun_lists(amg: AmgKernels, rows: LevelRows, own: DistributedRows) -> Deferred[Messages]:
    """Messages of rows for those that have them as ghosts. A device is waited for when it is called."""
    parts = [(to, amg.begun_selection(own.matrix, wanted)) for to, wanted in rows.plan.sends]
    return Deferred(lambda: {to: Rows.at(amg, part(), own.window).message for to, part in parts})


def sent_rows(engine: Engine, rows: PerChunk, own: PerChunk) -> PerChunk:
    """The `SentRows` of every chunk, with tight windows; rows: its `LevelRows`, own: its `DistributedRows`."""
    return engine.per_chunk(_sent, rows, own)


def ghost_rows(engine: Engine, senders: Senders, made: PerChunk) -> PerChunk:
    """Rows of the ghosts of every chunk, `Message`s by their owners; made: of every chunk an object with `lists`."""
    return engine.deliver(made.at("lists"), senders, ROWS)


def around_it(number: int, around: Messages) -> tuple[list[Rows], list[Rows]]:
    """Rows of the chunks before this one, and behind it, of messages that begin with rows."""
    found = {sender: Rows.of_message(around[sender]) for sender in sorted(around)}
    return [found[c] for c in found if c < number], [found[c] for c in found if c > number]


def _sent(backend: Backend, _: int, rows: LevelRows, own: DistributedRows) -> SentRows:
    return sent(backend.amg, rows, own, tight=True)
