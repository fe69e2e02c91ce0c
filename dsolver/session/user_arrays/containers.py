"""Arrays of the grid's shape as blocks by chunk, and blocks as arrays of the kind that came in; those in memory."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np

from dsolver.dask_types import Client
from dsolver.engines.redistribution import BlocksInBoxes
from dsolver.engines.running_program import PartsOfArray
from dsolver.errors import InputError, check_real
from dsolver.grid.box import Box
from dsolver.grid.partition import Partition
from dsolver.units import counted

Vectors = type[np.float64] | type[np.complex128] | np.dtype[Any]  # value types of vectors outside


MANY: Final = 1 << 20
"""Values from where on none is looked at before a solve begins: a pass over 134 MB takes longer than to bring them to a
GPU, where their norm tells as much."""


class Container(ABC):
    """The kind of array that a right-hand side came in.

    Args:
        dtype: of vectors: float64, or complex128, whose values may be real.

    Attributes:
        wrappers: what makes of `like`'s array that of the user, one after the other.

    Raises:
        InputError: the shape is not the grid's, or the dtype is not real.
    """

    def __init__(self, name: str, values: Any, partition: Partition, dtype: Vectors = np.float64) -> None:
        if tuple(values.shape) != partition.grid:
            raise InputError(misshapen(name, tuple(values.shape), partition.grid))
        check_real(name, np.dtype(values.dtype), "fiuc" if np.dtype(dtype).kind == "c" else "fiu")
        self._name = name
        self._dtype = dtype
        self._values = values
        self._partition = partition
        self.wrappers: list[Callable[[Any], Any]] = []

    @abstractmethod
    def blocks(self) -> Mapping[int, Any]:
        """A block for each chunk by number."""

    def boxes(self) -> Mapping[int, Any]:
        """The blocks, of which a program may take the array as it lies in memory: `BlocksInBoxes`, where it differs."""
        return self.blocks()

    def check(self) -> None:  # noqa: B027  # values that are not here yet are looked at by their norm
        """Look at the values that are in this process. InputError: one is NaN or infinite."""

    def examine(self) -> None:  # noqa: B027  # nor is there anything to examine
        """Look at all values, of which something is wrong. InputError: one is NaN or infinite."""

    @property
    def host(self) -> bool:
        """Whether `like` wants NumPy blocks, not the device's."""
        return True

    @property
    def rounding(self) -> float:
        """Rounding of a value of this type, as a part of it; 0 of integers."""
        return float(np.finfo(self._values.dtype).epsneg) if self._values.dtype.kind in "fc" else 0.0

    def is_zero(self) -> bool:
        """Whether every value is zero."""
        return not bool((self._values != 0).any())

    @property
    def here(self) -> bool:
        """Whether `like` wants arrays of this process, not futures of such."""
        return True

    def like(self, blocks: Mapping[int, Any]) -> Any:
        """An array of this kind from blocks by chunk number."""
        made = self._like(blocks)
        for wrapped in self.wrappers:
            made = wrapped(made)
        return made

    @abstractmethod
    def _like(self, blocks: Mapping[int, Any]) -> Any:
        """An array of the grid's shape, of NumPy, CuPy or Dask."""


class InMemory(Container):
    """A NumPy or CuPy array in this process."""

    def __init__(
        self, name: str, values: Any, partition: Partition, xp: Any, client: Client | None, dtype: Vectors = np.float64
    ) -> None:
        super().__init__(name, values, partition, dtype)
        self._xp = xp
        self._client = client

    def check(self) -> None:
        if self._values.size > MANY or (self._xp is not np and self._client is None):  # its norm will tell
            return
        self.examine()

    def examine(self) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(complex(self._values.sum())):  # in one pass; too large a sum tells nothing
                return
        bad = int((~self._xp.isfinite(self._values)).sum())
        if bad:
            raise InputError(f"{self._name} has NaN or infinity in {counted(bad, 'value')}")

    def blocks(self) -> Mapping[int, Any]:
        return {chunk.number: self._values[chunk.box.slices] for chunk in self._partition}

    def boxes(self) -> Mapping[int, Any]:
        """Layers along x of arrays of NumPy in C order, which have no gaps in memory, where chunks have."""
        parts, (nx, ny, nz) = len(self._partition), self._partition.grid
        large = self._values.size > MANY and self._values.dtype.kind in "fiu"
        gaps = large and self._partition.counts[1] * self._partition.counts[2] > 1
        if self._client is None or self._xp is not np or not gaps or not self._values.flags.c_contiguous or nx < parts:
            return self.blocks()
        cuts = [nx * part // parts for part in range(parts + 1)]
        boxes = [Box(lo=(low, 0, 0), hi=(high, ny, nz)) for low, high in pairwise(cuts)]
        return BlocksInBoxes(boxes, lambda: [self._values[box.slices] for box in boxes], self.blocks)

    @property
    def host(self) -> bool:
        return self._xp is np or self._client is not None  # blocks of a cluster travel by way of the host

    def _like(self, blocks: Mapping[int, Any]) -> Any:
        if isinstance(blocks, PartsOfArray) and self._xp is np:
            return blocks.whole
        if self._client is None and len(blocks) == 1:
            (block,) = blocks.values()
            if isinstance(block, self._xp.ndarray) and block.flags.c_contiguous:  # it was made for this alone
                return block
        return assembled(self._xp, self._partition, blocks, self._dtype)


def assembled(xp: Any, partition: Partition, blocks: Mapping[int, Any], dtype: Vectors = np.float64) -> Any:
    """One array of the module xp from a block for each chunk."""
    x = xp.empty(partition.grid, dtype)
    for chunk in partition:
        x[chunk.box.slices] = xp.asarray(blocks[chunk.number])
    return x


def misshapen(name: str, shape: tuple[int, ...], grid: tuple[int, ...]) -> str:
    """The message that an array has not the grid's shape."""
    if any(length != length for length in shape):  # NaN: Dask does not know it
        return f"{name} has a shape that Dask does not know, {shape}: call {name}.compute_chunk_sizes() first"
    flat = f"; pass {name}.reshape({grid})" if shape == (math.prod(grid),) else ""
    return f"{name} has shape {shape}, but the grid is {grid}: they must be equal{flat}"
