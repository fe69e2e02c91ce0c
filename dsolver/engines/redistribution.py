"""Blocks of an array in the boxes that it came in, brought to the chunks of a grid: between devices, not by the host.

A user's blocks lie along the axis that changes slowest in memory, and chunks along the one that changes slowest on
devices: from one cut to the other nearly everything moves. Each owner takes whole boxes, without gaps in memory, and
what other chunks have of them goes there over the links of a solve: some 50 GB/s between GPUs of a host, where workers
would send 0.5 GB/s. Layers of a box after each other, so that little memory is needed beside the blocks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil
from typing import Any, Final

import numpy as np

from dsolver.engines.base import Engine
from dsolver.engines.running_program import Blocks
from dsolver.errors import InputError, check_block
from dsolver.grid.box import Box
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend

AT_ONCE: Final = 1 << 23  # values of a layer at most: 64 MiB


@dataclass(frozen=True, kw_only=True)
class OtherCut:
    """Boxes that cover a grid once, in which an array comes, and the chunk by whose owner each is taken."""

    boxes: tuple[Box, ...]
    holders: tuple[int, ...]

    def layers(self) -> list[list[Box | None]]:
        """Layers along x of every box, of at most `AT_ONCE` points where a plane is not more; None behind its last."""
        each = [list(_layers(box)) for box in self.boxes]
        return [[of[n] if n < len(of) else None for of in each] for n in range(max(map(len, each), default=0))]


def _layers(box: Box) -> Iterator[Box]:
    (x, *before), (last, *behind) = box.lo, box.hi
    width = max(1, AT_ONCE * (last - x) // max(1, box.points))
    for count in range(ceil((last - x) / width)):
        low, high = x + count * width, min(last, x + (count + 1) * width)
        yield Box(lo=(low, before[0], before[1]), hi=(high, behind[0], behind[1]))


class BlocksInBoxes(Mapping[int, Any]):
    """Blocks by chunk number of an array that comes in other boxes, and the boxes for programs that take these.

    `in_boxes`: makes the arrays of the boxes, or Dask futures of such. A program uses it or `in_chunks`: with both the
    array would be computed twice.
    """

    def __init__(
        self, boxes: Sequence[Box], in_boxes: Callable[[], Sequence[Any]], in_chunks: Callable[[], Blocks]
    ) -> None:
        self.boxes = tuple(boxes)
        self._in_boxes, self._in_chunks = in_boxes, in_chunks

    @cached_property
    def arrays(self) -> tuple[Any, ...]:
        """Arrays of the boxes, or Dask futures of such."""
        return tuple(self._in_boxes())

    @cached_property
    def _blocks(self) -> Blocks:
        return self._in_chunks()

    def __getitem__(self, number: int) -> Any:
        return self._blocks[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)


@dataclass(frozen=True, kw_only=True)
class Redistributed:
    """A command(program, blocks by chunk, ...) that is given a rank's blocks where they come in another cut."""

    command: Callable[..., Any]
    cut: OtherCut


def redistributed(engine: Engine, cut: OtherCut, blocks: Blocks) -> Blocks:
    """Blocks of a rank's chunks, float64 on their devices, from arrays or `LentArray`s of the boxes that it takes.

    InputError: one is masked, not real, or of another shape than its box.
    """
    out = engine.per_chunk(partial(_empty, partition=engine.partition))
    for layers in cut.layers():
        senders = _senders(engine.partition, cut, layers)
        cut_up = partial(_cut_up, partition=engine.partition, cut=cut, layers=layers, blocks=blocks)
        arrived = engine.deliver(engine.per_chunk(cut_up), senders, ("float64",))
        engine.per_chunk(partial(_put, partition=engine.partition, cut=cut, layers=layers), out, arrived)
    return engine.fetch(out)


def _senders(partition: Partition, cut: OtherCut, layers: Sequence[Box | None]) -> list[list[int]]:
    """The chunks that each chunk gets parts of these layers from, ascending."""
    return [
        sorted({cut.holders[n] for n, box in enumerate(layers) if box and box.intersect(chunk.box)})
        for chunk in partition
    ]


def _empty(backend: Backend, number: int, *, partition: Partition) -> Any:
    return backend.xp.empty(partition[number].box.shape)


def _cut_up(
    backend: Backend, number: int, *, partition: Partition, cut: OtherCut, layers: Sequence[Box | None], blocks: Blocks
) -> dict[int, tuple[Any]]:
    """Values of each chunk in the boxes that an owner takes for this one: float64, box after box."""
    parts: dict[int, list[Any]] = {}
    for n, layer in enumerate(layers):
        if layer is None or cut.holders[n] != number:
            continue
        values = _taken(backend, blocks[n], cut.boxes[n], layer)
        for chunk in partition:
            if (both := layer.intersect(chunk.box)) is not None:
                parts.setdefault(chunk.number, []).append(values[_within(layer, both)].reshape(-1))
    return {to: (part[0] if len(part) == 1 else backend.xp.concatenate(part),) for to, part in parts.items()}


def _taken(backend: Backend, block: Any, box: Box, layer: Box) -> Any:
    """A layer of a block on the device: float64, without gaps."""
    check_block(block, "fiub")
    if tuple(block.shape) != box.shape:
        raise InputError(f"a block of an array has shape {tuple(block.shape)}, where the array says {box.shape}")
    return backend.xp.ascontiguousarray(backend.asarray(block[_within(box, layer)]), dtype=np.float64)


def _put(
    _: Backend,
    number: int,
    out: Any,
    arrived: Mapping[int, tuple[Any]],
    *,
    partition: Partition,
    cut: OtherCut,
    layers: Sequence[Box | None],
) -> None:
    """Put what has come into a chunk's block."""
    box, done = partition[number].box, dict.fromkeys(arrived, 0)
    for n, layer in enumerate(layers):
        if layer is None or (both := layer.intersect(box)) is None:
            continue
        (values,), first = arrived[cut.holders[n]], done[cut.holders[n]]
        out[_within(box, both)] = values[first : first + both.points].reshape(both.shape)
        done[cut.holders[n]] = first + both.points


def _within(box: Box, part: Box) -> tuple[slice, slice, slice]:
    """Index of a part of a box in an array of its points, with the axes x, y, z."""
    moved = part.shifted((-box.lo[0], -box.lo[1], -box.lo[2]))
    return moved.slices
