"""The backend of the text-book kernels in NumPy, which specify the contract."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dsolver.kernels.backend import Backend
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.cpu.colorings.setup import HostSweeps
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.dense import DenseInverse, DenseSetup
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.stencil.constant import StencilSetup
from dsolver.kernels.lattice.setup import LatticeSetup
from dsolver.kernels.layout_setup import LayoutSetup
from dsolver.kernels.reference.general import TextbookGeneral
from dsolver.kernels.reference.stencil import TextbookStencil, TextbookTransfer
from dsolver.kernels.reference.vectors import vectors


@dataclass(frozen=True, kw_only=True)
class TextbookInverse(DenseInverse):
    """An inverse with its kernel."""

    def dense_solve(self, r: Array, x: Array) -> None:
        x[self.position] = self.values @ r[self.position]


class NumpyLayoutSetup(LayoutSetup):
    """Set-up of layouts: rows keep their lattice order, without padding."""

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


class NumpyBackend(Backend):
    """The NumPy text-book kernels."""

    name = "numpy"
    guard = 0
    xp = np
    formats = "dsolver.kernels.reference.{}"

    def __init__(self, dtype: str = "float64") -> None:
        self.vectors = vectors(dtype)
        self.dtype = self.vectors.dtype
        self.layouts = NumpyLayoutSetup(np, self.guard)
        self.lattice = LatticeSetup(np)
        self.amg = AmgKernels(Team())
        self.dense = DenseSetup(self.dtype, TextbookInverse)
        self.stencil = StencilSetup(self.vectors, TextbookStencil, TextbookTransfer)
        self.general = TextbookGeneral(np, self.vectors, self.guard)
        self.sweeps = HostSweeps()

    def synchronize(self) -> None:
        """Kernels have run when they return."""
