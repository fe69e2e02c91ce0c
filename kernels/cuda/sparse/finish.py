"""Products on a GPU that end in a residual or a sweep of Jacobi in the same pass: see finish.cuh."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.launch.batched import BatchedLaunches
from dsolver.kernels.cuda.launch.loader import NOTHING, kernel
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.cuda.vectors.vectors import vectors
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.reductions import some


class Finishing(ABC):
    """A product that may end in something else than y = A x."""

    def spmv(self, x: Array, y: Array) -> None:
        """y = A x."""
        self._finish("spmv", (x, NOTHING, NOTHING, y, NOTHING))

    def spmv_dot(self, x: Array, y: Array, dot: Array) -> None:
        """y = A x, dot = x . y."""
        self._finish("spmv_dot", (x, NOTHING, NOTHING, y, NOTHING), dot)

    def residual(self, r: Array, x: Array, y: Array) -> None:
        """y = r - A x."""
        self._finish("residual", (x, r, NOTHING, y, NOTHING))

    def jacobi_sweep(self, w: Array, r: Array, x: Array, z: Array) -> None:
        """z = x + w (r - A x), w being the reciprocal of a diagonal."""
        self._finish("sweep", (x, r, w, z, NOTHING))

    def jacobi_sweep_dot(self, w: Array, r: Array, x: Array, z: Array, dot: Array) -> None:
        """`jacobi_sweep`, and dot = r . z."""
        self._finish("sweep_dot", (x, r, w, z, NOTHING), dot)

    def jacobi_first(self, w: Array, r: Array, x: Array, y: Array) -> None:
        """x = w r, y = r - A x."""
        self._finish("first", (NOTHING, r, w, y, x))

    @abstractmethod
    def _finish(self, name: str, given: tuple[Any, ...], dot: Array | None = None) -> None:
        """Launch the kernel of this name; given: `Finish` of finish.cuh; dot: of the kernels that make one."""


class Finished(Finishing):
    """A format with such a product."""

    def batched(self, width: int) -> Columns:
        """The kernels for vectors of so many columns."""
        return FinishedColumns(self, width)

    @property
    def finishes(self) -> bool:
        """Whether its kernels see whole rows."""
        return True

    def paired(self, other: Any) -> Array | None:
        """The values of another matrix, where they lie in the places of this one's; None where kernels take no two."""
        mine, theirs = self._stored, other._stored if type(other) is type(self) else None
        if mine is None or theirs is None or not all(map(_alike, mine[0], theirs[0])):
            return None
        return theirs[1]

    @property
    def _stored(self) -> tuple[tuple[Array | None, ...], Array] | None:
        """Places and values, of formats with kernels for complex matrices; None of others."""
        return None

    def prepare_dots(self) -> None:
        """Make now what the first dot product would make, so that it may be recorded before one has run."""


class FinishedColumns(Columns):
    """Such a format for several columns, one after the other."""

    def jacobi_sweep(self, w: Array, r: Array, x: Array, z: Array) -> None:
        """See `Finished.jacobi_sweep`; w is of all columns."""
        for number in range(self.width):
            self.one.jacobi_sweep(w, r[number], x[number], z[number])

    def jacobi_sweep_dot(self, w: Array, r: Array, x: Array, z: Array, dot: Array) -> None:
        """See `Finished.jacobi_sweep_dot`; w is of all columns."""
        for number in range(self.width):
            self.one.jacobi_sweep_dot(w, r[number], x[number], z[number], dot[number])

    def jacobi_first(self, w: Array, r: Array, x: Array, y: Array) -> None:
        """See `Finished.jacobi_first`; w is of all columns."""
        for number in range(self.width):
            self.one.jacobi_first(w, r[number], x[number], y[number])


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Launches of a format's kernels for several columns."""

    file: str
    end: str
    dtype: str
    grid: tuple[int]
    threads: int
    head: tuple[Any, ...]  # their first arguments
    tail: tuple[np.int32, ...]  # their last ones
    parts: int  # partial dot products of a column


class TogetherColumns(Finishing, BatchedLaunches):
    """Such a format for several columns, whose entries are read once for all; sums are those of one column."""

    def __init__(self, one: Any, width: int, launch: Launch) -> None:
        super().__init__(one, width)
        self._launch = launch

    def add(self, x: Array, r: Array, y: Array) -> None:
        """y = r + A x; y may be r."""
        self._finish("sum", (x, r, NOTHING, y, NOTHING))

    def complex_spmv(self, imaginary: Array, x: Array, y: Array) -> None:
        """See `general.complex_pair`; imaginary: values in the places of those of the real part."""
        self._finish("complex_spmv", (x, NOTHING, NOTHING, y, NOTHING), beside=(imaginary, NOTHING))

    def complex_residual(self, imaginary: Array, r: Array, x: Array, y: Array) -> None:
        self._finish("complex_residual", (x, r, NOTHING, y, NOTHING), beside=(imaginary, NOTHING))

    def complex_sweep(self, imaginary: Array, w: Array, wi: Array, r: Array, x: Array, z: Array) -> None:
        self._finish("complex_sweep", (x, r, w, z, NOTHING), beside=(imaginary, wi))

    def complex_first(self, imaginary: Array, w: Array, wi: Array, r: Array, x: Array, y: Array) -> None:
        self._finish("complex_first", (NOTHING, r, w, y, x), beside=(imaginary, wi))

    def _finish(self, name: str, main: tuple[Any, ...], dot: Array | None = None, beside: tuple[Any, ...] = ()) -> None:
        launch = self._launch
        apart = (np.int64(0 if a is NOTHING else a.strides[0] // a.itemsize) for a in (main[0], main[3]))
        parts: Any = None if dot is None else self.kept("partials", lambda: cupy.zeros((self.width, launch.parts)))
        function = kernel(launch.file, name + launch.end, launch.dtype, self.width)
        arguments = (*launch.head, *beside, *main, *apart, *(() if parts is None else (parts,)), *launch.tail)
        launch_early(function, launch.grid, (launch.threads,), arguments)
        if dot is not None:
            for number, own in enumerate(parts):
                vectors(launch.dtype).sum(own, launch.parts, dot[number])


def _alike(mine: Array | None, theirs: Array | None) -> bool:
    """Whether arrays have the same numbers. It waits, unless their lengths differ or they are one."""
    if mine is theirs or mine is None or theirs is None:
        return mine is theirs
    return mine.shape == theirs.shape and not some(mine != theirs)
