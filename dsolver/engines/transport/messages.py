"""Messages of chunks to chunks of other ranks, whose lengths only their senders know.

A message is some arrays, of value types that both sides know. Each rank tells each peer the lengths of all arrays in
one frame, in an order that both derive: by sender, then by receiver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.engines.base import Message

Pair = tuple[int, int]
"""A chunk that sends, and the one that it sends to."""
Messages = dict[Pair, Message]


@final
@dataclass(frozen=True)
class PeerMessages:
    """Messages that go to and come from one peer, in the order of their frames."""

    sends: tuple[Pair, ...]
    receives: tuple[Pair, ...]

    def lengths(self, outgoing: Mapping[Pair, Message]) -> npt.NDArray[np.int64]:
        """The lengths of all arrays that are sent, as they are told."""
        return np.array([len(part) for pair in self.sends for part in outgoing[pair]], dtype="<i8")

    def parts(self, outgoing: Mapping[Pair, Message]) -> Iterator[Any]:
        """The arrays that are sent and have any items."""
        return (part for pair in self.sends for part in outgoing[pair] if len(part))

    def told(self, kinds: Sequence[str]) -> npt.NDArray[np.int64]:
        """Room for the lengths that the peer tells."""
        return np.zeros(len(self.receives) * len(kinds), dtype="<i8")

    def rooms(self, xp: Any, told: Iterable[int], kinds: Sequence[str]) -> Messages:
        """Room for what is received, by the lengths that the peer has told."""
        made = iter([xp.empty(int(length), dtype=kinds[at % len(kinds)]) for at, length in enumerate(told)])
        return {pair: tuple(next(made) for _ in kinds) for pair in self.receives}


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
