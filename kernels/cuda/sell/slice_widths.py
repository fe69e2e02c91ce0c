"""Widths of the slices of a matrix on a GPU, on which its launches depend."""

from __future__ import annotations

from dataclasses import dataclass

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.launch.foresight import foreseen_numbers
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.tables import table
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.formats.sell import Slices

THREADS = 256


@dataclass(frozen=True, kw_only=True)
class Widths:
    """Most entry columns of a matrix' slices."""

    lower: npt.NDArray[np.int32]  # int32 (colors,), of each color before the upper part
    rest: npt.NDArray[np.int32]  # int32 (colors,), of each color from there on


def widths_of(layout: Layout, local: Slices) -> Widths:
    """Widths of a matrix: one launch for all colors, of which natural order has thousands, and one wait."""
    colors, begins = layout.colors, np.asarray(layout.color_slices, dtype=np.int64)
    longest = int(np.diff(begins).max(initial=0))
    most = cupy.zeros((colors, 2), dtype=np.int32)
    arguments = (table(begins), local.start, local.upper, np.int32(colors), most)
    kernel("sell/assembly/assembly.cu", "slice_widths", "float64")(
        (max(1, -(-longest // THREADS)),), (THREADS,), arguments
    )
    found = foreseen_numbers(most)
    return Widths(lower=found[:, 0], rest=found[:, 1])
