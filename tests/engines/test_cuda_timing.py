"""Events in a captured step, where no GPU is needed: what is captured, as CUDA's rules for captures say.

A stream under capture stands at the newest of its nodes; an event recorded on it stands where the stream does, and a
stream that waits for an event takes all that is before it. A capture may only end when its first stream has taken
every node: what is left over is "unjoined work", an error on a GPU.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest

import dsolver
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.transport.base import Alone, Channel, PackedTransport, Transport, copy_local
from dsolver.kernels import load
from dsolver.monitor.spans import HALO, MAIN
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from tests.support.programs import start


class Capture:
    """Streams, events and nodes, in the place of CuPy."""

    def __init__(self) -> None:
        self.nodes = 0
        self.current: list[Stream] = []
        cuda = SimpleNamespace(
            Event=lambda **_: Event(self),
            get_current_stream=lambda: self.current[-1],
            get_elapsed_time=lambda start, stop: stop.time - start.time,
            runtime=SimpleNamespace(CUDARuntimeError=RuntimeError),
            driver=SimpleNamespace(CUDADriverError=RuntimeError),
        )
        self.module = SimpleNamespace(cuda=cuda)

    def node(self, stream: Stream) -> int:
        """One more node on a stream: a kernel, or an event record node."""
        self.nodes += 1
        stream.taken.add(self.nodes)
        return self.nodes


class Stream:
    def __init__(self, capture: Capture, ptr: int) -> None:
        self.capture, self.ptr = capture, ptr
        self.taken: set[int] = set()

    def __enter__(self) -> Self:
        self.capture.current.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.capture.current.pop()

    def wait_event(self, event: Event) -> None:
        self.taken |= event.taken


class Event:
    def __init__(self, capture: Capture) -> None:
        self.capture, self.ptr = capture, id(self)
        self.taken: set[int] = set()
        self.time = 0.0

    def record(self, stream: Stream | None = None) -> None:
        self.taken = set((stream or self.capture.current[-1]).taken)

    def synchronize(self) -> None:
        """Nothing runs."""


class TwoStreams(PackedTransport):
    """All chunks are here, and yet what they exchange goes by way of a second stream."""

    name = "two streams"

    def __init__(self, capture: Capture, side: Stream) -> None:
        self._capture, self._side = capture, side

    def channel(self, plans: Any, backend: Any) -> Channel:
        return OnTheSide(super().channel(plans, backend), self._capture, self._side)

    def send_context(self) -> Any:
        forked = Event(self._capture)
        forked.record()
        self._side.wait_event(forked)
        return self._side

    def exchange(self, plans: Any, buffers: Any, halos: Any) -> Any:
        copy_local(plans, buffers, halos)
        with self._side:
            self._capture.node(self._side)
        arrived = Event(self._capture)
        arrived.record(self._side)
        return lambda: self._capture.current[-1].wait_event(arrived)

    def gather(self, own: Any, gathered: Any) -> None:
        gathered[:] = own

    def deliver(self, outgoing: Any, expected: Any, kinds: Any, known: Any = None) -> Any:
        raise NotImplementedError

    def known(self, own: Any) -> Any:
        raise NotImplementedError

    def check(self) -> None:
        """No rank fails."""

    def abort(self, reason: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is open."""


class OnTheSide(Channel):
    """A channel that can work behind an exchange, as that of GPUs of one host."""

    def __init__(self, channel: Channel, capture: Capture, side: Stream) -> None:
        self._channel, self._capture, self._side = channel, capture, side
        self.vectors, self.send_context, self.send = channel.vectors, channel.send_context, channel.send  # type: ignore[method-assign]
        self._arrived = Event(capture)

    def send(self, x: Any) -> None:
        raise NotImplementedError

    def receive(self) -> Any:
        finish = self._channel.receive()
        self._arrived.record(self._side)

        def arrive() -> None:
            finish()
            self._capture.current[-1].wait_event(self._arrived)

        return arrive

    def run_after(self, work: Any) -> bool:
        with self._side:
            self._capture.node(self._side)
            work()
        self._arrived.record(self._side)
        return True


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Capture]:
    capture = Capture()
    monkeypatch.setitem(sys.modules, "cupy", capture.module)
    monkeypatch.delitem(sys.modules, "dsolver.engines.eager.cuda_timing", raising=False)
    yield capture
    sys.modules.pop("dsolver.engines.eager.cuda_timing", None)


@pytest.mark.parametrize("beside", [True, False])
def test_a_capture_ends_with_all_that_began_in_it(
    capture: Capture, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: Any = importlib.import_module("dsolver.engines.eager.cuda_timing")
    main, side = Stream(capture, 1), Stream(capture, 2)
    handles: dict[int, Any] = {}

    def record(event: int, stream: int, flags: int) -> int:
        assert flags == 1
        on = {1: main, 2: side}[stream]
        marked = handles.pop(event)
        marked.time = float(capture.node(on))
        marked.record(on)
        return 0

    made = capture.module.cuda.Event

    def event(**options: Any) -> Event:
        new: Event = made(**options)
        handles[new.ptr] = new
        return new

    monkeypatch.setattr(capture.module.cuda, "Event", event)
    monkeypatch.setattr(events, "driver", lambda: SimpleNamespace(cuEventRecordWithFlags=record))
    spec = SolveSpec.plan(dsolver.problems.hpcg((32, 16, 16)), (2, 1, 1), m=Hpcg())
    transport: Transport = TwoStreams(capture, side) if beside else Alone()
    engine = EagerEngine(spec.partition, load("numpy"), transport=transport)
    with main:
        program = Solve(engine, spec)
        b: Any = program.method.b
        b.items[0][:] = np.asarray(1.0)
        start(program)
        main.taken.clear()
        side.taken.clear()
        capture.nodes = 0
        timer = events.EventTimer(main)
        with engine._timed_by(timer):
            program.method.step()
    assert main.taken == set(range(1, capture.nodes + 1)), "unjoined work"
    spans = timer.read()
    lanes = {span.lane for span in spans if span.kind in ("pack", "exchange")}
    assert lanes == ({HALO} if beside else {MAIN})
    assert {(span.kind, span.level) for span in spans if span.kind == "wait"} == {("wait", n) for n in range(3)}
    products = {span.lane for span in spans if span.name in ("times_halo", "times_halo_dot")}
    assert products == ({HALO} if beside else {MAIN})
    ends = {span.stop for span in spans if span.lane == HALO}
    waits = [span for span in spans if span.kind == "wait"]
    assert all(span.stop in ends or span.stop == span.start for span in waits) == beside, "no longer than awaited"
    on_main = [span for span in spans if span.lane == MAIN]
    assert all(a.stop <= b.start + 1e-6 for a, b in pairwise(on_main))
