"""Vector kernels of a device: the kernels of the contract that no format brings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from dsolver.kernels.batched import Kernels
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.host_scalars import quotient, rotation, unscale
from dsolver.kernels.reductions import tree_sum


class Vectors(Kernels, ABC):
    """Kernels on vectors of a value type.

    Attributes:
        dtype: the value type.
        type_name: its name, which NumPy takes a microsecond to tell.
    """

    def __init__(self, dtype: str) -> None:
        self.type_name = dtype
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @abstractmethod
    def unload(self, layout: Layout, x: Array) -> Array:
        """A vector in storage order as a new block, shape (nx, ny, nz): the opposite of the kernel `load`."""

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

    def total(self, parts: Array, total: Array) -> None:
        """See `dsolver.kernels.contract.TOTAL`."""
        total[0] = tree_sum(parts.tolist())

    quotient = staticmethod(quotient)
    unscale = staticmethod(unscale)
    rotation = staticmethod(rotation)
