"""Set-up of layouts on a CPU."""

import math

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.sell import assembly
from dsolver.kernels.formats.layout import SLICE, Layout
from dsolver.kernels.layout_setup import LayoutSetup


class CpuLayoutSetup(LayoutSetup):
    """Storage orders of NumPy arrays."""

    def colored(self, color: npt.NDArray[np.int32], colors: int, shape: tuple[int, int, int]) -> Layout:
        slices = -(-np.bincount(color, minlength=colors) // SLICE)
        color_slices = np.concatenate([[1], 1 + np.cumsum(slices)]).astype(np.int64)
        size = int(color_slices[-1] + 1) * SLICE
        position = np.empty(len(color), dtype=np.int32)
        row = np.full(size, -1, dtype=np.int32)
        assembly.storage_order(color, color_slices[:-1] * SLICE, position, row)
        return Layout(
            rows=len(color), size=size, color_slices=color_slices, position=position, row=row, color=color, shape=shape
        )

    def plain(self, shape: tuple[int, int, int]) -> Layout:
        rows = math.prod(shape)
        slices = -(-rows // SLICE)
        row = np.full((slices + 2) * SLICE, -1, dtype=np.int32)
        number = np.arange(rows, dtype=np.int32)
        row[SLICE : SLICE + rows] = number
        return Layout(
            rows=rows,
            size=len(row),
            color_slices=np.array([1, slices + 1], dtype=np.int64),
            position=number + np.int32(SLICE),
            row=row,
            color=np.zeros(rows, dtype=np.int32),
            shape=shape,
            in_order=True,
        )
