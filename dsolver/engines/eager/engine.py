"""Table of operations of the eager engine: calls in this process, on the chunks that it owns.

With all chunks, one after the other, it is the `reference` engine, whose bits the others must give; it is the base of a
rank of the `resident` engine (its own chunks, with a transport to the other ranks). Memory is made at set-up and used
again: an iteration allocates nothing.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from typing import Any, Final, Self, TypeVar

from dsolver.engines.base import Engine, Field, Halo, Lengths, Operand, PartialSums, PerChunk, Scalar
from dsolver.engines.eager.handles import (
    EagerField,
    EagerHalo,
    EagerPartialSums,
    EagerPerChunk,
    EagerScalar,
    Pending,
    item_of,
    items_of,
)
from dsolver.engines.eager.recorded_calls import CallRecorder
from dsolver.engines.eager.timing import NO_TIMER, HostTimer, Timer
from dsolver.engines.partners import check_expected, mutual
from dsolver.engines.repetition import PLAIN, Repetition, Samples, Step
from dsolver.engines.transport.base import Alone, Transport
from dsolver.errors import check_block
from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend, load
from dsolver.kernels.batched import Batched
from dsolver.kernels.contract import LOAD, Kernel
from dsolver.kernels.deferred import Foresight
from dsolver.monitor.spans import Span

T = TypeVar("T")

TOGETHER: Final = 64  # scalars of an allocation: one copy brings them to the host


class TimerSlot:
    """The timer of an engine and its views, and the spans of the last step that was measured."""

    def __init__(self) -> None:
        self.timer: Timer = NO_TIMER
        self.spans: list[Span] = []


class ScalarRoom:
    """Room for scalars, side by side, so that those that are watched travel to the host in one copy."""

    def __init__(self) -> None:
        self._free: Any = None

    def take(self, backend: Backend, count: int) -> Any:
        """Zeros, float64 (count,)."""
        if self._free is None or len(self._free) < count:
            self._free = backend.scalars(max(count, TOGETHER))
        found, self._free = self._free[:count], self._free[count:]
        return found


class EagerEngine(Engine):
    """Runs every operation at once, chunk after chunk.

    With several columns a field is an array (columns, items) for each chunk, so a column is a vector like any other. On
    its way to a neighbor an item's columns lie side by side: to a transport a halo is one of `width` times as many
    items, in one message. Sums over ranks are made one column after the other.
    """

    width = 1

    def __init__(
        self,
        partition: Partition,
        backend: Backend,
        owned: Sequence[int] | None = None,  # the chunks of this process; all by default
        transport: Transport | None = None,  # how to reach the owners of the others; by default there are none
        hosts: Sequence[int] | None = None,  # the first chunk of every process; by default this one's alone
    ) -> None:
        self.partition = partition
        self.backend = backend
        self.owned = tuple(range(len(partition)) if owned is None else owned)
        self.transport = transport or Alone()
        self._hosts = tuple(self.owned[:1] if hosts is None else hosts)
        self._kernels: Backend | Batched = backend
        self._timer_slot = TimerSlot()
        self._calls = CallRecorder()
        self._room = ScalarRoom()

    def per_chunk(self, make: Callable[..., Any], *operands: Operand) -> EagerPerChunk:
        backend = self.backend
        return EagerPerChunk({n: make(backend, n, *[item_of(operand, n) for operand in operands]) for n in self.owned})

    def place(self, blocks: Mapping[int, Any]) -> EagerPerChunk:
        return EagerPerChunk({number: blocks[number] for number in self.owned})

    def field(self, layout: PerChunk) -> EagerField:
        assert isinstance(layout, EagerPerChunk)
        sizes = {number: layout.items[number].size for number in self.owned}
        items = {number: self._rows(self.backend.zeros(self.width * size)) for number, size in sizes.items()}
        return EagerField(items, layout.level)

    def field_of(self, values: PerChunk) -> EagerField:
        assert isinstance(values, EagerPerChunk)
        assert self.width == 1
        return EagerField(values.items, values.level)

    def halo(self, plan: PerChunk, senders: Sequence[Sequence[int]] | None = None) -> EagerHalo:
        assert isinstance(plan, EagerPerChunk)
        plans = plan.items
        if self.width > 1:
            plans = {number: found.widened(self.width, self.backend.xp) for number, found in plans.items()}
        return EagerHalo(plans, self.transport.channel(plans, self.backend), plan.level)

    def partial_sums(self) -> EagerPartialSums:
        count = len(self.partition)
        own = self._rows(self.backend.scalars(self.width * count))
        gathered = own if len(self.owned) == count else self._rows(self.backend.scalars(own.size))
        # The only chunk of a small grid is the first, whatever the number of its host.
        return EagerPartialSums(own, gathered, {number: number if count > 1 else 0 for number in self.owned})

    def partial_sums_of(self, out: Scalar) -> EagerPartialSums:
        """As everywhere; of one chunk that is all there is, `total` launches nothing then."""
        assert isinstance(out, EagerScalar)
        if len(self.partition) > 1 or len(self.owned) > 1:
            return self.partial_sums()
        return EagerPartialSums(out.value, out.value, dict.fromkeys(self.owned, 0))

    def scalar(self, value: float) -> EagerScalar:
        made = self._rows(self._room.take(self.backend, self.width))
        if value != 0.0:
            made.fill(value)
        return EagerScalar(made)

    def lowered(self, dtype: str) -> "EagerEngine":
        return self._view(load(self.backend.name, self.backend.threads, dtype), self.width)

    @property
    def kernels(self) -> str:
        return self.backend.name

    def batched(self, width: int) -> Self:
        return self._view(self.backend, width)

    def _view(self, backend: Backend, width: int) -> Self:
        view = copy(self)
        view.backend, view.width = backend, width
        view._kernels = backend if width == 1 else backend.batched(width)
        return view

    def column(self, x: Field, number: int) -> EagerField:
        assert isinstance(x, EagerField)
        return x if self.width == 1 else EagerField({n: values[number] for n, values in x.items.items()}, x.level)

    def columns(self, x: Field, first: int, last: int) -> EagerField:
        assert isinstance(x, EagerField)
        return EagerField({n: values[first:last] for n, values in x.items.items()}, x.level)

    def column_of(self, x: Scalar, number: int) -> EagerScalar:
        assert isinstance(x, EagerScalar)
        return x if self.width == 1 else EagerScalar(x.value[number])

    @property
    def hosts(self) -> Sequence[int]:
        return self._hosts

    def alone(self, grid: Triple) -> "EagerEngine":
        made = EagerEngine(Partition(grid), self.backend, owned=self.owned[:1])
        made._timer_slot, made._calls = self._timer_slot, self._calls
        return made._view(self.backend, self.width)

    def shared(self, x: Field) -> EagerField:
        assert isinstance(x, EagerField)
        (vector,) = x.items.values()
        return EagerField(dict.fromkeys(self.owned, vector))

    def run(self, kernel: Kernel, *operands: Operand) -> None:
        if self.width > 1 or self._timer_slot.timer is not NO_TIMER:
            self._call(kernel, operands, [*map(items_of if self.width == 1 else self._seen, operands)])
            return
        call = self._kernels.kernel(kernel.name)
        for number in self.owned:
            self._calls.call(call, *[item_of(operand, number) for operand in operands])

    def run_after(self, halo: Halo, kernel: Kernel, *operands: Operand) -> None:
        assert isinstance(halo, EagerHalo)
        if halo.finish is None or self.width > 1:  # it has come, or is in the order of its columns
            self.run(kernel, *operands)
            return
        columns = [halo.vectors if operand is halo else items_of(operand) for operand in operands]

        def work() -> None:
            self._call(kernel, operands, columns)

        if not halo.channel.run_after(work):
            halo.after.append(work)
        for operand in operands[len(kernel.reads) :]:
            assert isinstance(operand, Pending)
            operand.halo = halo

    def _call(self, kernel: Kernel, operands: Sequence[Operand], columns: Sequence[Any]) -> None:
        call = self._kernels.kernel(kernel.name)
        measured = self.timer.kernel(kernel, operands)
        for number in self.owned:
            with measured(number):
                self._calls.call(call, *(c[number] if isinstance(c, dict) else c for c in columns))

    def around(self, values: PerChunk, rows: PerChunk, halo: Halo) -> PerChunk:
        assert isinstance(halo, EagerHalo)
        halo.wait()
        found = halo.channel.around(items_of(values), items_of(rows))
        return super().around(values, rows, halo) if found is None else EagerPerChunk(dict(found))

    def exchange(self, x: Field | PerChunk, halo: Halo) -> None:
        assert isinstance(x, EagerField | EagerPerChunk)
        assert isinstance(halo, EagerHalo)
        halo.wait()  # an exchange that was not read may still be under way
        if halo.level is None:
            halo.level = x.level
        lane = halo.channel.send_context()
        values = x.items if self.width == 1 else {number: rows.reshape(-1) for number, rows in x.items.items()}
        with lane, self.timer.span("pack", "pack", halo.level):
            halo.channel.send(values)
        halo.finish = self.timer.exchange(halo, lane, halo.channel.receive)

    def total(self, parts: PartialSums, out: Scalar) -> None:
        assert isinstance(parts, EagerPartialSums)
        assert isinstance(out, EagerScalar)
        parts.wait()
        if parts.own is out.value:
            return
        alone = parts.gathered is parts.own
        for own, gathered, value in zip(*map(self._columns, (parts.own, parts.gathered, out.value)), strict=True):
            if alone:
                with self.timer.span("inner", "total"):
                    self._calls.call(self.backend.vectors.total, own, value)
            else:
                with self.timer.span("reduce", "total"):
                    self.transport.total(own, gathered, value, self.backend.vectors.total)

    def totals(self, numbers: PerChunk, count: int) -> list[Scalar]:
        chunks = len(self.partition)
        own, gathered = (self.backend.scalars(count * chunks).reshape(count, chunks) for _ in range(2))
        found = [EagerScalar(self.backend.scalars(1)) for _ in range(count)]
        for number, values in items_of(numbers).items():
            own[:, number if chunks > 1 else 0] = values
        for parts, room, out in zip(own, gathered, found, strict=True):
            self.total(EagerPartialSums(parts, parts if len(self.owned) == chunks else room, {}), out)
        return [*found]

    def calculate(self, kernel: Kernel, *scalars: Scalar) -> None:
        with self.timer.span("inner", kernel.name):
            self._calls.call(self._kernels.kernel(kernel.name), *map(items_of, scalars))

    def assign(self, out: Scalar, value: Scalar) -> None:
        assert isinstance(out, EagerScalar)
        assert isinstance(value, EagerScalar)
        with self.timer.span("inner", "assign"):
            self._calls.call(out.value.__setitem__, slice(None), value.value)

    def set(self, out: Scalar, value: float) -> None:
        assert isinstance(out, EagerScalar)
        self._calls.call(out.value.fill, value)

    def arrays_of(self, scalars: Sequence[Scalar]) -> list[Any]:
        """The (1,) arrays that hold scalars, one for each column of each."""
        found: list[Any] = []
        for scalar in scalars:
            assert isinstance(scalar, EagerScalar)
            found += self._columns(scalar.value)
        return found

    def read(self, *scalars: Scalar) -> tuple[float, ...]:
        return tuple(float(array[0]) for array in self.arrays_of(scalars))

    def global_sums(self, *numbers: PerChunk) -> tuple[float, ...]:
        if len(self.partition) > 1:
            return super().global_sums(*numbers)
        return self.read(*(EagerScalar(value) for number in numbers for value in items_of(number).values()))

    def decided(self, decide: Callable[..., T], *numbers: PerChunk) -> T:
        if len(self.partition) > 1:
            own = {chunk: [items_of(number)[chunk] for number in numbers] for chunk in self.owned}
            return self.backend.answer_of_all(lambda: decide(*self.global_sums(*numbers)), decide, own)
        return self.backend.answer(decide, [value for number in numbers for value in items_of(number).values()])

    def foreseeing(self, key: Hashable) -> AbstractContextManager[Foresight]:
        if len(self.partition) > 1:
            return self.backend.foreseeing(key, self.owned, self.transport.known)
        return self.backend.foreseeing(key)

    @contextmanager
    def deferring(self) -> Iterator[None]:
        coupled = self.coupled
        with self.backend.in_order() if coupled else nullcontext(), self.backend.deferring(together=coupled):
            yield

    def defer(self, work: Callable[[], object], *, exchanges: bool = True, brief: bool = False) -> None:
        """Put work off, but for exchanges of chunks: all ranks make these in one order, which waits would change."""
        if exchanges and self.coupled:
            work()
        else:
            self.backend.defer(work, brief=brief)

    def confirming(self) -> AbstractContextManager[Callable[[], bool]]:
        return self.backend.confirming()

    def reusing(self) -> AbstractContextManager[None]:
        return self.backend.reusing()

    def deliver(
        self, messages: PerChunk, senders: Sequence[Sequence[int]], kinds: Sequence[str], lengths: Lengths = None
    ) -> EagerPerChunk:
        items, xp = items_of(messages), self.backend.xp
        if not self.coupled:
            return EagerPerChunk({number: {} for number in items})
        outgoing = {
            (sender, to): tuple(map(xp.asarray, message, kinds))
            for sender, messages in items.items()
            for to, message in messages.items()
        }
        pairs = [(s, to) for to, names in enumerate(senders) for s in (names if to in items else items) if s in names]
        check_expected(outgoing, pairs)
        expected = [pair for pair in pairs if pair[0] not in items and pair[1] in items]
        leaving = {pair: outgoing.get(pair) for pair in pairs if pair[0] in items and pair[1] not in items}
        known = None if lengths is None else {pair: lengths(pair[1])[pair[0]] for pair in expected}
        here = outgoing | self.transport.deliver(leaving, expected, kinds, known)
        return EagerPerChunk({n: {s: here[s, n] for s in senders[n] if (s, n) in here} for n in items})

    def known(self, numbers: PerChunk) -> list[tuple[float, ...]]:
        return self.transport.known(items_of(numbers))

    def partners(self, named: PerChunk) -> list[tuple[int, ...]]:
        if not self.coupled:
            return [()]
        return mutual(items_of(named), len(self.partition))

    def repeat(self, step: Step, times: int, watch: Sequence[Scalar], how: Repetition = PLAIN) -> Samples:
        samples = []
        for index in range(times):
            self.transport.check()
            if how.measured and index == times - 1:
                self.measured(step)
            else:
                self.replay(step)
            samples.append(self.read(*watch))
            if index + 1 in how.between:
                how.between[index + 1]()
        return samples

    def replay(self, step: Step) -> None:
        if len(self.partition) > 1 or self.timer is not NO_TIMER:  # chunks also wait; what was recorded has no spans
            step()
        else:
            self._calls.run(step)

    def forget(self) -> None:
        self._calls.forget()

    def close(self) -> None:
        self._calls.forget()

    def broadcast(self, value: float) -> float:
        if len(self.owned) == len(self.partition):
            return value
        parts, out = self.partial_sums(), self.scalar(0.0)
        if 0 in self.owned:
            parts.own[..., 0] = value
        self.total(parts, out)
        return self.read(out)[0]

    def spans(self) -> list[Span]:
        spans, self._timer_slot.spans = self._timer_slot.spans, []
        return spans

    def measured(self, step: Step) -> None:
        timer = HostTimer(self.backend.synchronize)
        with self._timed_by(timer):
            step()
        self._timer_slot.spans = timer.spans

    @property
    def timer(self) -> Timer:
        """The timer of this engine and its views."""
        return self._timer_slot.timer

    @contextmanager
    def _timed_by(self, timer: Timer) -> Iterator[None]:
        """Measure by a timer meanwhile."""
        self._timer_slot.timer = timer
        try:
            yield
        finally:
            self._timer_slot.timer = NO_TIMER

    def load(self, blocks: Mapping[int, Any], layout: PerChunk, out: Field) -> None:
        for number in self.owned:
            check_block(blocks[number])
        on_device = {number: self.backend.asarray(blocks[number]) for number in self.owned}
        self.run(LOAD, layout, EagerPerChunk(on_device), out)

    def unload(self, x: Field, layout: PerChunk) -> dict[int, Any]:
        vectors, layouts = items_of(x), items_of(layout)
        return {number: self._block(layouts[number], vectors[number]) for number in self.owned}

    def on_host(self, blocks: Mapping[int, Any], room: Any = None) -> dict[int, Any]:
        return {number: self.backend.to_host(block, room) for number, block in blocks.items()}

    def fetch(self, objects: PerChunk) -> dict[int, Any]:
        return dict(items_of(objects))

    def _block(self, layout: Any, vector: Any) -> Any:
        blocks = [self.backend.vectors.unload_turned(layout, column) for column in self._columns(vector)]
        return blocks[0] if self.width == 1 else self.backend.xp.stack(blocks)

    def _rows(self, array: Any) -> Any:
        """An array with a row for each column, if there are several."""
        return array if self.width == 1 else array.reshape(self.width, -1)

    def _columns(self, array: Any) -> Sequence[Any]:
        """The rows of such an array."""
        return [array] if self.width == 1 else list(array)

    def _seen(self, operand: Operand) -> Any:
        """An operand as kernels see it: a halo of several columns as (columns, slots), though they lie side by side."""
        items = items_of(operand)
        if not isinstance(operand, EagerHalo):
            return items
        return {number: vector.reshape(-1, self.width).T for number, vector in items.items()}
