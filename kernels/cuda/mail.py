"""Launches of `mail.cu`: halo values and partial sums that GPUs write into each other's memory.

Whoever uses this has made the memory of one GPU reachable from the others and tells addresses; nothing here knows how.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import cupy
import numpy as np

from dsolver.kernels.cuda.launching import follow
from dsolver.kernels.cuda.loader import kernel
from dsolver.kernels.layout import Array

THREADS: Final = 256
ITEMS_OF_BLOCK: Final = 2 * THREADS
WORD: Final = 2
"""A word is so many times as long as the data in it."""
SUM_WORDS: Final = 16
"""Bytes of the words of one partial sum."""

_LETTER: Final = np.dtype([("from", "<u8"), ("to", "<u8"), ("slot", "<i8"), ("count", "<i4"), ("chunk", "<i4")])
_INDEX: Final = 4  # bytes of a row number


@final
@dataclass(frozen=True, kw_only=True)
class Parcel:
    """Items that lie one after another where they come from and where they go.

    Attributes:
        source: to post, the address of the items' rows in a list; to collect, of their words in slot 0.
        target: to post, the address of the receiver's words in slot 0; to collect, of the items. 0 for a token, which
            has neither rows nor items.
        slot: bytes from slot 0 to slot 1.
        count: of items.
        chunk: to post, which of the vectors holds the rows.
    """

    source: int
    target: int
    slot: int
    count: int
    chunk: int = 0


@final
class Mail:
    """One halo's exchanges on one GPU.

    Args:
        outgoing: what it sends. A token has source 0.
        incoming: what it receives. A token has target 0.
        itemsize: bytes of a value, 4 or 8.
        alarm: address of a uint32 that ends all waiting once it is not 0.
    """

    def __init__(self, outgoing: Sequence[Parcel], incoming: Sequence[Parcel], itemsize: int, alarm: int) -> None:
        self._outgoing = _letters(outgoing, _INDEX, WORD * itemsize)
        self._incoming = _letters(incoming, WORD * itemsize, itemsize)
        self._post, self._collect = _kernel(f"post_{itemsize}"), _kernel(f"collect_{itemsize}")
        self._number, self._ticket = cupy.zeros(1, dtype=np.uint32), cupy.zeros(1, dtype=np.uint32)
        self._alarm = np.uint64(alarm)
        self._lists: dict[tuple[int, ...], Array] = {}

    def post(self, vectors: Sequence[Array]) -> None:
        """Send from these vectors, on the current stream."""
        if len(self._outgoing):
            arguments = (self._outgoing, self._list(vectors), self._number, self._ticket)
            follow(self._post, (len(self._outgoing) // _LETTER.itemsize,), (THREADS,), arguments)

    def collect(self) -> None:
        """Wait, on the current stream, until all of the last exchange has come."""
        if len(self._incoming):
            arguments = (self._incoming, self._number, self._alarm)
            follow(self._collect, (len(self._incoming) // _LETTER.itemsize,), (THREADS,), arguments)

    def _list(self, vectors: Sequence[Array]) -> Array:
        """Their addresses on the device: copied once for the same vectors, and never while a graph is captured."""
        key = tuple(int(vector.data.ptr) for vector in vectors)
        if key not in self._lists:
            self._lists[key] = cupy.asarray(np.array(key, dtype=np.uint64))
        return self._lists[key]


@final
class SumOfAll:
    """The sums over ranks.

    Args:
        mine: bool for each chunk, whether this rank owns it.
        areas: the address of this rank's words and then of the peers': two slots of one word pair for each chunk.
        alarm: address of a uint32 that ends all waiting once it is not 0.
    """

    def __init__(self, mine: Sequence[bool], areas: Sequence[int], alarm: int) -> None:
        self._kernel = _kernel("total_of_all")
        self._mine = cupy.asarray(np.array(mine, dtype=np.uint8))
        self._areas = cupy.asarray(np.array(areas, dtype=np.uint64))
        self._number = cupy.zeros(1, dtype=np.uint32)
        self._alarm = np.uint64(alarm)

    def __call__(self, own: Array, everyone: Array, out: Array) -> None:
        """out[0] = the sum of all ranks' parts in the fixed tree, on the current stream; everyone is work space."""
        count = len(self._mine)
        threads = min(THREADS, -(-count * len(self._areas) // 32) * 32)
        numbers = (np.int32(len(self._areas)), np.int32(count), self._number, self._alarm)
        follow(self._kernel, (1,), (threads,), (own, everyone, out, self._mine, self._areas, *numbers))


def sum_area(chunks: int) -> int:
    """Bytes of the words of one rank's sums."""
    return 2 * SUM_WORDS * chunks


def _kernel(name: str) -> Any:
    return kernel("mail.cu", name, "float64")  # they carry bits of either size, whatever the sources' value type


def _letters(parcels: Iterable[Parcel], source_step: int, target_step: int) -> Array:
    """The parcels cut into what blocks carry: uint8, `_LETTER` after `_LETTER`."""
    cut = [piece for parcel in parcels for piece in _cut(parcel, source_step, target_step)]
    return cupy.asarray(np.array(cut, dtype=_LETTER).view(np.uint8))


def _cut(parcel: Parcel, source_step: int, target_step: int) -> Iterator[tuple[int, int, int, int, int]]:
    for first in range(0, parcel.count, ITEMS_OF_BLOCK):
        yield (
            parcel.source and parcel.source + first * source_step,
            parcel.target and parcel.target + first * target_step,
            parcel.slot,
            min(ITEMS_OF_BLOCK, parcel.count - first),
            parcel.chunk,
        )
