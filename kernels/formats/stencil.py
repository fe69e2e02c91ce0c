"""Constant stencils: matrices that are not stored, and the NumPy text of their products and sweeps.

Rows of a box whose entries away from the diagonal are the same in every row follow from a few numbers. Vectors are in
lattice order, so a product reads x once and writes y once: 16 bytes a row in float64, where a stored 7-point matrix
costs 80.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Array
from dsolver.kernels.views import without_base

if TYPE_CHECKING:
    from dsolver.kernels.lattice.setup import LatticeSetup
    from dsolver.kernels.lattice.star import StarTransfer

Real = npt.NDArray[Any]
Triple = tuple[int, int, int]

OFFSETS: Final[tuple[Triple, ...]] = tuple((i, j, k) for k, j, i in product((-1, 0, 1), repeat=3))
CENTER: Final = OFFSETS.index((0, 0, 0))
STAR: Final = tuple(offset for offset in OFFSETS if sum(map(abs, offset)) <= 1)
"""The offsets of 7 points."""

CLASSES: Final = (7, 6, 5, 3, 4, 2, 1, 0)
"""Parity classes (i & 1) + 2 (j & 1) + 4 (k & 1) of global indices in the order of the forward sweep of 27 points: one
color each. Coarse points come first."""
STAR_COLORS: Final = ((7, 4, 2, 1), (6, 5, 3, 0))
"""The classes of the two colors of a star: odd i + j + k first."""

ROUNDING: Final = 4 * float(np.finfo(np.float64).eps)
"""Largest distance of a diagonal from the sum of its parts, as a part of itself: sums in another order."""
CANCELED: Final = 4.0
"""Largest ratio of the diagonal inside to one at a face: gains that take off nearly all of it take the digits of what
is left, too. Of diffusion with constant coefficients a third is left at least."""


@dataclass(frozen=True, kw_only=True)
class StencilRows:
    """Matrix rows of a box of grid points: the same K offsets in every row, a value for each.

    Attributes:
        shape: points of the box along x, y, z; row number i + nx * (j + ny * k).
        numbering: int32 ((nx + 2) * (ny + 2) * (nz + 2),), the box with one more layer on each side, x fastest: the row
            number of an own point, rows + s for halo slot s, -1 outside the domain.
        offsets: the K offsets (di, dj, dk), each in -1 .. 1; (0, 0, 0) is the diagonal and must be among them.
        weights: float64 (K,) for one value per offset, or (K, rows) for one per row.
        halo: whether there may be halo slots in the numbering.
        wraps: along which axes the box's last points are next to its first ones; None where only the numbering tells.
    """

    shape: tuple[int, int, int]
    numbering: Array
    offsets: tuple[tuple[int, int, int], ...]
    weights: Array
    halo: bool = True
    wraps: tuple[bool, bool, bool] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def walk(self) -> tuple[int, int, int, int, int]:
        nx, ny, _ = self.shape
        line, lines = nx + 2, ny + 2
        return nx, ny, 1 + line * (1 + lines), line, lines

    @property
    def star(self) -> tuple[bool, bool, bool] | None:
        return self.wraps if self.offsets == STAR and self.weights.ndim > 1 else None

    @property
    def box_offsets(self) -> tuple[tuple[int, int, int], ...] | None:
        return None if self.halo or self.wraps is None or any(self.wraps) else self.offsets

    def steps(self) -> npt.NDArray[np.int64]:
        """Distance of each offset in `numbering`: int64 (K,)."""
        *_, line, lines = self.walk
        return np.array([i + line * (j + lines * k) for i, j, k in self.offsets], dtype=np.int64)


@final
@dataclass(frozen=True, kw_only=True)
class ConstantStencil:
    """The local part of a chunk's rows, from weights alone.

    Attributes:
        shape: points of the box along x, y, z.
        weights: of `OFFSETS`, zero for entries that are not there; outside of the box are zeros.
        faces: what the diagonal gains at the box's faces x = 0, x = nx - 1, y = 0, ...: conditions at the domain's
            edge.
        wraps: along which axes the box is its own neighbor.
        lo: global index of the first point: its parities decide the colors.
    """

    shape: Triple
    weights: tuple[float, ...]
    faces: tuple[float, ...]
    wraps: tuple[bool, bool, bool]
    lo: Triple

    @property
    def star(self) -> bool:
        """Whether no entry is off the axes."""
        return all(w == 0.0 for o, w in zip(OFFSETS, self.weights, strict=True) if sum(map(abs, o)) > 1)

    @property
    def colors(self) -> tuple[tuple[int, ...], ...]:
        """The parity classes of each color, in the order of the forward sweep."""
        return STAR_COLORS if self.star else tuple((c,) for c in CLASSES)

    def fits(self, dtype: np.dtype[Any]) -> bool:
        """Whether the value type holds all weights: none becomes zero or infinite, nor the diagonal's inverse."""
        limits = np.finfo(dtype)
        sizes = [abs(w) for w in (*self.weights, *self.faces) if w != 0.0]
        return all(float(limits.tiny) <= size <= float(limits.max) for size in sizes)

    def part(self, number: int, *, upper: bool) -> tuple[float, ...]:
        """The weights of a class's entries in later, or earlier, colors; zeros elsewhere."""
        rank = {c: color for color, classes in enumerate(self.colors) for c in classes}
        out = []
        for (i, j, k), weight in zip(OFFSETS, self.weights, strict=True):
            other = rank[number ^ ((i & 1) + 2 * (j & 1) + 4 * (k & 1))]
            kept = other > rank[number] if upper else other < rank[number]
            out.append(weight if kept else 0.0)
        return tuple(out)

    def start(self, number: int) -> Triple:
        """The first point of a class in the box."""
        x, y, z = ((((number >> axis) & 1) - self.lo[axis]) % 2 for axis in range(3))
        return x, y, z

    # -- the text-book ---------------------------------------------------------------------------------------------

    @cached_property
    def diagonal(self) -> npt.NDArray[np.float64]:
        """float64 (nz, ny, nx), gains added face after face."""
        out = np.full(self.shape[::-1], self.weights[CENTER])
        for axis in range(3):
            lines = np.moveaxis(out, 2 - axis, 0)
            lines[0] += self.faces[2 * axis]
            lines[-1] += self.faces[2 * axis + 1]
        return out

    def others(self, weights: tuple[float, ...], x: Real) -> Real:
        """The products with entries off the diagonal at every point: (nz, ny, nx)."""
        nx, ny, nz = self.shape
        around: Real = x.reshape(nz, ny, nx)
        for axis, wraps in enumerate(self.wraps):
            width = [(1, 1) if 2 - axis == a else (0, 0) for a in range(3)]
            around = np.pad(around, width, mode="wrap") if wraps else np.pad(around, width)
        out = np.zeros((nz, ny, nx), dtype=x.dtype)
        for number, (i, j, k) in enumerate(OFFSETS):
            if number != CENTER and weights[number] != 0.0:
                part = around[k + 1 : k + 1 + nz, j + 1 : j + 1 + ny, i + 1 : i + 1 + nx]
                out += x.dtype.type(weights[number]) * part
        return out

    def members(self, number: int) -> tuple[slice, slice, slice]:
        """Slices of the points of a class in (nz, ny, nx)."""
        x, y, z = self.start(number)
        return slice(z, None, 2), slice(y, None, 2), slice(x, None, 2)


class StencilSetup:
    """Set-up of constant stencils: formats that store nothing but a few numbers. Vectors are in lattice order.

    Args:
        vectors: the vector kernels.
        matrix: makes a format of a stencil.
        transfer: makes a format of a star between two levels.
    """

    def __init__(self, vectors: Any, matrix: Callable[..., Any], transfer: Callable[..., Any]) -> None:
        self._vectors, self._matrix, self._transfer = vectors, matrix, transfer

    def matrix(self, stencil: ConstantStencil) -> Any:
        """The local part of a chunk's matrix, with `spmv`, `spmv_dot` and the half sweeps."""
        return self._matrix(stencil=stencil, vectors=self._vectors)

    def transfer(self, transfer: StarTransfer) -> Any:
        """A star between a level and the next coarser one, with `star_down` and `star_up`."""
        return self._transfer(transfer=transfer, vectors=self._vectors)


@final
@dataclass(frozen=True, kw_only=True)
class Alike:
    """Numbers that all rows of a box have in common.

    Attributes:
        wraps: along which axes the box is its own neighbor.
        weights: of each offset; 0 for those that lead nowhere, of the diagonal that of rows inside.
        faces: what the diagonal gains at the box's faces, as in `ConstantStencil`.
    """

    wraps: tuple[bool, bool, bool]
    weights: tuple[float, ...]
    faces: tuple[float, ...]


def constant_stencil(lattice: LatticeSetup, rows: StencilRows, lo: Triple) -> ConstantStencil | None:
    """The rows as a constant stencil, or None if they are none.

    Rows that differ in what the diagonal gains at the box's faces are one: diffusion with constant coefficients and any
    conditions at its edge. None also where the parity of indices is no coloring: across an axis that wraps with an odd
    number of points.

    Args:
        lattice: the kernels of set-up.
        rows: of the chunk.
        lo: global index of its first point.
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
