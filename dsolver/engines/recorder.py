"""Records a repeated step as a CUDA graph and replays it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.engines.captured import CapturedGraph
from dsolver.engines.events import EventStopwatch
from dsolver.engines.stopwatch import Stopwatch
from dsolver.engines.transport import Transport
from dsolver.monitor.spans import Span

logger = logging.getLogger(__name__)

_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost
_POLL: Final = 50e-6  # seconds between looks at a running stream
_SPIN: Final = 1e-3  # seconds without a pause between them: set-up reads a count when it is nearly there
_CHECK: Final = 0.2  # seconds between looks at the other ranks


@final
class Recorder:
    """A stream, and the graphs that were recorded on it.

    The first time a step runs as it is: kernels are compiled, NCCL connects, scratch memory is made. Then it is
    captured, and from then on an iteration costs the host one graph launch and one small copy for each watched scalar;
    the host looks at the results only after the last one.

    Args:
        transport: asked whether the other ranks still live while the host waits.
    """

    def __init__(self, transport: Transport) -> None:
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._transport = transport
        self._graphs: dict[Callable[[], None], CapturedGraph] = {}
        self._instrumented: dict[Callable[[], None], tuple[CapturedGraph, EventStopwatch]] = {}
        self._refused: set[Callable[[], None]] = set()

    def repeat(
        self, step: Callable[[], None], times: int, watch: Sequence[Any], *, measured: bool = False
    ) -> list[tuple[float, ...]]:
        """Run the step so many times, the last one measured if so wanted; the watched (1,) arrays after each."""
        samples, memory = _pinned(times, len(watch))
        for index in range(times):
            if measured and index == times - 1 and step in self._instrumented:
                graph, stopwatch = self._instrumented[step]
                stopwatch.begin()
                graph.launch(self.stream)
            elif step in self._graphs:
                self._graphs[step].launch(self.stream)
            else:
                step()
            self._send(watch, samples[index])
            if step not in self._graphs:
                self._graphs[step] = self._capture(step)
        self.wait()
        result = [tuple(float(value) for value in row) for row in samples]
        del memory
        return result

    def read(self, scalars: Sequence[Any]) -> tuple[float, ...]:
        """The values of (1,) arrays, waited for once."""
        samples, memory = _pinned(1, len(scalars))
        self._send(scalars, samples[0])
        self.wait()
        result = tuple(float(value) for value in samples[0])
        del memory
        return result

    def forget(self) -> None:
        """Drop the graphs."""
        self.wait()
        self.close()

    def close(self) -> None:
        """Drop the graphs, and with them the steps and all that these work on. Waits for nobody: a rank may be lost."""
        self._graphs.clear()
        self._instrumented.clear()
        self._refused.clear()

    def instrument(
        self, step: Callable[[], None], told_to: Callable[[Stopwatch], AbstractContextManager[None]]
    ) -> None:
        """Record a step, one that has been recorded before, once more with events in it.

        Where CUDA refuses, a warning says so and the step is not measured: it has its ordinary graph.

        Args:
            step: what is recorded.
            told_to: makes the engine tell a stopwatch what it does.
        """
        if step not in self._graphs or step in self._instrumented or step in self._refused:
            return
        stopwatch = EventStopwatch(self.stream)
        try:
            with told_to(stopwatch):
                graph = self._capture(step)
        except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
            logger.warning(
                "iterations are not measured, for CUDA does not record events among their kernels: %s", error
            )
            self._refused.add(step)
            return
        graph.upload(self.stream)
        self._instrumented[step] = graph, stopwatch

    def spans(self, step: Callable[[], None]) -> list[Span]:
        """What the last repetition of a step has measured."""
        return self._instrumented[step][1].read() if step in self._instrumented else []

    def wait(self) -> None:
        """Wait for the stream, and raise instead if another rank fails meanwhile."""
        end = cupy.cuda.Event(disable_timing=True)
        end.record(self.stream)
        began = looked = time.monotonic()
        while not end.done:
            now = time.monotonic()
            if now - began > _SPIN:
                time.sleep(_POLL)
            if now - looked > _CHECK:
                self._transport.check()
                looked = now

    def settle(self) -> None:
        """Wait for every stream of the device: data passes between this one and those of the user or of tasks."""
        self.wait()
        cupy.cuda.Device().synchronize()

    def _send(self, scalars: Sequence[Any], to: npt.NDArray[np.float64]) -> None:
        """Copy (1,) arrays to page-locked memory, behind what is enqueued."""
        for place, scalar in enumerate(scalars):
            target = to.ctypes.data + place * to.itemsize
            cupy.cuda.runtime.memcpyAsync(target, scalar.data.ptr, scalar.nbytes, _TO_HOST, self.stream.ptr)

    def _capture(self, step: Callable[[], None]) -> CapturedGraph:
        self.stream.begin_capture()
        try:
            step()
        finally:
            graph = CapturedGraph(self.stream)
        return graph


def _pinned(rows: int, columns: int) -> tuple[npt.NDArray[np.float64], Any]:
    """float64 (rows, columns) in page-locked memory, and what keeps it."""
    memory = cupy.cuda.alloc_pinned_memory(max(1, rows * columns) * 8)
    return np.frombuffer(memory, np.float64, rows * columns).reshape(rows, columns), memory
