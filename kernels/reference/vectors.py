"""Vector kernels in NumPy."""

from abc import ABC, abstractmethod
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import HaloLayout, Layout, Route
from dsolver.kernels.host_scalars import finite, ratio, scale_of, sound
from dsolver.kernels.vectors import Vectors

F64 = npt.NDArray[np.float64]
Real = npt.NDArray[Any]  # array of the backend's value type


class NumpyVectors(Vectors):
    """Vector kernels of a value type."""

    def __reduce__(self) -> Any:
        return vectors, (self.dtype.name,)

    def load(self, layout: Layout, block: npt.NDArray[Any], x: Real) -> None:
        x[layout.position] = np.asarray(block, dtype=np.float64).reshape(-1, order="F")

    def unload(self, layout: Layout, x: Real) -> Real:
        return x[layout.position].reshape(layout.shape, order="F")

    def copy(self, x: Real, y: Real) -> None:
        y[:] = x

    def fill(self, layout: Layout, value: float, x: Real) -> None:
        x[:] = value

    def pack(self, plan: HaloLayout, x: Real, buffer: Real) -> None:
        buffer[:] = x[plan.send_rows]

    def dot(self, x: Real, y: Real, dot: F64) -> None:
        dot[0] = product(x, y)

    def dot_narrowed(self, x: F64, y: Real, dot: F64) -> None:
        dot[0] = product(x, y)

    def dot_plus(self, x: Real, y: Real, sign: float, u: Real, v: Real, dot: F64) -> None:
        dot[0] = product(x, y) + sign * product(u, v)

    def waxpby(self, a: float, x: Real, b: float, y: Real, w: Real) -> None:
        w[:] = a * x + b * y

    def axpby(self, sign: float, a: F64, x: Real, b: F64, y: Real) -> None:
        if finite(a, b):
            y[:] = sign * a[0] * x + b[0] * y

    def complex_axpby(
        self, sign: float, a: F64, ai: F64, x: Real, xi: Real, b: F64, bi: F64, y: Real, yi: Real
    ) -> None:
        if finite(a, ai) and finite(b, bi):
            made = sign * complex(a[0], ai[0]) * (x + 1j * xi) + complex(b[0], bi[0]) * (y + 1j * yi)
            y[:], yi[:] = made.real, made.imag

    def complex_step(self, keep: float, w: Real, wi: Real, r: Real, ri: Real, x: Real, xi: Real) -> None:
        made = (w + 1j * wi) * (r + 1j * ri)
        x[:] = made.real + x if keep else made.real
        xi[:] = made.imag + xi if keep else made.imag

    def combine(self, keep: float, s: Real, c: F64, t: Real) -> None:
        used = c.any(axis=1)
        made = np.einsum("ij,ik->jk", c[used], s[used])
        t[:] = made + keep * t if keep else made

    def times(self, d: Real, s: Real, t: Real) -> None:
        t[:] = d * s

    def gram(self, s: Real, t: Real, weights: Real | None = None, weighted: int = 0) -> F64:
        of_t = [y if weights is None or j >= weighted else weights * y for j, y in enumerate(t)]
        return np.array([[product(x, y) for y in of_t] for x in s]).reshape(len(s), len(t))

    def update_p(self, z: Real, rz: F64, rz_old: F64, pap: F64, p: Real) -> None:
        if sound(rz, pap):
            p[:] = z + ratio(rz, rz_old) * p

    def update_p_narrowed(self, z: Real, rz: F64, rz_old: F64, pap: F64, p: F64) -> None:
        self.update_p(z, rz, rz_old, pap, p)

    def narrow(self, x: F64, xx: F64, y: Real) -> None:
        y[:] = scale_of(xx) * x

    def widen(self, x: Real, xx: F64, y: F64) -> None:
        y[:] = x.astype(np.float64) / scale_of(xx)

    def update_x_r(
        self, p: Real, ap: Real, rz: F64, pap: F64, rr: F64, limit: F64, ceiling: F64, x: Real, r: Real, dot: F64
    ) -> None:
        if limit[0] < rr[0] <= ceiling[0] and sound(rz, pap):
            alpha = ratio(rz, pap)
            x += alpha * p
            r -= alpha * ap
        dot[0] = product(r, r)

    def move(self, route: Route, x: Real, y: Real) -> None:
        y[route.target] = x[route.source]

    def jacobi(self, diagonal: Real, r: Real, scale: float, z: Real) -> None:
        z[:] = scale * r / diagonal

    def chebyshev(self, diagonal: Real, r: Real, w: Real, keep: float, gain: float, d: Real, z: Real) -> None:
        d[:] = keep * d + gain * (r - w) / diagonal
        z += d

    def jacobi_step(self, diagonal: Real, r: Real, x: Real, z: Real) -> None:
        z[:] = x + (r - z) / diagonal

    def scatter_add(self, places: Any, sign: float, values: Real, y: Real) -> None:
        y[places] += sign * values

    def gathered_dot(self, places: Any, x: Real, values: Real, dot: F64) -> None:
        dot[0] = product(x[places], values)


class Dotted(ABC):
    """A format whose fused product is its parts."""

    @abstractmethod
    def spmv(self, x: Real, y: Real) -> None: ...

    def spmv_dot(self, x: Real, y: Real, dot: F64) -> None:
        self.spmv(x, y)
        dot[0] = product(x, y)


@cache
def vectors(dtype: str) -> NumpyVectors:
    """The vector kernels of a value type, one object in a process."""
    return NumpyVectors(dtype)


def product(x: Real, y: Real) -> float:
    """x . y in float64."""
    return float(x.astype(np.float64, copy=False) @ y.astype(np.float64, copy=False))
