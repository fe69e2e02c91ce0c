"""Sliced ELL on a GPU: matrices with their kernels, and what launches need, made at set-up."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import cupy
import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.casts import lossless
from dsolver.kernels.cuda.launch.foresight import settle
from dsolver.kernels.cuda.launch.loader import type_of
from dsolver.kernels.cuda.launch.schedule import HalfSweep, HalfSweepCuts, Launch, half_sweeps, warps
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.cuda.matrix_passes import MatrixPasses
from dsolver.kernels.cuda.sell.batched import CudaMatrixColumns, HaloColumns, ProductColumns
from dsolver.kernels.cuda.sell.kernels import SellKernels, sell_kernels
from dsolver.kernels.cuda.vectors.vectors import CudaVectors, cast
from dsolver.kernels.formats.base import SeparateBackward, SeparateSum, SeparateSweeps
from dsolver.kernels.formats.layout import SLICE, Array
from dsolver.kernels.formats.sell import HaloMatrix, Product, SellMatrix, Slices

ROWS_OF_BLOCK = 128
"""Boundary rows of a block where each has a thread: a face of 256² reaches every multiprocessor of a large device."""
HALO_WARPS = 4
"""Warps of a block that adds up a dot product's boundary rows: the same everywhere, since the bits depend on it."""


class WithKernels(ABC):
    """Slices that find their kernels by the value type of their vectors."""

    @property
    @abstractmethod
    def value_type(self) -> str:
        """The value type, by name."""

    @cached_property
    def kernels(self) -> SellKernels:
        """The kernels of the value type."""
        return sell_kernels(self.value_type)

    @property
    def vectors(self) -> CudaVectors:
        """The vector kernels."""
        return self.kernels.vectors


class OneLaunch(WithKernels):
    """Slices that are multiplied in one launch."""

    slices: Slices

    @property
    def value_type(self) -> str:
        return type_of(self.slices.values)

    @property
    @abstractmethod
    def arguments(self) -> tuple[Any, ...]:
        """The first arguments of the kernels."""

    @property
    @abstractmethod
    def launch(self) -> Launch | None:
        """One warp for each slice; None if there is none."""

    def _multiply(self, name: str, *vectors: Any) -> None:
        if self.launch:
            grid, block, tail = self.launch
            launch_early(self.kernels.function(name), grid, block, (*self.arguments, *vectors, *tail))


@dataclass(frozen=True, kw_only=True)
class CudaMatrix(WithKernels, SeparateBackward, MatrixPasses, SeparateSweeps, SellMatrix):
    """A chunk's matrix with its kernels and their launches."""

    by_color: Array  # uint32 (slices, 4), the headers of the slices of `local` in storage order: `Header` in slices.cuh
    by_plane: Array  # the same in the order in which SpMV visits them
    partials: Array
    # how the forward and the backward half sweep are cut; None where none are wanted.
    halves: tuple[HalfSweepCuts, HalfSweepCuts] | None

    @property
    def value_type(self) -> str:
        return type_of(self.diagonal)

    @cached_property
    def stored(self) -> str:
        """The end of the name of a kernel for values stored as these are, and vectors of the value type."""
        return "" if self.local.values.dtype == self.diagonal.dtype else "_compact"

    @cached_property
    def color_arguments(self) -> tuple[Any, ...]:
        """The first arguments of a sweep."""
        return self.by_color, self.local.values, self.local.columns

    @cached_property
    def plane_arguments(self) -> tuple[Any, ...]:
        """The first arguments of SpMV."""
        return self.by_plane, self.local.values, self.local.columns, self.diagonal

    @cached_property
    def all_slices(self) -> Launch:
        """One warp for each slice of `local`."""
        count = len(self.by_plane)
        return *warps(count, int(self.diagonal.itemsize)), (np.int32(count),)

    @cached_property
    def forward_sweep(self) -> HalfSweep:
        """The launches of a forward half sweep."""
        assert self.halves is not None
        return self.halves[0].sweep()

    @cached_property
    def backward_sweep(self) -> HalfSweep:
        """The launches of a backward half sweep that fills x."""
        assert self.halves is not None
        return self.halves[1].sweep()

    def batched(self, width: int) -> Columns:
        return CudaMatrixColumns(self, width)

    def scaled(self, factors: Array) -> Self:
        """The matrix with the diagonal multiplied by a block of factors, shape (nx, ny, nz)."""
        made = self.vectors.scaled_late(self.layout, self.diagonal, cupy.asarray(factors).reshape(-1, order="F"))
        settle()  # sweeps read a matrix before they wait for earlier launches
        return replace(self, diagonal=made)

    def narrowed(self, dtype: np.dtype[Any], *, swept: bool = True) -> Self:
        """The matrix, of float64, with values of another type and launches for them; columns and headers are shared."""
        local = replace(self.local, values=cast(self.local.values, dtype))
        halves = half_sweeps(self.layout, self.by_color, local) if swept else None
        made = replace(self, diagonal=cast(self.diagonal, dtype, checked=True), local=local, halves=halves)
        settle()  # as above
        return made

    def compacted(self) -> Self:
        """The matrix for `spmv` and `spmv_dot` alone, with values in float32 where that loses nothing.

        Products are formed in the value type of vectors as before, so the bits are the same; half as much is read.
        """
        values = lossless(self.local.values)
        cupy.cuda.get_current_stream().synchronize()  # as above
        return replace(self, local=replace(self.local, values=values))

    def run_pass(self, name: str, *vectors: Array) -> None:
        grid, block, tail = self.all_slices
        launch_early(self.kernels.function(name), grid, block, (*self.plane_arguments, *vectors, *tail))

    def forward(self, r: Array, x: Array) -> None:
        self._half_sweep(self.kernels.function("forward_from_zero"), self.forward_sweep, self.diagonal, r, x)

    def upper_residual(self, x: Array, y: Array) -> None:
        self._listed("upper_residual", x, y)

    def lower_residual(self, r: Array, x: Array, w: Array) -> None:
        self._listed("lower_residual", r, x, w)

    def backward(self, w: Array, x: Array) -> None:
        self._half_sweep(self.kernels.function("backward_solve"), self.backward_sweep, self.diagonal, w, x)

    def _half_sweep(self, function: Any, sweep: HalfSweep, *arguments: Any) -> None:
        self.kernels.launch_sweep(function, sweep, (*self.color_arguments, *arguments))

    def _listed(self, name: str, *vectors: Array) -> None:
        """A pass over all slices, plane by plane."""
        grid, block, tail = self.all_slices
        arguments = (self.by_plane, self.local.values, self.local.columns, *vectors, *tail)
        launch_early(self.kernels.function(name), grid, block, arguments)


@dataclass(frozen=True, kw_only=True)
class CudaProduct(OneLaunch, SeparateSum, Product):
    """A rectangular matrix with its kernels and their launch."""

    in_order: Array

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        return self.in_order, self.slices.values, self.slices.columns, self.target

    @cached_property
    def launch(self) -> Launch | None:
        count = len(self.in_order)
        return (*warps(count, int(self.slices.values.itemsize)), (np.int32(count),)) if count else None

    def batched(self, width: int) -> Columns:
        return ProductColumns(self, width)

    def restrict_full(self, y: Array, rc: Array) -> None:
        self._multiply("product", y, rc)

    def prolong_add(self, xc: Array, x: Array) -> None:
        self._multiply("product_add", xc, x)


@dataclass(frozen=True, kw_only=True)
class CudaHaloMatrix(OneLaunch, HaloMatrix):
    """Entries that multiply a halo, with their kernels and their launch."""

    by_boundary: Array  # uint32 (slices, 4), the headers of the slices: `Header` in slices.cuh
    partials: Array

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        return self.by_boundary, self.slices.values, self.slices.columns, self.boundary

    @cached_property
    def launch(self) -> Launch | None:
        count = len(self.boundary)
        itemsize = int(self.slices.values.itemsize)
        return (*warps(-(-count // SLICE), itemsize), (np.int32(count),)) if count else None

    def batched(self, width: int) -> Columns:
        return HaloColumns(self, width)

    def scaled_rows(self, x: Array) -> Self:
        return self._scaled(x, by_rows=True)

    def scaled_columns(self, h: Array) -> Self:
        return self._scaled(h, by_rows=False)

    def _scaled(self, factors: Array, *, by_rows: bool) -> Self:
        """As of the base, in one launch where CuPy would need 15."""
        values = cupy.empty_like(self.slices.values)
        self._multiply("scale_halo", factors, values, np.int32(by_rows))
        made = replace(self, slices=replace(self.slices, values=values), partials=cupy.zeros_like(self.partials))
        settle()  # products read a matrix before they wait for earlier launches
        return made

    def spmv_halo(self, h: Array, y: Array) -> None:
        self._multiply("spmv_halo", h, y)

    def times_halo(self, h: Array, q: Array) -> None:
        self._multiply("times_halo", h, q)

    def times_halo_dot(self, h: Array, x: Array, q: Array, dot: Array) -> None:
        if self.size:
            _, ticket = self.vectors.scratch.here()
            arguments = (*self.arguments, h, x, q, self.partials, ticket, dot, np.int32(self.size))
            blocks = -(-len(self.partials) // HALO_WARPS)
            launch_early(self.kernels.function("times_halo_dot"), (blocks,), (HALO_WARPS * SLICE,), arguments)

    def add_halo_dot(self, q: Array, part: Array, y: Array, dot: Array) -> None:
        self._rows(self.kernels.function("add_halo_dot"), q, part, y, dot)

    def subtract_halo(self, h: Array, r: Array) -> None:
        self._multiply("subtract_halo", h, r)

    def _rows(self, function: Any, *arguments: Any) -> None:
        """Launch a kernel with a thread for each boundary row."""
        if self.size:
            blocks = -(-self.size // ROWS_OF_BLOCK)
            arguments = (self.boundary, *arguments, np.int32(self.size))
            launch_early(function, (blocks,), (ROWS_OF_BLOCK,), arguments)
