"""Launches of `writes.cu`: halo values and partial sums that GPUs write into each other's memory.

The caller has made the memory of one GPU reachable from the others and passes pointers; nothing here knows how.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import device_property, kernel
from dsolver.kernels.cuda.launch.readback import zeros
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.formats.layout import Array

THREADS: Final = 256
ITEMS_OF_BLOCK: Final = 2 * THREADS
BLOCKS: Final = 8  # blocks for each multiprocessor in `PeerHalo.around`, at most
WORD: Final = 2  # a word is so many times as long as the data in it
SUM_WORDS: Final = 16  # bytes of the words of one partial sum

_COPY: Final = np.dtype([("from", "<u8"), ("to", "<u8"), ("slot", "<i8"), ("count", "<i4"), ("chunk", "<i4")])
_WORDS, _COUNT = 4, 6  # of 8 bytes of a copy, and which of 4 is its count
_INDEX: Final = 4  # bytes of a row number


@dataclass(frozen=True, kw_only=True)
class PeerCopy:
    """A copy of consecutive items, from vectors to words or from words to a halo vector."""

    source: int  # to send, a pointer to the items' row numbers; to receive, to their words in slot 0
    # to send, a pointer to the receiver's words in slot 0; to receive, to the items. A flag has neither rows nor items:
    # 0 in their place.
    target: int
    slot: int  # bytes from slot 0 to slot 1
    count: int
    chunk: int = 0  # to send, which of the vectors holds the rows


@dataclass(frozen=True, kw_only=True)
class HaloCopies:
    """Copies of one halo on one GPU; a flag has source 0, or target 0. itemsize: bytes of a value."""

    outgoing: Sequence[PeerCopy]
    incoming: Sequence[PeerCopy]
    itemsize: int


def peer_halos(copies: Sequence[HaloCopies], alarm: int) -> "list[PeerHalo]":
    """Halos whose lists come to the device together; alarm: address of a uint32 that ends all waiting once not 0."""
    lists = [
        part
        for halo in copies
        for part in (
            (halo.outgoing, _INDEX, WORD * halo.itemsize),
            (halo.incoming, WORD * halo.itemsize, halo.itemsize),
        )
    ]
    tables, numbers = _tables(lists), zeros(2 * len(copies), np.uint32).reshape(-1, 2)
    made = zip(tables[::2], tables[1::2], numbers, copies, strict=True)
    return [PeerHalo(sent, received, number, halo.itemsize, alarm) for sent, received, number, halo in made]


class PeerHalo:
    """Exchanges of one halo on one GPU: see `peer_halos`.

    `outgoing`: uint8, `_COPY` after `_COPY`, of a block each. `numbers`: uint32 (2,), zeros: of the last exchange, and
    of blocks that have sent.
    """

    def __init__(self, outgoing: Array, incoming: Array, numbers: Array, itemsize: int, alarm: int) -> None:
        self._outgoing, self._incoming = outgoing, incoming
        self._send, self._receive = _kernel(f"send_{itemsize}"), _kernel(f"receive_{itemsize}")
        self._number, self._ticket = numbers[:1], numbers[1:]
        self._alarm = np.uint64(alarm)
        self._lists: dict[tuple[int, ...], Array] = {}

    def send(self, vectors: Sequence[Array]) -> None:
        """Send from these vectors, on the current stream; of a byte each, in words of 8, for `around` alone."""
        if len(self._outgoing):
            arguments = (self._outgoing, *self._addresses(vectors), self._number, self._ticket)
            send = _kernel("send_1") if vectors[0].itemsize == 1 else self._send
            launch_early(send, (len(self._outgoing) // _COPY.itemsize,), (THREADS,), arguments)

    def around(
        self, own: Array, rows: int, below: int, ghosts: int, words: tuple[int, int], flags: tuple[int, int]
    ) -> Array:
        """Values of all points of a window: own ones, and ghosts', which are waited for on the current stream.

        Args:
            own: of as many bytes each as was sent: 8, or one where halos have values of 8.
            ghosts: how many there are; `below` of them are before own points.
            words: address of the first one's word in slot 0, and the bytes of a slot.
            flags: address of the first flag in slot 0, and their number.
        """
        count, out = rows + ghosts, cupy.empty(rows + ghosts, dtype=own.dtype)
        numbers = np.int64(count), np.int32(rows), np.int32(below), np.uint64(words[0]), np.int64(words[1])
        awaited = np.uint64(flags[0]), np.int32(flags[1]), self._number, self._alarm
        blocks = max(1, min(-(-count // THREADS), BLOCKS * device_property("multiProcessorCount")))
        launch_early(_kernel(f"around_{own.itemsize}"), (blocks,), (THREADS,), (own, *numbers, *awaited, out))
        return out

    def receive(self) -> None:
        """Wait, on the current stream, until all of the last exchange has come, and fill the halo vectors."""
        if len(self._incoming):
            arguments = (self._incoming, self._number, self._alarm)
            launch_early(self._receive, (len(self._incoming) // _COPY.itemsize,), (THREADS,), arguments)

    def _addresses(self, vectors: Sequence[Array]) -> tuple[Any, np.uint64]:
        """Addresses of vectors on the device, copied once for the same ones, and never while a graph is captured.

        Or that of a single one, which nothing is copied for.
        """
        key = tuple(int(vector.data.ptr) for vector in vectors)
        if len(key) == 1:
            return np.uintp(0), np.uint64(key[0])
        if key not in self._lists:
            self._lists[key] = cupy.asarray(np.array(key, dtype=np.uint64))
        return self._lists[key], np.uint64(0)


class PeerSum:
    """Sums over ranks.

    `mine`: bool for each chunk, whether this rank owns it. `areas`: pointers to this rank's words and then to the
    peers': two slots of one word pair for each chunk.
    """

    def __init__(self, mine: Sequence[bool], areas: Sequence[int], alarm: int) -> None:
        self._kernel = _kernel("total_of_all")
        self._mine = cupy.asarray(np.array(mine, dtype=np.uint8))
        self._areas = cupy.asarray(np.array(areas, dtype=np.uint64))
        self._number = cupy.zeros(1, dtype=np.uint32)
        self._nothing = cupy.zeros(len(mine)), cupy.empty(len(mine)), cupy.empty(1)
        self._alarm = np.uint64(alarm)

    def __call__(self, own: Array, gathered: Array, out: Array, *, fenced: bool = False) -> None:
        """out[0] = the sum of all ranks' parts in the fixed tree, on the current stream; gathered is work space.

        `fenced`: whether ranks read behind it what others have written before it.
        """
        count = len(self._mine)
        threads = min(THREADS, -(-count * len(self._areas) // 32) * 32)
        numbers = np.int32(len(self._areas)), np.int32(count), self._number, self._alarm, np.int32(fenced)
        launch_early(self._kernel, (1,), (threads,), (own, gathered, out, self._mine, self._areas, *numbers))

    def meet(self) -> None:
        """Let the current stream wait until those of all ranks have come here."""
        self(*self._nothing, fenced=True)


def sum_bytes(chunks: int) -> int:
    """Bytes of the words of one rank's sums."""
    return 2 * SUM_WORDS * chunks


def _kernel(name: str) -> Any:
    return kernel("peer/writes.cu", name, "float64")  # they copy bits of either size, whatever the sources' value type


def _tables(lists: Sequence[tuple[Sequence[PeerCopy], int, int]]) -> list[Array]:
    """Lists of copies, with steps at sources and targets, cut into parts of a block: uint8, `_COPY` after `_COPY`."""
    copies = [copy for listed, _, _ in lists for copy in listed]
    numbers = [np.arange(0, copy.count, ITEMS_OF_BLOCK) for copy in copies]  # of each part's first item
    of = np.repeat(np.arange(len(copies)), [len(parts) for parts in numbers])
    begins = [(copy.source, copy.target, copy.slot, copy.count + (copy.chunk << 32)) for copy in copies]
    steps = [
        (source * (copy.source != 0), target * (copy.target != 0), 0, -1)
        for listed, source, target in lists
        for copy in listed
    ]
    words, ahead = (np.array(rows, dtype=np.int64).reshape(-1, _WORDS)[of] for rows in (begins, steps))
    words += np.concatenate([of[:0], *numbers])[:, None] * ahead
    counts = words.view(np.int32)[:, _COUNT]  # what is left of each copy
    np.minimum(counts, ITEMS_OF_BLOCK, out=counts)
    together, places = cupy.asarray(words.view(np.uint8).reshape(-1)), iter(numbers)
    ends = [_COPY.itemsize * sum(len(next(places)) for _ in listed) for listed, _, _ in lists]
    return [together[low:high] for low, high in pairwise(accumulate(ends, initial=0))]
