"""Compiled kernels of slices, and how half sweeps are launched."""

from functools import cache
from typing import Any, Final

import cupy

from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.schedule import HalfSweep
from dsolver.kernels.cuda.launch.streams import Forks, launch_early
from dsolver.kernels.cuda.vectors.vectors import vectors


class SellKernels:
    """The kernels of a value type."""

    def __init__(self, dtype: str) -> None:
        self.vectors = vectors(dtype)
        self._forks = Forks()

    def __reduce__(self) -> Any:
        return sell_kernels, (self.vectors.dtype.name,)

    def function(self, name: str) -> Any:
        """A kernel."""
        file = "multigrid" if name in _MULTIGRID else "sweeps"
        return kernel(f"sell/{file}.cu", name, self.vectors.type_name)

    def launch_sweep(self, function: Any, sweep: HalfSweep, head: tuple[Any, ...]) -> None:
        """The launches of a half sweep by a kernel; head: their first arguments."""
        if sweep.chains > 1:
            self._in_chains(function, head, sweep)
            return
        for unit in sweep.units:
            grid, block, tail = unit.launch
            launch_early(function, grid, block, head + tail)

    def _in_chains(self, function: Any, head: tuple[Any, ...], sweep: HalfSweep) -> None:
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
            grid, block, tail = unit.launch
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


_MULTIGRID: Final = ("upper_residual", "lower_residual", "backward_solve", "product", "product_add")
"""Kernels of sell/multigrid.cu; others are of sell/sweeps.cu."""
