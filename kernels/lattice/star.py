"""A star between two levels: a forward sweep and a restriction going down, a prolongation and a backward sweep back up.

The way down reaches two points below a chunk and three above it, the way up two coarse points and one: with the
neighbors' values in so many layers around it, a chunk computes once more what its neighbors compute there. So sweeps
see values of the same sweep across chunks, and each point gets what it gets where one chunk is the whole grid.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.formats.stencil.constant import ConstantStencil
from dsolver.kernels.formats.stencil.rows import CENTER, Triple

Real = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

KINDS: Final = 4
"""Kinds of a point along one axis: at the lower face (0), inside (1), at the upper face (2), or even and the one before
that (3). Along an axis that wraps, all are inside."""
NEIGHBORS: Final = ((1, 1, 1, 1), (1, 1, 1, 2))
"""Kinds of the neighbors below and above a point, by its own kind: that after an even one before the face is at it."""
AROUND: Final = ((1, 2), (0, 2), (0, 1))  # the axes other than x, y, z
NEGLIGIBLE: Final = 1e-13  # as in `dsolver.kernels.lattice.coarsening`
LAYERS: Final = (2, 3)
"""Layers of r below and above a chunk: a coarse point's red ones, the black ones around these, and the red ones around
those. The first point of a chunk is even, so that its first coarse point is the second one."""
COARSE_LAYERS: Final = (2, 1)
"""Layers of the coarser level's solution: a red point two below a chunk lies between coarse ones on both its sides."""
LEAST: Final = 4
"""Points of a chunk along an axis that is cut: neighbors have all layers, of r and of the coarser level."""
THINNEST: Final = 3  # points of a grid along an axis: with fewer, a point is of two `KINDS` at once


@dataclass(frozen=True, kw_only=True)
class Around:
    """A chunk's part of a vector on a grid, and where its neighbors' values around it are."""

    grid: Triple
    wraps: tuple[bool, bool, bool]
    lo: Triple  # the chunk's first point
    shape: Triple  # its points along x, y, z
    layers: tuple[int, int] = (0, 0)  # of neighbors' values below and above it, on sides where it has any
    # the directions in which it has neighbors, -1 to 1 along x, y, z, and where the values there begin in its halo
    # vector.
    pieces: tuple[tuple[Triple, int], ...] = ()

    @cached_property
    def closed(self) -> tuple[bool, bool, bool]:
        """Along which axes the chunk is its own neighbor."""
        x, y, z = (w and n == m for w, n, m in zip(self.wraps, self.shape, self.grid, strict=True))
        return x, y, z

    @cached_property
    def below(self) -> Triple:
        """Layers below along x, y, z."""
        x, y, z = (self.layers[0] * any(d[a] < 0 for d, _ in self.pieces) for a in range(3))
        return x, y, z

    @cached_property
    def first(self) -> Triple:
        """The first point, layers included."""
        x, y, z = (low - below for low, below in zip(self.lo, self.below, strict=True))
        return x, y, z

    @cached_property
    def extended(self) -> Triple:
        """Points along x, y, z, layers included."""
        above = (self.layers[1] * any(d[a] > 0 for d, _ in self.pieces) for a in range(3))
        x, y, z = (n + low + high for n, low, high in zip(self.shape, self.below, above, strict=True))
        return x, y, z

    def where(self, direction: Triple) -> tuple[slice, slice, slice]:
        """The place (z, y, x) of the chunk, or of the piece in a direction, in an array of all of `extended`."""
        x, y, z = (
            slice(0, below) if d < 0 else slice(below, below + n) if d == 0 else slice(below + n, None)
            for d, below, n in zip(direction, self.below, self.shape, strict=True)
        )
        return z, y, x

    def joined(self, own: Real, halo: Real, guard: int) -> Real:
        """The values of all of `extended` as a vector with guards: that of the chunk where there are no neighbors."""
        if not self.pieces:
            return own
        nx, ny, nz = self.extended
        out = np.zeros(nx * ny * nz + 2 * guard, dtype=own.dtype)
        block = out[guard : guard + nx * ny * nz].reshape(nz, ny, nx)
        for direction, first in (((0, 0, 0), guard), *self.pieces):
            place = block[self.where(direction)]
            source = halo if any(direction) else own
            place[...] = source[first : first + place.size].reshape(place.shape)
        return out

    def own(self, values: Real, guard: int) -> Real:
        """The chunk's part (nz, ny, nx) of such a vector."""
        nx, ny, nz = self.extended
        return values[guard : guard + nx * ny * nz].reshape(nz, ny, nx)[self.where((0, 0, 0))]


@dataclass(frozen=True, kw_only=True)
class StarTransfer:
    """P and R = P^T between a chunk of a star's grid and the grid of its points with odd indices.

    The interpolation is that of `LatticeSetup.interpolation`. A red point, of the color swept first going forward, is a
    coarse point or lies between coarse ones along two axes; after a forward sweep the residual is zero at all others,
    and a backward sweep overwrites x there before it reads it. So P at red points is all that a cycle needs.
    """

    stencil: ConstantStencil  # the star on the whole of the grid
    fine: Around
    # what there is of the coarser level's solution: the chunk's points and the layers around them, or all.
    corrected: Around
    coarse: Layout  # storage order of the restricted residual at the chunk's coarse points
    # float64 (4, 4, 4, 3, 4): by a point's kinds along z, y, x and the one axis along which it is not between coarse
    # points, the weights of the corners: 0 or 1 along the first other axis, plus 2 along the second.
    table: npt.NDArray[np.float64]

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self.table.nbytes

    @cached_property
    def restricted(self) -> Around:
        """The chunk's coarse points, by themselves."""
        fine, corrected = self.fine, self.corrected
        x, y, z = ((low, (low + n) // 2 - low // 2) for low, n in zip(fine.lo, fine.shape, strict=True))
        return Around(
            grid=corrected.grid, wraps=corrected.wraps, lo=(x[0] // 2, y[0] // 2, z[0] // 2), shape=(x[1], y[1], z[1])
        )

    @cached_property
    def extended(self) -> ConstantStencil:
        """The star on the chunk and the layers around it, beyond which are zeros."""
        shape, first = self.fine.extended, self.fine.first
        faces = [0.0] * 6
        for axis, n in enumerate(self.stencil.shape):
            if first[axis] == 0:
                faces[2 * axis] = self.stencil.faces[2 * axis]
            if first[axis] + shape[axis] == n:
                faces[2 * axis + 1] = self.stencil.faces[2 * axis + 1]
        return ConstantStencil(
            shape=shape, weights=self.stencil.weights, faces=tuple(faces), wraps=self.fine.closed, lo=first
        )

    @cached_property
    def kinds(self) -> tuple[I64, I64, I64]:
        """The kinds of all points along x, y, z, layers included."""
        x, y, z = (
            _kinds(n, wraps)[np.arange(first, first + extent) % n]
            for n, wraps, first, extent in zip(
                self.stencil.shape, self.stencil.wraps, self.fine.first, self.fine.extended, strict=True
            )
        )
        return x, y, z


def _kinds(n: int, wraps: bool) -> I64:
    kinds = np.ones(n, dtype=np.int64)
    if not wraps:
        kinds[n - 2] = 1 if n % 2 else 3
        kinds[0], kinds[n - 1] = 0, 2
    return kinds


def has_way_down(stencil: ConstantStencil) -> bool:
    """Whether `star_transfer` knows the way to the next coarser level, where all axes are coarsened."""
    symmetric = stencil.weights == stencil.weights[::-1]
    faced = any(stencil.faces[2 * a] or stencil.faces[2 * a + 1] for a in range(3) if stencil.wraps[a])
    return stencil.star and symmetric and not faced and not any(stencil.lo) and min(stencil.shape) >= THINNEST


def star_transfer(stencil: ConstantStencil, fine: Around, corrected: Around, coarse: Layout) -> StarTransfer:
    """The way between a chunk of a star's grid and the next coarser level; see `StarTransfer` for the arguments.

    ValueError: the stencil is no symmetric star on the whole of a grid of at least 3 points along each axis, not all
    axes are coarsened, or a chunk begins at an odd point or is thinner than `LEAST` where it is cut.
    """
    if not has_way_down(stencil):
        raise ValueError("this stencil is no symmetric star on a whole grid of at least 3 points along each axis")
    if corrected.grid != tuple(n // 2 for n in stencil.shape):
        raise ValueError(f"the coarse grid of {stencil.shape} points does not have {corrected.grid}")
    cut = [n for n, m in zip(fine.shape, fine.grid, strict=True) if n < m]
    if any(low % 2 for low in fine.lo) or any(n < LEAST for n in cut):
        raise ValueError(f"a chunk of {fine.shape} points from {fine.lo} on does not begin and end between pairs")
    return StarTransfer(stencil=stencil, fine=fine, corrected=corrected, coarse=coarse, table=_corners(stencil))


def _corners(stencil: ConstantStencil) -> F64:
    """The corners' weights at points between coarse ones along two axes: see `StarTransfer.table`."""
    along = [_sides(stencil, axis) for axis in range(3)]
    size: F64 | float = 0.0
    for lower, upper, _ in along:
        size = size + abs(lower) + abs(upper)
    size = size + abs(stencil.weights[CENTER])

    def collapsed(between: tuple[int, ...]) -> list[tuple[F64, F64]]:
        """Weights of points between coarse ones along some axes, of neighbors below and above along each of these."""
        center: F64 | float = stencil.weights[CENTER]
        for axis, (lower, upper, gain) in enumerate(along):
            center = center + gain
            if axis not in between:
                center = center + (lower + upper)
        good = center > NEGLIGIBLE * size
        divisor, both = np.where(good, center, 1.0), [along[axis][:2] for axis in between]
        return [(np.where(good, -low / divisor, 0.0), np.where(good, -high / divisor, 0.0)) for low, high in both]

    edges = [collapsed((axis,))[0] for axis in range(3)]
    table = np.zeros((KINDS, KINDS, KINDS, 3, 4))
    for across, between in enumerate(AROUND):
        for place, (axis, sides) in enumerate(zip(between, collapsed(between), strict=True)):
            for side, part in enumerate(sides):
                for end, edge in enumerate(edges[between[1 - place]]):
                    bits = (side, end) if place == 0 else (end, side)
                    there = edge.take(NEIGHBORS[side], axis=2 - axis)
                    table[..., across, bits[0] + 2 * bits[1]] += part * there
    return table


def _sides(stencil: ConstantStencil, axis: int) -> tuple[F64, F64, F64]:
    """Weights of the neighbors below and above along an axis, and what the diagonal gains, by kind along it."""
    unit = 3**axis
    lower, upper = (np.full(KINDS, stencil.weights[CENTER + step]) for step in (-unit, unit))
    gain = np.zeros(KINDS)
    lower[0], upper[2] = 0.0, 0.0
    gain[0], gain[2] = stencil.faces[2 * axis : 2 * axis + 2]
    x, y, z = (values.reshape([-1 if a == 2 - axis else 1 for a in range(3)]) for values in (lower, upper, gain))
    return x, y, z
