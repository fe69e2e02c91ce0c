"""Rows of finite volumes with a flux through each face: the text that every backend follows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Array
from dsolver.kernels.views import layer, without_base

F64 = npt.NDArray[np.float64]
CENTER = 3  # the place of the diagonal among a star's seven entries, which are in lattice order


@dataclass(frozen=True, kw_only=True)
class Fluxes:
    """Data from which the fluxes between the cells of a box follow. Everything is given along x, y and z."""

    # one number, or float64 (nz + 2, ny + 2, nx + 2) of the cells and a layer around them. It is 0 where a cell is left
    # out, and negative where u is held: -kappa counts in the diagonals of neighbors, but no row has an entry in such a
    # cell's column, nor that cell's row in another one.
    kappa: tuple[Array | float, Array | float, Array | float]
    sizes: tuple[F64, F64, F64]  # of the cells and of one more at each end: float64 (n + 2,) on the host
    # by axis and side (0 or 1) where rows end there: what is added to the diagonal instead of a flux, float64 (nz, ny,
    # nx) with one cell along the axis, or a number, the part of area / resistance of half a cell.
    ends: Mapping[tuple[int, int], Array | float]
    doubled: tuple[bool, bool, bool]  # whether two cells are all there is along a periodic axis, and meet on both sides
    held: bool = False  # whether kappa may be negative

    @property
    def shape(self) -> tuple[int, int, int]:
        """(nz, ny, nx)."""
        nx, ny, nz = (len(along) - 2 for along in self.sizes)
        return nz, ny, nx


def conductances(xp: Any, fluxes: Fluxes, axis: int) -> Array:
    """Area / resistance of the faces along an axis: float64 (nz, ny, nx) with one more along the axis.

    The resistance is that of two half cells in a row, (h/2) / |κ| each, infinite where κ is zero.
    """
    along, kappa = 2 - axis, fluxes.kappa[axis]
    if not isinstance(kappa, float):
        kappa = lines(kappa, axis)
        kappa = abs(kappa) if fluxes.held else kappa
    first, second = (_along(xp, other, fluxes.sizes[other][1:-1]) for other in (2, 1, 0) if other != axis)
    area = first * second
    shape = [n + (i == along) for i, n in enumerate(fluxes.shape)]
    with np.errstate(divide="ignore"):
        resistance = _along(xp, axis, 0.5 * fluxes.sizes[axis]) / kappa
        total = part(resistance, axis, 0) + part(resistance, axis, 1)
        faces = xp.divide(area, total, out=total if total.shape == tuple(shape) else None)
    out: Array = faces if faces.shape == tuple(shape) else xp.broadcast_to(faces, shape).copy()
    if fluxes.doubled[axis]:
        out *= 2.0
    for side in (0, 1):
        end = fluxes.ends.get((axis, side))
        if isinstance(end, float):
            place = slice(-2, -1) if side else slice(1, 2)
            half = resistance[tuple(place if i == along else slice(None) for i in range(3))]
            with np.errstate(divide="ignore"):
                end = end * (area / half) if end else end
        if end is not None:
            out[layer(axis, side)] = end
    return out


def star(xp: Any, fluxes: Fluxes, cells: Array | None = None) -> Array:
    """The rows: float64 (7, nz, ny, nx), entries in lattice order; or (7, cells), of the cells with these numbers."""
    out = xp.empty((7, *fluxes.shape))
    diagonal = without_base(out[CENTER])
    diagonal[...] = 0.0
    for axis in range(3):
        faces, kappa = conductances(xp, fluxes, axis), fluxes.kappa[axis]
        held = lines(kappa, axis) < 0.0 if fluxes.held and not isinstance(kappa, float) else None
        for side in (0, 1):
            diagonal += part(faces, axis, side)
            outward = without_base(out[(2 - axis, 4 + axis)[side]])
            xp.negative(part(faces, axis, side), out=outward)
            if held is not None:
                outward[part(part(held, axis, 0) | part(held, axis, 1), axis, side)] = 0.0
            if (axis, side) in fluxes.ends:
                outward[layer(axis, side)] = 0.0
    return out if cells is None else out.reshape(7, -1)[:, cells]


def lines(padded: Array, axis: int) -> Array:
    """Values (nz + 2, ny + 2, nx + 2) without the layers around them, but for those at both ends of an axis."""
    return padded[tuple(slice(None) if i == 2 - axis else slice(1, -1) for i in range(3))]


def part(faces: Array, axis: int, side: int) -> Array:
    """All but the last (side 0) or all but the first (side 1) along an axis."""
    places = [slice(None)] * 3
    places[2 - axis] = slice(side, faces.shape[2 - axis] - 1 + side)
    return faces[tuple(places)]


def _along(xp: Any, axis: int, values: F64) -> Array:
    """Values along an axis, to broadcast."""
    return xp.asarray(values).reshape([-1 if i == 2 - axis else 1 for i in range(3)])
