"""Sliced ELL on a CPU: matrices with their kernels."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dsolver.kernels.batched import Columns
from dsolver.kernels.casts import in_range, lossless
from dsolver.kernels.cpu.loops.team import ENTRIES_WORTH_A_THREAD, worth_of
from dsolver.kernels.cpu.sell import loops
from dsolver.kernels.cpu.vectors import CpuVectors, Real, gathered_dot, scatter_add
from dsolver.kernels.formats.base import SeparateBackward, SeparateDot, SeparateSum, SeparateSweeps, SweepColumns
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.sell import HaloMatrix, Product, SellMatrix, Slices

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CpuMatrix(SeparateBackward, SeparateDot, SeparateSweeps, SellMatrix):
    """A chunk's matrix with its kernels."""

    vectors: CpuVectors

    together = frozenset({"spmv", "forward", "upper_residual", "lower_residual", "backward", "sweep_backward"})

    def batched(self, width: int) -> Columns:
        return CpuMatrixColumns(self, width)

    def scaled(self, factors: F64) -> Self:
        """The matrix with the diagonal multiplied by a block of factors, shape (nx, ny, nz)."""
        diagonal = self.diagonal.astype(np.float64)
        diagonal[self.layout.position] *= factors.reshape(-1, order="F")
        return replace(self, diagonal=in_range(diagonal, self.vectors.dtype))

    def compacted(self) -> Self:
        """The matrix for `spmv` and `spmv_dot` alone, with values in float32 where that loses nothing.

        Products are formed in the value type of vectors as before, so the bits are the same; half as much is read.
        """
        return replace(self, local=replace(self.local, values=lossless(self.local.values)))

    def spmv(self, x: Real, y: Real) -> None:
        self.vectors.team.run(loops.spmv, *self._ends, self._slices, self.diagonal, x, y, worth=self._worth)

    def forward(self, r: Real, x: Real) -> None:
        self._by_color(loops.forward_from_zero, *self._half, r, x)

    def upper_residual(self, x: Real, y: Real) -> None:
        self._run_half(loops.upper_residual, x, y)

    def lower_residual(self, r: Real, x: Real, w: Real) -> None:
        self._run_half(loops.lower_residual, r, x, w)

    def backward(self, w: Real, x: Real) -> None:
        self._by_color(loops.backward_solve, *self._half, w, x, backward=True)

    @cached_property
    def _slices(self) -> tuple[Any, Any, Any, Any]:
        return _arrays(self.local)

    @cached_property
    def _half(self) -> tuple[Any, ...]:
        """The entries that half sweeps read of the matrix."""
        return self._slices, self.local.upper, self.diagonal

    @cached_property
    def _ends(self) -> tuple[int, int]:
        """First slice of the rows and one past the last."""
        cuts = self.layout.color_slices
        return int(cuts[0]), int(cuts[-1])

    @cached_property
    def _worth(self) -> int:
        """Slices that are worth a thread where all of their entries are read; twice as many where half of them are."""
        return _slices_worth_a_thread(self.local)

    def _run_half(self, loop: Any, *vectors: Real) -> None:
        """A loop over half of the entries of slices that do not wait for each other."""
        self.vectors.team.run(loop, *self._ends, self._slices, self.local.upper, *vectors, worth=2 * self._worth)

    def _by_color(self, loop: Any, *arguments: Any, backward: bool = False) -> None:
        """The loop over all slices in color order; threads share a color when its slices are many enough."""
        cuts, (first, last), team, worth = self.layout.color_slices, self._ends, self.vectors.team, 2 * self._worth
        if backward:
            arguments = (cuts, *arguments)
        few = last - first < 2 * worth * self.layout.colors
        if team.threads == 1 or few:
            loop(first, last, *arguments)
            return
        colors = range(self.layout.colors)
        for color in reversed(colors) if backward else colors:
            team.run(loop, int(cuts[color]), int(cuts[color + 1]), *arguments, worth=worth)


class CpuMatrixColumns(SeparateDot, SweepColumns):
    """A matrix with several columns: fused steps as their parts."""


@dataclass(frozen=True, kw_only=True)
class CpuHaloMatrix(HaloMatrix):
    """Entries that multiply a halo, with their kernels."""

    vectors: CpuVectors

    def spmv_halo(self, h: Real, y: Real) -> None:
        scatter_add(self.boundary, 1.0, self._products(h), y)

    def times_halo(self, h: Real, q: Real) -> None:
        q[:] = self._products(h)[: len(q)]

    def times_halo_dot(self, h: Real, x: Real, q: Real, dot: F64) -> None:
        self.times_halo(h, q)
        dot[0] = gathered_dot(self.boundary, x, q)

    def add_halo_dot(self, q: Real, part: F64, y: Real, dot: F64) -> None:
        scatter_add(self.boundary, 1.0, q, y)
        dot += part

    def subtract_halo(self, h: Real, r: Real) -> None:
        scatter_add(self.boundary, -1.0, self._products(h), r)

    @cached_property
    def _slices(self) -> tuple[Any, Any, Any, Any]:
        return _arrays(self.slices)

    def _products(self, h: Real) -> Real:
        """H h, one item for each boundary row."""
        count = len(self.slices.start) - 1
        out = np.empty(count * SLICE, self.slices.values.dtype)
        worth = _slices_worth_a_thread(self.slices)
        self.vectors.team.run(loops.halo_products, 0, count, self._slices, h, out, worth=worth)
        return out[: len(self.boundary)]


@dataclass(frozen=True, kw_only=True)
class CpuProduct(SeparateSum, Product):
    """A rectangular matrix with its kernels."""

    vectors: CpuVectors

    together = frozenset({"restrict_full", "prolong_add"})

    def restrict_full(self, y: Real, rc: Real) -> None:
        self._add(y, 0.0, rc)

    def prolong_add(self, xc: Real, x: Real) -> None:
        self._add(xc, 1.0, x)

    @cached_property
    def _slices(self) -> tuple[Any, Any, Any, Any]:
        return _arrays(self.slices)

    def _add(self, x: Real, keep: float, y: Real) -> None:
        count = len(self.slices.upper)
        self.vectors.team.run(loops.product, 0, count, self._slices, self.target, x, keep, y, worth=self._worth)

    @cached_property
    def _worth(self) -> int:
        return _slices_worth_a_thread(self.slices)


def _slices_worth_a_thread(s: Slices) -> int:
    return worth_of(ENTRIES_WORTH_A_THREAD, len(s.upper), len(s.values))


def _arrays(s: Slices) -> tuple[Any, Any, Any, Any]:
    """The arrays as loops take them."""
    return s.start, s.column_start, s.values, s.columns
