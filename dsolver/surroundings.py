"""Matrix rows in and around a chunk, which are all that its way to the coarser level depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

from dsolver.engines.base import Engine, Halo, PerChunk
from dsolver.everywhere import field_of
from dsolver.grids import direct_layout, own_number
from dsolver.kernels.backend import Backend
from dsolver.kernels.layout import HaloLayout
from dsolver.partition import DIRECTIONS, Offsets, Partition

WIDTH: Final = 2
"""Layers of points around a chunk whose rows its coarse matrix depends on."""
WIDE: Final[Offsets] = tuple((WIDTH * i, WIDTH * j, WIDTH * k) for i, j, k in DIRECTIONS)


def surrounded_rows(engine: Engine, partition: Partition, weights: PerChunk, count: int) -> PerChunk:
    """The rows in and around every chunk."""
    make = MakeSurrounded(partition=partition)
    if len(partition) == 1:
        return engine.per_chunk(make, weights)
    packed = engine.per_chunk(MakeShell(partition=partition), weights)
    senders = [partition.neighbors(number, WIDE) for number in range(len(partition))]
    halo = engine.halo(engine.per_chunk(MakeShellPlan(partition=partition, count=count)), senders)
    exchange_arrays(engine, packed, halo)
    return engine.per_chunk(make, weights, halo)


def exchange_arrays(engine: Engine, values: PerChunk, halo: Halo) -> None:
    """Exchange what is in arrays of every chunk as if they were a distributed vector."""
    engine.exchange(field_of(engine, values), halo)


# -- what is made on the owners ----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class MakeShell:
    """Packs the rows that the neighbors need."""

    partition: Partition

    def __call__(self, backend: Backend, number: int, weights: Any) -> Any:
        """float64, neighbor after neighbor."""
        nx, ny, nz = self.partition[number].box.shape
        values = weights.reshape(-1, nz, ny, nx)
        parts = [part.reshape(-1) for _, found in shell(self.partition, number, values) for part in found]
        return backend.xp.concatenate(parts) if parts else backend.xp.zeros(0)


@final
@dataclass(frozen=True, kw_only=True)
class MakeShellPlan:
    """Makes the plan by which shells are exchanged; count is the number of values of a point."""

    partition: Partition
    count: int

    def __call__(self, backend: Backend, number: int) -> HaloLayout:
        """The plan of a chunk."""
        sends = [
            (neighbor, dict(received(self.partition, neighbor, self.count))[number])
            for neighbor in self.partition.neighbors(number, WIDE)
        ]
        return direct_layout(backend, sends, received(self.partition, number, self.count))


@final
@dataclass(frozen=True, kw_only=True)
class MakeSurrounded:
    """Puts a chunk's rows and what came from the neighbors into one array."""

    partition: Partition

    def __call__(self, backend: Backend, number: int, weights: Any, halo: Any = None) -> Any:
        """float64 (K, nz + 4, ny + 4, nx + 4)."""
        number = own_number(self.partition, number)
        nx, ny, nz = self.partition[number].box.shape
        return surrounded(backend, self.partition, number, weights.reshape(-1, nz, ny, nx), halo)


# -- pieces of the layers around a chunk -------------------------------------------------------------------------------


def shell(partition: Partition, number: int, values: Any) -> list[tuple[int, list[Any]]]:
    """Per neighbor, the parts of a chunk's values (K, nz, ny, nx) that lie within `WIDTH` layers around it."""
    box = partition[number].box
    return [
        (
            neighbor,
            [
                values[(slice(None), *box.around(piece.box, width=0))]
                for piece in partition.halo_pieces(neighbor, WIDE)
                if piece.source == number
            ],
        )
        for neighbor in partition.neighbors(number, WIDE)
    ]


def received(partition: Partition, number: int, count: int) -> list[tuple[int, int]]:
    """Per neighbor, how many items of `count` values a point a chunk gets for `surrounded`."""
    sizes: dict[int, int] = {}
    for piece in partition.halo_pieces(number, WIDE):
        if piece.source != number:
            sizes[piece.source] = sizes.get(piece.source, 0) + count * piece.box.points
    return sorted(sizes.items())


def surrounded(backend: Backend, partition: Partition, number: int, values: Any, halo: Any) -> Any:
    """A chunk's values (K, nz, ny, nx) with `WIDTH` layers around them, zero outside the domain.

    Args:
        backend: whose arrays these are.
        partition: the chunks.
        number: of the chunk.
        values: its own.
        halo: what the neighbors' `shell`s have sent, behind the guard.
    """
    box = partition[number].box
    out = backend.framed(values, WIDTH)
    first = backend.guard
    for piece in partition.halo_pieces(number, WIDE):
        place = out[(slice(None), *box.around(piece.seen, width=WIDTH))]
        if piece.source == number:
            place[...] = values[(slice(None), *box.around(piece.box, width=0))]
        else:
            place[...] = halo[first : first + place.size].reshape(place.shape)
            first += place.size
    return out
