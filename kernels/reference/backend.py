"""The backend of the text-book kernels in NumPy, which specify the contract."""

import numpy as np

from dsolver.kernels.backend import Backend
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.cpu.colorings.setup import HostSweeps
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.dense import DenseSetup
from dsolver.kernels.formats.stencil.constant import StencilSetup
from dsolver.kernels.lattice.setup import LatticeSetup
from dsolver.kernels.reference.dense import TextbookInverse
from dsolver.kernels.reference.general import TextbookGeneral
from dsolver.kernels.reference.layout_setup import NumpyLayoutSetup
from dsolver.kernels.reference.stencil import TextbookStencil, TextbookTransfer
from dsolver.kernels.reference.vectors import vectors


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
