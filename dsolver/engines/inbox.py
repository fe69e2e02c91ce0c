"""Where exchanged values arrive in a rank's memory when others write into it; see `dsolver.engines.peer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from dsolver.engines.transport import Piece, Route, slots_of
from dsolver.kernels.layout import HaloLayout


@final
class Inbox:
    """Where the words of a halo lie: each own chunk's halo vector, then a token of each peer that sends nothing else.

    Args:
        plans: of the owned chunks.
        routes: to and from each peer.
        word: bytes that an item arrives in.

    Attributes:
        tokens: the peers that send tokens, with their place behind the words of the halo.
        slot: bytes of a slot.
        size: bytes of both.
    """

    def __init__(self, plans: Mapping[int, HaloLayout], routes: Mapping[int, Route], word: int) -> None:
        self._word = word
        self._first: dict[int, int] = {}
        self.tokens: dict[int, int] = {}
        words = 0
        for number, plan in plans.items():
            self._first[number], words = words, words + plan.size
        for peer, route in routes.items():
            if not route.receives:
                self.tokens[peer], words = words, words + 1
        self.slot = -(-words * word // 16) * 16
        self.size = 2 * self.slot

    def at(self, number: int, item: int) -> int:
        """Offset in slot 0 of an item of a chunk's halo vector."""
        return (self._first[number] + item) * self._word

    def token(self, peer: int) -> int:
        """Offset in slot 0 of the token of a peer that sends nothing else."""
        return self.tokens[peer] * self._word

    def offsets(self, peer: int, route: Route) -> list[int]:
        """Where a peer puts what it sends, in slot 0: an offset for each piece of its `outgoing_of`."""
        return [self.at(piece.own, piece.first) for piece in route.receives] or [self.token(peer)]


def outgoing_of(route: Route) -> Sequence[Piece | None]:
    """What a peer is sent: the pieces, or a token (None), for whoever receives must also hear of a peer."""
    return route.sends or (None,)


def at_home(plans: Mapping[int, HaloLayout]) -> list[tuple[Piece, int, int]]:
    """What own chunks send to own chunks: the piece, the receiver and its first item."""
    return [
        (Piece(number, first, last), neighbor, slots_of(plans[neighbor], number)[0])
        for number, plan in plans.items()
        for neighbor, first, last in plan.sends
        if neighbor in plans
    ]
