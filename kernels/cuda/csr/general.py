"""Set-up of general matrices on a GPU, on the device itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import cupy
import numpy as np

from dsolver.kernels.cuda.block_slices import products as slices
from dsolver.kernels.cuda.csr import products
from dsolver.kernels.cuda.csr.look import look
from dsolver.kernels.cuda.csr.statistics import statistics
from dsolver.kernels.cuda.csr.transfer import CudaTransfer, transfer
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.streams import follow
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.choice import Choice
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.look import Look
from dsolver.kernels.general.parts import GhostRows
from dsolver.kernels.general.setup import GeneralSetup
from dsolver.kernels.precision import narrowed


@final
@dataclass(frozen=True, kw_only=True)
class CudaGhostRows(GhostRows):
    """A ghost part whose products are added to y, and to a dot product, by one launch."""

    def add_halo_dot(self, q: Array, part: Array, y: Array, dot: Array) -> None:
        if self.size:
            function = kernel("sell/sweeps.cu", "add_halo_dot", str(y.dtype))
            blocks = -(-self.size // products.THREADS)
            arguments = (self.boundary, q, part, y, dot, np.int32(self.size))
            follow(function, (blocks,), (products.THREADS,), arguments)

    def _side_by_side(self, h: Array) -> Array:
        if h.flags.c_contiguous:
            return h
        self._column[...] = h
        return self._column

    @cached_property
    def _column(self) -> Array:
        """Room for the slots of one column among several: (slots,)."""
        return cupy.empty(self.product.shape[1], dtype=self.product.values.dtype)


@final
class CudaGeneral(GeneralSetup):
    """Formats of general matrices with CUDA kernels."""

    colored: ClassVar[bool] = True

    def statistics(self, rows: Csr, columns: int, blocks: Sequence[int] = BLOCKS) -> Statistics:
        return statistics(rows, columns, blocks)

    def look(self, rows: Csr, allowed: float) -> Look:
        return look(rows, allowed)

    def product(self, rows: Csr, columns: int, choice: Choice) -> Any:
        if choice.name == "chunks":
            longest = int((rows.start[1:] - rows.start[:-1]).max()) if rows.size else 0
            return products.chunks(rows, columns, longest)
        if choice.name == "slices":
            return slices.made(rows, columns, block=choice.block, window=choice.window)
        return products.CudaRows(shape=(rows.size, columns), entries=rows, threads=choice.threads)

    def diagonal(self, rows: Csr) -> Array:
        return products.CudaRows(shape=(rows.size, rows.size), entries=rows, threads=1).diagonal()

    def ghost(self, boundary: Array, rows: Csr, slots: int, layout: Layout) -> GhostRows:
        made = CudaGhostRows(
            **self._ghost_fields(boundary, rows, slots, layout),
            room=cupy.empty(len(boundary), dtype=self._vectors.dtype),
        )
        self.wait()  # kernels read the rows' places before they wait for earlier launches
        return made

    def between(self, shape: tuple[int, int], rows: Csr, written: slice, read: slice) -> CudaTransfer:
        return transfer(shape, rows, written, read, self._vectors)

    def transfer(self, rows: Csr, written: Layout, read: Layout) -> Any:
        """See `GeneralSetup.transfer`; what is padding between colors is rows without entries, or is not read."""
        if written.colors == 1 and read.colors == 1:
            return super().transfer(rows, written, read)
        guard = self._guard
        of = slice(guard, written.size - guard)
        rows = self.selected(rows, written.row[of])
        rows = rows._replace(columns=read.position[rows.columns], values=narrowed(rows.values, self._vectors.dtype))
        if read.colors > 1:
            rows = self.ascending(rows)
        return self.between((rows.size, read.size), rows, of, slice(0, read.size))

    def selected(self, rows: Csr, order: Array) -> Csr:
        """See `GeneralSetup.selected`; -1 is a row without entries."""
        lengths = cupy.where(order >= 0, (rows.start[1:] - rows.start[:-1])[order], 0)
        start = cupy.concatenate([cupy.zeros(1, dtype=np.int64), cupy.cumsum(lengths)])
        entry = cupy.arange(int(start[-1]))
        row = cupy.searchsorted(start[1:], entry, side="right")
        taken = rows.start[:-1][order][row] + entry - start[row]
        return Csr(start, rows.columns[taken], rows.values[taken])

    def ascending(self, rows: Csr) -> Csr:
        row = cupy.searchsorted(rows.start[1:], cupy.arange(len(rows.columns)), side="right")
        order = cupy.lexsort(cupy.stack([rows.columns.astype(np.int64), row]))
        return rows._replace(columns=rows.columns[order], values=rows.values[order])

    def wait(self) -> None:
        cupy.cuda.get_current_stream().synchronize()
