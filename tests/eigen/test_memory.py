"""Vectors beside a system: refused before anything is allocated for them where there is no room."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dsolver.cluster import host_memory
from dsolver.eigen import search
from dsolver.errors import DeviceMemoryError


def test_a_gpu_without_room_is_asked_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(device="cuda", client=None, workers=())
    session: Any = SimpleNamespace(runtime=runtime, problem=SimpleNamespace(grid=(100, 100, 100)))
    asked = []

    def free(*_: Any, reclaim: bool) -> tuple[int]:
        asked.append(reclaim)
        return (10**8,)

    monkeypatch.setattr(search, "bytes_of", lambda *_: (10**6,))
    monkeypatch.setattr("dsolver.cluster.devices.free_memory_of", free)
    search.check_memory(session, 1)
    assert asked == [False]
    with pytest.raises(DeviceMemoryError, match=r"12 vectors beside the system need .* ask for fewer values"):
        search.check_memory(session, 12)
    assert asked == [False, False, True]


def test_workers_without_room_are_asked_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers of a host divide what is there."""
    supply = host_memory.Supply(identity="host", free=10**9, what="available")
    runtime = SimpleNamespace(device="cpu", client=None, workers=("one", "two"))
    session: Any = SimpleNamespace(runtime=runtime, problem=SimpleNamespace(grid=(200, 100, 100)))
    monkeypatch.setattr(search, "bytes_of", lambda *_: (10**6,))
    monkeypatch.setattr(host_memory, "supplies_of", lambda *_: [[supply], [supply]])
    search.check_memory(session, 6)
    with pytest.raises(
        DeviceMemoryError, match=r"12 vectors .* are available: ask for fewer values, or take more work"
    ):
        search.check_memory(session, 12)
