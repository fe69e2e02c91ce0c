"""Small tables that a GPU keeps: each is brought once, and none is freed that a kernel may still read."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest


class Stream(nullcontext[None]):
    """One that says how often it was waited for."""

    waited = 0

    def __init__(self, *, non_blocking: bool) -> None:
        assert non_blocking
        super().__init__()

    def synchronize(self) -> None:
        Stream.waited += 1


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, where arrays of the host stand for a device's."""
    cuda = SimpleNamespace(runtime=SimpleNamespace(getDevice=lambda: 0), Stream=Stream)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=np.array, cuda=cuda))
    monkeypatch.delitem(sys.modules, "dsolver.kernels.cuda.launch.tables", raising=False)
    monkeypatch.setattr(Stream, "waited", 0)
    yield import_module("dsolver.kernels.cuda.launch.tables")
    sys.modules.pop("dsolver.kernels.cuda.launch.tables", None)


def test_the_same_values_are_brought_once(tables: Any) -> None:
    found = tables.table(np.arange(6, dtype=np.int32))
    assert tables.table(np.arange(6, dtype=np.int32)) is found
    for other in (np.arange(6, dtype=np.int64), np.arange(6, dtype=np.int32).reshape(2, 3)):
        assert tables.table(other) is not found
        assert tables.table(other).shape == other.shape
    turned = np.arange(6, dtype=np.int32).reshape(2, 3).T
    assert np.array_equal(tables.table(turned), turned)
    assert Stream.waited == 4


def test_what_is_not_kept_belongs_to_the_stream_that_reads_it(tables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory freed on the stream that brings tables could be written over at once by the next."""
    monkeypatch.setattr(tables, "MOST", 2)
    for number in range(4):
        tables.table(np.full(3, number))
    tables.table(np.zeros(tables.LARGEST))
    assert Stream.waited == 2


def test_a_table_that_two_threads_bring_is_one(tables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    brought, meanwhile = tables._brought, list[Any]()

    def bring(device: int, values: Any) -> Any:
        if not meanwhile:
            meanwhile.append(None)
            meanwhile.append(tables.table(values))
        return brought(device, values)

    monkeypatch.setattr(tables, "_brought", bring)
    assert tables.table(np.arange(3)) is meanwhile[1]
