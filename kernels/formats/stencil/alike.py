"""Numbers that all rows of a box have in common, and the constant stencil that they are."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dsolver.kernels.views import without_base

if TYPE_CHECKING:
    from dsolver.kernels.lattice.setup import LatticeSetup
from dsolver.kernels.formats.stencil.constant import ConstantStencil
from dsolver.kernels.formats.stencil.rows import CENTER, OFFSETS, StencilRows, Triple

ROUNDING: Final = 4 * float(np.finfo(np.float64).eps)
"""Largest distance of a diagonal from the sum of its parts, as a part of itself: sums in another order."""
CANCELED: Final = 4.0
"""Largest ratio of the diagonal inside to one at a face: gains that take off nearly all of it take the digits of what
is left, too. Of diffusion with constant coefficients a third is left at least."""


@dataclass(frozen=True, kw_only=True)
class Alike:
    """Numbers that all rows of a box have in common."""

    wraps: tuple[bool, bool, bool]  # along which axes the box is its own neighbor
    weights: tuple[float, ...]  # of each offset; 0 for those that lead nowhere, of the diagonal that of rows inside
    faces: tuple[float, ...]  # what the diagonal gains at the box's faces, as in `ConstantStencil`


def constant_stencil(lattice: "LatticeSetup", rows: StencilRows, lo: Triple) -> ConstantStencil | None:
    """The rows as a constant stencil, or None if they are none.

    Rows that differ in what the diagonal gains at the box's faces are one: diffusion with constant coefficients and any
    conditions at its edge. None also where the parity of indices is no coloring: across an axis that wraps with an odd
    number of points.
    """
    found = lattice.alike(rows)
    if found is None or any(w and n % 2 for w, n in zip(found.wraps, rows.shape, strict=True)):
        return None
    weights = tuple(dict(zip(rows.offsets, found.weights, strict=True)).get(o, 0.0) for o in OFFSETS)
    if weights[CENTER] == 0.0:
        return None
    return ConstantStencil(shape=rows.shape, weights=weights, faces=found.faces, wraps=found.wraps, lo=lo)


def alike(rows: StencilRows) -> Alike | None:
    """The numbers that rows have in common; None if they vary. The text that every backend follows."""
    if rows.weights.ndim == 1:
        return Alike(wraps=_wraps(rows), weights=tuple(rows.weights.tolist()), faces=(0.0,) * 6)
    found = _weights(rows)
    if found is None:
        return None
    base, faces = _diagonal(rows)
    if faces is None:
        return None
    weights = (base if not any(offset) else weight for offset, weight in zip(rows.offsets, found, strict=True))
    return Alike(wraps=_wraps(rows), weights=tuple(weights), faces=faces)


def _wraps(rows: StencilRows) -> tuple[bool, bool, bool]:
    nx, ny, nz = rows.shape
    around = rows.numbering.reshape(nz + 2, ny + 2, nx + 2)
    x, y, z = (0 <= int(around[place]) < rows.rows for place in ((1, 1, 0), (1, 0, 1), (0, 1, 1)))
    return x, y, z


def _weights(rows: StencilRows) -> list[float] | None:
    """The value of each offset's entries wherever there are such entries; None if there is more than one."""
    offset, places = probes(rows)
    if len({float(rows.weights[offset, place]) for place in places}) > 1:
        return None
    nx, ny, nz = rows.shape
    around = rows.numbering.reshape(nz + 2, ny + 2, nx + 2)
    out = []
    for (i, j, k), values in zip(rows.offsets, rows.weights, strict=True):
        there = around[k + 1 : k + 1 + nz, j + 1 : j + 1 + ny, i + 1 : i + 1 + nx].reshape(-1) >= 0
        if (i, j, k) == (0, 0, 0) or not bool(there.any()):
            out.append(0.0)
            continue
        values = without_base(values)
        first = values[int(there.argmax())]
        if not bool(((values == first) | ~there).all()):
            return None
        out.append(float(first) + 0.0)  # one zero
    return out


def probes(rows: StencilRows) -> tuple[int, tuple[int, ...]]:
    """Three places at which one offset's entries differ as a rule if coefficients vary: its number and theirs.

    To look at all entries takes a pass over them. There are no places if no offset has its neighbor in the box.
    """
    nx, ny, _ = rows.shape
    for number, offset in enumerate(rows.offsets):
        inside = [range(max(0, -step), n - max(0, step)) for step, n in zip(offset, rows.shape, strict=True)]
        if any(offset) and all(inside):
            points = ([along[at] for along in inside] for at in (0, -1))
            middle = [along[len(along) // 2] for along in inside]
            return number, tuple(i + nx * (j + ny * k) for i, j, k in (middle, *points))
    return 0, ()


def _diagonal(rows: StencilRows) -> tuple[float, tuple[float, ...] | None]:
    """The diagonal inside and what it gains at the faces; None if it is not made of that."""
    center = rows.offsets.index((0, 0, 0))
    nx, ny, nz = rows.shape
    values = without_base(rows.weights[center]).reshape(nz, ny, nx)
    inside = [1 if n > 2 else 0 for n in (nz, ny, nx)]
    base = values[tuple(inside)]
    faces = []
    rest = values - base
    for axis, n in enumerate(rows.shape):
        for at, counts in ((0, n > 2), (n - 1, n > 1)):
            place = list(inside)
            place[2 - axis] = at
            gain = values[tuple(place)] - base if counts else 0.0 * base
            where: list[Any] = [slice(None)] * 3
            where[2 - axis] = at
            rest[tuple(where)] -= gain
            faces.append(float(gain))
    sizes = abs(values)
    fits = bool(((abs(rest) <= ROUNDING * sizes) & (abs(base) <= CANCELED * sizes)).all())
    return float(base), tuple(faces) if fits else None
