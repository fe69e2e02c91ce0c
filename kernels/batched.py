"""Kernels on several vectors at once, the columns of one array: a matrix is read once for all of them.

Arrays have one more dimension in front, of the same length everywhere, the columns: vectors (columns, items), blocks
(columns, nx, ny, nz), scalars and partial dot products (columns, 1). Only what is read of halos need not be contiguous.
Each column gets the bits that its kernel would make of it alone.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from dsolver.kernels.contract import OF_VECTORS

if TYPE_CHECKING:
    from dsolver.kernels.vectors import Vectors


class Kernels:
    """An object with kernels of the contract as methods; together: those that take several columns as they take one."""

    together: ClassVar[frozenset[str]] = frozenset()

    def batched(self, width: int) -> "Columns":
        """The kernels for vectors of so many columns."""
        return Columns(self, width)


class Columns:
    """Kernels of an object for vectors of several columns: one after the other unless they take all together."""

    def __init__(self, one: Any, width: int) -> None:
        self.one = one
        self.width = width

    @property
    def vectors(self) -> Any:
        """The vector kernels for as many columns."""
        return self.one.vectors.batched(self.width)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_"):  # of no kernel
            raise AttributeError(name)
        kernel: Callable[..., None] = getattr(self.one, name)
        return kernel if name in self.one.together else self.one_by_one(kernel)

    def one_by_one(self, kernel: Callable[..., None]) -> Callable[..., None]:
        """A kernel for each column; arguments that are no arrays are shared."""

        def call(*operands: Any) -> None:
            for number in range(self.width):
                kernel(*(o[number] if getattr(o, "ndim", 0) else o for o in operands))

        return call


class Batched:
    """Look-up of the kernels for vectors of so many columns."""

    def __init__(self, vectors: "Vectors", width: int) -> None:
        self.vectors = vectors
        self.width = width

    def kernel(self, name: str) -> Callable[..., None]:
        """The implementation of the kernel of this name."""
        if name in OF_VECTORS:
            return getattr(self.vectors.batched(self.width), name)

        def call(carrier: Any, *operands: Any) -> None:
            getattr(carrier.batched(self.width), name)(*operands)

        return call
