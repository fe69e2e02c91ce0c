"""Results of the `graph` engine on the cluster: submits tasks, waits for them, releases them. Every wait ends."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from functools import partial
from time import monotonic, sleep
from typing import Any, Final

from dask._task_spec import Task
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from distributed import CancelledError, Client, Future
from distributed.client import _wait

from dsolver.engines.dask.blocks import register, scatter, wait_for_blocks
from dsolver.engines.dask.connection import ANSWER, begun, secede_if_task, wait_for
from dsolver.engines.dask.health import PING_TIMEOUT, Heartbeat
from dsolver.engines.graph.handles import Key
from dsolver.engines.graph.task_span import GRACE, SPAN, forget_groups
from dsolver.engines.graph.tasks import Path, adopt
from dsolver.engines.out_of_memory import is_out_of_memory, out_of_memory_error
from dsolver.errors import ClusterError, DsolverError, RankError, WorkerLostError

POLL: Final = 0.5  # seconds between two looks at whether the owners are still there


class Results:
    """Results that the cluster holds or computes for an engine. Every wait ends."""

    def __init__(self, client: Client, owners: Sequence[str], name: str) -> None:
        self.owners = tuple(owners)
        self.futures: dict[Key, Future[Any]] = {}
        self.task_count = 0
        self._client = client
        self._layer = f"dsolver-{name}"
        self._newest: list[Future[Any]] = []
        self._retired: list[Future[Any]] = []
        self.closed = False
        self._answers = True  # the scheduler does
        self._heartbeat = Heartbeat(client, tuple(dict.fromkeys(owners)), PING_TIMEOUT)

    def submit(self, tasks: Mapping[Key, Task], wanted: set[Key]) -> None:
        """Compute the wanted keys that are among the tasks, and retire the results that are not wanted."""
        if self.closed:
            raise ClusterError("this engine is closed")
        self._check_client()
        new = [key for key in wanted if key in tasks]
        if new:
            needed = _needed(tasks, new)
            layer = MaterializedLayer(needed, annotations={"workers": partial(_pinned, self.owners), "span": SPAN})
            graph = HighLevelGraph({self._layer: layer}, {self._layer: set()})
            self._newest = list(self._client.get(graph, new, sync=False))
            self.futures.update(zip(new, self._newest, strict=True))
            self.task_count += len(needed)
        self._retired += [self.futures.pop(key) for key in self.futures.keys() - wanted]

    def wait_for_blocks(self, blocks: Mapping[int, Any]) -> None:
        """Wait for a user's blocks; see `dsolver.engines.dask.blocks`."""
        wait_for_blocks(self._client, "what is loaded", blocks)

    def place(self, block: Any, chunk: int) -> Any:
        """The key of a block that is put on the owner of its chunk, until the graph that reads it has run."""
        if isinstance(block, Future):
            # A future of our own, since the caller's is not this engine's to release.
            future: Future[Any] = Future(block.key, self._client)
        else:
            # A copy, because workers in this process would get the caller's own array and read it later.
            try:
                (future,) = self._client.sync(scatter, self._client, [block.copy()], [self.owners[chunk]])
            except (KeyError, OSError) as error:  # the scheduler's, of a worker that it has just forgotten
                self._check_owners()
                raise ClusterError(f"the cluster takes no data: {type(error).__name__}: {error}") from error
        self._retired.append(future)
        return future.key

    def share(self, key: Key) -> Future[Any]:
        """A future of a result that outlives this engine."""
        return Future(key, self._client)

    def gather(self, keys: Sequence[Key]) -> list[Any]:
        """The values of small results. Waits for them."""
        if not keys:
            return []
        self.wait(keys)
        return self._ask_workers(self._client.gather, [self.futures[k] for k in keys], asynchronous=True)

    def wait(self, keys: Iterable[Key]) -> None:
        """Wait until all of them are there.

        RankError: a task raised an exception. WorkerLostError: a worker that owns chunks has left or hangs; its tasks
        may run nowhere else and would wait for ever.
        """
        futures = [self.futures[key] for key in keys]
        secede_if_task()
        while not self._arrived(futures):
            self._check_owners()
        self.release_unwanted()

    def release_unwanted(self) -> None:
        """Release the results that are no longer wanted, as soon as that is safe."""
        if self._graph_received():
            _release(self._retired)

    def rename(self, sources: Mapping[Key, tuple[Key, Path]]) -> None:
        """Hold parts of results, (key, path) by new key, on their owners, with no past: as a scatter would."""
        by_owner: dict[str, list[tuple[Key, Path, Key]]] = {}
        for new, (old, path) in sources.items():
            by_owner.setdefault(self.owners[old[2]], []).append((old, path, new))
        found = self._ask_workers(self._client.run, adopt, by_owner, workers=list(by_owner), asynchronous=True)
        where = {key: owner for owner, sizes in found.items() for key in sizes}
        sizes = {key: size for sizes in found.values() for key, size in sizes.items()}
        self.futures.update(self._ask(register, self._client, where, sizes))

    def seen(self) -> int:
        """Number of tasks that the scheduler has recorded so far. It begins to record, if it did not."""
        return int(self._ask(self._scheduler.get_task_stream_index))

    def record(self, seen: int) -> list[Mapping[str, Any]]:
        """The scheduler's record since then: the key, worker, thread and times of each task."""
        return self._ask(self._scheduler.get_task_stream, start_index=seen)

    def close(self) -> None:
        """Release everything."""
        self.closed = True
        deadline = monotonic() + GRACE
        with suppress(ClusterError, RuntimeError):  # of a cluster or a client that is closed already
            while self._answers and not self._graph_received() and monotonic() < deadline:
                sleep(0.01)
        with suppress(ClusterError, RuntimeError):
            self._ask(self._stop_pings)
        if self._answers:
            with suppress(ClusterError, RuntimeError, ValueError):  # ValueError: this scheduler runs no functions
                self._ask(forget_groups, self._client)
        _release([*self.futures.values(), *self._retired])
        self.futures.clear()
        self._retired.clear()
        self._newest.clear()

    @property
    def _scheduler(self) -> Any:
        self._check_client()
        return self._client.scheduler

    def _graph_received(self) -> bool:
        """Whether the scheduler has read the newest graph, which the messages sent after it may overtake.

        What is released before that may be what the graph needs, or will make and never be asked to forget.
        """
        if not self._newest or any(future.done() for future in self._newest):
            return True
        first = self._newest[0].key
        return self._ask(self._scheduler.get_task_status, keys=[first])[first] is not None

    def _arrived(self, futures: list[Future[Any]]) -> bool:
        """Whether all are there, waited for at most `POLL` seconds."""

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
            why = ", ".join(sorted({str(group.reason) for group in getattr(error, "error_groups", ())})) or error
            raise ClusterError(f"the cluster has lost data of this solve ({why}): start it again") from error
        for future in futures:
            if future.status == "error":
                self._raise(future)
        return arrived

    def _raise(self, future: Future[Any]) -> None:
        """Raise the exception of a task, with the task's name."""
        self._check_owners()
        error = self._ask(future.exception, asynchronous=True)
        self.close()
        if isinstance(error, DsolverError):
            raise error
        where = next(iter(getattr(error, "__notes__", ())), "a task")
        if is_out_of_memory(error):
            raise out_of_memory_error(error, f"{where}: ") from None
        raise RankError(f"{where} failed: {type(error).__name__}: {error}") from error

    def _check_owners(self) -> None:
        present = self._ask(self._scheduler.ncores)
        lost = [owner for owner in dict.fromkeys(self.owners) if owner not in present]
        how = "has left the cluster"
        if not lost:
            lost, how = (
                self._ask(self._silent),
                f"has not answered for {PING_TIMEOUT:g} s (it hangs, or its host is cut off)",
            )
        if not lost:
            return
        chunks = [str(chunk) for chunk, owner in enumerate(self.owners) if owner in lost]
        self.close()
        raise WorkerLostError(f"{_list('worker', lost)} {how} with {_list('chunk', chunks)}: start the solve again")

    def _check_client(self) -> None:
        """Refuse to ask with a client that was closed meanwhile, as by a callback."""
        if self._client.scheduler is None or self._client.status in ("closing", "closed"):
            raise ClusterError("the client was closed while it was in use: open a new one")

    async def _silent(self) -> list[str]:
        return self._heartbeat.silent()

    async def _stop_pings(self) -> None:
        self._heartbeat.stop()

    def _ask_workers(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """The answer of owners to a request that takes no computing. One that hangs meanwhile is lost."""
        self._check_client()
        asked = begun(self._client, function(*arguments, **named))
        try:
            while not wait([asked], POLL).done:
                self._check_owners()
            return asked.result()
        except OSError as error:
            self._check_owners()
            raise ClusterError(f"the cluster does not answer: {type(error).__name__}: {error}") from error
        finally:
            asked.cancel()

    def _ask(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """The cluster's answer to a request that takes no computing."""

        async def ask() -> Any:
            return await wait_for(self._client, function(*arguments, **named), ANSWER)

        self._check_client()
        try:
            return self._client.sync(ask)
        except OSError as error:  # also a TimeoutError and a closed connection
            self._answers = self._answers and not isinstance(error, TimeoutError)
            raise ClusterError(f"the cluster does not answer: {type(error).__name__}: {error}") from error


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


def _pinned(owners: Sequence[str], key: Key) -> list[str]:
    """The worker of a key, as an annotation that the scheduler evaluates."""
    return [owners[key[2]]]


def _release(futures: list[Future[Any]]) -> None:
    for future in futures:
        future.release()
    futures.clear()


def _list(word: str, items: Sequence[str]) -> str:
    return f"{word}{'s' if len(items) > 1 else ''} {', '.join(items)}"
