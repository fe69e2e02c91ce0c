"""Ghost rows of a chunk: the matrix rows in the layers around it, which P and PᵀAP at its own points depend on."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from dsolver.engines.base import Engine, Message, Messages, PerChunk
from dsolver.grid.box import DIRECTIONS, Offsets, Triple
from dsolver.grid.numbering import own_number
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend

WIDTH: Final = 2  # layers of points around a chunk whose rows its coarse matrix depends on
WIDE: Final[Offsets] = tuple((WIDTH * i, WIDTH * j, WIDTH * k) for i, j, k in DIRECTIONS)


def ghosted_rows(
    engine: Engine, partition: Partition, weights: PerChunk, offsets: Offsets, factors: Triple | None = None
) -> PerChunk:
    """The rows in and around every chunk, float64 (K, nz + 4, ny + 4, nx + 4).

    `factors`: by which axes are made coarser, where that is what rows are wanted for. Rows of a chunk alone are
    themselves, (K rows,), where that needs no ghost layers.
    """
    make, count = partial(with_ghosts, partition=partition), len(offsets)
    if len(partition) == 1:
        coarser = None if factors is None or any(partition.periodic) else (factors, offsets)
        return engine.per_chunk(partial(make, coarser=coarser), weights)
    packed = engine.per_chunk(partial(_packed, partition=partition), weights)
    senders = [partition.neighbors(number, WIDE) for number in range(len(partition))]
    around = engine.deliver(packed, senders, ("float64",), partial(received, partition, count))
    return engine.per_chunk(make, weights, around)


def _packed(backend: Backend, number: int, weights: Any, *, partition: Partition) -> dict[int, Message]:
    """The rows that the neighbors need, float64, by neighbor."""
    nx, ny, nz = partition[number].box.shape
    found = shell(partition, number, weights.reshape(-1, nz, ny, nx))
    return {to: (backend.xp.concatenate([part.reshape(-1) for part in parts]),) for to, parts in found}


def with_ghosts(
    backend: Backend,
    number: int,
    weights: Any,
    around: Messages | None = None,
    *,
    partition: Partition,
    coarser: tuple[Triple, Offsets] | None = None,
) -> Any:
    """A chunk's rows and what came from the neighbors in one array; the rows alone where `coarser` needs no others."""
    if coarser is not None and backend.lattice.frameless(*coarser):
        return weights
    number = own_number(partition, number)
    nx, ny, nz = partition[number].box.shape
    out = backend.lattice.framed(weights.reshape(-1, nz, ny, nx), WIDTH)
    parts = [values for (values,) in around.values()] if around else []
    partition.fill_around(number, WIDE, out, parts[0] if len(parts) == 1 else _joined(backend, parts), WIDTH)
    return out


def _joined(backend: Backend, parts: Sequence[Any]) -> Any:
    return backend.xp.concatenate(parts) if parts else None


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


def received(partition: Partition, count: int, number: int) -> dict[int, int]:
    """Numbers of received items, of `count` values a point, by neighbor, ascending."""
    sizes: dict[int, int] = {}
    for piece in partition.halo_pieces(number, WIDE):
        if piece.source != number:
            sizes[piece.source] = sizes.get(piece.source, 0) + count * piece.box.points
    return dict(sorted(sizes.items()))
