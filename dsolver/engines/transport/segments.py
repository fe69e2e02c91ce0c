"""Segments of packed buffers and halo vectors: which go to and come from each peer, and which stay on this rank."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import ref

from dsolver.kernels.formats.layout import HaloLayout

Plans = Mapping[int, HaloLayout]  # the layouts of a halo of the owned chunks, by chunk number


@dataclass(frozen=True)
class Segment:
    """Items [first, last) of an own chunk's packed buffer or halo vector."""

    own: int
    first: int
    last: int


@dataclass(frozen=True)
class PeerSegments:
    """Segments that go to and come from one peer, in an order that both sides derive: by sender, then by receiver."""

    sends: tuple[Segment, ...]
    receives: tuple[Segment, ...]


class SegmentCache:
    """The segments of each halo, by peer, worked out once; owner_ranks: the rank that owns each chunk."""

    def __init__(self, owner_ranks: Sequence[int]) -> None:
        self._owners = tuple(owner_ranks)
        # By the id of a halo's first layout, for as long as that lives: plans hold memory of a device, which a
        # system that was replaced must give back.
        self._known: dict[int, tuple[ref[HaloLayout], dict[int, PeerSegments]]] = {}

    def by_peer(self, plans: Plans) -> dict[int, PeerSegments]:
        """`segments_by_peer` of the halo with these plans of the owned chunks, which were made together."""
        first = next(iter(plans.values()))
        key = id(first)
        if key not in self._known:
            gone = ref(first, lambda _: self._known.pop(key, None))
            self._known[key] = gone, segments_by_peer(plans, self._owners)
        return self._known[key][1]


def segments_by_peer(plans: Plans, owners: Sequence[int]) -> dict[int, PeerSegments]:
    """The segments exchanged with each peer, ascending, for the plans of the owned chunks and the rank of every chunk.

    Ranks that exchange nothing, though their chunks' plans name each other, are left out: a coarse level's chunk may be
    empty.
    """
    sends: dict[int, list[tuple[int, int, Segment]]] = {}
    receives: dict[int, list[tuple[int, int, Segment]]] = {}
    for own, plan in plans.items():
        for neighbor, first, last in plan.sends:
            if neighbor not in plans and first < last:
                sends.setdefault(owners[neighbor], []).append((own, neighbor, Segment(own, first, last)))
        for neighbor, first, last in plan.receives:
            if neighbor not in plans and first < last:
                receives.setdefault(owners[neighbor], []).append((neighbor, own, Segment(own, first, last)))
    return {
        peer: PeerSegments(sends=_in_order(sends.get(peer, [])), receives=_in_order(receives.get(peer, [])))
        for peer in sorted(sends.keys() | receives.keys())
    }


def local_segments(plans: Plans) -> list[tuple[Segment, int, int]]:
    """Segments that own chunks send to own chunks: each with the receiver and its first item there."""
    return [
        (
            Segment(number, first, last),
            neighbor,
            next(to for sender, to, _ in plans[neighbor].receives if sender == number),
        )
        for number, plan in plans.items()
        for neighbor, first, last in plan.sends
        if neighbor in plans
    ]


def _in_order(segments: list[tuple[int, int, Segment]]) -> tuple[Segment, ...]:
    return tuple(segment for _, _, segment in sorted(segments, key=lambda entry: entry[:2]))
