"""Layers of points around a chunk that a star's passes read: where they are in a halo and in a vector."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from dsolver.grid.box import Offsets, Triple
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend
from dsolver.kernels.formats.layout import Layout, Route
from dsolver.kernels.lattice.star import Around


def with_layers(backend: Backend, chunk: Around) -> Layout:
    """The order of a chunk's points in a vector in lattice order that has room for the layers around it."""
    if not chunk.pieces:
        return backend.layouts.plain(chunk.shape)
    whole = backend.layouts.plain(chunk.extended)
    position = places(backend, chunk, (0, 0, 0))
    rows = len(position)
    row = backend.xp.full(whole.size, -1, dtype=np.int32)
    row[position] = backend.xp.arange(rows, dtype=np.int32)
    return replace(whole, rows=rows, position=position, row=row, color=whole.color[:rows], shape=chunk.shape)


def places(backend: Backend, chunk: Around, direction: Triple) -> Any:
    """int32, the places of a chunk's points, or of the layers in a direction, in such a vector."""
    nx, ny, nz = chunk.extended
    numbers = backend.xp.arange(nx * ny * nz, dtype=np.int32).reshape(nz, ny, nx)
    return backend.guard + numbers[chunk.where(direction)].reshape(-1)


def received(backend: Backend, chunk: Around) -> Route:
    """The `Route` from a chunk's halo vector to such a vector."""
    xp, targets, sources = backend.xp, [], []
    for direction, first in chunk.pieces:
        targets.append(places(backend, chunk, direction))
        sources.append(first + xp.arange(len(targets[-1]), dtype=np.int32))
    nothing = xp.zeros(0, dtype=np.int32)
    return backend.layouts.route(xp.concatenate([nothing, *sources]), xp.concatenate([nothing, *targets]))


def layer_offsets(partition: Partition, layers: tuple[int, int]) -> Offsets:
    """Offsets that a chunk's pass reads: so many layers below and above it along each axis that is cut."""
    below, above = layers
    steps = [(-below, 0, above) if count > 1 else (0,) for count in partition.counts]
    return tuple((i, j, k) for k, j, i in product(*steps[::-1]) if (i, j, k) != (0, 0, 0))


def around(partition: Partition, number: int, offsets: Offsets, layers: tuple[int, int], guard: int) -> Around:
    """A chunk and where in its halo vector, with a guard in front, the values at the offsets are."""
    box = partition[number].box
    pieces: list[tuple[Triple, int]] = []
    first = guard
    for piece in partition.halo_pieces(number, offsets):
        x, y, z = (
            -1 if hi <= low else int(lo >= high)
            for lo, hi, low, high in zip(piece.seen.lo, piece.seen.hi, box.lo, box.hi, strict=True)
        )
        pieces.append(((x, y, z), first))
        first += piece.box.points
    return Around(
        grid=partition.grid, wraps=partition.periodic, lo=box.lo, shape=box.shape, layers=layers, pieces=tuple(pieces)
    )
