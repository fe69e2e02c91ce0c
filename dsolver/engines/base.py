"""Table of operations: the interface that algorithms are written against.

An algorithm names kernels and handles; an engine decides whether an operation is a call, a Dask task or a kernel
launch. Handles stand for distributed things: one item for each chunk, wherever its owner is. Handles are variables:
running a kernel that updates or writes a `Field` gives the variable a new value; whether old memory is used again is
the engine's business (a task graph makes a new array and leaves the old one to those who still read it).

Nothing waits except `read`, `known`, `deliver`, `repeat` (once, at its end) and `unload`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

from dsolver.engines.repetition import PLAIN, Repetition, Samples, Step
from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.contract import AXPBY, COPY, DOT, FILL, Kernel
from dsolver.kernels.deferred import Foresight
from dsolver.kernels.reductions import tree_sum
from dsolver.monitor.spans import Span

T = TypeVar("T")


Message = tuple[Any, ...]  # arrays (n,) of a device that a chunk sends to another: see `Engine.deliver`
Lengths = Callable[[int], Mapping[int, int]] | None  # see `Engine.deliver`
Messages = Mapping[int, Message]  # messages that have come to a chunk, or go from it, by the other chunk's number


class PerChunk(ABC):
    """Objects built once for each chunk, on the chunk's owner."""

    @abstractmethod
    def at(self, *path: str | int) -> PerChunk:
        """A part of each object: attributes (str) and items (int) followed in order."""


class Field(ABC):
    """A distributed vector, zero when made. Its padding is always zero."""


class Halo(ABC):
    """Values of neighbors, filled by `Engine.exchange`. Reading them waits for them."""


class PartialSums(ABC):
    """Partial results of a reduction: a float64 for each chunk."""


class Scalar(ABC):
    """A float64 that every owner knows, on the device or in the graph. Only `Engine.read` returns its value."""


Operand = PerChunk | Field | Halo | PartialSums | Scalar | complex


class Engine(ABC):
    """Runs kernels on every chunk."""

    partition: Partition
    is_complex: ClassVar[bool] = False
    """Whether vectors are complex."""

    # -- handles -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def per_chunk(self, make: Callable[..., Any], *operands: Operand) -> PerChunk:
        """Objects made by make(backend, chunk number, *items) on the owners; it must be picklable.

        Where it has a `label`, people read that on Dask's dashboard.

        The items are the operands as kernels see them: arrays in storage order, halo vectors, objects built before.
        They may be read, not changed, and the objects must not share their memory.
        """

    @abstractmethod
    def place(self, blocks: Mapping[int, Any]) -> PerChunk:
        """Objects by chunk number, each on the owner of its chunk; `load` does so for arrays."""

    @abstractmethod
    def field(self, layout: PerChunk) -> Field:
        """A vector of zeros for each chunk's layout."""

    def field_of(self, values: PerChunk) -> Field:
        """A vector of these arrays, to be read alone: it may be a copy of them, or the arrays themselves."""
        field = self.field(values)
        self.run(COPY, values, field)
        return field

    @abstractmethod
    def halo(self, plan: PerChunk, senders: Sequence[Sequence[int]] | None = None) -> Halo:
        """A halo with room for the values of each chunk's `HaloLayout`; senders: chunks it names, if not neighbors."""

    @abstractmethod
    def partial_sums(self) -> PartialSums:
        """Room for a partial result of each chunk."""

    def partial_sums_of(self, out: Scalar) -> PartialSums:  # most engines have no use for it
        """Room for partial results whose `total` is always `out`: where there is one part, it may be `out` itself."""
        return self.partial_sums()

    @abstractmethod
    def scalar(self, value: float) -> Scalar:
        """A scalar with a value."""

    def coefficient(self) -> Scalar:
        """A scalar, 0, for what vectors are multiplied by: complex where they are, and then read as two numbers."""
        return self.scalar(0.0)

    @abstractmethod
    def lowered(self, dtype: str) -> Engine:
        """This engine, with kernels, vectors and matrices of another value type ("float64" or "float32").

        It shares all but the kernels: chunks, owners, transport, stream, so handles of one may be operands of the other
        in kernels that take both types, and their operations run in the order of the calls. Halo values travel in its
        type. Scalars and partial results are float64 in both. Only this engine, not the view, is closed.
        """

    @property
    @abstractmethod
    def kernels(self) -> str:
        """The name of the backend whose kernels it runs: see `dsolver.kernels.load`."""

    @property
    def width(self) -> int:
        """Number of columns of fields: right-hand sides that are solved together. Scalars have a value for each."""
        return 1

    def batched(self, width: int) -> Engine | None:
        """This engine, with fields of so many columns; None if it has no kernels for that.

        It shares all but the kernels, as `lowered` does. What was built for every chunk is read once for all columns.
        Each column gets the bits that it would get alone.
        """
        return self if width == self.width else None

    def column(self, x: Field, number: int) -> Field:  # there is one
        """A column of a field, as a field of the engine with one column."""
        return x

    def columns(self, x: Field, first: int, last: int) -> Field:
        """Columns first .. last of a field, as a field of the engine with so many; two or more."""
        raise NotImplementedError("this engine has fields of one column")

    def column_of(self, x: Scalar, number: int) -> Scalar:
        """A column of a scalar, as a scalar of the engine with one column."""
        return x

    def on(self, partition: Partition) -> Self:
        """This engine, which shares all, for vectors of another length in as many chunks of the same owners."""
        view = copy(self)
        view.partition = partition
        return view

    # -- one chunk that all owners have ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def hosts(self) -> Sequence[int]:
        """Numbers of the chunks, one of each owner, next to which `alone` engines run."""

    @abstractmethod
    def alone(self, grid: Triple) -> Engine:
        """An engine for one chunk that is a whole grid, too small to be distributed: each owner repeats its operations.

        Its operations run next to the chunks of `hosts` and may read this engine's handles: they see the host's own
        item. `per_chunk` calls its argument with the host's number.
        """

    @abstractmethod
    def shared(self, x: Field) -> Field:
        """A field of an `alone` engine as a field of this one: every chunk reads the whole of it, as it is now."""

    # -- operations --------------------------------------------------------------------------------------------------

    @abstractmethod
    def run(self, kernel: Kernel, *operands: Operand) -> None:
        """Run a kernel on every chunk, with operands in the kernel's order."""

    @abstractmethod
    def exchange(self, x: Field | PerChunk, halo: Halo) -> None:
        """Start to fill the halo with x of the neighbors: a field, or arrays of every chunk in its order.

        Operations that neither read the halo nor change x may run meanwhile; the next one that reads it waits.
        """

    def around(self, values: PerChunk, rows: PerChunk, halo: Halo) -> PerChunk:
        """Values of all points of every chunk's window, of their type: own ones, and ghosts', which are exchanged.

        `values`: an array of own points. `rows`: an object with its `window`, whose ghosts have the order of the slots.
        """
        self.exchange(values, halo)
        return self.per_chunk(_around, rows, values, halo)

    def run_after(self, halo: Halo, kernel: Kernel, *operands: Operand) -> None:
        """Run a kernel that reads a halo which is under way, on every chunk, as soon as that has come.

        Operations that neither use what it updates or writes nor change what it reads may run meanwhile; the next one
        that uses it waits. What it updates or writes was made before the exchange: on a device the kernel may run
        before the zeros of a field that is made after it.
        """
        self.run(kernel, *operands)

    @abstractmethod
    def total(self, parts: PartialSums, out: Scalar) -> None:
        """out = the sum of the parts in the fixed tree of the kernel `total`: the same bits on any number of owners."""

    @abstractmethod
    def calculate(self, kernel: Kernel, *scalars: Scalar) -> None:
        """Run a kernel whose operands are scalars alone: once, and not for every chunk."""

    @abstractmethod
    def assign(self, out: Scalar, value: Scalar) -> None:
        """out = value."""

    @abstractmethod
    def set(self, out: Scalar, value: float) -> None:
        """out = a number of the host."""

    @abstractmethod
    def read(self, *scalars: Scalar) -> tuple[float, ...]:
        """The values of scalars. Waits for them."""

    @abstractmethod
    def deliver(
        self, messages: PerChunk, senders: Sequence[Sequence[int]], kinds: Sequence[str], lengths: Lengths = None
    ) -> PerChunk:
        """Messages of chunks to chunks, whose lengths only their senders know, and whether there is one at all.

        Args:
            messages: of every chunk a dictionary with a message for chunks that name it as a sender, for some of them
                or all: a tuple of arrays (n,), one of each kind.
            senders: the chunks that each chunk may get a message from, ascending; it may be one of them itself.
            kinds: names of value types, of any that NumPy has.
            lengths: the items of each array that comes to a chunk, by sender, where both sides know them and every
                sender has a message: ranks then need not tell them.

        Returns:
            on every chunk a dictionary of what has come, on the device, by sender, ascending. It may be read alone:
            arrays of a chunk of the same process are those that were sent.

        Raises:
            RankError: an engine sees a message for a chunk that does not name its sender.
        """

    @abstractmethod
    def known(self, numbers: PerChunk) -> list[tuple[float, ...]]:
        """Equally many floats of every chunk, on its host, known to every rank, which agree so on what owners see."""

    @abstractmethod
    def partners(self, named: PerChunk) -> list[tuple[int, ...]]:
        """The chunks that each chunk has named or is named by, ascending.

        A rank knows those of its own chunks, and of the others only what own ones tell of them: all that it needs, and
        nothing is exchanged for it.

        `named`: of every chunk a tuple of numbers of others, of two chunks either both by each other or neither.
        """

    def sums(self, numbers: PerChunk) -> tuple[float, ...]:
        """Sums over all chunks, by the tree of the kernel `total`; numbers: as of `known`."""
        return tuple(tree_sum(list(parts)) for parts in zip(*self.known(numbers), strict=True))

    def global_sums(self, *numbers: PerChunk) -> tuple[float, ...]:
        """Sums over all chunks of numbers on their devices, float64 (1,) of every chunk: see `sums`."""
        return self.sums(self.per_chunk(_on_host, *numbers))

    def totals(self, numbers: PerChunk, count: int) -> list[Scalar]:
        """`sums` of so many numbers on devices, float64 (count,) of every chunk, which stay there: no host waits."""
        found = []
        for place in range(count):
            parts, out = self.partial_sums(), self.scalar(0.0)
            self.run(COPY, self.per_chunk(partial(_item, place=place), numbers), parts)
            self.total(parts, out)
            found.append(out)
        return found

    def decided(self, decide: Callable[..., T], *numbers: PerChunk) -> T:
        """Result of decide(*sums) with the `global_sums` of these numbers; foreseen within `foreseeing`."""
        return decide(*self.global_sums(*numbers))

    def foreseeing(self, key: Hashable) -> AbstractContextManager[Foresight]:
        """Context of a set-up that may go on with an earlier one's answers of that key: see `Backend.foreseeing`."""
        return nullcontext(Foresight())

    def deferring(self) -> AbstractContextManager[None]:
        """Context in which `defer` may put work off: see `Backend.deferring`; of several chunks `in_order`, too."""
        return nullcontext()

    def defer(self, work: Callable[[], object], *, exchanges: bool = True, brief: bool = False) -> None:
        """Do some work without a waiter, now or while a host waits for a device.

        exchanges: whether chunks do in it. brief: as of `Backend.defer`.
        """
        work()

    def confirming(self) -> AbstractContextManager[Callable[[], bool]]:
        """Context at whose end what was foreseen in it is confirmed; see `Backend.confirming`."""
        return nullcontext(lambda: False)

    def reusing(self) -> AbstractContextManager[None]:
        """Context of a set-up, whose memory is used again in it; see `Backend.reusing`."""
        return nullcontext()

    def record(self, step: Step) -> None:  # noqa: B027  # most engines record nothing
        """Record a step that `repeat` may replay, one that makes nothing when it runs for the first time."""

    @abstractmethod
    def repeat(self, step: Step, times: int, watch: Sequence[Scalar], how: Repetition = PLAIN) -> Samples:
        """The values of the watched scalars after each of so many steps, which are run.

        A step is the same operations on the same handles each time: an engine may record it once and replay it.
        """

    def replay(self, step: Step) -> None:
        """Run a step as `repeat` does, once, and wait for nothing."""
        step()

    def measured(self, step: Step) -> None:
        """Run a step of any operations, which need not be the same each time, and measure it; see `spans`."""
        step()

    def forget(self) -> None:  # noqa: B027  # most engines record nothing
        """Drop the recordings of repeated steps, and the objects that they keep alive."""

    def spans(self) -> list[Span]:
        """Spans measured since the last call, on the chunks of this engine."""
        return []

    def broadcast(self, value: float) -> float:
        """The value of the first chunk's owner, on all ranks: their clocks differ, what follows from them must not."""
        return value

    # -- data --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def load(self, blocks: Mapping[int, Any], layout: PerChunk, out: Field) -> None:
        """out = blocks by chunk number, each of the chunk's shape (nx, ny, nz); InputError where they are not real."""

    @abstractmethod
    def unload(self, x: Field, layout: PerChunk) -> Mapping[int, Any]:
        """The blocks of x by chunk number, of this engine's chunks; the inverse of `load`."""

    def expect_on_host(self, dtype: str | None = None) -> None:  # noqa: B027  # most engines have nothing to prepare
        """Have host memory made ready for blocks that `on_host` will make, by default of the vectors' dtype."""

    @abstractmethod
    def on_host(self, blocks: Mapping[int, Any], room: Any = None) -> Mapping[int, Any]:
        """Blocks by chunk number as NumPy arrays, or Dask futures of these; room: for that of the only chunk."""

    @abstractmethod
    def fetch(self, objects: PerChunk) -> Mapping[int, Any]:
        """Small objects by chunk number, of this engine's chunks, or Dask futures of them; the inverse of `place`."""

    # -- what follows from the above -----------------------------------------------------------------------------------

    @property
    def coupled(self) -> bool:
        """Whether any chunk has a neighbor."""
        return len(self.partition) > 1

    def copy(self, x: Field, out: Field) -> None:
        """out = x."""
        self.run(COPY, x, out)

    def fill(self, layout: PerChunk, value: float, out: Field) -> None:
        """out = value on every row."""
        self.run(FILL, layout, value, out)

    def dot(self, x: Field, y: Field, parts: PartialSums, out: Scalar) -> None:
        """out = x . y, through the room for partial results that is given."""
        self.run(DOT, x, y, parts)
        self.total(parts, out)

    def advance(
        self, a: Scalar, one: Scalar, p: Field, ap: Field, x: Field, r: Field, rr: tuple[PartialSums, Scalar]
    ) -> None:
        """x += a p and r -= a Ap, unless a is not finite; rr = rᴴr."""
        self.run(AXPBY, 1.0, a, p, one, x)
        self.run(AXPBY, -1.0, a, ap, one, r)
        self.dot(r, r, *rr)

    def bilinear(self, x: Field, y: Field, parts: PartialSums, out: Scalar) -> None:
        """out = xᵀy, where `dot` has xᴴy of complex vectors."""
        self.dot(x, y, parts, out)

    def scope(self) -> AbstractContextManager[Any]:
        """Context of a program's operations; a device's engine makes its stream the current one."""
        return nullcontext()

    @property
    def ended(self) -> bool:
        """Whether it was closed, or has closed itself after a failure, and can do nothing any more."""
        return False

    def close(self) -> None:  # noqa: B027  # most engines hold nothing that outlives them
        """Release the engine's data outside this process."""


def _item(_: Backend, __: int, numbers: Any, *, place: int) -> Any:
    return numbers[place : place + 1]


def _on_host(backend: Backend, _: int, *numbers: Any) -> tuple[float, ...]:
    """Numbers of a device, float64 (1,) each, in one copy."""
    together = backend.xp.concatenate(numbers) if len(numbers) > 1 else numbers[0]
    return tuple(backend.to_host(together).tolist())


def _around(backend: Backend, _: int, rows: Any, values: Any, halo: Any) -> Any:
    ghosts, window = halo[backend.guard : len(halo) - backend.guard], rows.window
    return backend.amg.around(values, ghosts, window.rows, window.below)
