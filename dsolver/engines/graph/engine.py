"""Table of operations of the graph engine: Dask tasks, each chunk's on the worker that owns it.

Handles are variables over immutable results of tasks (`handles`); operations only add tasks (`tasks`), and
`read`, `repeat` and `unload` submit them. What makes an iterative method bearable for a cluster:

- The tasks of several iterations travel as one graph, wrapped in a HighLevelGraph (Dask would tokenise a plain dict)
  whose annotations pin each key to its chunk's owner.
- The client keeps futures of the handles' current versions only; all else is forgotten as soon as it is used.
- Scheduler and workers remember a result's whole ancestry for as long as the result lives, and an iterate descends from
  all iterates before it. So from time to time current results are renamed in place to keys without a past, as if they
  had been scattered.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Self
from uuid import uuid4

from distributed import Client, Future

from dsolver.engines.base import Engine, Field, Halo, Lengths, Operand, PartialSums, PerChunk, Scalar
from dsolver.engines.graph import handles, tasks
from dsolver.engines.graph.labels import DELIVER, EXCHANGE, LABELS, MESSAGE, label_of
from dsolver.engines.graph.results import Results
from dsolver.engines.graph.spans import spans_of
from dsolver.engines.graph.task_graph import TaskGraph
from dsolver.engines.partners import mutual
from dsolver.engines.repetition import PLAIN, Repetition, Samples, Step
from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition
from dsolver.kernels.contract import LOAD, Kernel
from dsolver.monitor.spans import Span


class GraphEngine(Engine):
    """Runs every operation as Dask tasks."""

    def __init__(
        self,
        partition: Partition,
        client: Client,
        owners: Sequence[str],
        *,
        kernels: str,
        batch: int = 5,  # how many steps `repeat` submits at a time
        # the chunks whose values a chunk may read; by default all that touch it. To name only those that the stencil
        # reaches saves messages.
        neighbors: Callable[[int], Iterable[int]] | None = None,
    ) -> None:
        if len(owners) != len(partition):
            raise ValueError(f"{len(partition)} chunks need as many owners, not {len(owners)}")
        if batch < 1:
            raise ValueError(f"a batch needs at least one step, not {batch}")
        self.partition = partition
        self._chunks = range(len(partition))
        self._neighbors = [tuple(near) for near in map(neighbors or partition.neighbors, self._chunks)]
        self._kernels = kernels
        self._batch = batch
        self._dtype = "float64"
        self._place: int | None = None  # the only chunk, in an engine for one
        name = uuid4().hex[:8]
        self._graph = TaskGraph(Results(client, owners, name), name, self._chunks)
        self._spans: list[Span] = []

    def per_chunk(self, make: Callable[..., Any], *operands: Operand | handles.LoadedBlocks) -> handles.GraphPerChunk:
        label = getattr(make, "label", None) or "setup-chunk"
        inputs = handles.Inputs()
        arguments = tuple(inputs.argument(operand) for operand in operands)
        version, step = self._version(label), self._step(label, arguments)
        for chunk in self._chunks:
            self._graph.add(version.key(chunk), tasks.build, step, make, chunk, needs=inputs.of(chunk))
        return handles.GraphPerChunk(self._graph.known(handles.Variable(version)))

    def place(self, blocks: Mapping[int, Any]) -> handles.GraphPerChunk:
        return self.per_chunk(_as_it_came, self._loaded(blocks)._replace(arrays=False))

    def field(self, layout: PerChunk) -> handles.GraphField:
        assert isinstance(layout, handles.GraphPerChunk)
        return self._graph.known(handles.GraphField(layout, self._dtype))

    def halo(self, plan: PerChunk, senders: Sequence[Sequence[int]] | None = None) -> handles.GraphHalo:
        assert isinstance(plan, handles.GraphPerChunk)
        return self._graph.known(handles.GraphHalo(plan, self._dtype, self._neighbors if senders is None else senders))

    def partial_sums(self) -> handles.GraphPartialSums:
        return self._graph.known(handles.GraphPartialSums())

    def scalar(self, value: float) -> handles.GraphScalar:
        return self._graph.known(handles.GraphScalar(value))

    def lowered(self, dtype: str) -> Self:
        view = copy(self)
        view._dtype = dtype
        return view

    @property
    def kernels(self) -> str:
        return self._kernels

    @property
    def hosts(self) -> Sequence[int]:
        return (0,)

    def alone(self, grid: Triple) -> Self:
        """One owner does it for all: the same tasks, graph and results, with a single chunk."""
        made = copy(self)
        made.partition = Partition(grid)
        made._chunks = range(1)
        made._place = 0
        return made

    def shared(self, x: Field) -> handles.GraphField:
        assert isinstance(x, handles.GraphField)
        return x

    def run(self, kernel: Kernel, *operands: Operand) -> None:
        self._launch(kernel, operands)

    def exchange(self, x: Field | PerChunk, halo: Halo) -> None:
        assert isinstance(halo, handles.GraphHalo)
        plan = halo.shape
        packed = self._map(LABELS["pack"], tasks.pack_halo, (plan, x), kernel="pack")
        inputs = handles.Inputs()
        step = self._step(EXCHANGE, (inputs.argument(plan),))
        halo.version = self._version(EXCHANGE, handles.level_of((plan, x)))
        for chunk, senders in enumerate(halo.senders):
            sent = [packed.key(sender) for sender in senders]
            self._graph.add(
                halo.version.key(chunk), tasks.unpack_halo, step, senders, chunk, needs=inputs.of(chunk) + sent
            )

    def deliver(
        self, messages: PerChunk, senders: Sequence[Sequence[int]], kinds: Sequence[str], lengths: Lengths = None
    ) -> handles.GraphPerChunk:
        assert isinstance(messages, handles.GraphPerChunk)
        version, sent = self._version(DELIVER), handles.existing(messages.root)
        step = self._step(DELIVER, ())
        for chunk in self._chunks:
            keys = []
            for sender in senders[chunk]:
                keys.append((f"{MESSAGE}-{self._graph.name}-to-{chunk}", version.serial, sender))
                self._graph.add(keys[-1], tasks.message_to, chunk, messages.path, needs=[sent.key(sender)])
            self._graph.add(version.key(chunk), tasks.delivered, step, tuple(senders[chunk]), tuple(kinds), needs=keys)
        return handles.GraphPerChunk(self._graph.known(handles.Variable(version)))

    def known(self, numbers: PerChunk) -> list[tuple[float, ...]]:
        return self._gathered(numbers)

    def _gathered(self, objects: PerChunk) -> list[Any]:
        """Small objects of all chunks."""
        version = handles.existing(self.per_chunk(_as_it_came, objects).root)
        self._graph.submit([version])
        return [built.item for built in self._graph.results.gather([version.key(chunk) for chunk in self._chunks])]

    def partners(self, named: PerChunk) -> list[tuple[int, ...]]:
        """As everywhere. It waits: the client sees nothing by itself."""
        found = self._gathered(named)
        return mutual(dict(enumerate(found)), len(found))

    def total(self, parts: PartialSums, out: Scalar) -> None:
        assert isinstance(parts, handles.GraphPartialSums)
        assert isinstance(out, handles.GraphScalar)
        if parts.version is None:
            out.state = 0.0
            return
        version = parts.version
        parts_of = [(chunk, version.key(chunk), version.path) for chunk in self._chunks]
        _, (group, serial, place), _ = self._graph.reduce(parts_of, self._place)
        out.state = handles.Version(group, serial, place=place)

    def calculate(self, kernel: Kernel, *scalars: Scalar) -> None:
        """A task on the first chunk's owner."""
        inputs, reads = handles.Inputs(), len(kernel.reads)
        written = reads + len(kernel.updates)
        arguments = tuple(
            inputs.argument(scalar) if i < written else tasks.Argument(tasks.Make.CONSTANT, 0.0)
            for i, scalar in enumerate(scalars)
        )
        step = self._step(kernel.name, arguments, kernel.name, reads)
        version = self._version(kernel.name)._replace(place=0)
        self._graph.add(version.key(0), tasks.run_kernel, step, 0, needs=inputs.of(0))
        outputs = scalars[reads:]
        for i, scalar in enumerate(outputs):
            assert isinstance(scalar, handles.GraphScalar)
            scalar.state = version._replace(path=(i,) if len(outputs) > 1 else ())

    def assign(self, out: Scalar, value: Scalar) -> None:
        assert isinstance(out, handles.GraphScalar)
        assert isinstance(value, handles.GraphScalar)
        out.state = value.state

    def set(self, out: Scalar, value: float) -> None:
        assert isinstance(out, handles.GraphScalar)
        out.state = value

    def read(self, *scalars: Scalar) -> tuple[float, ...]:
        (values,) = self._graph.evaluate([handles.states(scalars)])
        return values

    def repeat(self, step: Step, times: int, watch: Sequence[Scalar], how: Repetition = PLAIN) -> Samples:
        samples: list[tuple[float, ...]] = []
        while len(samples) < times:
            watched = []
            for _ in range(min(self._batch, times - len(samples))):
                before = next(self._graph.serials)
                step()
                watched.append(handles.states(watch))
                if (number := len(samples) + len(watched)) in how.between:
                    how.between[number]()
            last = how.measured and len(samples) + len(watched) == times
            seen = self._graph.results.seen() if last else 0
            samples += self._graph.evaluate(watched)
            if last:
                self._spans = self._recorded(seen, range(before, next(self._graph.serials)))
        return samples

    def measured(self, step: Step) -> None:
        seen, before = self._graph.results.seen(), next(self._graph.serials)
        step()
        self._spans = self._recorded(seen, range(before, next(self._graph.serials)))

    def spans(self) -> list[Span]:
        spans, self._spans = self._spans, []
        return spans

    def _recorded(self, seen: int, serials: range) -> list[Span]:
        """The spans of some operations, from Dask's record after so many tasks."""
        self._graph.results.wait(list(self._graph.results.futures))
        return spans_of(self._graph.results.record(seen), self._graph.name, serials, self._graph.results.owners)

    def load(self, blocks: Mapping[int, Any], layout: PerChunk, out: Field) -> None:
        """out = blocks: arrays, or futures of this client. An array is copied to the owner now."""
        self._launch(LOAD, (layout, self._loaded(blocks), out))

    def _loaded(self, blocks: Mapping[int, Any]) -> handles.LoadedBlocks:
        self._graph.results.wait_for_blocks(blocks)
        return handles.LoadedBlocks({chunk: self._graph.results.place(blocks[chunk], chunk) for chunk in self._chunks})

    def unload(self, x: Field, layout: PerChunk) -> dict[int, Future[Any]]:
        """Futures of blocks, each on the owner of its chunk. They outlive the engine."""
        return self._shared(self._map("unload-block", tasks.unload_block, (layout, x)))

    def on_host(self, blocks: Mapping[int, Any], room: Any = None) -> dict[int, Future[Any]]:
        return {number: block.client.submit(tasks.block_on_host, block) for number, block in blocks.items()}

    def fetch(self, objects: PerChunk) -> dict[int, Future[Any]]:
        return self._shared(self._map("fetch-object", tasks.fetch_object, (objects,)))

    def _shared(self, version: handles.Version) -> dict[int, Future[Any]]:
        """Futures of a version, that outlive the engine."""
        self._graph.submit([version])
        keys = {chunk: version.key(chunk) for chunk in self._chunks}
        # So that its inputs may be released, and a failure is raised here.
        self._graph.results.wait(keys.values())
        return {chunk: self._graph.results.share(key) for chunk, key in keys.items()}

    @property
    def ended(self) -> bool:
        return self._graph.results.closed

    def close(self) -> None:
        """Give back all that the cluster holds for this engine."""
        self._graph.close()

    def _step(
        self, label: str, arguments: tuple[tasks.Argument, ...], kernel: str = "", first_output: int = 0
    ) -> tasks.TaskCall:
        return tasks.TaskCall(label, self._kernels, self._dtype, kernel, arguments, first_output)

    def _version(self, label: str, level: int | None = None) -> handles.Version:
        return self._graph.version(label, level, self._place)

    def _map(
        self,
        label: str,
        function: Callable[..., Any],
        operands: Sequence[Operand | handles.LoadedBlocks],
        *,
        kernel: str = "",
        reads: int | None = None,
        updates: int = 0,
    ) -> handles.Version:
        """A task function(step, chunk, *inputs) for each chunk; all operands are read by default."""
        inputs, reads = handles.Inputs(), len(operands) if reads is None else reads
        arguments = tuple(
            inputs.argument(operand, updated=reads <= i, written=reads + updates <= i)
            for i, operand in enumerate(operands)
        )
        step = self._step(label, arguments, kernel, reads)
        version = self._version(label, handles.level_of(operands))
        for chunk in self._chunks:
            self._graph.add(version.key(chunk), function, step, chunk, needs=inputs.of(chunk))
        return version

    def _launch(self, kernel: Kernel, operands: Sequence[Operand | handles.LoadedBlocks]) -> None:
        """Add a kernel's tasks, and new versions for the operands that it updates and writes."""
        if len(operands) != len(kernel.arguments):
            raise TypeError(f"{kernel.name} has the arguments {', '.join(kernel.arguments)}, not {len(operands)}")
        label = label_of(kernel)
        reads, outputs = len(kernel.reads), operands[len(kernel.reads) :]
        version = self._map(
            label, tasks.run_kernel, operands, kernel=kernel.name, reads=reads, updates=len(kernel.updates)
        )
        for i, handle in enumerate(outputs):
            assert isinstance(handle, handles.GraphField | handles.GraphHalo | handles.GraphPartialSums)
            handle.version = version._replace(path=(i,) if len(outputs) > 1 else ())


def _as_it_came(_: Any, __: int, block: Any) -> Any:
    """A block of `GraphEngine.place`, or numbers of `GraphEngine.known`."""
    return block
