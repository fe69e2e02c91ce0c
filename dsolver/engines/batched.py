"""Operations on several vectors at once, the columns of fields, next to the chunks of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

from dsolver.engines.base import BatchedEngine, Engine, Field, Operand, Parts, PerChunk, Scalar
from dsolver.engines.eager_handles import EagerField, EagerHalo, EagerParts, EagerPerChunk, EagerScalar, items_of
from dsolver.engines.transport import Transport
from dsolver.kernels import Backend
from dsolver.kernels.contract import LOAD, Kernel
from dsolver.partition import Triple


@final
class EagerBatch(BatchedEngine):
    """A view of an eager engine for vectors of several columns.

    A field is an array (columns, items) for each chunk, so a column is a vector like any other. On its way to a
    neighbor an item's columns lie side by side: to a transport a halo is one of `width` times as many items, in one
    message. Sums over ranks are made one column after the other.

    Args:
        engine: that it is a view of.
        backend: the engine's kernels.
        owned: the chunks of this process.
        transport: how the engine reaches the owners of the others.
        width: number of columns.
    """

    def __init__(
        self, engine: Engine, *, backend: Backend, owned: Sequence[int], transport: Transport, width: int
    ) -> None:
        self.partition = engine.partition
        self._engine, self._backend, self._owned, self._transport = engine, backend, owned, transport
        self._width = width
        self._kernels = backend.batched(width)

    @property
    def width(self) -> int:
        return self._width

    def column(self, x: Field, number: int) -> EagerField:
        assert isinstance(x, EagerField)
        return EagerField({chunk: values[number] for chunk, values in x.items.items()}, x.level)

    def column_of(self, x: Scalar, number: int) -> EagerScalar:
        assert isinstance(x, EagerScalar)
        return EagerScalar(x.value[number])

    # -- handles -----------------------------------------------------------------------------------------------------

    @property
    def kernels(self) -> str:
        return self._engine.kernels

    def per_chunk(self, make: Callable[..., Any], *operands: Operand) -> PerChunk:
        return self._engine.per_chunk(make, *operands)

    def field(self, layout: PerChunk) -> EagerField:
        assert isinstance(layout, EagerPerChunk)
        zeros, sizes = self._backend.zeros, {n: layout.items[n].size for n in self._owned}
        items = {number: zeros(self._width * size).reshape(self._width, size) for number, size in sizes.items()}
        return EagerField(items, layout.level)

    def halo(self, plan: PerChunk, senders: Sequence[Sequence[int]] | None = None) -> EagerHalo:
        assert isinstance(plan, EagerPerChunk)
        plans = {number: found.widened(self._width, self._backend.xp) for number, found in plan.items.items()}
        return EagerHalo(plans, self._transport.channel(plans, self._backend), plan.level)

    def parts(self) -> EagerParts:
        sums = self._backend.sums
        alone = len(self._owned) == len(self.partition)
        count = len(self.partition)
        own = sums(self._width * count).reshape(self._width, count)
        everyone = own if alone else sums(own.size).reshape(own.shape)
        # The only chunk of a small grid is the first, whatever the number of its host.
        return EagerParts(own, everyone, {number: number if count > 1 else 0 for number in self._owned})

    def scalar(self, value: float) -> EagerScalar:
        return EagerScalar(self._backend.asarray([[value]] * self._width))

    def lowered(self, dtype: str) -> BatchedEngine:
        return self._as_wide(self._engine.lowered(dtype))

    @property
    def hosts(self) -> Sequence[int]:
        return self._engine.hosts

    def alone(self, grid: Triple) -> BatchedEngine:
        return self._as_wide(self._engine.alone(grid))

    def shared(self, x: Field) -> Field:
        return self._engine.shared(x)

    # -- operations --------------------------------------------------------------------------------------------------

    def run(self, kernel: Kernel, *operands: Operand) -> None:
        call = self._kernels.kernel(kernel.name)
        columns = [self._seen(operand) for operand in operands]
        for number in self._owned:
            call(*(c[number] if isinstance(c, dict) else c for c in columns))

    def exchange(self, x: Field, halo: Any) -> None:
        assert isinstance(x, EagerField)
        flat = EagerField({number: values.reshape(-1) for number, values in x.items.items()}, x.level)
        self._engine.exchange(flat, halo)

    def total(self, parts: Parts, out: Scalar) -> None:
        assert isinstance(parts, EagerParts)
        parts.wait()
        shared = parts.everyone is parts.own
        for number in range(self._width):
            own = parts.own[number]
            of_column = EagerParts(own, own if shared else parts.everyone[number], {})
            self._engine.total(of_column, self.column_of(out, number))

    def assign(self, out: Scalar, value: Scalar) -> None:
        self._engine.assign(out, value)

    def read(self, *scalars: Scalar) -> tuple[float, ...]:
        """Every column's value of the first scalar, then of the next."""
        return self._engine.read(*self._apart(scalars))

    def repeat(
        self, step: Callable[[], None], times: int, watch: Sequence[Scalar], *, measured: bool = False
    ) -> list[tuple[float, ...]]:
        """As `Engine.repeat`; each watched scalar is told column after column."""
        return self._engine.repeat(step, times, self._apart(watch), measured=measured)

    def load(self, blocks: Mapping[int, Any], layout: PerChunk, out: Field) -> None:
        on_device = {number: self._backend.asarray(blocks[number]) for number in self._owned}
        self.run(LOAD, layout, EagerPerChunk(on_device), out)

    def unload(self, x: Field, layout: PerChunk) -> Mapping[int, Any]:
        columns = [self._engine.unload(self.column(x, number), layout) for number in range(self._width)]
        xp = self._backend.xp
        return {chunk: xp.stack([column[chunk] for column in columns]) for chunk in self._owned}

    def scope(self) -> AbstractContextManager[Any]:
        return self._engine.scope()

    def _as_wide(self, engine: Engine) -> BatchedEngine:
        made = engine.batched(self._width)
        assert made is not None
        return made

    def _apart(self, scalars: Sequence[Scalar]) -> list[Scalar]:
        return [self.column_of(scalar, number) for scalar in scalars for number in range(self._width)]

    def _seen(self, operand: Operand) -> Any:
        """What a kernel sees: of a halo its columns, (columns, slots), though they lie side by side."""
        items = items_of(operand)
        if not isinstance(operand, EagerHalo):
            return items
        return {number: vector.reshape(-1, self._width).T for number, vector in items.items()}
