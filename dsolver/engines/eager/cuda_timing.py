"""The timer of a GPU: CUDA events, inside a CUDA graph of its own.

The graph that is replayed as a rule is not touched. A second one is captured from the same step with an event after
each operation (event record nodes), and launched in the place of the first for the iteration that is measured. Between
two operations on the main stream one event is enough: the end of one is the beginning of the next.
"""

import ctypes
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import cupy

from dsolver.engines.eager.timing import Finish, SpanTimer, bytes_received, crosses_ranks
from dsolver.monitor.spans import HALO, MAIN, Kind, Span

if TYPE_CHECKING:
    from dsolver.engines.eager.handles import EagerHalo

_EXTERNAL: Final = 1  # CU_EVENT_RECORD_EXTERNAL: a node of the graph, instead of an edge
_TRIES: Final = 5


class EventTimer(SpanTimer):
    """Events placed while a graph is captured and read after it has run; off the `main` stream is the halo lane."""

    def __init__(self, main: Any) -> None:
        self._main = main
        self._spans: list[tuple[Callable[..., Span], Any, Any, Any]] = []  # of what, and the events around it
        self._newest: Any = None  # the last event on the main stream
        self._beside: Any = None  # the last one on another
        self._origin = cupy.cuda.Event()

    def begin(self) -> None:
        """Enqueue the event that times are measured from, right before the graph."""
        self._origin.record(self._main)

    def start(self, kind: Kind, name: str, level: int | None, chunk: int | None, nbytes: int | None) -> Finish:
        main = cupy.cuda.get_current_stream().ptr == self._main.ptr
        begun = self._newest if main and self._newest is not None else self._mark()

        def stop() -> None:
            self._add(kind, name, level, chunk, MAIN if main else HALO, begun, self._mark(), nbytes=nbytes)

        return stop

    def exchange(self, halo: "EagerHalo", lane: AbstractContextManager[Any], post: Callable[[], Finish]) -> Finish:
        with lane:
            beside = cupy.cuda.get_current_stream().ptr != self._main.ptr
        if crosses_ranks(halo) and not beside:
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
            self._add("wait", "halo", halo.level, None, MAIN, begun, self._mark(), awaited=awaited)

        return arrive

    def _exchange_on_main(self, halo: "EagerHalo", post: Callable[[], Finish]) -> Finish:
        """An exchange whose transport sends as it packs, and looks for what has come when that is wanted.

        It is under way from the one to the other, on no stream.
        """
        begun, finish = self._newest, post()

        def arrive() -> None:
            with self.span("wait", "halo", halo.level):
                finish()
            received = bytes_received(halo)
            self._add("exchange", "halo", halo.level, None, HALO, begun, self._newest, nbytes=received)

        return arrive

    def _add(
        self,
        kind: Kind,
        name: str,
        level: int | None,
        chunk: int | None,
        lane: str,
        start: Any,
        stop: Any,
        *,
        nbytes: int | None = None,
        awaited: Any = None,
    ) -> None:
        """Add a span between two events.

        A wait ends with the event `awaited` of another stream if that is earlier: an event costs some microseconds, and
        a wait for what has long come is no wait.
        """
        span = partial(Span, kind=kind, name=name, level=level, chunk=chunk, lane=lane, bytes=nbytes)
        self._spans.append((span, start, stop, awaited))

    def read(self) -> list[Span]:
        """The spans of the graph's last launch, which must have ended."""
        epoch = self._epoch()

        def at(event: Any) -> float:
            return epoch + 1e-3 * float(cupy.cuda.get_elapsed_time(self._origin, event))

        def end(start: Any, stop: Any, awaited: Any) -> float:
            return at(stop) if awaited is None else max(at(start), min(at(stop), at(awaited)))

        return [span(start=at(start), stop=end(start, stop, awaited)) for span, start, stop, awaited in self._spans]

    def _mark(self) -> Any:
        """An event on the current stream."""
        stream = cupy.cuda.get_current_stream()
        event = cupy.cuda.Event()
        call_driver("cuEventRecordWithFlags", event.ptr, stream.ptr, _EXTERNAL)
        if stream.ptr == self._main.ptr:
            self._newest = event
        else:
            self._beside = event
        return event

    def _epoch(self) -> float:
        """The time of the origin by this machine's clock: the best of some tries to see an event happen."""
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


def call_driver(name: str, *arguments: Any) -> None:
    """Call a function of CUDA's driver that CuPy does not offer; CUDADriverError where it returned an error."""
    status = getattr(driver(), name)(*arguments)
    if status != 0:
        raise cupy.cuda.driver.CUDADriverError(status)


@cache
def driver() -> Any:
    """CUDA's driver library."""
    library = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    library.cuEventRecordWithFlags.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)
    return library
