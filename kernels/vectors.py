"""Vector kernels of a device: the kernels of the contract that no format brings."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels import host_scalars
from dsolver.kernels.batched import Kernels
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.lattice.sources import Source
from dsolver.kernels.reductions import GroupedPlaces, tree_sum

F64 = npt.NDArray[np.float64]


class Vectors(Kernels, ABC):
    """Kernels on vectors of a value type; type_name: its name, which NumPy takes a microsecond to tell."""

    def __init__(self, dtype: str) -> None:
        self.type_name = dtype
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @abstractmethod
    def load(self, layout: Layout, block: Array, x: Array) -> None:
        """The contract's `LOAD`."""

    @abstractmethod
    def unload(self, layout: Layout, x: Array) -> Array:
        """A vector in storage order as a new block, shape (nx, ny, nz): the opposite of the kernel `load`."""

    def unload_turned(self, layout: Layout, x: Array) -> Array:
        """`unload`, on GPUs to a block in C order, as those who take it have arrays; others turn it as they copy it."""
        return self.unload(layout, x)

    def assemble(self, layout: Layout, source: Source, x: Array) -> None:
        """The contract's `ASSEMBLE`."""
        self.load(layout, source.assembled(self.unload(layout, x).T.astype(np.float64, copy=False)).T, x)

    @abstractmethod
    def dot_plus(self, x: Array, y: Array, sign: float, u: Array, v: Array, dot: Array) -> None:
        """The contract's `DOT_PLUS`."""

    def complex_dot(self, x: Array, xi: Array, sign: float, y: Array, yi: Array, dot: Array, doti: Array) -> None:
        """The contract's `COMPLEX_DOT`."""
        self.dot_plus(x, y, sign, xi, yi, dot)
        self.dot_plus(x, yi, -sign, xi, y, doti)

    @abstractmethod
    def complex_axpby(
        self, sign: float, a: Array, ai: Array, x: Array, xi: Array, b: Array, bi: Array, y: Array, yi: Array
    ) -> None:
        """The contract's `COMPLEX_AXPBY`."""

    def complex_update_x_r(self, *arrays: Array) -> None:
        """The contract's `COMPLEX_UPDATE_X_R`."""
        a, ai, p, pi, ap, api, x, xi, r, ri, dot = arrays
        one, zero = np.ones(1), np.zeros(1)
        self.complex_axpby(1.0, a, ai, p, pi, one, zero, x, xi)
        self.complex_axpby(-1.0, a, ai, ap, api, one, zero, r, ri)
        self.dot_plus(r, r, 1.0, ri, ri, dot)

    # -- steps of formats that have nothing faster ---------------------------------------------------------------------

    @abstractmethod
    def jacobi(self, diagonal: Array, r: Array, scale: float, z: Array) -> None:
        """The contract's `JACOBI` of a matrix with this diagonal."""

    @abstractmethod
    def chebyshev(self, diagonal: Array, r: Array, w: Array, keep: float, gain: float, d: Array, z: Array) -> None:
        """The contract's `CHEBYSHEV` of a matrix with this diagonal."""

    @abstractmethod
    def jacobi_step(self, diagonal: Array, r: Array, x: Array, z: Array) -> None:
        """The contract's `JACOBI_STEP` of a matrix with this diagonal."""

    def scaled(self, layout: Layout, diagonal: Array, factors: Array) -> tuple[Array, Array]:
        """A diagonal times factors, float64 (rows,), one for each row, and the reciprocals of the result.

        Factors are of the value type before they are multiplied by. What is padding stays as it is.
        """
        out = diagonal.copy()
        out[layout.places] *= factors.astype(out.dtype, copy=False)
        return out, 1.0 / out

    @abstractmethod
    def scatter_add(self, places: Array, sign: float, values: Array, y: Array) -> None:
        """y[places] += sign values; no place is twice among them."""

    @abstractmethod
    def gathered_dot(self, places: Array, x: Array, values: Array, dot: Array) -> None:
        """dot = x[places] . values; dot stays as it is where there are no places."""

    @abstractmethod
    def dot(self, x: Array, y: Array, dot: Array) -> None:
        """The contract's `DOT`."""

    @abstractmethod
    def waxpby(self, a: float, x: Array, b: float, y: Array, w: Array) -> None:
        """The contract's `WAXPBY`."""

    @abstractmethod
    def times(self, d: Array, s: Array, t: Array) -> None:
        """The contract's `TIMES`."""

    @abstractmethod
    def gram(self, s: Array, t: Array, weights: Array | None = None, weighted: int = 0) -> Array:
        """Dot products of all columns of s, (columns, items), with all of t, float64, in one pass over both.

        Items of t's first `weighted` columns count times their weights, (items,). Items are a multiple of `SLICE` on
        GPUs, as those of all vectors there.
        """

    def residuals(self, values: F64, x: Array, b: Array | None, sizes: Array, r: Array, squares: Array) -> None:
        """The contract's `RESIDUALS`."""
        made, found = np.empty_like(x[0]), np.empty((4, 1))
        for j, value in enumerate(values):
            of_b = x[j] if b is None else b[j] if b.ndim == 2 else made
            if of_b is made:
                self.times(b, x[j], made)
            self.dot(of_b, of_b, found[3])
            self.waxpby(-value, of_b, 1.0, r[j], r[j])
            self.times(sizes, x[j], made)
            for kind, vector in enumerate((r[j], made, x[j])):
                self.dot(vector, vector, found[kind])
            squares[:, j] = found[:, 0]

    def group_sums(self, members: GroupedPlaces, x: Array) -> Array:
        """Sums over each group of a vector's items, times their weights, in float64 whatever its type: (groups,)."""
        values = x if members.places is None else x[members.places]
        return members.groups.sums(
            np, values.astype(np.float64) if members.weights is None else values * members.weights
        )

    def less_means(self, members: GroupedPlaces, totals: Array, sizes: Array, x: Array) -> None:
        means = (totals / sizes)[members.groups.of]
        places = slice(None) if members.places is None else members.places
        x[places] -= means if members.weights is None else means * members.weights

    def less_means_going_on(self, *operands: Any) -> None:
        members, totals, sizes, rz, pap, rr, limit, ceiling, x = operands
        if limit[0] < rr[0] <= ceiling[0] and host_scalars.sound(rz, pap):
            self.less_means(members, totals, sizes, x)

    def total(self, parts: Array, total: Array) -> None:
        total[0] = tree_sum(parts.tolist())

    quotient = staticmethod(host_scalars.quotient)
    complex_quotient = staticmethod(host_scalars.complex_quotient)
    unscale = staticmethod(host_scalars.unscale)
    rotation = staticmethod(host_scalars.rotation)
    half_step = staticmethod(host_scalars.half_step)
    bidiagonal_rotations = staticmethod(host_scalars.bidiagonal_rotations)
    normal_step = staticmethod(host_scalars.normal_step)
    settle = staticmethod(host_scalars.settle)
