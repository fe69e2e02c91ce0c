"""The numbers by which a chunk's rows name the points in and around it: `StencilRows.numbering`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsolver.partition import Box


def numbering(xp: Any, box: Box, slots: list[tuple[Box, int]], wrapped: Sequence[tuple[Box, Box]] = ()) -> Any:
    """int32, flat, x fastest: `StencilRows.numbering` of a box. For the arguments see `with_halo`."""
    nx, ny, nz = box.shape
    out = xp.full((nz + 2, ny + 2, nx + 2), -1, dtype=xp.int32)
    out[1:-1, 1:-1, 1:-1] = xp.arange(box.points, dtype=xp.int32).reshape(nz, ny, nx)
    return with_halo(xp, out, box, slots, wrapped).reshape(-1)


def with_halo(
    xp: Any, out: Any, box: Box, slots: list[tuple[Box, int]], wrapped: Sequence[tuple[Box, Box]] = ()
) -> Any:
    """The numbers of a box's points with those of the points around it.

    Args:
        xp: the array module.
        out: int32 (nz + 2, ny + 2, nx + 2), the numbers of the points and a layer around them, which is written to.
        box: the chunk's points.
        slots: boxes whose points are the halo, in slot order, each with a step: every point or every second one along
            each axis, the first included.
        wrapped: boxes where own points are found across a periodic axis, and which ones; see `Partition.wrapped`.
    """
    first = box.points
    for halo, step in slots:
        place = out[box.around(halo, step=step)]
        place[...] = first + xp.arange(place.size, dtype=xp.int32).reshape(place.shape)
        first += place.size
    for seen, own in wrapped:
        out[box.around(seen)] = out[box.around(own)]
    return out
