"""What launches need beside the arrays of `dsolver.kernels.layout`: made at set-up, so that they compute nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dsolver.kernels.cuda.flow import Flow
from dsolver.kernels.cuda.schedule import Half, Launch, Sweep, warps
from dsolver.kernels.layout import SLICE, Array, HaloMatrix, Matrix, Product


@dataclass(frozen=True, kw_only=True)
class CudaMatrix(Matrix):
    """A chunk's matrix with its launches.

    Attributes:
        by_color: uint32 (slices, 4), where the slices of `local` are, in storage order: `Entries` in slices.cuh.
        by_plane: the same in the order in which SpMV visits them.
        partials: float64, room for one partial dot product a slice.
        forward: the launches of a forward half sweep.
        backward: the launches of a backward half sweep that changes x; colors without upper entries are left out.
        half: of which those are some.
        flow: both half sweeps as one launch, on a small level; else None.
    """

    by_color: Array
    by_plane: Array
    partials: Array
    forward: Sweep
    backward: Sweep
    half: Half
    flow: Flow | None = None

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
    def backward_all(self) -> Sweep:
        """The launches of a backward half sweep that fills x, made when first asked for."""
        return self.half.sweep()


@dataclass(frozen=True, kw_only=True)
class CudaProduct(Product):
    """A rectangular matrix with its launch.

    Attributes:
        in_order: uint32 (slices, 4), where the slices are: `Entries` in slices.cuh.
    """

    in_order: Array

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        """The first arguments of its kernels."""
        return self.in_order, self.slices.values, self.slices.columns, self.target

    @cached_property
    def launch(self) -> Launch | None:
        """One warp for each slice; None if there is none."""
        count = len(self.in_order)
        return (*warps(count, int(self.slices.values.itemsize)), (np.int32(count),)) if count else None


@dataclass(frozen=True, kw_only=True)
class CudaHaloMatrix(HaloMatrix):
    """What multiplies a halo, with its launch.

    Attributes:
        by_boundary: uint32 (slices, 4), where the slices are: `Entries` in slices.cuh.
        partials: float64, room for one partial dot product a slice.
    """

    by_boundary: Array
    partials: Array

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        """The first arguments of its kernels."""
        return self.by_boundary, self.slices.values, self.slices.columns, self.boundary

    @cached_property
    def launch(self) -> Launch | None:
        """One warp for each slice; None if there is none."""
        count = len(self.boundary)
        itemsize = int(self.slices.values.itemsize)
        return (*warps(-(-count // SLICE), itemsize), (np.int32(count),)) if count else None


def stored(a: CudaMatrix, dtype: np.dtype[Any]) -> str:
    """The end of the name of a kernel for values stored as these are, and vectors of this type."""
    return "" if a.local.values.dtype == dtype else "_compact"
