"""Steps in parts, by GMRES's on a GPU: what they share is recorded once, and all parts are measured together."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.krylov.gmres import Orthogonalization
from dsolver.monitor.spans import Span

pytestmark = pytest.mark.gpu


class Clock:
    """A timer that tells of one span, whatever is recorded."""

    def __init__(self, _: Any) -> None:
        self.begun = 0

    def begin(self) -> None:
        self.begun += 1

    def kernel(self, *_: Any) -> Callable[[int], Any]:
        return lambda _: nullcontext()

    def span(self, *_: Any) -> Any:
        return nullcontext()

    def exchange(self, _: Any, __: Any, post: Callable[[], Any]) -> Any:
        return post()

    def read(self) -> list[Span]:
        return [Span(kind="inner", name="part", start=0.0, stop=1.0)] * min(self.begun, 1)


def test_what_ends_a_recording_is_told_and_not_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA refuses to end what an error has broken off, as one of memory that has run out."""
    from cupy.cuda import driver

    from dsolver.engines.eager import cuda_graph
    from dsolver.engines.transport.base import Alone

    def broken_off(stream: Any) -> Any:
        stream.end_capture()
        raise driver.CUDADriverError(901)

    def step() -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(cuda_graph, "CapturedGraph", broken_off)
    with pytest.raises(MemoryError, match="no room"):
        cuda_graph.GraphRecorder(Alone())._capture(step)


def test_the_collector_is_off_until_the_last_of_some_captures_has_ended() -> None:
    from dsolver.engines.eager.captured_graph import uncollected

    for order in (0, 1), (1, 0):
        captures = uncollected(), uncollected()
        for capture in captures:
            capture.__enter__()
        captures[order[0]].__exit__(None, None, None)
        assert not gc.isenabled()
        captures[order[1]].__exit__(None, None, None)
        assert gc.isenabled()


@pytest.mark.parametrize(("times", "status", "captures"), [(2, 901, 3), (1, 900, 2), (8, 901, None), (1, 700, None)])
def test_a_recording_that_another_thread_breaks_off_is_begun_anew(
    times: int, status: int, captures: int | None
) -> None:
    """CUDA says so where a kernel of the step is launched; an illegal address and a lasting refusal are told."""
    from cupy.cuda import driver

    from dsolver.engines.eager import cuda_graph
    from dsolver.engines.transport.base import Alone

    ran: list[bool] = []

    def step() -> None:
        ran.append(gc.isenabled())
        if 1 < len(ran) <= times + 1:  # the first is not recorded
            raise driver.CUDADriverError(status)

    recorder = cuda_graph.GraphRecorder(Alone())
    if captures is None:
        with pytest.raises(driver.CUDADriverError):
            recorder.replay(step)
    else:
        recorder.replay(step)
        assert ran == [True] + captures * [False], "the collector frees what waits for the device"
    assert gc.isenabled()


def test_what_lengths_of_a_basis_share_is_recorded_once_and_measured_with_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dsolver.engines.eager import cuda_graph

    captured: Counter[Any] = Counter()
    capture = cuda_graph.GraphRecorder._capture

    def counted(recorder: Any, step: Callable[[], None]) -> Any:
        captured[step.column if isinstance(step, Orthogonalization) else "product"] += 1
        return capture(recorder, step)

    monkeypatch.setattr(cuda_graph.GraphRecorder, "_capture", counted)
    n, restart = 60, 7
    a = sp.diags_array([-1.4, 3.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    solve = partial(dsolver.solve, a, np.ones(n), method="gmres", M=None, restart=restart, device="cuda")
    plain = solve()
    assert captured == dict.fromkeys(["product", *range(restart)], 1)
    monkeypatch.setattr(cuda_graph, "EventTimer", Clock)
    told: list[Span] = []
    measured = solve(spans=told.extend)
    assert measured.residuals == plain.residuals == solve(engine="reference").residuals
    assert len(told) > 2
    assert len(told) % 2 == 0
