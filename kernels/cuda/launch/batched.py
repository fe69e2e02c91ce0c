"""Launches of kernels on several vectors at once (sell/batched.cu)."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.formats.layout import Array

T = TypeVar("T")


class BatchedLaunches(Columns):
    """Kernels of an object for several columns, some of them with a CUDA kernel of their own in batched.cu.

    What launches need beside the object is made at the first launch, which is not to be captured in a graph, and kept
    with the object.
    """

    @property
    def dtype(self) -> str:
        """The value type of vectors."""
        return getattr(self.one, "vectors", self.one).dtype.name

    def function(self, name: str) -> Any:
        """A kernel for so many columns."""
        return kernel("sell/batched.cu", name, self.dtype, self.width)

    def launch_early(self, name: str, grid: Any, block: Any, arguments: tuple[Any, ...]) -> None:
        """Launch a kernel for so many columns."""
        launch_early(self.function(name), grid, block, arguments)

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """Result of `make`, made once for the object and this number of columns."""
        known = self.one.__dict__.setdefault("batched columns", {})  # as functools.cached_property keeps it
        key = (self.width, name)
        if key not in known:
            known[key] = make()
        return known[key]


def length(x: Array) -> np.int64:
    """Items of a column."""
    return np.int64(x.shape[1])
