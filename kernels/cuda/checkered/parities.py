"""Parities on a GPU: transfers between levels of eight colors. See `FormatBuilder.half_transfer`."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.checkered.transfer import ROWS, THREADS, Blocks, ColumnlessTransfer, alone, blocks, halved
from dsolver.kernels.cuda.launch.foresight import settle
from dsolver.kernels.cuda.launch.loader import kernel, type_of
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.formats.checkered.parities import CLASSES, Flags, Parities, Triple, fits, starts
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.lattice.coarsening import Coarsening

LEVELS: Final = np.dtype(
    [
        ("n", np.int32, 3),
        ("c", np.int32, 3),
        ("halved", np.int32),
        ("wraps", np.int32),
        ("fine", np.int32, CLASSES),
        ("coarse", np.int32, CLASSES),
        ("start", np.int32, CLASSES),
    ],
    align=True,
)


@dataclass(frozen=True, kw_only=True)
class CudaParities(ColumnlessTransfer, Parities):
    """R and P with their kernels and the launches of these."""

    file: ClassVar[str] = "checkered/parities.cu"

    @cached_property
    def levels(self) -> npt.NDArray[np.void]:
        """`Levels` of parities.cu."""
        fine, coarse = self.layout, self.coarse
        return _levels(fine.shape, coarse.shape, self.factors, self.wraps, _firsts(fine), _firsts(coarse))

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        return self.levels, self.values

    def fine_blocks(self, rows: int) -> Blocks:
        """Blocks for the points of all classes but the first, so many of them a thread along z."""
        x, y, z = ((n + 1) // 2 for n in self.layout.shape)
        along, lines, planes = blocks(x, y, -(-z // rows))
        return (CLASSES - 1) * along, lines, planes

    def restrict_full(self, y: Array, rc: Array, width: int = 1) -> None:
        nx, ny, nz = self.coarse.shape
        turns = 1 if self.factors[0] == 2 else 2  # of blocks along x, each with points of one parity
        along, lines, planes = blocks(-(-nx // turns), ny, nz)
        name = f"restrict_full_{halved(self.factors)}"
        self.launch(name, (turns * along, lines, planes), width, (self.layout.size, self.coarse.size), y, rc)

    def prolong_add(self, xc: Array, x: Array, width: int = 1) -> None:
        self.launch("prolong_add", self.fine_blocks(ROWS), width, (self.coarse.size, self.layout.size), xc, x)


def parities(made: Coarsening, p: Array, rows: Layout, coarse: Layout, dtype: np.dtype[Any]) -> CudaParities | None:
    colored = rows.parities is not None and coarse.parities is not None
    if not (alone(made) and colored and fits(made.grid, made.periodic, made.factors)):
        return None
    values = cupy.empty(SLICE * starts(made.grid, made.factors)[-1], dtype)
    found = CudaParities(layout=rows, coarse=coarse, values=values, factors=made.factors, wraps=made.periodic)
    arguments = found.levels, cupy.ascontiguousarray(p), values
    launch_early(kernel(found.file, "pick", type_of(values)), found.fine_blocks(1), (THREADS,), arguments)
    settle()  # passes read it before they wait for earlier launches
    return found


@lru_cache(maxsize=64)
def _levels(
    fine: Triple, coarse: Triple, factors: Triple, wraps: Flags, fine_firsts: bytes, coarse_firsts: bytes
) -> npt.NDArray[np.void]:
    """`Levels` of two grids, whose rows of each parity class begin there."""
    made = np.zeros(1, LEVELS)
    made["n"], made["c"], made["halved"] = fine, coarse, halved(factors)
    made["wraps"] = sum(1 << axis for axis, wrap in enumerate(wraps) if wrap)
    made["fine"], made["coarse"] = (np.frombuffer(firsts, np.int64) for firsts in (fine_firsts, coarse_firsts))
    made["start"] = starts(fine, factors)[:CLASSES]
    return made


def _firsts(layout: Layout) -> bytes:
    """First places of the rows of each parity class in a vector, int64."""
    firsts = layout.color_slices[list(layout.parities or ())]
    return (SLICE * firsts).astype(np.int64).tobytes()
