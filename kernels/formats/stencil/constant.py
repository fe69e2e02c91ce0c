"""Constant stencils: matrices that are not stored, and the NumPy text of their products and sweeps.

Rows of a box whose entries away from the diagonal are the same in every row follow from a few numbers. Vectors are in
lattice order, so a product reads x once and writes y once: 16 bytes a row in float64, where a stored 7-point matrix
costs 80.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dsolver.kernels.lattice.star import StarTransfer
from dsolver.kernels.formats.stencil.rows import CENTER, OFFSETS, Real, Triple

CLASSES: Final = (7, 6, 5, 3, 4, 2, 1, 0)
"""Parity classes (i & 1) + 2 (j & 1) + 4 (k & 1) of global indices in the order of the forward sweep of 27 points: one
color each. Coarse points come first."""
STAR_COLORS: Final = ((7, 4, 2, 1), (6, 5, 3, 0))  # the classes of the two colors of a star: odd i + j + k first


@dataclass(frozen=True, kw_only=True)
class ConstantStencil:
    """The local part of a chunk's rows, from weights alone."""

    shape: Triple  # points of the box along x, y, z
    weights: tuple[float, ...]  # of `OFFSETS`, zero for entries that are not there; outside of the box are zeros
    # what the diagonal gains at the box's faces x = 0, x = nx - 1, y = 0, ...: conditions at the domain's edge.
    faces: tuple[float, ...]
    wraps: tuple[bool, bool, bool]  # along which axes the box is its own neighbor
    lo: Triple  # global index of the first point: its parities decide the colors

    @cached_property
    def star(self) -> bool:
        """Whether no entry is off the axes."""
        return all(w == 0.0 for o, w in zip(OFFSETS, self.weights, strict=True) if sum(map(abs, o)) > 1)

    @cached_property
    def colors(self) -> tuple[tuple[int, ...], ...]:
        """The parity classes of each color, in the order of the forward sweep."""
        return STAR_COLORS if self.star else tuple((c,) for c in CLASSES)

    def fits(self, dtype: np.dtype[Any]) -> bool:
        """Whether the value type holds all weights: none becomes zero or infinite, nor the diagonal's inverse."""
        limits = np.finfo(dtype)
        sizes = [abs(w) for w in (*self.weights, *self.faces) if w != 0.0]
        return all(float(limits.tiny) <= size <= float(limits.max) for size in sizes)

    def part(self, number: int, *, upper: bool | None) -> tuple[float, ...]:
        """The weights of a class's entries in later, or earlier, colors, or for None in no others; zeros elsewhere."""
        rank = {c: color for color, classes in enumerate(self.colors) for c in classes}
        out = []
        for (i, j, k), weight in zip(OFFSETS, self.weights, strict=True):
            other = rank[number ^ ((i & 1) + 2 * (j & 1) + 4 * (k & 1))]
            kept = other > rank[number] if upper else other < rank[number]
            out.append(weight if kept and upper is not None else 0.0)
        return tuple(out)

    def start(self, number: int) -> Triple:
        """The first point of a class in the box."""
        x, y, z = self.lo
        return (number ^ x) & 1, ((number >> 1) ^ y) & 1, ((number >> 2) ^ z) & 1

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
    """Set-up of constant stencils, which store a few numbers; matrix, transfer: make formats. In lattice order."""

    def __init__(self, vectors: Any, matrix: Callable[..., Any], transfer: Callable[..., Any]) -> None:
        self._vectors, self._matrix, self._transfer = vectors, matrix, transfer

    def matrix(self, stencil: ConstantStencil) -> Any:
        """The local part of a chunk's matrix, with `spmv`, `spmv_dot` and the half sweeps."""
        return self._matrix(stencil=stencil, vectors=self._vectors)

    def transfer(self, transfer: "StarTransfer") -> Any:
        """A star between a level and the next coarser one, with `star_down` and `star_up`."""
        return self._transfer(transfer=transfer, vectors=self._vectors)
