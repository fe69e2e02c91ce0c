"""Memory that other ranks write to is used again, and cleared in one wait. The driver is played by host memory."""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

STREAM = 7


class Driver:
    """What `Arena` asks of CUDA's runtime."""

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
        assert stream == STREAM  # behind what reads there
        ctypes.memset(address, value, size)
        self.settled = False

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
    fake = SimpleNamespace(cuda=SimpleNamespace(runtime=made, get_current_stream=lambda: stream))
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.delitem(sys.modules, "dsolver.engines.transport.peer_memory", raising=False)
    yield made
    sys.modules.pop("dsolver.engines.transport.peer_memory", None)


def arena() -> Any:
    peer_memory = importlib.import_module("dsolver.engines.transport.peer_memory")
    return peer_memory.Arena(peer_memory.PeerMemory())


def used_up(own: Any, *places: tuple[Any, int]) -> None:
    own.clear(places)
    for place, size in places:
        assert ctypes.string_at(own.local(place), size) == bytes(size)
        ctypes.memset(own.local(place), 7, size)


def test_places_do_not_meet_and_are_cleared_in_one_wait(driver: Driver) -> None:
    own = arena()
    taken = [(own.allocate(size), size) for size in (1, 300, 256, 9 << 20, 40)]
    used_up(own, *taken)
    for place, size in taken:
        assert ctypes.string_at(own.local(place), size) == b"\x07" * size
    assert driver.settled
    assert driver.waits == 1


def test_a_system_that_is_set_up_anew_takes_no_more_memory(driver: Driver) -> None:
    own, sizes = arena(), (300, 20 << 20, 300, 30 << 20)
    for _ in range(20):
        taken = [(own.allocate(size), size) for size in sizes]
        assert len({own.local(place) for place, _ in taken}) == len(sizes)
        used_up(own, *taken)
        assert driver.settled
        for place, size in taken:
            own.release(place, size)
    assert len(driver.blocks) == 2
    own.memory.close()
    assert not driver.blocks


def test_lists_of_many_lengths_take_turns_in_one_place_and_halos_leave_it_to_them(driver: Driver) -> None:
    own = arena()
    for size in (40 << 20, 30 << 20, 9 << 20, 33 << 20):
        place = own.allocate(size)
        used_up(own, (place, size))
        halo = own.allocate(300)
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
        again = type(own)(own.memory, begin)
        assert [again.local(again.allocate(size)) for size in sizes] == first
    assert own.local(kept) not in first
    assert len(driver.blocks) == 4
