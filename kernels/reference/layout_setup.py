"""Set-up of layouts in NumPy: rows keep their lattice order, without padding."""

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.layout_setup import LayoutSetup


class NumpyLayoutSetup(LayoutSetup):
    """Lattice orders."""

    def colored(self, color: npt.NDArray[np.int32], colors: int, shape: tuple[int, int, int]) -> Layout:
        rows = np.arange(len(color), dtype=np.int32)
        return Layout(
            rows=len(color),
            size=len(color),
            color_slices=np.zeros(colors + 1, dtype=np.int64),
            position=rows,
            row=rows,
            color=color,
            shape=shape,
        )
