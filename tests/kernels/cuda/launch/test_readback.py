"""Work of the host while it waits for numbers of a GPU: one brief thing a wait, and all of it where that lasts."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _emulated(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--emulated") is None:
        pytest.skip("a real GPU may be done before the host asks")


def test_a_wait_does_one_brief_thing_and_a_long_one_all_others_in_their_order() -> None:
    import cupy

    from dsolver.kernels.cuda.launch import readback

    done: list[str] = []
    with readback.deferring():
        for name, brief in (("store", False), ("ask", True), ("look", True), ("smooth", False)):
            readback.defer(partial(done.append, name), brief=brief)
        for wanted in (["ask"], ["ask", "look"], ["ask", "look"]):
            assert readback.read_back(cupy.arange(3)).tolist() == [0, 1, 2]
            assert done == wanted
        readback.read_back(cupy.arange(3), long_wait=True)
        assert done == ["ask", "look", "store", "smooth"]


def test_ranks_do_in_a_long_wait_what_they_have_though_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    from dsolver.kernels.cuda.launch import readback

    monkeypatch.setattr(cupy.cuda.Event, "done", True)
    for together, wanted in ((False, []), (True, ["store", "smooth"])):
        done: list[str] = []
        with readback.deferring(together=together):
            for name in ("store", "smooth"):
                readback.defer(partial(done.append, name))
            readback.read_back(cupy.arange(3), long_wait=True)
        assert done == wanted


def test_kernels_of_what_is_done_meanwhile_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    from dsolver.kernels.cuda.launch import readback

    waits: list[Any] = []

    def counted(stream: Any) -> None:
        waits.append(stream)

    with readback.deferring(), monkeypatch.context() as patch:
        readback.defer(lambda: None)
        patch.setattr(cupy.cuda.Stream, "synchronize", counted)
        assert readback.read_back(cupy.arange(2), long_wait=True).tolist() == [0, 1]
        assert not waits
        readback.read_back(cupy.arange(2), long_wait=True)  # nothing is left to do
        assert len(waits) == 1


def test_numbers_that_are_asked_for_come_in_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters of kernels, in whatever order; other numbers, and those far off, come in copies of their own."""
    import cupy
    from cupy.cuda import runtime

    from dsolver.kernels.cuda.launch import readback

    copies: list[int] = []
    copy = runtime.memcpyAsync

    def counted(to: int, source: int, size: int, *others: Any) -> None:
        copies.append(size)
        copy(to, source, size, *others)

    monkeypatch.setattr(runtime, "memcpyAsync", counted)
    several = [readback.counters(size) for size in (2, 1, 3)]
    far = readback.zeros(2 * readback.CLOSE, "uint8")
    last = readback.counters(1)
    for number, values in enumerate((*several, last)):
        values[:] = cupy.arange(len(values)) + 10 * number
    asked = [readback.Asked(values) for values in (several[2], cupy.arange(5), several[0], last)]
    assert readback.read_back(several[1]).tolist() == [10]
    assert [found().tolist() for found in asked] == [[20, 21, 22], [0, 1, 2, 3, 4], [0, 1], [30]]
    assert sorted(copies) == [8, 40, 48]
    assert not far.any()
