"""Operations as calls in this process, on the chunks that it owns.

The base of the `reference` engine (all chunks, one after the other) and of a rank of the `resident` engine (its own
chunks, with a transport to the other ranks). Memory is made at set-up and used again: an iteration allocates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, final

from dsolver.engines.base import Engine, Field, Halo, Operand, Parts, PerChunk, Scalar
from dsolver.engines.stopwatch import OFF, HostStopwatch, Stopwatch, Told
from dsolver.engines.transport import Alone, Channel, Transport
from dsolver.kernels import DENSE_ROWS, Backend
from dsolver.kernels.contract import LOAD, Kernel
from dsolver.kernels.layout import HaloLayout
from dsolver.monitor.spans import Span
from dsolver.partition import Partition, Triple


@final
class EagerPerChunk(PerChunk):
    """What was built for each owned chunk; level is the multigrid level: what is built is a sequence of levels."""

    def __init__(self, items: dict[int, Any], level: int | None = None) -> None:
        self.items = items
        self.level = level

    def at(self, *path: str | int) -> EagerPerChunk:
        level = path[0] if self.level is None and path and isinstance(path[0], int) else self.level
        return EagerPerChunk({number: follow(item, path) for number, item in self.items.items()}, level)


class Awaiting:
    """Items that an operation behind an exchange may still change: whoever uses them waits for its halo."""

    def __init__(self, items: dict[int, Any]) -> None:
        self._items = items
        self.halo: EagerHalo | None = None

    @property
    def items(self) -> dict[int, Any]:
        """The items, waited for."""
        self.wait()
        return self._items

    def wait(self) -> None:
        """Wait until no operation changes the items any more."""
        if self.halo is not None:
            halo, self.halo = self.halo, None
            halo.wait()


@final
class EagerField(Awaiting, Field):
    """A vector for each owned chunk."""

    def __init__(self, items: dict[int, Any], level: int | None = None) -> None:
        super().__init__(items)
        self.level = level


@final
class EagerHalo(Halo):
    """Halo vectors of the owned chunks and what fills them."""

    def __init__(self, plans: dict[int, HaloLayout], channel: Channel, level: int | None = None) -> None:
        self.plans = plans
        self.channel = channel
        self.level = level
        self.finish: Callable[[], None] | None = None
        self.behind: list[Callable[[], None]] = []
        """What is to be run once it has come, where that has to wait until somebody waits for it."""

    @property
    def vectors(self) -> dict[int, Any]:
        """The halo vectors; `wait` tells when they are full."""
        return self.channel.vectors

    @property
    def items(self) -> dict[int, Any]:
        """The halo vectors, waited for."""
        self.wait()
        return self.vectors

    def wait(self) -> None:
        """Wait until the vectors are full."""
        if self.finish is not None:
            finish, self.finish = self.finish, None
            works, self.behind = self.behind, []
            finish()
            for work in works:
                work()


@final
class EagerParts(Awaiting, Parts):
    """Own parts at their chunks' places, zero elsewhere, and everyone's parts."""

    def __init__(self, own: Any, everyone: Any, places: Mapping[int, int]) -> None:
        super().__init__({number: own[place : place + 1] for number, place in places.items()})
        self.own, self.everyone = own, everyone


@final
class EagerScalar(Scalar):
    """A float64 (1,) array on the device."""

    def __init__(self, value: Any) -> None:
        self.value = value


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
        columns = [_items(operand) for operand in operands]
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
        return EagerScalar(self.backend.asarray([value]))

    def lowered(self, dtype: str) -> EagerEngine:
        view = copy(self)
        view.backend = self.backend.lowered(dtype)
        return view

    @property
    def dense_rows(self) -> int:
        return DENSE_ROWS[self.backend.name]

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
        self._call(kernel, operands, [_items(operand) for operand in operands])

    def behind(self, halo: Halo, kernel: Kernel, *operands: Operand) -> None:
        assert isinstance(halo, EagerHalo)
        if halo.finish is None:  # it has come
            self.run(kernel, *operands)
            return
        columns = [halo.vectors if operand is halo else _items(operand) for operand in operands]

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
        vectors, layouts = _items(x), _items(layout)
        return {number: self.backend.unload(layouts[number], vectors[number]) for number in self.owned}


def follow(item: Any, path: Sequence[str | int]) -> Any:
    """The part of an item that attributes (str) and indices (int) lead to."""
    for name in path:
        item = getattr(item, name) if isinstance(name, str) else item[name]
    return item


def _items(operand: Operand) -> Any:
    """What a kernel sees of an operand: an array or object for each chunk, or one value for all."""
    if isinstance(operand, EagerPerChunk | EagerField | EagerHalo | EagerParts):
        return operand.items
    return operand.value if isinstance(operand, EagerScalar) else operand
