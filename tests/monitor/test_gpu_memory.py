"""The metric that workers tell of their GPU."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dsolver.monitor.gpu_memory import GPU_MEMORY, tell_gpu_memory


def told(monkeypatch: pytest.MonkeyPatch, look: Any) -> Any:
    """The metric of a worker whose driver answers so."""
    runtime = SimpleNamespace(memGetInfo=look)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    worker: Any = SimpleNamespace(metrics={})
    tell_gpu_memory(worker)
    return asyncio.run(worker.metrics[GPU_MEMORY](worker))


def test_bytes_in_use_and_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, lambda: (3, 10)) == (7, 10)


def test_a_device_that_has_failed_stops_no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("device is lost")

    assert told(monkeypatch, fail) is None
