"""Constant stencils in NumPy."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dsolver.kernels.casts import in_range
from dsolver.kernels.formats.base import Format, SeparateBackward, SeparateDot
from dsolver.kernels.formats.stencil.constant import ConstantStencil
from dsolver.kernels.lattice.star import AROUND, Around, StarTransfer
from dsolver.kernels.reference.vectors import NumpyVectors, Real

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class TextbookStencil(SeparateBackward, SeparateDot, Format):
    """A constant stencil with its kernels."""

    stencil: ConstantStencil
    vectors: NumpyVectors

    def compacted(self) -> Self:
        """The stencil itself: it stores no entries."""
        return self

    def spmv(self, x: Real, y: Real) -> None:
        a = self.stencil
        y[:] = self._diagonal(x) * x + a.others(a.weights, x).reshape(-1)

    def forward(self, r: Real, x: Real) -> None:
        self._sweep(r, x, upper=False)

    def upper_residual(self, x: Real, y: Real) -> None:
        y[:] = -self._sum(x, upper=True)

    def lower_residual(self, r: Real, x: Real, w: Real) -> None:
        w[:] = r - self._sum(x, upper=False)

    def backward(self, w: Real, x: Real) -> None:
        self._sweep(w, x, upper=True)

    def jacobi(self, r: Real, scale: float, z: Real) -> None:
        z[:] = r.dtype.type(scale) * r / self._diagonal(r)

    def _diagonal(self, x: Real) -> Real:
        return in_range(self.stencil.diagonal, x.dtype).reshape(-1)

    def _sum(self, x: Real, *, upper: bool) -> Real:
        """U x or L x."""
        a = self.stencil
        out = np.zeros(a.shape[::-1], dtype=x.dtype)
        for classes in a.colors:
            for number in classes:
                where = a.members(number)
                out[where] = a.others(a.part(number, upper=upper), x)[where]
        return out.reshape(-1)

    def _sweep(self, r: Real, x: Real, *, upper: bool) -> None:
        """x = (D + L)⁻¹ r, or (D + U)⁻¹ r, color after color."""
        a = self.stencil
        x[:] = 0.0
        shape = a.shape[::-1]
        diagonal = self._diagonal(x).reshape(shape)
        for classes in reversed(a.colors) if upper else a.colors:
            rest = r.reshape(shape) - a.others(a.weights, x)
            for number in classes:
                where = a.members(number)
                x.reshape(shape)[where] = rest[where] / diagonal[where]


@dataclass(frozen=True, kw_only=True)
class TextbookTransfer(Format):
    """A star between two levels, with its kernels."""

    transfer: StarTransfer
    vectors: NumpyVectors

    @property
    def _star(self) -> TextbookStencil:
        """The star on the chunk and the layers around it."""
        return TextbookStencil(stencil=self.transfer.extended, vectors=self.vectors)

    def star_down(self, r: Real, h: Real, rc: Real) -> None:
        t, a, r = self.transfer, self._star, self.transfer.fine.joined(r, h, 0)
        x, ax = np.empty_like(r), np.empty_like(r)
        a.forward(r, x)
        a.spmv(x, ax)
        residual = (r - ax).reshape(a.stencil.shape[::-1])
        out = np.zeros(t.restricted.shape[::-1], dtype=r.dtype)
        for fine, coarse, weights in _interpolation(t, t.restricted, r.dtype):
            np.add.at(out, coarse, weights * residual[fine])
        rc[t.coarse.position] = out.reshape(-1)

    def star_up(self, r: Real, h: Real, xc: Real, x: Real) -> None:
        t, a, r = self.transfer, self._star, self.transfer.fine.joined(r, h, 0)
        y, w = np.empty_like(r), np.empty_like(r)
        a.forward(r, y)
        for fine, coarse, weights in _interpolation(t, t.corrected, r.dtype):
            y.reshape(a.stencil.shape[::-1])[fine] += weights * xc.reshape(t.corrected.extended[::-1])[coarse]
        a.lower_residual(r, y, w)
        a.backward(w, y)
        x[:] = t.fine.own(y, 0).reshape(-1)


def _interpolation(
    t: StarTransfer, chunk: Around, dtype: np.dtype[Any]
) -> list[tuple[tuple[I64, ...], tuple[I64, ...], Real]]:
    """The interpolation at red points of `t.extended` from a chunk of coarse points with the layers around it.

    Pairs of fine and coarse points, each (z, y, x), by their places in the two, and their weights.
    """
    shape, kinds = t.fine.extended, t.kinds
    out = []
    for axis, between in ((-1, ()), *enumerate(AROUND)):
        k, j, i = np.meshgrid(*(np.arange(0 if a in between else 1, shape[a], 2) for a in (2, 1, 0)), indexing="ij")
        for corner in range(4 if between else 1):
            weights = t.table[kinds[2][k], kinds[1][j], kinds[0][i], axis, corner] if between else np.ones(k.shape)
            coarse = [
                (place + first) // 2 - begin
                for place, first, begin in zip((i, j, k), t.fine.first, chunk.first, strict=True)
            ]
            for bit, along in enumerate(between):
                coarse[along] = coarse[along] - 1 + (corner >> bit & 1)
            there = np.ones(weights.shape, dtype=np.bool_)
            for along, (n, closed) in enumerate(zip(chunk.extended, chunk.closed, strict=True)):
                if closed:
                    coarse[along] = coarse[along] % n
                there &= (coarse[along] >= 0) & (coarse[along] < n)
            fine = tuple(place[there] for place in (k, j, i))
            out.append((fine, tuple(c[there] for c in coarse[::-1]), weights[there].astype(dtype)))
    return out
