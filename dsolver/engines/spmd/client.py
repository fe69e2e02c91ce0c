"""The client's side of a resident program: starts one rank a worker, all at once, and calls them together."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, final

from distributed import Future
from distributed.protocol import pickle

from dsolver.engines.base import Engine
from dsolver.engines.dask.blocks import register, scatter, scatter_to_owners, wait_for_blocks
from dsolver.engines.dask.connection import ANSWER, unanswered, wait_for
from dsolver.engines.dask.health import PING_TIMEOUT, Heartbeat, ping
from dsolver.engines.dask.lending import Loans, reach_of
from dsolver.engines.redistribution import BlocksInBoxes, OtherCut, Redistributed
from dsolver.engines.running_program import Blocks, P_co, PartsOfArray, Q, R, RunningProgram, S
from dsolver.engines.spmd import worker as ranks
from dsolver.engines.spmd.rank import Failure, RankSpec
from dsolver.engines.spmd.relay import FAN, Call, Replies, branches, failures_of, lost, packed, relay, straight
from dsolver.engines.spmd.worker import Busy
from dsolver.engines.transport.handshake import TOKEN_BYTES
from dsolver.errors import ClusterError, DsolverError, InputError, RankError, WorkerLostError
from dsolver.grid.partition import Partition
from dsolver.kernels.lent_arrays import LendingError, LentArray
from dsolver.monitor.spans import Span

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger(__name__)

MOVED_BY: Final = ("cuda",)
"""Kernels between whose devices blocks of another cut are moved: between processes of a host that costs more."""
TIMEOUT: Final = 120.0
"""Seconds of silence after which a rank that others wait for counts as lost."""
STRIDE: Final = 0.5
"""Seconds of iterations that a call should be worth: long beside its milliseconds, short for people who watch."""
GRACE: Final = 5.0
"""Seconds in which the cause of a failure should be known after its first effect, and in which ranks should end."""
LOOK: Final = 2.0
"""Seconds between looks whether every worker is still there."""
DIRECT_TIMEOUT: Final = 3.0
"""Seconds in which workers have to answer this process directly; else calls and blocks travel by the scheduler."""
GPU_TIMEOUT: Final = 3600.0
"""Seconds that a program waits for the GPUs of others."""
POLL: Final = 0.5
"""Seconds between looks whether a GPU is free."""
ITEM: Final = 8
"""Bytes of an item of x."""
HEAD_START: Final = 0.001
"""Seconds that calls are ahead of what the scheduler is told of their results: ranks wait for the calls."""
Held = Future[Any] | LentArray
"""A block that ranks find in a worker's memory, or read in this process."""
OnRanks = dict[int, tuple[str, Held]]
"""Blocks by number, each with the worker whose rank takes it."""
Gather = Callable[[bytes, Sequence[Call]], Awaitable[Any]]
"""Caller of ranks, in the event loop: their replies, or something made of them."""


@final
class SpmdProgram(RunningProgram[P_co]):
    """A program with one rank on each owner of a chunk.

    A call costs milliseconds, whatever is called, so calls are made worth it: see `stride`, `load` and `unload`.

    As long as the program is open the client holds a key of the cluster, the lease. When the client goes away the
    scheduler forgets the key, and the ranks, which look for it from time to time, end.

    Args:
        client: the cluster.
        partition: the chunks.
        owners: the worker address of each chunk.
        kernels: the backend's name.
        program: made on every rank as program(engine, spec).
        spec: what the program needs; picklable.

    Raises:
        InputError: the program cannot be sent to the workers.
        RankError: a rank could not be started; none is left running.
    """

    stride = STRIDE

    def __init__(
        self,
        client: Client,
        partition: Partition,
        owners: Sequence[str],
        kernels: str,
        program: Callable[[Engine, S], P_co],
        spec: S,
    ) -> None:
        self._client = client
        self._partition = partition
        self._owners = tuple(owners)
        self._moves = kernels in MOVED_BY
        self._workers = tuple(dict.fromkeys(owners))
        self._open = True
        self._lease: Any = None
        self._telling: asyncio.Future[Any] | None = None  # held, as the loop does not hold it
        loop: Any = client.loop
        self._reached = asyncio.run_coroutine_threadsafe(self._answer_directly(), loop.asyncio_loop)
        self._reach = asyncio.run_coroutine_threadsafe(reach_of(client, self._workers), loop.asyncio_loop)
        self._spans: list[Span] = []
        self._name = f"dsolver-{uuid.uuid4().hex[:12]}"
        made = _packed("the program", (program, spec))
        number_of = {worker: rank for rank, worker in enumerate(self._workers)}
        shared = RankSpec(
            program=self._name,
            lease=f"lease-{self._name}",
            partition=partition,
            ranks=tuple(number_of[owner] for owner in owners),
            kernels=kernels,
            token=secrets.token_bytes(TOKEN_BYTES),
            timeout=TIMEOUT,
        )
        with self._or_end():
            with _answered():
                self._lease = client.sync(scatter, client, {shared.lease: self._name}, self._workers, False)
            opened = self._opened(shared)
            addresses = [rank.address for rank in opened]
            if shared.meshed:
                left = {rank.left for rank in opened}
                self.link = self._all(ranks.join_rank, addresses, made, len(left) == 1 and "" not in left)[0]
            else:
                self._all(ranks.connect_rank, addresses, made)
                self.link = self._all(ranks.start_rank, opened[0].unique)[0]
        self._warn_of_nccl({rank.address[0] for rank in opened})
        logger.info("%s has %d ranks%s", self._name, shared.size, f" that use {self.link}" if self.link else "")

    @property
    def ended(self) -> bool:
        return not self._open

    def call(self, command: Callable[Concatenate[P_co, Q], R], *args: Q.args, **named: Q.kwargs) -> R:
        call = _packed_call(command, args, named)
        with self._or_end():
            result: R = self._result(self._all(ranks.call_rank, call))
            return result

    def spans(self) -> list[Span]:
        spans, self._spans = self._spans, []
        return spans

    def load(
        self,
        name: str,
        blocks: Blocks,
        command: Callable[Concatenate[P_co, Blocks, Q], R],
        *args: Q.args,
        **named: Q.kwargs,
    ) -> R:
        loans = Loans()
        cut, held = self._taken(name, blocks, loans)  # no rank knows of it yet, so what goes wrong here ends none
        call = _packed_call(command, args, named, cut)
        with self._or_end(), loans.open():
            result: R = self._result(self._with_blocks(ranks.load_rank, held, name, call))
            return result

    def exchange(
        self,
        name: str,
        blocks: Blocks,
        here: bool,
        command: Callable[Concatenate[P_co, Blocks, Q], tuple[R, Blocks | None]],
        *args: Q.args,
        **named: Q.kwargs,
    ) -> tuple[R, Blocks | None]:
        loans = Loans()
        cut, held = self._taken(name, blocks, loans)
        call = _packed_call(command, args, named, cut)
        lend = here and self._all_lend
        here = here and (lend or len(self._workers) <= FAN)  # of more ranks they would travel by way of others
        made_as = None if here else _new_name()
        with self._or_end(), loans.open():
            replies, made = self._with_blocks(
                ranks.exchange_rank, held, name, call, made_as, lend, gather=partial(self._exchanged, made_as)
            )
            result: R = self._result([reply for reply, _ in replies])
            return result, made

    def unload(self, command: Callable[Concatenate[P_co, Q], Blocks], *args: Q.args, **named: Q.kwargs) -> Blocks:
        call, name = _packed_call(command, args, named), _new_name()
        with self._or_end():
            sizes = {number: size for made in self._all(ranks.unload_rank, call, name) for number, size in made.items()}
            futures: Blocks = self._client.sync(self._told, name, sizes)
            return futures

    def fetch(self, command: Callable[Concatenate[P_co, Q], Blocks], *args: Q.args, **named: Q.kwargs) -> Blocks:
        if not self._all_lend:
            return self.unload(command, *args, **named)
        call = _packed_call(command, args, named)
        with self._or_end():
            return self._brought(self._all(ranks.unload_rank, call, None))

    def close(self) -> None:
        self._end(None)

    @property
    def _all_lend(self) -> bool:
        """Whether this process reads arrays of all workers where they lie."""
        return self._reach.result().lenders >= set(self._workers)

    def _brought(self, replies: Iterable[Mapping[int, Any]]) -> Blocks:
        """Blocks of ranks in this process: those that they lend are read.

        Raises:
            WorkerLostError: a worker has gone meanwhile.
        """
        found = {number: block for blocks in replies for number, block in blocks.items()}
        made = PartsOfArray(self._partition, next(iter(found.values())).dtype)
        for number, block in found.items():
            if isinstance(block, LentArray):
                try:
                    block.fill(made[number])
                except LendingError as error:
                    raise WorkerLostError(f"worker {self._owners[number]} was lost with its part of x") from error
            else:
                made[number][...] = block
        return made

    def _warn_of_nccl(self, hosts: set[str]) -> None:
        if self.link == "NCCL" and len(hosts) > 1 and self._workers[0].startswith(("tls://", "wss://")):
            logger.warning("the cluster uses TLS, but what NCCL carries between hosts is not encrypted")

    def _result(self, replies: Sequence[bytes | None]) -> Any:
        """Result of a call; the spans that it has measured are kept."""
        found = [pickle.loads(reply) for reply in replies if reply is not None]
        self._spans += [span for _, spans in found for span in spans]
        return found[0][0]

    # -- ranks, all at once --------------------------------------------------------------------------------------------

    def _opened(self, shared: RankSpec) -> list[ranks.Opened]:
        """Make every rank, all at once, or one after the other where some workers are busy with another program.

        Those that were made are given back first: no rank waits for a GPU while holding one that comes later.
        Rank order is the same for all programs of a cluster, so two of them cannot wait for each other.
        """
        replies: list[ranks.Opened] = self._each(
            ranks.open_rank, {rank: (rank,) for rank in range(shared.size)}, shared
        )
        if not any(isinstance(reply, Busy) for reply in replies):
            return replies
        self._client.sync(self._close_all, None)
        opened: list[ranks.Opened] = []
        until, warned = time.monotonic() + GPU_TIMEOUT, False
        while len(opened) < shared.size:
            rank = len(opened)
            reply = self._each(ranks.open_rank, {rank: (rank,)}, shared)[0]
            if not isinstance(reply, Busy):
                opened.append(reply)
                continue
            if time.monotonic() > until:
                raise RankError(f"worker {self._workers[rank]} was busy with {reply.program} for {GPU_TIMEOUT:g} s")
            if not warned:
                logger.warning(
                    "waiting for the GPU of worker %s, which runs %s: programs on GPUs run one after the other",
                    self._workers[rank],
                    reply.program,
                )
                warned = True
            time.sleep(POLL)
        return opened

    def _all(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """function(name of the program, *args) on every rank at once."""
        replies: list[Any] = self._each(function, dict.fromkeys(range(len(self._workers)), ()), self._name, *args)
        return replies

    def _with_blocks(
        self, function: Callable[..., Any], held: OnRanks, *args: Any, gather: Gather | None = None
    ) -> Any:
        """function(name of the program, *args, its blocks) on every rank at once."""
        keys: dict[str, dict[int, Any]] = {worker: {} for worker in self._workers}
        for number, (worker, block) in held.items():
            keys[worker][number] = block if isinstance(block, LentArray) else block.key
        each = {rank: (keys[worker],) for rank, worker in enumerate(self._workers)}
        return self._each(function, each, self._name, *args, gather=gather)

    def _each(
        self,
        function: Callable[..., Any],
        each: Mapping[int, tuple[Any, ...]],
        *shared: Any,
        gather: Gather | None = None,
    ) -> Any:
        """function(*shared, *its own) on the ranks given, at once; what they return, or their failure raised.

        gather: makes something else of the calls than `_gather`.
        """
        if not self._open:
            raise RankError("this program has ended: start a new one")
        calls = [Call(rank, self._workers[rank], own) for rank, own in each.items()]
        return self._client.sync(gather or self._gather, packed(function, shared), calls)

    async def _gather(self, what: bytes, calls: Sequence[Call]) -> list[Any]:
        asked = [asyncio.ensure_future(self._branch(what, part)) for part in branches(calls)]
        heartbeat = Heartbeat(self._ping, [call.worker for call in calls], PING_TIMEOUT)
        replies: Replies = {}
        try:
            loss = await self._finished(asked, heartbeat, replies)
        finally:
            heartbeat.stop()
            for part in asked:
                part.cancel()
        _, failed = failures_of(replies)
        if failed or loss:
            raise _cause(failed, loss)
        return [replies[call.rank] for call in calls]

    async def _exchanged(self, name: str | None, what: bytes, calls: Sequence[Call]) -> tuple[list[Any], Blocks | None]:
        """Replies of ranks to `exchange_rank`, and the blocks that they have made: futures, or arrays without a name.

        The scheduler is told of the blocks while ranks make them: none is asked for before its future is returned.
        """
        if name is None:
            replies = await self._gather(what, calls)
            made = [blocks for _, blocks in replies if blocks is not None]
            return replies, await asyncio.to_thread(self._brought, made) if made else None
        sizes = {number: ITEM * self._partition[number].box.points for number in range(len(self._owners))}
        self._telling = telling = asyncio.ensure_future(self._told(name, sizes, HEAD_START))
        telling.add_done_callback(self._let_go)
        replies = await self._gather(what, calls)
        futures = await telling
        return replies, futures if any(placed for _, placed in replies) else None

    async def _ping(self, worker: str) -> object:
        return await self._client.run(ping, workers=[worker])

    async def _branch(self, what: bytes, calls: Sequence[Call]) -> Replies:
        worker = calls[0].worker
        if self._reached.done() and self._reached.result():
            return await straight(self._client, what, calls)
        try:
            replies: Replies = (await self._client.run(relay, what, calls, workers=[worker]))[worker]
        except Exception as error:  # of the connection; what fails in the function is returned
            return lost(calls[0], error)
        return replies

    async def _finished(
        self, asked: Sequence[asyncio.Future[Replies]], heartbeat: Heartbeat, replies: Replies
    ) -> str | None:
        """Wait until all replies are there or the cause of a failure is known. Returns how workers were lost, or None.

        Args:
            asked: the parts of a call.
            heartbeat: of its workers.
            replies: where those that come are put.
        """
        pending: set[asyncio.Future[Replies]] = set(asked)
        loss: str | None = None
        until = float("inf")
        while pending and time.monotonic() < until:
            done, pending = await asyncio.wait(pending, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                replies.update(part.result())
            cause, failed = failures_of(replies)
            if cause:
                break
            loss = await self._loss(heartbeat) if not done else loss
            if failed or loss:
                until = min(until, time.monotonic() + GRACE)
            if loss:
                break
        cause, failed = failures_of(replies)
        if failed and not cause and loss is None:  # the scheduler may know by now whom the others have lost
            loss = await self._loss(heartbeat)
        return loss

    async def _loss(self, heartbeat: Heartbeat) -> str | None:
        """The loss of workers of this program, in words; None where all are there."""
        present = await self._present()
        lost = [worker for worker in self._workers if worker not in present]
        if lost:
            return f"worker {', '.join(lost)} left the cluster while a rank of this program was on it"
        if silent := heartbeat.silent():
            named = f"worker {', '.join(silent)}"
            return f"{named} has not answered for {PING_TIMEOUT:g} s: it hangs, or its host is cut off"
        return None

    async def _present(self, seconds: float = math.inf) -> Mapping[str, int]:
        """The workers of this program that the scheduler knows."""
        scheduler: Any = self._client.scheduler
        with _answered():
            present: Mapping[str, int] = await wait_for(
                self._client, scheduler.ncores(workers=list(self._workers)), min(seconds, ANSWER)
            )
        return present

    # -- the end -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _or_end(self) -> Iterator[None]:
        """Context in which any error, an interrupt by the user too, ends the program."""
        try:
            yield
        except BaseException as error:
            self._end(f"the client ends the program: {error!r}", ask=not unanswered(error))
            raise

    def _end(self, reason: str | None, *, ask: bool = True) -> None:
        """Close every rank that can still be reached; the others miss their lease and end by themselves.

        A failure to reach them is a warning where nothing else went wrong. With a reason an error is on its way to the
        user, which says more: a scheduler that died can tell no rank. One that does not answer is not asked again.
        """
        if not self._open:
            return
        self._open = False
        try:
            if ask and self._client.status == "running":
                self._client.sync(self._close_all, reason)
        except (OSError, ClusterError) as error:
            level = logging.WARNING if reason is None else logging.INFO
            logger.log(level, "the ranks of %s could not be told to end: %r", self._name, error)
        finally:
            self._lease = None

    async def _close_all(self, reason: str | None) -> None:
        present = await self._present(GRACE)
        there = [worker for worker in self._workers if worker in present]
        closing = asyncio.ensure_future(
            self._client.run(ranks.close_rank, self._name, reason, workers=there, on_error="ignore")
        )
        _, late = await asyncio.wait([closing], timeout=GRACE)
        if late:
            closing.cancel()
            logger.warning("some ranks of %s are busy and will end as soon as they can", self._name)

    # -- data ----------------------------------------------------------------------------------------------------------

    def _taken(self, name: str, blocks: Mapping[int, Any], loans: Loans) -> tuple[OtherCut | None, OnRanks]:
        """Blocks as ranks take them: of their chunks, or of another cut, as they lie in memory, and which one it is."""
        if not (isinstance(blocks, BlocksInBoxes) and self._moves and len(self._workers) > 1):
            return None, self._on_cluster(name, blocks, loans, self._owners)
        arrays = dict(enumerate(blocks.arrays))
        futures = wait_for_blocks(self._client, name, arrays)
        with _answered():
            there = self._client.sync(self._who_has, [future.key for future in futures.values()]) if futures else {}
        near = {number: there.get(future.key, ()) for number, future in futures.items()}
        # A block is taken where it is, and where it is on no rank by any.
        takers = [
            next((rank for rank, worker in enumerate(self._workers) if worker in near.get(number, ())), number)
            for number in arrays
        ]
        workers = [self._workers[taker % len(self._workers)] for taker in takers]
        cut = OtherCut(boxes=blocks.boxes, holders=tuple(self._owners.index(worker) for worker in workers))
        return cut, self._on_cluster(name, arrays, loans, workers)

    async def _who_has(self, keys: Sequence[Any]) -> Mapping[Any, Sequence[str]]:
        """The workers that have each of these keys."""
        scheduler: Any = self._client.scheduler
        found: Mapping[Any, Sequence[str]] = await wait_for(self._client, scheduler.who_has(keys=list(keys)), ANSWER)
        return found

    def _on_cluster(self, name: str, blocks: Mapping[int, Any], loans: Loans, takers: Sequence[str]) -> OnRanks:
        """Blocks as ranks take them: computations are waited for, arrays lent, or brought to their taker's memory."""
        held: dict[int, Held] = {**wait_for_blocks(self._client, name, blocks)}
        readers = self._reach.result().readers if held.keys() < blocks.keys() else ()
        for number in blocks.keys() - held.keys():
            if takers[number] in readers and (array := loans.of(blocks[number])) is not None:
                held[number] = array
        keys = {number: f"dsolver-{name}-{uuid.uuid4().hex}" for number in blocks.keys() - held.keys()}
        by_taker: dict[str, dict[str, Any]] = {}
        for number, key in keys.items():
            by_taker.setdefault(takers[number], {})[key] = blocks[number]
        if by_taker:
            with _answered():
                sent = self._client.sync(scatter_to_owners, self._client, by_taker, self._reached.result())
            held |= {number: sent[key] for number, key in keys.items()}
        return {number: (takers[number], block) for number, block in held.items()}

    async def _answer_directly(self) -> bool:
        """Whether this process reaches all workers that it calls; they are asked beside the start of ranks."""
        if self._client.direct_to_workers is not None:
            return bool(self._client.direct_to_workers)
        called = [part[0] for part in branches(self._workers)]
        try:
            asked = asyncio.gather(*(self._client.rpc(worker).identity() for worker in called))
            await asyncio.wait_for(asked, DIRECT_TIMEOUT)
        except Exception:  # whatever is in the way
            return False
        return True

    async def _told(self, name: str, sizes: Mapping[int, int], wait: float = 0.0) -> dict[int, Future[Any]]:
        """Futures of blocks of that name in their owners' memory, of which the scheduler is told after some seconds.

        sizes: bytes of each, by chunk number.
        """
        await asyncio.sleep(wait)
        keys = {number: ranks.key_of(name, number) for number in sizes}
        where = {key: self._owners[number] for number, key in keys.items()}
        with _answered():
            made = register(self._client, where, {keys[number]: size for number, size in sizes.items()})
            futures = await wait_for(self._client, made, ANSWER)
        return {number: futures[key] for number, key in keys.items()}

    def _let_go(self, told: asyncio.Future[Any]) -> None:
        """Forget futures that only this task has; where ranks fail, their error is raised, and not that of this one."""
        self._telling = None
        if not told.cancelled():
            told.exception()


@contextmanager
def _answered() -> Iterator[None]:
    """Errors of connections, and of the scheduler about a worker that it knows no more, as errors of this package."""
    try:
        yield
    except KeyError as error:
        raise WorkerLostError(f"worker {error.args[0]} left the cluster before it got its data") from error
    except (OSError, TimeoutError) as error:
        raise ClusterError(f"the cluster does not answer any more: {error!r}") from error


def _cause(failures: Sequence[Failure], loss: str | None) -> DsolverError:
    """The error to raise: a rank's own failure before those of ranks that only lost a peer.

    Where no worker is lost either, a connection between two of them was.
    """
    first = next((failure for failure in failures if not failure.secondary), None)
    return first.error if first is not None else WorkerLostError(loss or str(failures[0].error))


def _packed_call(
    command: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any], cut: OtherCut | None = None
) -> bytes:
    """A command and its arguments, pickled; cut: of the blocks that it comes with, where they are not the chunks'.

    Raises:
        InputError: that is not possible.
    """
    what = command if cut is None else Redistributed(command=command, cut=cut)
    return _packed(f"the arguments of {command.__name__}", (what, args, named))


def _packed(what: str, value: Any) -> bytes:
    """The value pickled, once for all ranks.

    Raises:
        InputError: that is not possible.
    """
    try:
        packed: bytes = pickle.dumps(value)
    except Exception as error:  # each type fails in its own way
        raise InputError(f"{what} cannot be sent to the workers: {error!r}") from error
    return packed


def _new_name() -> str:
    """Name of blocks that ranks are to make, from which their keys follow."""
    return f"dsolver-block-{uuid.uuid4().hex}"
