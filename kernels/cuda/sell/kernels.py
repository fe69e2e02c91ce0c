"""Compiled kernels of slices, and how half sweeps are launched."""

from __future__ import annotations

from functools import cache
from typing import Any, final

import cupy

from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.schedule import NARROW, HalfSweep
from dsolver.kernels.cuda.launch.streams import Forks, launch_early
from dsolver.kernels.cuda.vectors import vectors


@final
class SellKernels:
    """The kernels of a value type.

    Attributes:
        vectors: the vector kernels.
        functions: by name.

    Args:
        dtype: the value type, "float64" or "float32".
    """

    def __init__(self, dtype: str) -> None:
        self.vectors = vectors(dtype)
        self.functions = {name: kernel("sell/sweeps.cu", name, dtype) for name in _SWEEPS}
        self.functions |= {name: kernel("sell/multigrid.cu", name, dtype) for name in _MULTIGRID}
        self._narrow = {"forward_from_zero": kernel("sell/sweeps.cu", "forward_from_zero" + NARROW, dtype)}
        self._forks = Forks()

    def __reduce__(self) -> Any:
        return sell_kernels, (self.vectors.dtype.name,)

    def pair(self, name: str) -> tuple[Any, Any | None]:
        """A kernel of half sweeps and the one for narrow slices, or None."""
        return self.functions[name], self._narrow.get(name)

    def launch_sweep(self, functions: tuple[Any, Any | None], sweep: HalfSweep, head: tuple[Any, ...]) -> None:
        """The launches of a half sweep; head: their first arguments; functions: also one for narrow slices, or None."""
        if sweep.chains > 1:
            self._in_chains(functions, head, sweep)
            return
        for unit in sweep.units:
            function, (grid, block, tail) = unit.of(*functions)
            launch_early(function, grid, block, head + tail)

    def _in_chains(self, functions: tuple[Any, Any], head: tuple[Any, ...], sweep: HalfSweep) -> None:
        """The chains of a sweep on the current stream and others beside it; all have run when the stream goes on."""
        fork, main = self._forks.here(), cupy.cuda.get_current_stream()
        sides = fork.sides(sweep.chains - 1)
        streams = main, *sides
        count = len(sweep.units)
        fork.event(count).record(main)
        for side in sides:
            side.wait_event(fork.event(count))
        for number, unit in enumerate(sweep.units):
            stream = streams[unit.chain]
            if unit.after is not None:
                stream.wait_event(fork.event(unit.after))
            function, (grid, block, tail) = unit.of(*functions)
            with stream:
                function(grid, block, head + tail)
            if unit.awaited:
                fork.event(number).record(stream)
        for number, side in enumerate(sides, count + 1):
            fork.event(number).record(side)
            main.wait_event(fork.event(number))


@cache
def sell_kernels(dtype: str) -> SellKernels:
    """The kernels of a value type, one object in a process."""
    return SellKernels(dtype)


_SWEEPS = (
    "spmv",
    "spmv_dot",
    "spmv_compact",
    "spmv_dot_compact",
    "residual",
    "jacobi_sweep",
    "jacobi_sweep_dot",
    "spmv_halo",
    "times_halo",
    "times_halo_dot",
    "add_halo_dot",
    "subtract_halo",
    "forward_from_zero",
)
_MULTIGRID = ("upper_residual", "lower_residual", "backward_solve", "product", "product_add")
