"""CUDA graphs of repeated steps: recorded once and replayed, with and without events to measure."""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.engines.eager.captured_graph import CapturedGraph, uncollected
from dsolver.engines.eager.cuda_timing import EventTimer
from dsolver.engines.eager.timing import Timer
from dsolver.engines.repetition import PLAIN, Repetition, Samples, Step, parts_of
from dsolver.engines.transport.base import Alone, Transport
from dsolver.kernels.cuda.launch.foresight import recorded
from dsolver.kernels.cuda.launch.loader import loaded
from dsolver.monitor.spans import Span

logger = logging.getLogger(__name__)

_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost
_POLL: Final = 50e-6  # seconds between looks at a running stream
_SPIN: Final = 5e-3  # seconds without a pause between them: a pause of any length takes 0.1 ms
_CLOSE: Final = 512  # bytes between scalars that one copy brings
_BROKEN: Final = 900, 901  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, _INVALIDATED; the runtime's numbers are the same
_ATTEMPTS: Final = 8  # at a recording that is broken off
_CHECK: Final = 0.2  # seconds between looks at the other ranks
_PATIENCE: Final = 30.0  # seconds of waiting for a turn after which it is told what is waited for
_BUSY: Final = (
    f"this solve has waited {_PATIENCE:g} s for its turn on the GPU, where another thread of this process solves: if "
    "A or M is a function there that waits for this solve, neither ends"
)
"""Warning where two solves may wait for each other."""


class _IdleStreams:
    """Streams of recorders that have gone, by device.

    CuPy's pool keeps what an array had for arrays of the same stream: with a stream of its own each system had all its
    memory from the driver, 5 ms of a first solve at 128³ on an H200 and 17 ms at 256³, and what the last ones had lay
    idle until it was half of what the device had left.
    """

    def __init__(self) -> None:
        self._streams: dict[int, list[Any]] = {}

    def take(self, device: int) -> Any:
        """One that is free, or a new one. What was on it may be read on other streams, so it waits for them."""
        try:
            found = self._streams.setdefault(device, []).pop()
        except IndexError:
            return cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        return found

    def put(self, device: int, stream: Any) -> None:
        """Keep one for later."""
        self._streams.setdefault(device, []).append(stream)


_REFUSALS: Final = cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError
_IDLE: Final = _IdleStreams()
_TURNS: Final[dict[int, Any]] = {}
"""Locks of devices, for the threads of this process: nothing may wait for a device while a stream of it is captured."""


class _Ran:
    """Number of kernels that this process had loaded when a step last ran unrecorded."""

    kernels = -1


_RAN: Final = _Ran()


class GraphRecorder:
    """A stream, and the CUDA graphs recorded on it.

    A step first runs unrecorded, unless nothing is left to do: kernels are compiled, NCCL connects, scratch memory is
    made. Then it is captured, and an iteration costs the host one graph launch and one small copy for each watched
    scalar; the host looks at the results only after the last one.
    """

    def __init__(self, transport: Transport) -> None:
        device = cupy.cuda.runtime.getDevice()
        # Ranks that wait for each other have a process each, but where tests have a thread for each.
        alone = isinstance(transport, Alone)
        self._turn = _TURNS.setdefault(device, threading.RLock()) if alone else threading.RLock()
        with self._turn:
            self.stream = _IDLE.take(device)
        weakref.finalize(self, _IDLE.put, device, self.stream).atexit = False  # nothing is enqueued on it then
        self._transport = transport
        self._graphs: dict[Step, CapturedGraph] = {}
        self._instrumented: dict[Step, tuple[CapturedGraph, EventTimer]] = {}
        self._refused: set[Step] = set()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The stream as the current one, while no other thread of this process has a turn on its device."""
        try:
            if not self._turn.acquire(timeout=_PATIENCE):
                logger.warning(_BUSY)
                self._turn.acquire()
            with self.stream:
                yield
        except BaseException:
            if isinstance(self._transport, Alone):  # copies go on to memory of the host that is free for others now
                with suppress(*_REFUSALS):
                    self.stream.synchronize()
            raise
        finally:
            with suppress(RuntimeError):  # it was not acquired: Ctrl-C comes before, or right behind it
                self._turn.release()

    def repeat(self, step: Step, times: int, watch: Sequence[Any], how: Repetition = PLAIN) -> Samples:
        """The values of the watched (1,) arrays after each of so many steps, of which the last may be measured.

        A step that is ready is recorded before it has run, unless kernels have been loaded since one last ran.
        """
        watched, parts = _Watched(watch), parts_of(step)
        samples, memory = _pinned(times, watched.width)
        if how.ready:
            self.record(step)
        for index in range(times):
            timed = how.measured and index == times - 1 and all(part in self._instrumented for part in parts)
            for part in parts:
                self._run(part, timed=timed)
            watched.send(samples[index], self.stream)
            if index + 1 in how.between:
                how.between[index + 1]()
            self._keep(parts)
        self.wait()
        result = [watched.values(row) for row in samples]
        del memory
        return result

    def replay(self, step: Step) -> None:
        """Run a step once, and record it for the next time."""
        parts = parts_of(step)
        for part in parts:
            self._run(part, timed=False)
        self._keep(parts)

    def _keep(self, parts: Sequence[Step]) -> None:
        """Record parts of a step that have run."""
        for part in parts:
            if part not in self._graphs:
                self._graphs[part] = self._graph_of(part)

    def _run(self, part: Step, *, timed: bool) -> None:
        """Launch what was recorded of a part of a step, with the events to measure it or without, or else run it."""
        if timed:
            graph, timer = self._instrumented[part]
            timer.begin()
            graph.launch(self.stream)
        elif part in self._graphs:
            self._graphs[part].launch(self.stream)
        else:
            part()
            _RAN.kernels = loaded()

    def record(self, step: Step) -> None:
        """Record a step that has not run, which makes nothing, unless kernels are loaded that have not run either."""
        known = _RAN.kernels
        for part in parts_of(step):
            if part in self._graphs or known != loaded() or not isinstance(self._transport, Alone):
                continue
            graph = self._graph_of(part)
            if loaded() == known:
                graph.upload(self.stream)
                self._graphs[part] = graph

    def read(self, scalars: Sequence[Any]) -> tuple[float, ...]:
        """The values of (1,) arrays. Waits for them."""
        watched = _Watched(scalars)
        samples, memory = _pinned(1, watched.width)
        watched.send(samples[0], self.stream)
        self.wait()
        result = watched.values(samples[0])
        del memory
        return result

    def forget(self) -> None:
        """Drop the graphs."""
        self.wait()
        self.close()

    def close(self) -> None:
        """Drop the graphs, and with them the steps and all that these work on, without waiting: a rank may be lost."""
        self._graphs.clear()
        self._instrumented.clear()
        self._refused.clear()

    def instrument(self, step: Step, timed_by: Callable[[Timer], AbstractContextManager[None]]) -> None:
        """Record a step, one that has been recorded before, once more with events of a timer in it.

        Where CUDA refuses, a warning says so and the step is not measured: it has its ordinary graph.
        """
        for part in parts_of(step):
            if part not in self._graphs or part in self._instrumented or part in self._refused:
                continue
            timer = EventTimer(self.stream)
            try:
                with timed_by(timer):
                    graph = self._capture(part)
            except _REFUSALS as error:
                logger.warning("iterations are not measured: CUDA records no events among their kernels: %s", error)
                self._refused.add(part)
                return
            graph.upload(self.stream)
            self._instrumented[part] = graph, timer

    def spans(self, step: Step) -> list[Span]:
        """The spans of the last measured repetition of a step; none where a part of it was not measured."""
        if not all(part in self._instrumented for part in parts_of(step)):
            return []
        return [span for part in parts_of(step) for span in self._instrumented[part][1].read()]

    def wait(self) -> None:
        """Wait for the stream; PeerError where another rank has failed meanwhile."""
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

    def synchronize(self) -> None:
        """Wait for every stream of the device: data passes between this one and those of the user or of tasks."""
        self.wait()
        cupy.cuda.Device().synchronize()

    def _graph_of(self, step: Step) -> CapturedGraph:
        """The graph of a step, begun anew where what is not of the step breaks the capture off.

        A wait of another thread for the device does so, as the end of one that has multiplied matrices: cuBLAS waits.
        To load a kernel may, too, for which the driver may have to wait; the next attempt has it.
        """
        for _ in range(_ATTEMPTS - 1 if isinstance(self._transport, Alone) else 0):  # ranks count what they send
            try:
                return self._capture(step)
            except _REFUSALS as error:
                if error.status not in _BROKEN:
                    raise
        return self._capture(step)

    def _capture(self, step: Step) -> CapturedGraph:
        with uncollected():
            self.stream.begin_capture()
            try:
                with recorded():
                    step()
            except BaseException:
                with suppress(cupy.cuda.driver.CUDADriverError):  # what has ended the capture says why, and not its end
                    CapturedGraph(self.stream)
                raise
            return CapturedGraph(self.stream)


class _Watched:
    """Scalars, float64 (1,), on their way to the host: in one copy where they lie close, since each takes 2 us."""

    def __init__(self, scalars: Sequence[Any]) -> None:
        places = [int(scalar.data.ptr) for scalar in scalars]
        first = min(places, default=0)
        span = max(places, default=first) - first
        close = len({id(scalar.data.mem) for scalar in scalars}) == 1 and span <= _CLOSE and span % 8 == 0
        self._sources = [first] if close else places
        self._size = span + 8 if close else 8
        self._places = [(place - first) // 8 for place in places] if close else range(len(places))
        self.width = len(self._sources) * self._size // 8

    def send(self, to: npt.NDArray[np.float64], stream: Any) -> None:
        """Copy to page-locked memory, float64 (width,), behind what is enqueued."""
        for number, source in enumerate(self._sources):
            target = to.ctypes.data + number * self._size
            cupy.cuda.runtime.memcpyAsync(target, source, self._size, _TO_HOST, stream.ptr)

    def values(self, arrived: npt.NDArray[np.float64]) -> tuple[float, ...]:
        """The scalars among the numbers that have arrived."""
        return tuple(float(arrived[place]) for place in self._places)


def _pinned(rows: int, columns: int) -> tuple[npt.NDArray[np.float64], Any]:
    """float64 (rows, columns) in page-locked memory, and the object that owns the memory."""
    memory = cupy.cuda.alloc_pinned_memory(max(1, rows * columns) * 8)
    return np.frombuffer(memory, np.float64, rows * columns).reshape(rows, columns), memory
