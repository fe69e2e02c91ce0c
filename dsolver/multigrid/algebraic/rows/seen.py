"""Coarse points that chunks see of each other, of which their owners are told."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Self

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, Messages, PerChunk
from dsolver.multigrid.algebraic.rows.window import Bounds, Window, received

NUMBERS: Final = ("int64",)  # value types of a message with numbers of points


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Coarse points that a chunk sees; the owners of those that are not its own have to be told."""

    window: Window  # of their numbers; `wanted` has those of other chunks, by chunk
    wanted: Messages

    @classmethod
    def of(cls, bounds: Bounds, window: Window) -> Self:
        """Columns that a chunk sees, by owners: ghosts of one follow one another."""
        counts = received(bounds, window)
        begins = accumulate((count for _, count in counts), initial=0)
        wanted = {c: (window.ghosts[first : first + count],) for (c, count), first in zip(counts, begins, strict=False)}
        return cls(window=window, wanted=wanted)


def asked(engine: Engine, seen: PerChunk, reach: Senders) -> PerChunk:
    """The numbers that each chunk was asked for, by chunk; seen: the `Seen`; reach: who may see points of whom."""
    return engine.deliver(seen.at("wanted"), reach, NUMBERS)
