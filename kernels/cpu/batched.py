"""Kernels of a CPU on several vectors at once: the loops of `sweeps` take them as they take one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from dsolver.kernels.batched import Batched
from dsolver.kernels.stencil import ConstantStencil

SHARED: Final = frozenset(
    {
        "spmv",
        "symgs",
        "presmooth",
        "restrict",
        "postsmooth",
        "forward",
        "upper_residual",
        "lower_residual",
        "backward",
        "restrict_full",
        "prolong_add",
        "dense_solve",
    }
)
"""Kernels whose first operand, a stored matrix, is read once for all columns."""


@final
class CpuBatched(Batched):
    """The kernels of `CpuBackend` for several vectors."""

    def kernel(self, name: str) -> Callable[..., None]:
        """The implementation of the kernel of this name."""
        if name not in SHARED:
            return super().kernel(name)
        together = self.backend.kernel(name)

        def call(a: Any, *operands: Any) -> None:
            if isinstance(a, ConstantStencil):  # nothing of it is stored
                self.one_by_one(name)(a, *operands)
            else:
                together(a, *operands)

        return call

    def spmv_dot(self, a: Any, x: Any, y: Any, dot: Any) -> None:
        """y = A_local x, dot = x . y."""
        self.kernel("spmv")(a, x, y)
        self.kernel("dot")(x, y, dot)
