"""What launches need beside the arrays of `dsolver.kernels.layout`: made at set-up, so that they compute nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.layout import SLICE, Array, HaloMatrix, Matrix

WIDEST = 4
"""Most warps of a block, as sweeps.cu is compiled for. Sweeps with 8 were 3 % slower, with 16 10 %."""
WARPS_TO_FILL = 132 * 16
"""Below this many warps, blocks become narrower: a small level must reach every multiprocessor of the device first."""

Launch = tuple[tuple[int], tuple[int], tuple[Any, ...]]
"""Grid, block and the last arguments of a kernel."""


def warps(count: int) -> tuple[tuple[int], tuple[int]]:
    """Grid and block for a number of warps, at least one."""
    width = WIDEST
    while width > 1 and count < WARPS_TO_FILL // WIDEST * width:
        width //= 2
    return (-(-count // width),), (width * SLICE,)


def color_launch(first: int, last: int, *, reverse: bool) -> Launch:
    """A launch over slices [first, last) of a matrix, front to back or back to front."""
    start, step = (last - 1, -1) if reverse else (first, 1)
    return *warps(last - first), (np.int32(start), np.int32(step), np.int32(last - first))


def sweep_launches(
    color_slices: npt.NDArray[np.int64], has_upper: npt.NDArray[np.bool_]
) -> tuple[tuple[Launch, ...], tuple[Launch, ...]]:
    """The launches of a forward and of a backward half sweep.

    Colors without rows are left out, and going back those without upper entries: they would change nothing.
    Neighboring colors walk in opposite directions, so that each launch starts where the one before it ended, in what
    L2 still holds.
    """
    launches = [
        color_launch(int(first) - 1, int(last) - 1, reverse=color % 2 == 1) if first < last else None
        for color, (first, last) in enumerate(pairwise(color_slices))
    ]
    forward = tuple(launch for launch in launches if launch)
    backward = tuple(launch for launch, wanted in zip(launches, has_upper, strict=True) if launch and wanted)
    return forward, backward[::-1]


@dataclass(frozen=True, kw_only=True)
class CudaMatrix(Matrix):
    """A chunk's matrix with its launches.

    Attributes:
        by_color: uint32 (slices, 4), where the slices of `local` are, in storage order: `Entries` in slices.cuh.
        by_plane: the same in the order in which SpMV visits them.
        partials: float64, room for one partial dot product a slice.
        forward: launches of a forward half sweep, in order.
        backward: launches of a backward half sweep, in order.
    """

    by_color: Array
    by_plane: Array
    partials: Array
    forward: tuple[Launch, ...]
    backward: tuple[Launch, ...]

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
        return *warps(count), (np.int32(count),)


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
        return (*warps(-(-count // SLICE)), (np.int32(count),)) if count else None
