"""Work behind an exchange: run as soon as the halo has come where that can be, else when a result is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dsolver.benchmarks.hpcg.levels import MakeLevels, partitions
from dsolver.benchmarks.hpcg.preconditioner import cycle
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.transport.base import Alone, Channel
from dsolver.grid.coloring import Order
from dsolver.grid.partition import Partition
from dsolver.kernels import load
from dsolver.kernels.contract import COPY, OF_VECTORS, Kernel
from dsolver.kernels.formats.hpcg import PROLONG
from dsolver.preconditioners.builder import MakeStored
from dsolver.problems import hpcg

TOOK = Kernel("took", reads=("x", "h"), writes=("y", "dot"))


class Slow(Channel):
    """Halos that come when they are waited for, or right away if the channel works in a lane of its own."""

    def __init__(self, channel: Channel, log: list[str], *, beside: bool) -> None:
        self._channel, self._log, self._beside = channel, log, beside
        self.vectors = channel.vectors

    def send(self, x: Any) -> None:
        self._log.append("sent")
        self._channel.send(x)

    def receive(self) -> Callable[[], None]:
        finish = self._channel.receive()

        def arrive() -> None:
            self._log.append("waited")
            finish()

        return arrive

    def run_after(self, work: Callable[[], None]) -> bool:
        if self._beside:
            work()
        return self._beside


@pytest.mark.parametrize("beside", [True, False])
def test_work_behind_an_exchange_is_waited_for_by_whoever_uses_its_results(
    beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = hpcg((32, 16, 16))
    partition = Partition(problem.grid, (2, 1, 1))
    log: list[str] = []
    transport = Alone()
    made = transport.channel
    monkeypatch.setattr(transport, "channel", lambda *args: Slow(made(*args), log, beside=beside))
    backend = load("numpy")

    def took(x: Any, h: Any, y: Any, dot: Any) -> None:
        log.append("worked")
        y[: len(x)] = x
        dot[0] = h.sum()

    monkeypatch.setattr(backend.vectors, "took", took, raising=False)
    monkeypatch.setattr("dsolver.kernels.backend.OF_VECTORS", {*OF_VECTORS, TOOK.name})
    engine = EagerEngine(partition, backend, transport=transport)
    levels = engine.per_chunk(MakeStored(problem=problem, partition=partition, order=Order.parse("color8")))
    layout = levels.at(0, "layout")
    x, y, z = (engine.field(layout) for _ in range(3))
    halo, parts, total = engine.halo(levels.at(0, "halo")), engine.partial_sums(), engine.scalar(0.0)
    engine.fill(layout, 2.0, x)
    engine.exchange(x, halo)
    assert log.pop() == "sent"
    engine.run_after(halo, TOOK, x, halo, y, parts)
    assert log == (["worked"] * 2 if beside else [])
    engine.run(COPY, x, z)  # has nothing to do with it
    assert "waited" not in log
    engine.run(COPY, y, z)
    assert log == (["worked", "worked", "waited"] if beside else ["waited", "worked", "worked"])
    engine.total(parts, total)
    assert engine.read(total) == (2 * 2.0 * 16 * 16,)
    assert log.count("waited") == 1
    assert all(np.array_equal(z.items[number], x.items[number]) for number in range(2))
    engine.run_after(halo, TOOK, x, halo, y, parts)  # it has come already
    assert log[-2:] == ["worked", "worked"]
    engine.exchange(x, halo)
    engine.run_after(halo, TOOK, x, halo, y, parts)
    engine.total(parts, total)
    assert log.count("waited") == 2


def test_an_exchange_waits_for_the_one_before_that_nobody_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that would be packed over those that are still on their way."""
    problem = hpcg((32, 16, 16))
    partition = Partition(problem.grid, (2, 1, 1))
    log: list[str] = []
    transport = Alone()
    made = transport.channel
    monkeypatch.setattr(transport, "channel", lambda *args: Slow(made(*args), log, beside=False))
    engine = EagerEngine(partition, load("numpy"), transport=transport)
    levels = engine.per_chunk(MakeStored(problem=problem, partition=partition, order=Order.parse("color8")))
    x, halo = engine.field(levels.at(0, "layout")), engine.halo(levels.at(0, "halo"))
    engine.exchange(x, halo)
    assert log == ["sent"]
    engine.exchange(x, halo)
    assert log == ["sent", "waited", "sent"]


def test_a_cycle_that_breaks_off_leaves_no_work_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording of a step that is begun anew: what was put off would be recorded beside what it was put off for."""
    problem, partition = hpcg((32, 16, 16)), Partition((32, 16, 16), (2, 1, 1))
    engine = EagerEngine(partition, load("numpy"))
    make = MakeLevels(problem=problem, partitions=partitions(partition, 2), order=Order.parse("color8"), diagonal=None)
    levels = [engine.per_chunk(make).at(depth) for depth in range(2)]
    layout, whole = levels[0].at("layout"), cycle(engine, levels)
    r, x, expected = (engine.field(layout) for _ in range(3))
    engine.fill(layout, 1.0, r)
    whole.apply(r, expected)
    run = engine.run

    def broken(kernel: Kernel, *operands: Any) -> None:
        if kernel is PROLONG:
            raise RuntimeError(kernel.name)
        run(kernel, *operands)

    engine.fill(layout, 1.0, r)
    before = [(values, values.copy()) for values in r.items.values()]
    monkeypatch.setattr(engine, "run", broken)
    with pytest.raises(RuntimeError, match="prolong"):
        whole.apply(r, x)
    for values, ones in before:  # as if nothing had run
        values[:] = ones
    monkeypatch.undo()
    whole.apply(r, x)
    assert all(np.array_equal(x.items[number], expected.items[number]) for number in range(2))
