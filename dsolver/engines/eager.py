"""Operations as calls in this process, on the chunks that it owns.

The base of the `reference` engine (all chunks, one after the other) and of a rank of the `resident` engine (its own
chunks, with a transport to the other ranks). Memory is made at set-up and used again: an iteration allocates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

from dsolver.engines.base import BatchedEngine, Engine, Field, Halo, Operand, Parts, PerChunk, Scalar
from dsolver.engines.batched import EagerBatch
from dsolver.engines.eager_handles import (
    Awaiting,
    EagerField,
    EagerHalo,
    EagerParts,
    EagerPerChunk,
    EagerScalar,
    items_of,
)
from dsolver.engines.stopwatch import OFF, HostStopwatch, Stopwatch, Told
from dsolver.engines.transport import Alone, Transport
from dsolver.kernels import Backend
from dsolver.kernels.contract import LOAD, Kernel
from dsolver.monitor.spans import Span
from dsolver.partition import Partition, Triple


class EagerEngine(Engine):
    """Runs every operation at once, chunk after chunk.

    Args:
        partition: the chunks of the finest level.
        backend: the kernels.
        owned: the chunks of this process; all by default.
        transport: how to reach the owners of the others; by default there are none.
        hosts: the first chunk of every process; by default this one's alone.
    """

    def __init__(
        self,
        partition: Partition,
        backend: Backend,
        owned: Sequence[int] | None = None,
        transport: Transport | None = None,
        hosts: Sequence[int] | None = None,
    ) -> None:
        self.partition = partition
        self.backend = backend
        self.owned = tuple(range(len(partition)) if owned is None else owned)
        self.transport = transport or Alone()
        self._hosts = tuple(self.owned[:1] if hosts is None else hosts)
        self._told = Told()
        self._spans: list[Span] = []

    # -- handles -----------------------------------------------------------------------------------------------------

    def per_chunk(self, make: Callable[..., Any], *operands: Operand) -> EagerPerChunk:
        columns = [items_of(operand) for operand in operands]
        return EagerPerChunk(
            {
                number: make(self.backend, number, *(c[number] if isinstance(c, dict) else c for c in columns))
                for number in self.owned
            }
        )

    def field(self, layout: PerChunk) -> EagerField:
        assert isinstance(layout, EagerPerChunk)
        items = {number: self.backend.zeros(layout.items[number].size) for number in self.owned}
        return EagerField(items, layout.level)

    def halo(self, plan: PerChunk, senders: Sequence[Sequence[int]] | None = None) -> EagerHalo:
        assert isinstance(plan, EagerPerChunk)
        return EagerHalo(plan.items, self.transport.channel(plan.items, self.backend), plan.level)

    def parts(self) -> EagerParts:
        own = self.backend.sums(len(self.partition))
        alone = len(self.owned) == len(self.partition)
        places = dict.fromkeys(self.owned, 0) if len(own) == 1 else {number: number for number in self.owned}
        return EagerParts(own, own if alone else self.backend.sums(len(own)), places)

    def scalar(self, value: float) -> EagerScalar:
        made = self.backend.sums(1)
        if value != 0.0:
            made.fill(value)
        return EagerScalar(made)

    def lowered(self, dtype: str) -> EagerEngine:
        view = copy(self)
        view.backend = self.backend.lowered(dtype)
        return view

    @property
    def kernels(self) -> str:
        return self.backend.name

    def batched(self, width: int) -> BatchedEngine:
        return EagerBatch(self, backend=self.backend, owned=self.owned, transport=self.transport, width=width)

    # -- one chunk that all owners have ------------------------------------------------------------------------------

    @property
    def hosts(self) -> Sequence[int]:
        return self._hosts

    def alone(self, grid: Triple) -> EagerEngine:
        made = EagerEngine(Partition(grid), self.backend, owned=self.owned[:1])
        made._told = self._told
        return made

    def shared(self, x: Field) -> EagerField:
        assert isinstance(x, EagerField)
        (vector,) = x.items.values()
        return EagerField(dict.fromkeys(self.owned, vector))

    # -- operations --------------------------------------------------------------------------------------------------

    def run(self, kernel: Kernel, *operands: Operand) -> None:
        self._call(kernel, operands, [items_of(operand) for operand in operands])

    def behind(self, halo: Halo, kernel: Kernel, *operands: Operand) -> None:
        assert isinstance(halo, EagerHalo)
        if halo.finish is None:  # it has come
            self.run(kernel, *operands)
            return
        columns = [halo.vectors if operand is halo else items_of(operand) for operand in operands]

        def work() -> None:
            self._call(kernel, operands, columns)

        if not halo.channel.behind(work):
            halo.behind.append(work)
        for operand in operands[len(kernel.reads) :]:
            assert isinstance(operand, Awaiting)
            operand.halo = halo

    def _call(self, kernel: Kernel, operands: Sequence[Operand], columns: Sequence[Any]) -> None:
        call = self.backend.kernel(kernel.name)
        measured = self.stopwatch.kernel(kernel, operands)
        for number in self.owned:
            with measured(number):
                call(*(c[number] if isinstance(c, dict) else c for c in columns))

    def exchange(self, x: Field, halo: Halo) -> None:
        assert isinstance(x, EagerField)
        assert isinstance(halo, EagerHalo)
        halo.wait()  # an exchange that nobody has read may still be under way
        if halo.level is None:
            halo.level = x.level
        lane = halo.channel.lane()
        with lane, self.stopwatch.span("pack", "pack", halo.level):
            halo.channel.pack(x.items)
        halo.finish = self.stopwatch.exchange(halo, lane, halo.channel.start)

    def total(self, parts: Parts, out: Scalar) -> None:
        assert isinstance(parts, EagerParts)
        assert isinstance(out, EagerScalar)
        parts.wait()
        if parts.everyone is parts.own:
            with self.stopwatch.span("inner", "total"):
                self.backend.total(parts.own, out.value)
        else:
            with self.stopwatch.span("reduce", "total"):
                self.transport.total(parts.own, parts.everyone, out.value, self.backend.total)

    def assign(self, out: Scalar, value: Scalar) -> None:
        assert isinstance(out, EagerScalar)
        assert isinstance(value, EagerScalar)
        with self.stopwatch.span("inner", "assign"):
            out.value[:] = value.value

    def array_of(self, scalar: Scalar) -> Any:
        """The (1,) array that holds a scalar."""
        assert isinstance(scalar, EagerScalar)
        return scalar.value

    def read(self, *scalars: Scalar) -> tuple[float, ...]:
        return tuple(float(self.array_of(scalar)[0]) for scalar in scalars)

    def totals(self, *numbers: PerChunk) -> tuple[float, ...]:
        if len(self.partition) > 1:
            return super().totals(*numbers)
        return self.read(*(EagerScalar(value) for number in numbers for value in items_of(number).values()))

    def repeat(
        self, step: Callable[[], None], times: int, watch: Sequence[Scalar], *, measured: bool = False
    ) -> list[tuple[float, ...]]:
        samples = []
        for index in range(times):
            self.transport.check()
            if measured and index == times - 1:
                self._spans = self._measured(step)
            else:
                step()
            samples.append(self.read(*watch))
        return samples

    def agreed(self, value: float) -> float:
        if len(self.owned) == len(self.partition):
            return value
        parts, out = self.parts(), self.scalar(0.0)
        if 0 in self.owned:
            parts.own[0] = value
        self.total(parts, out)
        return self.read(out)[0]

    def spans(self) -> list[Span]:
        spans, self._spans = self._spans, []
        return spans

    def _measured(self, step: Callable[[], None]) -> list[Span]:
        """Run a step; what it did."""
        stopwatch = HostStopwatch(self.backend.synchronize)
        with self._told_to(stopwatch):
            step()
        return stopwatch.spans

    @property
    def stopwatch(self) -> Stopwatch:
        """What is told of each operation, of this engine and of its views."""
        return self._told.stopwatch

    @contextmanager
    def _told_to(self, stopwatch: Stopwatch) -> Iterator[None]:
        """Tell a stopwatch meanwhile."""
        self._told.stopwatch = stopwatch
        try:
            yield
        finally:
            self._told.stopwatch = OFF

    # -- data --------------------------------------------------------------------------------------------------------

    def load(self, blocks: Mapping[int, Any], layout: PerChunk, out: Field) -> None:
        on_device = {number: self.backend.asarray(blocks[number]) for number in self.owned}
        self.run(LOAD, layout, EagerPerChunk(on_device), out)

    def unload(self, x: Field, layout: PerChunk) -> dict[int, Any]:
        vectors, layouts = items_of(x), items_of(layout)
        return {number: self.backend.unload(layouts[number], vectors[number]) for number in self.owned}
