"""HPCG's coarse grids: every second point of each chunk, and what a correction exchanges of them.

Coarse point (I, J, K) of a chunk is its point (2I, 2J, 2K).
"""

from __future__ import annotations

from typing import Any

from dsolver.errors import InputError
from dsolver.grid.box import Box, Offsets, Triple, three
from dsolver.grid.halo import HaloPlan
from dsolver.grid.numbering import with_halo
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend
from dsolver.kernels.formats.stencil.rows import StencilRows
from dsolver.problems import Problem


def coarsened(partition: Partition) -> Partition:
    """The partition of every second point. InputError: a chunk's extent is odd."""
    for axis, extents in zip("xyz", partition.sizes, strict=True):
        if any(n % 2 for n in extents):
            raise InputError(f"chunks of {sorted(set(extents))} points along {axis} cannot be halved")
    x, y, z = (tuple(n // 2 for n in extents) for extents in partition.sizes)
    return Partition(three("grid", (n // 2 for n in partition.grid)), (x, y, z), partition.periodic)


def coarse_rows(xp: Any, fine: Triple, coarse: Triple) -> Any:
    """The fine row of each coarse row: int32 (coarse rows,)."""
    nx, ny, _ = fine
    i, j, k = (2 * xp.arange(n, dtype=xp.int32) for n in coarse)
    return (i[None, None, :] + nx * (j[None, :, None] + ny * k[:, None, None])).reshape(-1)


def coarse_halo_plan(partition: Partition, number: int, offsets: Offsets) -> HaloPlan:
    """The part of `Partition.halo_plan` that is coarse points. The rows to send are those of the coarser level."""
    lattice = Box(lo=(0, 0, 0), hi=three("hi", ((n + 1) // 2 for n in partition[number].box.shape)))
    return partition.halo_plan(number, offsets, lambda source, box: _coarse(box, partition[source].box), lattice)


def correction_rows(problem: Problem, partition: Partition, number: int, backend: Backend) -> StencilRows:
    """The rows of a chunk with coarse points alone as halo, in the slots of `coarse_halo_plan`."""
    slots, box = [], partition[number].box
    for piece in partition.halo_pieces(number, problem.offsets):
        whole = partition[piece.source].box
        found = _coarse(piece.box, whole) if piece.source != number else None
        if found is not None:
            moved = [a + b - c for a, b, c in zip(whole.lo, piece.seen.lo, piece.box.lo, strict=True)]
            lo, hi = (
                three("end", (first + 2 * i for first, i in zip(moved, end, strict=True)))
                for end in (found.lo, found.hi)
            )
            slots.append((Box(lo=lo, hi=hi), 2))
    wrapped = partition.wrapped(number, problem.offsets)
    return StencilRows(
        shape=box.shape,
        numbering=with_halo(backend.xp, backend.lattice.numbers(box.shape), box, slots, wrapped).reshape(-1),
        offsets=problem.offsets,
        weights=problem.values(backend.xp),
        halo=bool(slots),
    )


def _coarse(part: Box, whole: Box) -> Box | None:
    """The coarse points of a part of a chunk's box, by their indices in the chunk's coarse lattice; None for none."""
    lo, hi = (
        three("end", ((a - base + 1) // 2 for a, base in zip(end, whole.lo, strict=True))) for end in (part.lo, part.hi)
    )
    return Box(lo=lo, hi=hi) if all(a < b for a, b in zip(lo, hi, strict=True)) else None
