"""The backend of NVIDIA GPUs: launches of this package's CUDA kernels on CuPy's current stream."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import cupy
import numpy as np

from dsolver.kernels import Backend, usable_cpus
from dsolver.kernels.cpu.loops.copying import HostRoom
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.cuda import host_arrays
from dsolver.kernels.cuda.amg.dense import CudaDense
from dsolver.kernels.cuda.amg.setup import CudaAlgebra
from dsolver.kernels.cuda.colorings.setup import CudaSweeps
from dsolver.kernels.cuda.csr.complex_rows import CudaComplexRows
from dsolver.kernels.cuda.csr.general import CudaGeneral
from dsolver.kernels.cuda.lattice.setup import CudaLattice
from dsolver.kernels.cuda.launch import foresight, readback, tables
from dsolver.kernels.cuda.launch.loader import device_property
from dsolver.kernels.cuda.layout_setup import CudaLayoutSetup
from dsolver.kernels.cuda.stencil.setup import CudaStencils
from dsolver.kernels.cuda.vectors.vectors import vectors
from dsolver.kernels.formats.layout import SLICE, Array

T = TypeVar("T")

HOST_THREADS = 16  # threads of the host at most that help a GPU's set-up, and no more than its part of the host's cores
TIDIED = 64**3
"""Rows of the smallest level before which memory is tidied: to ask the driver for what is free takes 24 us."""
LITTLE = 1 / 16  # part of a GPU's memory that CuPy's pool may hold unused without a question how much is free beside it
IDLE = 0.5  # bytes that CuPy's pool may hold unused during set-up, over those that are free beside it


class CudaBackend(Backend):
    """Kernels that NVRTC compiles, for the calling thread's device; dots repeat to the bit. ImportError: no device."""

    name = "cuda"
    guard = SLICE
    xp = cupy
    formats = "dsolver.kernels.cuda.{}.setup"

    def __init__(self, dtype: str = "float64") -> None:
        try:
            devices = int(cupy.cuda.runtime.getDeviceCount())
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise ImportError(f"the cuda kernels need a GPU: {error}") from error
        threads = max(1, min(HOST_THREADS, usable_cpus() // devices))
        made = vectors(dtype)
        self.vectors, self.dtype = made, made.dtype
        self.layouts = CudaLayoutSetup(cupy, SLICE)
        self.lattice = CudaLattice(cupy)
        self.amg = CudaAlgebra(Team(threads))
        self.dense = CudaDense(made)
        self.stencil = CudaStencils(made)
        self.general = CudaGeneral(cupy, made, SLICE, gpu=True)
        self.complex_rows = CudaComplexRows(self.general)
        self.sweeps = CudaSweeps()

    @property
    def sparse(self) -> Any:
        from cupyx.scipy import sparse

        return sparse

    def zeros(self, size: int, dtype: str | None = None) -> Array:
        return readback.zeros(size, dtype or self.dtype)

    def scalars(self, count: int) -> Array:
        return readback.zeros(count, np.float64)

    table = staticmethod(tables.table)

    def asarrays(self, *values: Any) -> list[Array]:
        return host_arrays.to_gpu(values)

    to_host = staticmethod(host_arrays.to_host)

    host_room = staticmethod(HostRoom.worthwhile)

    def answer(self, decide: Callable[..., T], numbers: Sequence[Array]) -> T:
        return foresight.answer(lambda *values: decide(*(float(value[0]) for value in values)), *numbers)

    answer_of_all = staticmethod(foresight.answer_of_all)
    foreseeing = staticmethod(foresight.foreseeing)
    in_order = staticmethod(foresight.in_order)
    deferring = staticmethod(readback.deferring)
    defer = staticmethod(readback.defer)
    confirming = staticmethod(foresight.confirming)
    synchronize = staticmethod(foresight.settle)

    def tidy(self, rows: int, *, always: bool = False) -> None:
        if rows < TIDIED:
            return
        pool = cupy.get_default_memory_pool()
        idle = pool.free_bytes()
        many = idle > LITTLE * device_property("totalGlobalMem") and idle > IDLE * cupy.cuda.runtime.memGetInfo()[0]
        if always or many:
            pool.free_all_blocks()
