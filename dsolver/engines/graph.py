"""Operations as Dask tasks, each chunk's on the worker that owns it.

Handles are variables over immutable results of tasks (`graph_handles`); operations only add tasks (`graph_tasks`), and
`read`, `repeat` and `unload` submit them. What makes an iterative method bearable for a cluster:

- The tasks of several iterations travel as one graph, wrapped in a HighLevelGraph (Dask would tokenise a plain dict)
  whose annotations pin each key to its chunk's owner.
- The client keeps futures of the handles' current versions only; all else is forgotten as soon as it is used.
- Scheduler and workers remember a result's whole ancestry for as long as the result lives, and an iterate descends from
  all iterates before it. So from time to time current results are renamed in place to keys without a past, as if they
  had been scattered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final, TypeVar, final
from uuid import uuid4
from weakref import WeakSet

from dask._task_spec import Task, TaskRef
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from distributed import CancelledError, Client, Future
from distributed.client import _wait

from dsolver.engines.base import Engine, Field, Halo, Operand, Parts, PerChunk, Scalar
from dsolver.engines.graph_handles import (
    Blocks,
    GraphField,
    GraphHalo,
    GraphParts,
    GraphPerChunk,
    GraphScalar,
    Inputs,
    Key,
    Variable,
    Vector,
    Version,
    level_of,
    states,
)
from dsolver.engines.graph_tasks import (
    Path,
    Step,
    add_parts,
    adopt,
    build,
    exchange_halo,
    pack_halo,
    pick,
    run_kernel,
    unload_block,
)
from dsolver.errors import ClusterError, DsolverError, RankError
from dsolver.kernels import Backend
from dsolver.kernels.contract import FAN_IN, LOAD, Kernel
from dsolver.partition import Partition

# The dashboard groups tasks by the words before the first digit. It also ends a name at a later word of eight letters
# that begins with a to f, which it takes for a hash: hence `halo-exchanges`, and `coarsest` as a first word.
LABELS: Final = {
    "dot": "dot-partial",
    "load": "load-block",
    "pack": "halo-pack",
    "residual_halo": "boundary-residual",
    "restore": "boundary-restore",
    "spmv": "inner-spmv",
    "spmv_dot": "inner-spmv",
    "spmv_halo": "boundary-spmv",
    "spmv_halo_dot": "boundary-spmv",
    "subtract_halo": "boundary-postsmooth",
    "symgs": "coarsest-symgs",
}
"""What people read on the dashboard, by kernel; the others are called as they are, with hyphens."""

EXCHANGE: Final = "halo-exchanges"
REDUCE: Final = "dot-reduce"
PARTIAL: Final = LABELS["dot"]
KEPT: Final = "kept-values"

POLL: Final = 0.5
"""Seconds between two looks at whether the owners are still there."""
PATIENCE: Final = 30.0
"""Seconds for the cluster to answer what needs no computing."""
GRACE: Final = 5.0
"""Seconds for a graph that nobody wants any more to be read, so that it can be taken back."""
PAST: Final = 1000
"""Tasks after which the past of the current results is forgotten: about a second's worth of a scheduler's work."""

V = TypeVar("V", bound=Variable)
Node = tuple[int, Key, Path]
"""A node of a reduction tree: its first chunk, the key of a result, and what of it."""


@final
class _Pins:
    """The worker of each key, asked by the scheduler."""

    def __init__(self, owners: Sequence[str]) -> None:
        self._owners = tuple(owners)

    def __call__(self, key: Key) -> list[str]:
        return [self._owners[key[2]]]


@final
class _Results:
    """What the cluster holds and computes for an engine: submits, waits, forgets. Every wait ends.

    Args:
        client: a synchronous client.
        owners: the worker address of each chunk.
        name: distinguishes this engine's graphs.
    """

    def __init__(self, client: Client, owners: Sequence[str], name: str) -> None:
        self.owners = tuple(owners)
        self.futures: dict[Key, Future[Any]] = {}
        self.past = 0
        self._client = client
        self._layer = f"dsolver-{name}"
        self._newest: list[Future[Any]] = []
        self._retired: list[Future[Any]] = []
        self._closed = False

    def submit(self, tasks: Mapping[Key, Task], wanted: set[Key]) -> None:
        """Compute the wanted keys that are among the tasks; of what is held, keep only what is wanted."""
        if self._closed:
            raise ClusterError("this engine is closed")
        new = [key for key in wanted if key in tasks]
        if new:
            needed = _needed(tasks, new)
            layer = MaterializedLayer(needed, annotations={"workers": _Pins(self.owners)})
            graph = HighLevelGraph({self._layer: layer}, {self._layer: set()})
            self._newest = list(self._client.get(graph, new, sync=False))
            self.futures.update(zip(new, self._newest, strict=True))
            self.past += len(needed)
        self._retired += [self.futures.pop(key) for key in self.futures.keys() - wanted]

    def place(self, block: Any, chunk: int) -> Any:
        """Put a block on the owner of its chunk, where it stays until the graph that reads it runs. Returns its key."""
        if isinstance(block, Future):
            future: Future[Any] = Future(
                block.key, self._client
            )  # not the caller's own, which this engine must not release
        else:
            # A copy, because workers in this process would get the caller's own array and read it later.
            (future,) = self._client.scatter([block.copy()], workers=[self.owners[chunk]], hash=False)
        self._retired.append(future)
        return future.key

    def share(self, key: Key) -> Future[Any]:
        """A future of a result for somebody else, who keeps it when this engine lets go."""
        return Future(key, self._client)

    def gather(self, keys: Sequence[Key]) -> list[Any]:
        """Small results, waited for."""
        if not keys:
            return []
        self.wait(keys)
        values: list[Any] = self._ask(self._client.gather, [self.futures[k] for k in keys], asynchronous=True)
        return values

    def wait(self, keys: Iterable[Key]) -> None:
        """Until all of them are there.

        Raises:
            RankError: a task raised an exception.
            ClusterError: a worker that owns chunks has left; its tasks may run nowhere else and would wait for ever.
        """
        futures = [self.futures[key] for key in keys]
        while not self._arrived(futures):
            self._check_owners()
        self.tidy()

    def tidy(self) -> None:
        """Let go of what is no longer wanted, as soon as that is safe."""
        if self._understood():
            _release(self._retired)

    def rename(self, sources: Mapping[Key, tuple[Key, Path]]) -> None:
        """Hold parts of finished results under new keys, on their owners, with no past: as a scatter would.

        Args:
            sources: for each new key, the old one and what of its value.
        """
        by_owner: dict[str, list[tuple[Key, Path, Key]]] = {}
        for new, (old, path) in sources.items():
            by_owner.setdefault(self.owners[old[2]], []).append((old, path, new))
        found = self._ask(self._client.run, adopt, by_owner, workers=list(by_owner), asynchronous=True)
        where = {key: [owner] for owner, sizes in found.items() for key in sizes}
        sizes = {key: size for sizes in found.values() for key, size in sizes.items()}
        self._ask(self._scheduler.update_data, who_has=where, nbytes=sizes, client=self._client.id)
        for key in where:
            self.futures[key] = Future(key, self._client)
            self._client.futures[key].finish()

    def close(self) -> None:
        """Let go of everything."""
        self._closed = True
        deadline = monotonic() + GRACE
        with suppress(ClusterError, RuntimeError):  # of a cluster or a client that is closed already
            while not self._understood() and monotonic() < deadline:
                sleep(0.01)
        _release([*self.futures.values(), *self._retired])
        self.futures.clear()
        self._retired.clear()
        self._newest.clear()

    @property
    def _scheduler(self) -> Any:
        return self._client.scheduler

    def _understood(self) -> bool:
        """Whether the scheduler has read the newest graph, which the messages sent after it may overtake.

        What is released before that may be what the graph needs, or will make and never be asked to forget.
        """
        if not self._newest or any(future.done() for future in self._newest):
            return True
        first = self._newest[0].key
        return self._ask(self._scheduler.get_task_status, keys=[first])[first] is not None

    def _arrived(self, futures: list[Future[Any]]) -> bool:
        """Whether all are there, after a while."""

        async def look() -> bool:
            # Not the public `wait`: that one takes the default client, which need not be this one. And a TimeoutError
            # that is caught here does not keep its callers' frames, with the futures in them, until they are collected.
            try:
                await _wait(futures, timeout=POLL)
            except TimeoutError:
                return False
            return True

        try:
            arrived: bool = self._ask(look)
        except CancelledError as error:
            self._check_owners()
            self.close()
            raise ClusterError(f"the cluster has lost data of this solve ({error}): start it again") from error
        for future in futures:
            if future.status == "error":
                self._raise(future)
        return arrived

    def _raise(self, future: Future[Any]) -> None:
        """Tell a task's exception in a line."""
        self._check_owners()
        error = self._ask(future.exception, asynchronous=True)
        self.close()
        if isinstance(error, DsolverError):
            raise error
        where = next(iter(getattr(error, "__notes__", ())), "a task")
        raise RankError(f"{where} failed: {type(error).__name__}: {error}") from error

    def _check_owners(self) -> None:
        present = self._ask(self._scheduler.ncores)
        lost = [owner for owner in dict.fromkeys(self.owners) if owner not in present]
        if not lost:
            return
        chunks = [str(chunk) for chunk, owner in enumerate(self.owners) if owner in lost]
        self.close()
        raise ClusterError(
            f"{_list('worker', lost)} has left the cluster with {_list('chunk', chunks)}: start the solve again"
        )

    def _ask(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Ask the cluster something that it answers at once."""

        async def ask() -> Any:
            return await function(*arguments, **named)

        try:
            return self._client.sync(ask, callback_timeout=PATIENCE)
        except OSError as error:  # also a TimeoutError and a closed connection
            raise ClusterError(f"the cluster does not answer: {type(error).__name__}: {error}") from error


@final
class GraphEngine(Engine):
    """Runs every operation as Dask tasks.

    Args:
        partition: the chunks of the finest level.
        client: a synchronous client of the cluster.
        owners: the worker address of each chunk.
        kernels: the name of the kernels' backend.
        batch: how many steps `repeat` submits at a time.
        neighbors: the chunks whose values a chunk may read; by default all that touch it. To name only those that the
            stencil reaches saves messages.
    """

    def __init__(
        self,
        partition: Partition,
        client: Client,
        owners: Sequence[str],
        *,
        kernels: str,
        batch: int = 5,
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
        self._name = uuid4().hex[:8]
        self._serial = 0
        self._results = _Results(client, owners, self._name)
        self._variables: WeakSet[Variable] = WeakSet()
        self._tasks: dict[Key, Task] = {}

    # -- handles -----------------------------------------------------------------------------------------------------

    def per_chunk(self, make: Callable[[Backend, int], Any]) -> GraphPerChunk:
        label = "setup-levels" if type(make).__name__ == "BuildLevels" else "setup-chunk"
        version, step = self._version(label), Step(label, self._kernels, "", ())
        for chunk in self._chunks:
            self._tasks[version.key(chunk)] = Task(version.key(chunk), build, step, make, chunk)
        return GraphPerChunk(self._known(Variable(version)))

    def field(self, layout: PerChunk) -> GraphField:
        assert isinstance(layout, GraphPerChunk)
        return self._known(GraphField(layout))

    def halo(self, plan: PerChunk) -> GraphHalo:
        assert isinstance(plan, GraphPerChunk)
        return self._known(GraphHalo(plan))

    def parts(self) -> GraphParts:
        return self._known(GraphParts())

    def scalar(self, value: float) -> GraphScalar:
        return self._known(GraphScalar(value))

    # -- operations --------------------------------------------------------------------------------------------------

    def run(self, kernel: Kernel, *operands: Operand) -> None:
        self._launch(kernel, operands)

    def exchange(self, x: Field, halo: Halo) -> None:
        assert isinstance(halo, GraphHalo)
        plan = halo.shape
        packed = self._map(LABELS["pack"], pack_halo, (plan, x), kernel="pack")
        inputs = Inputs()
        step = Step(EXCHANGE, self._kernels, "", (inputs.argument(plan),))
        halo.version = self._version(EXCHANGE, plan.level)
        for chunk, senders in enumerate(self._neighbors):
            buffers = [packed.key(sender) for sender in senders]
            self._add(halo.version.key(chunk), exchange_halo, step, senders, chunk, needs=inputs.of(chunk) + buffers)

    def total(self, parts: Parts, out: Scalar) -> None:
        assert isinstance(parts, GraphParts)
        assert isinstance(out, GraphScalar)
        if parts.version is None:
            out.state = 0.0
            return
        version = parts.version
        nodes = self._reduced([(chunk, version.key(chunk), version.path) for chunk in self._chunks])
        while len(nodes) > 1:
            nodes = self._reduced(nodes)
        group, serial, place = nodes[0][1]
        out.state = Version(group, serial, place=place)

    def assign(self, out: Scalar, value: Scalar) -> None:
        assert isinstance(out, GraphScalar)
        assert isinstance(value, GraphScalar)
        out.state = value.state

    def read(self, *scalars: Scalar) -> tuple[float, ...]:
        (values,) = self._evaluate([states(scalars)])
        return values

    def repeat(self, step: Callable[[], None], times: int, watch: Sequence[Scalar]) -> list[tuple[float, ...]]:
        samples: list[tuple[float, ...]] = []
        while len(samples) < times:
            watched = []
            for _ in range(min(self._batch, times - len(samples))):
                step()
                watched.append(states(watch))
            samples += self._evaluate(watched)
        return samples

    # -- data --------------------------------------------------------------------------------------------------------

    def load(self, blocks: Mapping[int, Any], layout: PerChunk, out: Field) -> None:
        """out = blocks: arrays, or futures of this client. An array is copied to the owner now."""
        keys = {chunk: self._results.place(blocks[chunk], chunk) for chunk in self._chunks}
        self._launch(LOAD, (layout, Blocks(keys), out))

    def unload(self, x: Field, layout: PerChunk) -> dict[int, Future[Any]]:
        """Futures of blocks, each on the owner of its chunk. They outlive the engine."""
        version = self._map("unload-block", unload_block, (layout, x))
        self._submit([version])
        keys = {chunk: version.key(chunk) for chunk in self._chunks}
        # So that what it is made from may be given back, and to tell here what may have gone wrong.
        self._results.wait(keys.values())
        return {chunk: self._results.share(key) for chunk, key in keys.items()}

    def close(self) -> None:
        """Give back all that the cluster holds for this engine."""
        self._results.close()
        self._tasks.clear()

    # -- adding tasks --------------------------------------------------------------------------------------------------

    def _known(self, variable: V) -> V:
        self._variables.add(variable)
        return variable

    def _version(self, label: str, level: int | None = None) -> Version:
        self._serial += 1
        name = label if level is None else f"{label}-L{level}"
        return Version(f"{name}-{self._name}", self._serial)

    def _add(self, key: Key, function: Callable[..., Any], *arguments: Any, needs: Iterable[Any]) -> None:
        self._tasks[key] = Task(key, function, *arguments, *map(TaskRef, needs))

    def _map(
        self,
        label: str,
        function: Callable[..., Any],
        operands: Sequence[Operand | Blocks],
        *,
        kernel: str = "",
        reads: int | None = None,
        updates: int = 0,
    ) -> Version:
        """A task function(step, chunk, *inputs) for each chunk; all operands are read unless told otherwise."""
        inputs, reads = Inputs(), len(operands) if reads is None else reads
        arguments = tuple(
            inputs.argument(operand, updated=reads <= i, written=reads + updates <= i)
            for i, operand in enumerate(operands)
        )
        step = Step(label, self._kernels, kernel, arguments, reads)
        version = self._version(label, level_of(operands))
        for chunk in self._chunks:
            self._add(version.key(chunk), function, step, chunk, needs=inputs.of(chunk))
        return version

    def _launch(self, kernel: Kernel, operands: Sequence[Operand | Blocks]) -> None:
        """A kernel's tasks, and new versions for what it updates and writes."""
        if len(operands) != len(kernel.arguments):
            raise TypeError(f"{kernel.name} has the arguments {', '.join(kernel.arguments)}, not {len(operands)}")
        label = LABELS.get(kernel.name, kernel.name.replace("_", "-"))
        reads, outputs = len(kernel.reads), operands[len(kernel.reads) :]
        version = self._map(label, run_kernel, operands, kernel=kernel.name, reads=reads, updates=len(kernel.updates))
        for i, handle in enumerate(outputs):
            assert isinstance(handle, GraphField | GraphHalo | GraphParts)
            handle.version = version._replace(path=(i,) if len(outputs) > 1 else ())

    def _reduced(self, nodes: Sequence[Node]) -> list[Node]:
        """The next nodes of the tree."""
        version = self._version(REDUCE)
        reduced: list[Node] = []
        for i in range(0, len(nodes), FAN_IN):
            place = nodes[i][0]
            near = [self._near(node, place) for node in nodes[i : i + FAN_IN]]
            self._add(version.key(place), add_parts, tuple(path for _, path in near), needs=[key for key, _ in near])
            reduced.append((place, version.key(place), ()))
        return reduced

    def _near(self, node: Node, place: int) -> tuple[Key, Path]:
        """Where the owner of a place finds a part. From elsewhere a task sends the part, not the vectors beside it."""
        chunk, key, path = node
        owners = self._results.owners
        if not path or owners[chunk] == owners[place]:
            return key, path
        picked = f"{PARTIAL}-{self._name}", key[1], chunk
        self._add(picked, pick, path, needs=[key])
        return picked, ()

    # -- submitting ----------------------------------------------------------------------------------------------------

    def _submit(self, extra: Iterable[Version] = ()) -> None:
        """Send the tasks that the live handles' current versions and some others need."""
        live = {v.version for v in self._variables if v.version is not None}
        self._results.submit(self._tasks, {v.key(chunk) for v in live.union(extra) for chunk in self._chunks})
        self._tasks.clear()

    def _evaluate(self, rows: Sequence[Sequence[Version | float]]) -> list[tuple[float, ...]]:
        """The values of scalars, row by row."""
        versions = list(dict.fromkeys(s for row in rows for s in row if isinstance(s, Version)))
        self._submit(versions)
        known = dict(zip(versions, self._results.gather([v.key(0) for v in versions]), strict=True))
        if self._results.past > PAST:
            self._forget_past()
        return [tuple(known[s] if isinstance(s, Version) else s for s in row) for row in rows]

    def _forget_past(self) -> None:
        """Give current results keys that come from no task, and scalars their values.

        Otherwise the scheduler would keep every task since the start, to be able to compute a lost result again, and so
        would the workers. Nobody could run that history without the owner whose loss would make it necessary.
        """
        results = self._results
        results.wait(list(results.futures))
        scalars = [v for v in self._variables if isinstance(v, GraphScalar) and v.version is not None]
        values = results.gather([v.version.key(0) for v in scalars if v.version is not None])
        for scalar, value in zip(scalars, values, strict=True):
            scalar.state = value
        renamed = self._renamed()
        pairs = [(old, new, chunk) for old, new in renamed.items() for chunk in self._chunks]
        results.rename({new.key(chunk): (old.key(chunk), old.path) for old, new, chunk in pairs})
        for variable in self._variables:
            new = renamed.get(variable.version) if variable.version is not None else None
            if new is not None and all(new.key(chunk) in results.futures for chunk in self._chunks):
                variable.version = new
        self._submit()
        results.tidy()
        results.past = 0

    def _renamed(self) -> dict[Version, Version]:
        """A new version for each current one of a vector, or of parts, that comes from tasks."""
        kept = f"{KEPT}-{self._name}"
        handles = [v for v in self._variables if isinstance(v, Vector | GraphParts)]
        current = {v.version for v in handles if v.version is not None and v.version.group != kept}
        return {version: self._version(KEPT) for version in current}


def _needed(tasks: Mapping[Key, Task], keys: Iterable[Key]) -> dict[Key, Task]:
    """The tasks that results need, directly or not."""
    found: dict[Key, Task] = {}
    todo = list(keys)
    while todo:
        key = todo.pop()
        if key in tasks and key not in found:
            found[key] = tasks[key]
            todo += tasks[key].dependencies
    return found


def _release(futures: list[Future[Any]]) -> None:
    for future in futures:
        future.release()
    futures.clear()


def _list(word: str, items: Sequence[str]) -> str:
    return f"{word}{'s' if len(items) > 1 else ''} {', '.join(items)}"
