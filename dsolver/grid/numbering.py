"""The numbers by which a chunk's rows name the points in and around it: `StencilRows.numbering`."""

from collections.abc import Sequence
from typing import Any

from dsolver.grid.box import Box, Offsets
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend
from dsolver.kernels.formats.stencil.rows import StencilRows


def with_halo(xp: Any, out: Any, box: Box, slots: list[tuple[Box, int]], wraps: Sequence[tuple[Box, Box]] = ()) -> Any:
    """The numbers of a box's points with those of the points around it.

    Args:
        out: int32 (nz + 2, ny + 2, nx + 2), the numbers of the points and a layer around them; not written to.
        slots: boxes whose points are the halo, in slot order, each with a step: every point or every second one along
            each axis, the first included.
        wraps: boxes where own points are found across a periodic axis, and which ones; see `Partition.wrapped`.
    """
    out = out.copy() if slots or wraps else out
    first = box.points
    for halo, step in slots:
        place = out[box.around(halo, step=step)]
        place[...] = first + xp.arange(place.size, dtype=xp.int32).reshape(place.shape)
        first += place.size
    for seen, own in wraps:
        out[box.around(seen)] = out[box.around(own)]
    return out


def chunk_numbering(backend: Backend, partition: Partition, number: int, offsets: Offsets) -> Any:
    """int32 (nz + 2, ny + 2, nx + 2): rows and halo slots around a chunk, as in `StencilRows.numbering`."""
    box = partition[number].box
    if len(partition) == 1 and not any(partition.periodic):
        return backend.lattice.numbers(box.shape)

    def make() -> Any:
        slots = [(seen, 1) for _, seen in partition.halo_boxes(number, offsets)]
        return with_halo(backend.xp, backend.lattice.numbers(box.shape), box, slots, partition.wrapped(number, offsets))

    return backend.layouts.kept("numbers around chunks", box.points, (*partition.cut, number, offsets), make)


def own_number(partition: Partition, number: int) -> int:
    """The chunk's number; where a level lives whole on every owner, the number of its only chunk."""
    return 0 if len(partition) == 1 else number


def by_offset(weights: Any, offsets: Offsets) -> Any:
    """Weights as `StencilRows` has them: (K, rows), or (K,) for a constant stencil; they may come in any shape."""
    return weights if weights.size == len(offsets) and weights.ndim == 1 else weights.reshape(len(offsets), -1)


def stencil_rows(backend: Backend, partition: Partition, number: int, offsets: Offsets, weights: Any) -> StencilRows:
    """The matrix rows of a chunk: weights (K rows,), offset after offset, or (K,), in any shape."""
    x, y, z = (wraps and count == 1 for wraps, count in zip(partition.periodic, partition.counts, strict=True))
    return StencilRows(
        shape=partition[number].box.shape,
        numbering=chunk_numbering(backend, partition, number, offsets).reshape(-1),
        offsets=offsets,
        weights=by_offset(weights, offsets),
        halo=has_halo(partition, number, offsets),
        wraps=(x, y, z),
    )


def has_halo(partition: Partition, number: int, offsets: Offsets) -> bool:
    """Whether rows of a chunk read others' points."""
    return bool(partition.neighbors(number, offsets))
