"""A stopwatch of CUDA events, inside a CUDA graph of its own.

The graph that is replayed as a rule is not touched. A second one is captured from the same step with an event after
each operation (event record nodes), and launched in the place of the first for the iteration that is measured. Between
two operations on the main stream one event is enough: the end of one is the beginning of the next.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, final

import cupy

from dsolver.engines.stopwatch import Finish, Measuring, bytes_received, leaves
from dsolver.monitor.spans import HALO, MAIN, Kind, Span

if TYPE_CHECKING:
    from dsolver.engines.eager_handles import EagerHalo

_EXTERNAL: Final = 1  # CU_EVENT_RECORD_EXTERNAL: a node of the graph, instead of an edge
_TRIES: Final = 5


@final
@dataclass(frozen=True, kw_only=True)
class _Timed:
    """A span whose times are events; a wait is over with what is waited for, where another stream has an event there.

    For an event costs some microseconds, and a wait for what has long come is no wait.
    """

    kind: Kind
    name: str
    level: int | None
    chunk: int | None
    lane: str
    nbytes: int | None
    start: Any
    stop: Any
    awaited: Any = None


@final
class EventStopwatch(Measuring):
    """Places events while a graph is captured, and reads them after the graph has run.

    Args:
        main: the stream that is captured. What runs on another one is on the halo lane.
    """

    def __init__(self, main: Any) -> None:
        self._main = main
        self._timed: list[_Timed] = []
        self._newest: Any = None  # the last event on the main stream
        self._beside: Any = None  # the last one on another
        self._origin = cupy.cuda.Event()

    def begin(self) -> None:
        """Enqueue what times are measured from, right before the graph."""
        self._origin.record(self._main)

    def start(self, kind: Kind, name: str, level: int | None, chunk: int | None, nbytes: int | None) -> Finish:
        main = cupy.cuda.get_current_stream().ptr == self._main.ptr
        begun = self._newest if main and self._newest is not None else self._mark()

        def stop() -> None:
            ended = self._mark()
            self._timed.append(
                _Timed(
                    kind=kind,
                    name=name,
                    level=level,
                    chunk=chunk,
                    lane=MAIN if main else HALO,
                    nbytes=nbytes,
                    start=begun,
                    stop=ended,
                )
            )

        return stop

    def exchange(self, halo: EagerHalo, lane: AbstractContextManager[Any], post: Callable[[], Finish]) -> Finish:
        with lane:
            beside = cupy.cuda.get_current_stream().ptr != self._main.ptr
        if leaves(halo) and not beside:
            return self._exchange_on_main(halo, post)
        with lane:
            stop = self.start("exchange", "halo", halo.level, None, bytes_received(halo))
        finish = post()
        ended = cupy.cuda.Event(disable_timing=True)
        with lane:
            stop()
            ended.record()

        def arrive() -> None:
            begun, awaited = self._newest or self._mark(), self._beside
            finish()
            self._main.wait_event(ended)  # a capture must end with all that began in it
            self._add("wait", halo, MAIN, begun, self._mark(), awaited=awaited)

        return arrive

    def _exchange_on_main(self, halo: EagerHalo, post: Callable[[], Finish]) -> Finish:
        """One whose transport has sent when it has packed, and looks for what has come when that is wanted.

        It is under way from then to then, on no stream.
        """
        begun, finish = self._newest, post()

        def arrive() -> None:
            with self.span("wait", "halo", halo.level):
                finish()
            self._add("exchange", halo, HALO, begun, self._newest, nbytes=bytes_received(halo))

        return arrive

    def _add(
        self,
        kind: Kind,
        halo: EagerHalo,
        lane: str,
        start: Any,
        stop: Any,
        *,
        nbytes: int | None = None,
        awaited: Any = None,
    ) -> None:
        self._timed.append(
            _Timed(
                kind=kind,
                name="halo",
                level=halo.level,
                chunk=None,
                lane=lane,
                nbytes=nbytes,
                start=start,
                stop=stop,
                awaited=awaited,
            )
        )

    def read(self) -> list[Span]:
        """The spans of the graph's last run, which must have ended."""
        epoch = self._epoch()

        def at(event: Any) -> float:
            return epoch + 1e-3 * float(cupy.cuda.get_elapsed_time(self._origin, event))

        return [
            Span(
                kind=t.kind,
                name=t.name,
                level=t.level,
                chunk=t.chunk,
                lane=t.lane,
                start=at(t.start),
                stop=at(t.stop) if t.awaited is None else max(at(t.start), min(at(t.stop), at(t.awaited))),
                bytes=t.nbytes,
            )
            for t in self._timed
        ]

    def _mark(self) -> Any:
        """An event on the current stream."""
        stream = cupy.cuda.get_current_stream()
        event = cupy.cuda.Event()
        status = _record()(event.ptr, stream.ptr, _EXTERNAL)
        if status != 0:
            raise cupy.cuda.driver.CUDADriverError(status)
        if stream.ptr == self._main.ptr:
            self._newest = event
        else:
            self._beside = event
        return event

    def _epoch(self) -> float:
        """When the origin was, by this machine's clock: the best of some tries to see an event happen."""
        best: tuple[float, float] | None = None
        now = cupy.cuda.Event()
        for _ in range(_TRIES):
            before = time.time()
            now.record(self._main)
            now.synchronize()
            after = time.time()
            origin = (before + after) / 2 - 1e-3 * cupy.cuda.get_elapsed_time(self._origin, now)
            if best is None or after - before < best[0]:
                best = after - before, origin
        assert best is not None
        return best[1]


@cache
def _record() -> Any:
    """The driver's recording with flags, which CuPy does not offer."""
    library = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
    function = ctypes.CDLL(library).cuEventRecordWithFlags
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)
    function.restype = ctypes.c_int
    return function
