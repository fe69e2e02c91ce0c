"""Messages of chunks to chunks of other ranks, whose lengths only their senders know.

A message is some arrays, of value types that both sides know. Each rank tells each peer the lengths of all arrays in
one frame, in an order that both derive: by sender, then by receiver. So it tells, too, where there is no message.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.engines.base import Message

Pair = tuple[int, int]  # a chunk that sends, and the one that it sends to
Pairs = Sequence[Pair]
Delivered = dict[Pair, Message]
Outgoing = Mapping[Pair, Message | None]  # messages; None where there is none for a chunk that expects one
Known = Mapping[Pair, int] | None  # items of each array of a message; None where only its sender knows them
NOTHING: Final = -1  # length that is told of each array of a message that is not sent


@dataclass(frozen=True)
class PeerMessages:
    """Messages that go to and come from one peer, in the order of their frames."""

    sends: tuple[Pair, ...]
    receives: tuple[Pair, ...]

    def lengths(self, outgoing: Outgoing, kinds: Sequence[str]) -> npt.NDArray[np.int64]:
        """The lengths of all arrays that are sent, as they are told."""
        nothing = [NOTHING] * len(kinds)
        sent = (outgoing[pair] for pair in self.sends)
        return np.array([nothing if parts is None else [*map(len, parts)] for parts in sent], dtype="<i8").ravel()

    def parts(self, outgoing: Outgoing) -> Iterator[Any]:
        """The arrays that are sent and have any items."""
        return (part for pair in self.sends for part in outgoing[pair] or () if len(part))

    def told(self, kinds: Sequence[str], known: Known = None) -> npt.NDArray[np.int64]:
        """The lengths of all arrays that are received, or room for those that the peer tells."""
        lengths = [0 if known is None else known[pair] for pair in self.receives]
        return np.repeat(np.array(lengths, dtype="<i8"), len(kinds))

    def rooms(self, xp: Any, told: npt.NDArray[np.int64], kinds: Sequence[str]) -> Delivered:
        """Room for what is received, by the lengths that the peer has told."""
        lengths = told.reshape(-1, len(kinds)).tolist()
        return {
            pair: tuple(map(xp.empty, sizes, kinds))
            for pair, sizes in zip(self.receives, lengths, strict=True)
            if sizes[0] != NOTHING
        }


def by_peer(outgoing: Iterable[Pair], expected: Iterable[Pair], owners: Sequence[int]) -> dict[int, PeerMessages]:
    """Messages of one rank by the peers they go to and come from, ascending; owners: the rank of each chunk."""
    sends: dict[int, list[Pair]] = {}
    receives: dict[int, list[Pair]] = {}
    for pair in sorted(outgoing):
        sends.setdefault(owners[pair[1]], []).append(pair)
    for pair in sorted(expected):
        receives.setdefault(owners[pair[0]], []).append(pair)
    return {
        peer: PeerMessages(tuple(sends.get(peer, ())), tuple(receives.get(peer, ())))
        for peer in sorted(sends.keys() | receives.keys())
    }
