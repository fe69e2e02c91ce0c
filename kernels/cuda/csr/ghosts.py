"""Ghost parts of general matrices on a GPU: a product and what it is added to are one launch where no row is long."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Self

import cupy
import numpy as np

from dsolver.kernels.cuda.csr.products import CudaRows
from dsolver.kernels.cuda.launch.loader import THREADS, kernel, type_of
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.general.matrix import GhostRows

FILE: Final = "csr/ghosts.cu"
ENTRIES: Final = {4.0: 1, 24.0: 8}
"""Threads of a row of at most so many entries on average; rows of more have a warp each."""


@dataclass(frozen=True, kw_only=True)
class CudaGhostRows(GhostRows):
    """A ghost part in any form, whose products (in `room`) are added to y and to a dot product by one launch."""

    room: Array

    def add_halo_dot(self, q: Array, part: Array, y: Array, dot: Array) -> None:
        if self.size:
            function = kernel("sell/sweeps.cu", "add_halo_dot", type_of(y))
            arguments = (self.boundary, q, part, y, dot, np.int32(self.size))
            launch_early(function, (-(-self.size // THREADS),), (THREADS,), arguments)

    def _times(self, factors: Array) -> Self:
        return replace(super()._times(factors), room=cupy.empty_like(self.room))

    def _side_by_side(self, h: Array) -> Array:
        if h.flags.c_contiguous:
            return h
        self._column[...] = h
        return self._column

    @cached_property
    def _column(self) -> Array:
        """Room for the slots of one column among several: (slots,)."""
        return cupy.empty(self.product.shape[1], dtype=self.vectors.dtype)


@dataclass(frozen=True, kw_only=True)
class CudaShortGhostRows(CudaGhostRows):
    """A ghost part in compressed rows, some threads a row; room: float64, a partial dot product a block."""

    product: CudaRows

    def scaled_rows(self, x: Array) -> Self:
        return self._scaled(x, by_rows=True)

    def scaled_columns(self, h: Array) -> Self:
        return self._scaled(h[self.slots], by_rows=False)

    def _scaled(self, factors: Array, *, by_rows: bool) -> Self:
        """As of the base, in one launch where CuPy would need two or five."""
        if not self.size:
            return self
        entries = self.product.entries
        made = entries._replace(values=cupy.empty_like(entries.values))
        arguments = (*entries, self.boundary, factors, np.int32(by_rows), made.values, np.int32(self.size))
        kernel(FILE, f"scale_{self.product.threads}", self.vectors.type_name)((len(self.room),), (THREADS,), arguments)
        return replace(self, product=replace(self.product, entries=made), room=cupy.empty_like(self.room))

    def times_halo_dot(self, h: Array, x: Array, q: Array, dot: Array) -> None:
        _, ticket = self.vectors.scratch.here()
        self._launch("times_dot", h, x, q, self.room, ticket, dot)

    def _add(self, sign: float, h: Array, y: Array) -> None:
        self._launch("add", h, np.float64(sign), y)

    def _launch(self, name: str, h: Array, *arguments: Any) -> None:
        if self.size:
            function = kernel(FILE, f"{name}_{self.product.threads}", self.vectors.type_name)
            head = (*self.product.entries, self.boundary, self._side_by_side(h[self.slots]))
            launch_early(function, (len(self.room),), (THREADS,), (*head, *arguments, np.int32(self.size)))


def threads_of(rows: int, entries: int) -> int:
    """Threads of each of so many rows that have so many entries together."""
    mean = entries / max(1, rows)
    return next((threads for most, threads in ENTRIES.items() if mean <= most), 32)


def blocks_of(rows: int, threads: int) -> int:
    """Blocks of a launch for so many rows."""
    return -(-rows * threads // THREADS)
