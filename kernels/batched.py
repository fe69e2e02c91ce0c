"""The contract's kernels on several vectors at once: vectors have columns, what multiplies them is read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dsolver.kernels.fused import Fused

if TYPE_CHECKING:
    from dsolver.kernels.backend import Backend


class Batched(Fused):
    """Kernels of a backend for arrays with one more dimension in front, of the same length everywhere: the columns.

    That is, vectors (columns, items), blocks (columns, nx, ny, nz), and scalars and partial dot products (columns, 1).
    Only what is read of halos need not be contiguous. Each column gets the bits that its kernel would make of it alone.

    A backend has methods of the contract's names for those kernels in which something else is read that all columns
    share. The others are called for one column after the other: they move nothing but the vectors.

    Args:
        backend: for one vector.
        width: number of columns.
    """

    def __init__(self, backend: Backend, width: int) -> None:
        self.backend = backend
        self.width = width

    def kernel(self, name: str) -> Callable[..., None]:
        """The implementation of the kernel of this name."""
        found: Callable[..., None] | None = getattr(self, name, None)
        return self.one_by_one(name) if found is None else found

    def one_by_one(self, name: str) -> Callable[..., None]:
        """The kernel of one vector for each column."""
        single, array = self.backend.kernel(name), self.backend.xp.ndarray

        def call(*operands: Any) -> None:
            for number in range(self.width):
                single(*(o[number] if isinstance(o, array) else o for o in operands))

        return call
