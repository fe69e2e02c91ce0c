"""What is solved: constant stencils on a grid with zero Dirichlet values outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.kernels.backend import StencilRows
from dsolver.partition import Box, Cut, Offsets, Partition, Triple, cut_of, three

BOX_OFFSETS: Offsets = tuple((i, j, k) for k, j, i in product((-1, 0, 1), repeat=3))
STAR_OFFSETS: Offsets = tuple(o for o in BOX_OFFSETS if sum(map(abs, o)) <= 1)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A linear system whose rows all have the same stencil.

    Attributes:
        name: for reports.
        grid: points along x, y, z. Arrays of the problem have this shape; ``b[i, j, k]`` belongs to point (i, j, k).
        chunks: how many chunks along x, y, z, or their extents along each (as a Dask array's `chunks`), or None to let
            `dsolver.solve` choose one for each worker.
        offsets: the 7 or 27 offsets of a row's columns, (0, 0, 0) among them.
        weights: the value at each offset.
    """

    name: str
    grid: Triple
    chunks: Cut | None = None
    offsets: Offsets = field(repr=False)
    weights: tuple[float, ...] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", three("grid", self.grid))
        if self.chunks is not None:
            object.__setattr__(self, "chunks", cut_of(self.chunks))
        if len(self.offsets) != len(self.weights):
            raise InputError(f"{len(self.offsets)} offsets but {len(self.weights)} weights")
        if len(set(self.offsets)) != len(self.offsets) or not set(self.offsets) <= set(BOX_OFFSETS):
            raise InputError(f"offsets must be different from each other and in -1 .. 1, not {self.offsets}")
        if not np.isfinite(self.weights).all():
            raise InputError(f"the stencil has a weight that is not finite: {self.weights}")
        if (0, 0, 0) not in self.offsets or self.weights[self.offsets.index((0, 0, 0))] == 0.0:
            raise InputError("the stencil has a zero diagonal: Gauss-Seidel and multigrid divide by it")
        by_offset = dict(zip(self.offsets, self.weights, strict=True))
        for (i, j, k), weight in by_offset.items():
            if by_offset.get((-i, -j, -k)) != weight:
                raise InputError(f"the stencil is not symmetric at {(i, j, k)}: conjugate gradients need A = Aᵀ")
        Partition(self.grid, self.chunks or (1, 1, 1))

    def rows(self, partition: Partition, number: int, xp: Any) -> StencilRows:
        """The matrix rows of one chunk, on this problem's grid or on a coarser one with the same stencil."""
        slots = [(box, 1) for _, box in partition.halo_boxes(number, self.offsets)]
        return self._rows(partition, number, slots, xp)

    def correction_rows(self, partition: Partition, number: int, xp: Any) -> StencilRows:
        """The same rows, with coarse points alone as halo, in the slots of `Partition.coarse_halo_plan`."""
        slots = []
        for piece in partition.halo_pieces(number, self.offsets):
            whole = partition[piece.source].box
            found = piece.box.halved(whole) if piece.source != number else None
            if found is not None:
                moved = three("moved", (a - b for a, b in zip(piece.seen.lo, piece.box.lo, strict=True)))
                lo, hi = (
                    tuple(base + 2 * i for base, i in zip(whole.lo, end, strict=True)) for end in (found.lo, found.hi)
                )
                slots.append((Box(lo=three("lo", lo), hi=three("hi", hi)).shifted(moved), 2))
        return self._rows(partition, number, slots, xp)

    def _rows(self, partition: Partition, number: int, slots: list[tuple[Box, int]], xp: Any) -> StencilRows:
        box = partition[number].box
        return StencilRows(
            shape=box.shape,
            numbering=numbering(xp, box, slots, partition.wrapped(number, self.offsets)),
            offsets=self.offsets,
            weights=xp.asarray(self.weights, dtype=xp.float64),
        )


def numbering(xp: Any, box: Box, slots: list[tuple[Box, int]], wrapped: Sequence[tuple[Box, Box]] = ()) -> Any:
    """int32, flat, x fastest: `StencilRows.numbering` of a box.

    Args:
        xp: the array module.
        box: the chunk's points.
        slots: boxes whose points are the halo, in slot order, each with a step: every point or every second one along
            each axis, the first included.
        wrapped: boxes where own points are found across a periodic axis, and which ones; see `Partition.wrapped`.
    """
    nx, ny, nz = box.shape
    out = xp.full((nz + 2, ny + 2, nx + 2), -1, dtype=xp.int32)
    out[1:-1, 1:-1, 1:-1] = xp.arange(box.points, dtype=xp.int32).reshape(nz, ny, nx)
    first = box.points
    for halo, step in slots:
        place = out[box.around(halo, step=step)]
        place[...] = first + xp.arange(place.size, dtype=xp.int32).reshape(place.shape)
        first += place.size
    for seen, own in wrapped:
        out[box.around(seen)] = out[box.around(own)]
    return out.reshape(-1)


def stencil(grid: Triple, weights: npt.ArrayLike, *, chunks: Cut | None = None, name: str = "stencil") -> Problem:
    """A constant stencil with zero Dirichlet values outside the grid.

    Args:
        grid: points along x, y, z.
        weights: shape (3, 3, 3), the value for column offset (di, dj, dk) at [di + 1, dj + 1, dk + 1]. Symmetric under
            point reflection. With zeros off the axes it is stored as a 7-point stencil.
        chunks: how many chunks along x, y, z, or their extents along each; by default one for each worker.
        name: for reports.

    Raises:
        InputError: the shape is not (3, 3, 3), a weight is not real and finite, the diagonal is zero, the stencil is
            not symmetric, or the grid cannot be cut so.
    """
    try:
        values = np.asarray(weights)
    except ValueError as error:
        raise InputError(f"stencil weights must have shape (3, 3, 3): {error}") from error
    if values.dtype.kind not in "fiu":
        raise InputError(f"stencil weights must be real numbers, not {values.dtype}")
    if values.shape != (3, 3, 3):
        raise InputError(f"stencil weights must have shape (3, 3, 3), not {values.shape}")
    used = {o: float(values[o[0] + 1, o[1] + 1, o[2] + 1]) for o in BOX_OFFSETS}
    star = all(weight == 0.0 for o, weight in used.items() if o not in STAR_OFFSETS)
    offsets = STAR_OFFSETS if star else BOX_OFFSETS
    return Problem(name=name, grid=grid, chunks=chunks, offsets=offsets, weights=tuple(used[o] for o in offsets))


def hpcg(grid: Triple, *, chunks: Cut | None = None) -> Problem:
    """HPCG's 27-point problem: diagonal 26, every other entry -1 (Dongarra, Heroux, Luszczek, HPCG 3.1)."""
    return stencil(grid, _centered(26.0, BOX_OFFSETS), chunks=chunks, name="hpcg")


def poisson7(grid: Triple, *, chunks: Cut | None = None) -> Problem:
    """The 7-point Laplacian times -h²: diagonal 6, neighbors -1."""
    return stencil(grid, _centered(6.0, STAR_OFFSETS), chunks=chunks, name="poisson7")


def poisson27(grid: Triple, *, chunks: Cut | None = None) -> Problem:
    """The 27-point Laplacian with equal weights: diagonal 26, neighbors -1; HPCG's matrix under its usual name."""
    return stencil(grid, _centered(26.0, BOX_OFFSETS), chunks=chunks, name="poisson27")


def _centered(center: float, offsets: Offsets) -> npt.NDArray[np.float64]:
    out = np.zeros((3, 3, 3))
    for i, j, k in offsets:
        out[i + 1, j + 1, k + 1] = -1.0
    out[1, 1, 1] = center
    return out
