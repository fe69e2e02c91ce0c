"""Memory that other ranks write to is used again, and then cleared in one wait. The driver is played by host memory."""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

STREAM, BESIDE = 7, 8


class Driver:
    """Calls of CUDA's runtime by `Arena`."""

    CUDARuntimeError = RuntimeError

    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}
        self.settled = True
        self.waits = 0

    def malloc(self, size: int) -> int:
        block = ctypes.create_string_buffer(b"\xff" * size, size)
        self.blocks[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def memsetAsync(self, address: int, value: int, size: int, stream: int) -> None:  # noqa: N802  # as CuPy calls it
        assert stream in (STREAM, BESIDE)
        ctypes.memset(address, value, size)
        self.settled = self.settled and stream == BESIDE  # the other one is behind what reads there

    def ipcGetMemHandle(self, address: int) -> bytes:  # noqa: N802  # as CuPy calls it
        return address.to_bytes(64, "little")

    def free(self, address: int) -> None:
        del self.blocks[address]

    def synchronize(self) -> None:
        self.settled, self.waits = True, self.waits + 1


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    made = Driver()
    stream = SimpleNamespace(synchronize=made.synchronize, ptr=STREAM)
    beside = SimpleNamespace(synchronize=lambda: None, ptr=BESIDE)
    streams = {"get_current_stream": lambda: stream, "Stream": lambda **_: beside}
    fake = SimpleNamespace(cuda=SimpleNamespace(runtime=made, **streams))
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.delitem(sys.modules, "dsolver.engines.transport.peer_memory", raising=False)
    yield made
    sys.modules.pop("dsolver.engines.transport.peer_memory", None)


def arena() -> Any:
    peer_memory = importlib.import_module("dsolver.engines.transport.peer_memory")
    return peer_memory.Arena(peer_memory.PeerMemory())


def used_up(own: Any, *sizes: int) -> list[tuple[Any, int]]:
    """Places of zeros, which are written to."""
    taken = list(zip(own.allocate_zeros(sizes), sizes, strict=True))
    for place, size in taken:
        assert ctypes.string_at(own.local(place), size) == bytes(size)
        ctypes.memset(own.local(place), 7, size)
    return taken


def test_places_do_not_meet_and_new_ones_are_zeros_without_a_wait(driver: Driver) -> None:
    own = arena()
    taken = used_up(own, 1, 300, 256, 9 << 20, 40)
    for place, size in taken:
        assert ctypes.string_at(own.local(place), size) == b"\x07" * size
    assert driver.settled
    assert driver.waits == 0


def test_a_system_that_is_set_up_anew_takes_no_more_memory(driver: Driver) -> None:
    own, sizes = arena(), (300, 20 << 20, 300, 30 << 20)
    for turn in range(20):
        taken = used_up(own, *sizes)
        assert len({own.local(place) for place, _ in taken}) == len(sizes)
        assert driver.settled
        assert driver.waits <= turn  # once for all places
        for place, size in taken:
            own.release(place, size)
    assert driver.waits > 0
    assert len(driver.blocks) == 2
    own.memory.close()
    assert not driver.blocks


def test_lists_of_many_lengths_take_turns_in_one_place_and_halos_leave_it_to_them(driver: Driver) -> None:
    own = arena()
    for size in (40 << 20, 30 << 20, 9 << 20, 33 << 20):
        place = own.allocate(size)
        ((halo, _),) = used_up(own, 300)
        assert own.local(halo) not in range(own.local(place), own.local(place) + size)
        driver.synchronize()
        own.release(place, size)
    assert [len(block) for block in driver.blocks.values()] == [40 << 20, 32 << 20]


def test_another_program_has_the_memory_of_the_one_before(driver: Driver) -> None:
    own = arena()
    kept = own.allocate(256)
    begin, sizes = own.begin, (300, 40 << 20, 300, 20 << 20, 20 << 20)
    first = [own.local(own.allocate(size)) for size in sizes]
    for _ in range(3):
        own.memory.wipe(begin)
        again = type(own)(own.memory, begin)
        assert [again.local(again.allocate(size)) for size in sizes] == first
        for place, size in used_up(type(own)(own.memory, begin), *sizes):
            assert own.local(place) in first
            own.release(place, size)
    assert own.local(kept) not in first
    assert len(driver.blocks) == 4
