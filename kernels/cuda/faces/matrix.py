"""Faces on a GPU: matrices with their kernels and the launches of these."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Self

import cupy
import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.casts import lossless
from dsolver.kernels.cuda.launch.batched import BatchedLaunches
from dsolver.kernels.cuda.launch.foresight import settle
from dsolver.kernels.cuda.launch.loader import kernel, type_of
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.cuda.matrix_passes import MatrixPasses
from dsolver.kernels.cuda.vectors.vectors import CudaVectors, cast, vectors
from dsolver.kernels.formats.base import SeparateSweeps
from dsolver.kernels.formats.checkered.corners import Corners
from dsolver.kernels.formats.checkered.faces import Faces
from dsolver.kernels.formats.layout import SLICE, Array

FILE: Final = "faces/passes.cu"
LINES, THREADS = 8, 256  # lines and threads of a block: as in faces.cuh
MOST_BLOCKS: Final = 65_535  # blocks of a launch along y, and along z
WALK: Final = 8
"""Planes that a thread walks through; each walk reads x of two more. From 8 to 32 made less than 3 % on an H200."""
ITEMS: Final = 4  # rows of a thread of `divide`: as in passes.cu


@dataclass(frozen=True, kw_only=True)
class CudaFaces(MatrixPasses, SeparateSweeps, Faces):
    """A chunk's matrix with its kernels and their launches."""

    partials: Array

    @cached_property
    def vectors(self) -> CudaVectors:
        """The vector kernels."""
        return vectors(type_of(self.diagonal))

    @cached_property
    def stored(self) -> str:
        """The end of the name of a kernel for values stored as these are, and vectors of the value type."""
        return "" if self.values.dtype == self.diagonal.dtype else "_compact"

    @cached_property
    def board(self) -> tuple[Any, ...]:
        """The arguments called BOARD in faces.cuh."""
        return board_of(self)

    @cached_property
    def stored_faces(self) -> tuple[Any, ...]:
        """The values, and how far apart those of the axes and the columns of vectors are."""
        return self.values, np.int64(self.layout.size)

    @cached_property
    def blocks(self) -> tuple[int, int, int]:
        """Blocks along x and y, and planes."""
        nx, ny, nz = self.layout.shape
        return -(-nx // (2 * SLICE)), -(-ny // LINES), nz

    def function(self, name: str) -> Any:
        """A kernel for the value type of vectors."""
        return kernel(FILE, name, type_of(self.diagonal))

    def batched(self, width: int) -> Columns:
        return FacesColumns(self, width)

    def scaled(self, factors: Array) -> Self:
        """The matrix with the diagonal multiplied by a block of factors, shape (nx, ny, nz)."""
        made = self.vectors.scaled_late(self.layout, self.diagonal, cupy.asarray(factors).reshape(-1, order="F"))
        settle()  # passes read a matrix before they wait for earlier launches
        return replace(self, diagonal=made)

    def narrowed(self, dtype: np.dtype[Any], *, swept: bool = True) -> Self:
        """The matrix, of float64, with values of another type."""
        made = replace(self, diagonal=cast(self.diagonal, dtype, checked=True), values=cast(self.values, dtype))
        settle()  # as above
        return made

    def compacted(self) -> Self:
        """The matrix for `spmv` and `spmv_dot` alone, with values in float32 where that loses nothing."""
        values = lossless(self.values)
        cupy.cuda.get_current_stream().synchronize()  # as above
        return replace(self, values=values)

    def run_pass(self, name: str, *vectors: Array) -> None:
        across, lines, planes = self.blocks
        grid = across, lines, -(-planes // WALK)
        head = (*self.board, np.int32(WALK), *self.stored_faces, self.diagonal)
        launch_early(self.function(name), grid, (THREADS,), (*head, *vectors))

    # -- passes over the rows of one color, for one column or several, which lie one behind the other ------------------

    def forward(self, r: Array, x: Array, width: int = 1) -> None:
        self._divide(0, r, x, width)
        self.half("solve", width, self.diagonal, r, x, np.int32(1))

    def upper_residual(self, x: Array, y: Array, width: int = 1) -> None:
        self.half("upper_residual", width, x, y)

    def lower_residual(self, r: Array, x: Array, w: Array, width: int = 1) -> None:
        self.half("lower_residual", width, r, x, w)

    def backward(self, w: Array, x: Array, width: int = 1) -> None:
        self._divide(1, w, x, width)
        self.half("solve", width, self.diagonal, w, x, np.int32(0))

    def sweep_backward(self, r: Array, x: Array, w: Array, width: int = 1) -> None:
        """Black rows read red x alone, and nothing of the black x before."""
        for color in (1, 0):
            self.half("solve", width, self.diagonal, r, x, np.int32(color))

    def half(self, name: str, width: int, *arguments: Any) -> None:
        """A pass over the rows of one color, for so many columns."""
        if width > 1:
            name, arguments = "columns_" + name, (*arguments, np.int32(width))
        launch_early(self.function(name), self.blocks, (THREADS,), (*self.board, *self.stored_faces, *arguments))

    def _divide(self, color: int, r: Array, x: Array, width: int) -> None:
        count = self.layout.rows // 2
        places = (np.int32(SLICE * self.layout.color_slices[color]), np.int32(count), np.int32(width))
        size = self.stored_faces[1]
        launch_early(
            self.function("divide"), (-(-count // (ITEMS * THREADS)),), (THREADS,), (self.diagonal, size, r, x, *places)
        )


class FacesColumns(BatchedLaunches):
    """`CudaFaces` for several columns: entries are read once."""

    def spmv(self, x: Array, y: Array) -> None:
        self._columns("columns_spmv", x, y)

    def spmv_dot(self, x: Array, y: Array, dot: Array) -> None:
        partials = self.kept("partials", lambda: cupy.empty((self.width, len(self.one.partials))))
        self._columns("columns_spmv_dot", x, y, partials)
        for number, own in enumerate(partials):
            self.one.vectors.sum(own, len(own), dot[number])

    def forward(self, r: Array, x: Array) -> None:
        self.one.forward(r, x, self.width)

    def upper_residual(self, x: Array, y: Array) -> None:
        self.one.upper_residual(x, y, self.width)

    def lower_residual(self, r: Array, x: Array, w: Array) -> None:
        self.one.lower_residual(r, x, w, self.width)

    def backward(self, w: Array, x: Array) -> None:
        self.one.backward(w, x, self.width)

    def sweep_backward(self, r: Array, x: Array, w: Array) -> None:
        self.one.sweep_backward(r, x, w, self.width)

    def _columns(self, name: str, *vectors: Array) -> None:
        a = self.one
        arguments = (*a.board, *a.stored_faces, a.diagonal, *vectors, np.int32(self.width))
        launch_early(a.function(name + a.stored), a.blocks, (THREADS,), arguments)


def launches(shape: tuple[int, int, int]) -> bool:
    """Whether there can be as many blocks as a box of this shape has lines and planes."""
    _, ny, nz = shape
    return -(-ny // LINES) <= MOST_BLOCKS and nz <= MOST_BLOCKS


def board_of(a: Faces | Corners) -> tuple[Any, ...]:
    """The arguments called BOARD in faces.cuh."""
    assert a.layout.checkered is not None
    nx, ny, nz = a.layout.shape
    red, black = (SLICE * int(first) for first in a.layout.color_slices[:2])
    wraps = sum(1 << axis for axis, wrap in enumerate(a.wraps) if wrap)
    return tuple(np.int32(number) for number in (nx // 2, ny, nz, red, black, a.layout.checkered, wraps))
