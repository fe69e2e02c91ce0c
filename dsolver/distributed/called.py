"""Functions of the user's, called on the owners of chunks: of whole arrays on one of them, or by chunk on each."""

from functools import partial
from typing import Any, Final, NamedTuple, Self

from dsolver.distributed.halo import halo_layout
from dsolver.engines.base import Engine, Field, Halo, PartialSums, PerChunk, Scalar
from dsolver.engines.complex import ComplexEngine
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.contract import LOAD, WAXPBY
from dsolver.kernels.formats.layout import HaloLayout, Layout
from dsolver.problems.functions import UserFunction

OWNER: Final = 0  # the chunk next to which functions of whole arrays are called


class VectorBlocks(NamedTuple):
    """A chunk's block of a vector, (nx, ny, nz); of a complex one its two parts."""

    re: Any
    im: Any = None


class _Held:
    """A function where it is called. Engines may copy what they are given for a chunk; a function stays what it is."""

    def __init__(self, function: UserFunction) -> None:
        self.function = function

    def copy(self) -> Self:
        return self


class CalledFunction:
    """A function of the user's as an operation on distributed vectors, real or complex, of a layout."""

    def __init__(self, engine: Engine, layout: PerChunk, function: UserFunction) -> None:
        self._engine = engine.real if isinstance(engine, ComplexEngine) else engine
        self._layout, self._function, self._partition = layout, function, engine.partition
        chunks = range(len(self._partition))
        self._held = self._engine.place({number: _Held(function) for number in chunks})
        self._halos: list[Halo] = []
        if function.halo and self._engine.coupled:
            plan = partial(_plan, partition=self._partition, function=function)
            plans = self._engine.per_chunk(plan, layout)
            senders = [self._partition.neighbors(number, function.offsets) for number in chunks]
            self._halos = [self._engine.halo(plans, senders) for _ in range(1 + engine.is_complex)]

    def apply(self, x: Field, y: Field) -> None:
        """y = function(x)."""
        blocks = self._whole(*_parts(x)) if self._function.halo is None else self._by_chunk(*_parts(x))
        for part, name in zip(_parts(y), VectorBlocks._fields, strict=False):
            self._engine.run(LOAD, self._layout, blocks.at(name), part)

    def _by_chunk(self, *parts: Field) -> PerChunk:
        for part, halo in zip(parts, self._halos, strict=False):
            self._engine.exchange(part, halo)
        call = partial(_called_by_chunk, partition=self._partition, count=len(parts))
        return self._engine.per_chunk(call, self._held, self._layout, *parts, *self._halos)

    def _whole(self, *parts: Field) -> PerChunk:
        engine, chunks, kinds = self._engine, len(self._partition), ["float64"] * len(parts)
        if not engine.coupled:
            return engine.per_chunk(_called_on_whole, self._held, self._layout, *parts)
        to_owner = [tuple(range(chunks)), *[()] * (chunks - 1)]
        arrived = engine.deliver(engine.per_chunk(_to_owner, self._layout, *parts), to_owner, kinds)
        found = engine.per_chunk(partial(_called_on_owner, partition=self._partition), self._held, arrived)
        returned = engine.deliver(found, [(OWNER,)] * chunks, kinds)
        return engine.per_chunk(_own_part, self._layout, returned)


class FunctionOperator:
    """A matrix that is a function of the user's, whose results are multiplied by `scale`."""

    def __init__(self, engine: Engine, layout: PerChunk, function: UserFunction, scale: float = 1.0) -> None:
        self._engine, self._scale = engine, scale
        self._called = CalledFunction(engine, layout, function)
        self._parts = engine.partial_sums()

    def multiply(self, x: Field, y: Field) -> None:
        """y = A x."""
        self._called.apply(x, y)
        if self._scale != 1.0:
            self._engine.run(WAXPBY, self._scale, y, 0.0, y, y)

    def multiply_dot(self, x: Field, y: Field, dot: Scalar, parts: PartialSums | None = None) -> None:
        """y = A x and dot = xᴴy; parts: `Engine.partial_sums_of` the dot product."""
        self.multiply(x, y)
        self._engine.dot(x, y, self._parts if parts is None else parts, dot)


def _parts(x: Any) -> tuple[Field, ...]:
    return (x.re, x.im) if hasattr(x, "im") else (x,)


def _plan(backend: Backend, number: int, layout: Layout, *, partition: Partition, function: UserFunction) -> HaloLayout:
    return halo_layout(backend, layout, partition, number, function.offsets)


def _called_on_whole(backend: Backend, _: int, held: _Held, layout: Layout, *parts: Any) -> VectorBlocks:
    """The function of the only chunk's blocks."""
    return _called(backend, held, [backend.vectors.unload(layout, part) for part in parts])


def _to_owner(backend: Backend, _: int, layout: Layout, *parts: Any) -> dict[int, tuple[Any, ...]]:
    """A message with a chunk's blocks for the owner that calls the function."""
    return {OWNER: tuple(backend.vectors.unload(layout, part).reshape(-1, order="F") for part in parts)}


def _called_on_owner(
    backend: Backend, number: int, held: _Held, arrived: Any, *, partition: Partition
) -> dict[int, tuple[Any, ...]]:
    """A message for each chunk with its part of what the function makes of the whole, from the owner that calls it."""
    if number != OWNER:
        return {}
    count = len(arrived[OWNER])
    whole = [backend.xp.empty(partition.grid) for _ in range(count)]
    for chunk in partition:
        for out, flat in zip(whole, arrived[chunk.number], strict=True):
            out[chunk.box.slices] = flat.reshape(chunk.box.shape, order="F")
    found = _called(backend, held, whole)[:count]
    return {chunk.number: tuple(part[chunk.box.slices].reshape(-1, order="F") for part in found) for chunk in partition}


def _own_part(_: Backend, __: int, layout: Layout, returned: Any) -> VectorBlocks:
    """A chunk's block of what the function has made."""
    return VectorBlocks(*(flat.reshape(layout.shape, order="F") for flat in returned[OWNER]))


def _called(backend: Backend, held: _Held, whole: list[Any]) -> VectorBlocks:
    """The function of a whole vector, which has one part or two."""
    function, values = held.function, _joined(whole)
    values = backend.to_host(values) if function.host and hasattr(values, "get") else values
    return _blocks(backend, function.of_whole(values), len(whole))


def _called_by_chunk(
    backend: Backend, number: int, held: _Held, layout: Layout, *operands: Any, partition: Partition, count: int
) -> VectorBlocks:
    """The function of a chunk and its halo; operands: `count` parts of the vector, and those of its halo, if any."""
    function, box, guard = held.function, partition[number].box, backend.guard
    width, padded = function.halo or 0, []
    for part in range(count):
        values = backend.xp.zeros([n + 2 * width for n in box.shape[::-1]])
        values[box.around(box, width=width)] = backend.vectors.unload(layout, operands[part]).T
        if width:
            halo = operands[count + part] if len(operands) > count else None
            inner = None if halo is None else halo[guard : len(halo) - guard]
            partition.fill_around(number, function.offsets, values, inner, width)
        padded.append(values.T)
    return _blocks(backend, function.of_chunk(_joined(padded), box.slices), count)


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]


def _blocks(backend: Backend, values: Any, count: int) -> VectorBlocks:
    """A block on the device, in so many parts."""
    if count == 1:
        return VectorBlocks(backend.asarray(values))
    return VectorBlocks(backend.asarray(values.real), backend.asarray(values.imag))
