"""The backend of CPUs: loops of this package, cut among a team of threads."""

from contextlib import AbstractContextManager, nullcontext

import numpy as np

from dsolver.kernels.backend import Backend
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.cpu.colorings.setup import HostSweeps
from dsolver.kernels.cpu.csr.complex_rows import ComplexRows
from dsolver.kernels.cpu.csr.general import CpuGeneral
from dsolver.kernels.cpu.dense import CpuInverse, eliminate, multiply
from dsolver.kernels.cpu.heap import heap
from dsolver.kernels.cpu.lattice.setup import CpuLattice
from dsolver.kernels.cpu.layout_setup import CpuLayoutSetup
from dsolver.kernels.cpu.stencil import CpuStencil, CpuTransfer
from dsolver.kernels.cpu.vectors import vectors
from dsolver.kernels.formats.dense import DenseSetup
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.stencil.constant import StencilSetup


class CpuBackend(Backend):
    """Kernels compiled by numba. The bits do not depend on the number of threads."""

    name = "cpu"
    guard = SLICE
    xp = np
    formats = "dsolver.kernels.cpu.{}.setup"

    def __init__(self, threads: int = 1, dtype: str = "float64") -> None:
        self.threads = threads
        self.vectors = vectors(threads, dtype)
        self.dtype = self.vectors.dtype
        self.layouts = CpuLayoutSetup(np, SLICE)
        self.lattice = CpuLattice(self.vectors.team)
        self.amg = AmgKernels(self.vectors.team)
        self.dense = DenseSetup(self.dtype, CpuInverse.by_columns, eliminate, multiply)
        self.stencil = StencilSetup(self.vectors, CpuStencil, CpuTransfer)
        self.general = CpuGeneral(np, self.vectors, SLICE)
        self.complex_rows = ComplexRows(self.vectors.team)
        self.sweeps = HostSweeps()

    def reusing(self) -> AbstractContextManager[None]:
        found = heap()
        return nullcontext() if found is None else found.reusing()

    def give_back(self) -> None:
        if (found := heap()) is not None:
            found.give_back()

    def synchronize(self) -> None:
        """Kernels have run when they return."""
