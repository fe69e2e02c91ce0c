"""Storage orders on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.sell import assembly
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.layouts import Layouts


@final
class CudaLayouts(Layouts):
    """Storage orders of CuPy arrays."""

    def colored(self, color: Array, colors: int, shape: tuple[int, int, int]) -> Layout:
        return assembly.layout(cupy.asarray(color, dtype=np.int32), colors, shape)

    def plain(self, shape: tuple[int, int, int]) -> Layout:
        return assembly.plain_layout(shape)

    def lattice(
        self, classes: Sequence[npt.NDArray[np.int_]], colors: npt.NDArray[np.int32], shape: tuple[int, int, int]
    ) -> Layout:
        return assembly.lattice_layout(classes, colors, shape)
