"""The client's side of a resident job: starts one rank a worker, all at once, and calls them together."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, final

from distributed import Future
from distributed.protocol import pickle

from dsolver.engines import ranks
from dsolver.engines.adoption import adopted
from dsolver.engines.base import Engine
from dsolver.engines.blocks import arrived
from dsolver.engines.contact import answer
from dsolver.engines.job import Job
from dsolver.engines.links import TOKEN_BYTES
from dsolver.engines.pulse import DEAF, Pulses, pulse
from dsolver.engines.rank import Failure, GangSpec
from dsolver.engines.ranks import Busy
from dsolver.engines.scattering import ANSWER, scattered
from dsolver.errors import ClusterError, DsolverError, InputError, RankError, WorkerLostError
from dsolver.monitor.spans import Span
from dsolver.partition import Partition

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger(__name__)

TIMEOUT: Final = 120.0
"""Seconds of silence after which a rank that others wait for counts as lost."""
STRIDE: Final = 0.5
"""Seconds of iterations that a call should be worth: long beside its milliseconds, short for who watches."""
GRACE: Final = 5.0
"""Seconds in which the cause of a failure should be known after its first effect, and in which ranks should end."""
LOOK: Final = 2.0
"""Seconds between looks whether every worker is still there."""
REACH: Final = 3.0
"""Seconds in which a worker has to answer this process directly; else blocks travel through the scheduler."""
TURN: Final = 3600.0
"""Seconds that a job waits for the GPUs of others."""
POLL: Final = 0.5
"""Seconds between looks whether a GPU is free."""


@final
class GangJob(Job):
    """A program with one rank on each owner of a chunk.

    A call costs milliseconds, whatever is called, so calls are made worth it: see `stride`, `load` and `unload`.

    As long as the job is open the client holds a key of the cluster, the lease. When the client goes away the scheduler
    forgets the key, and the ranks, which look for it from time to time, end.

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
        program: Callable[[Engine, Any], Any],
        spec: Any,
    ) -> None:
        self._client = client
        self._owners = tuple(owners)
        self._workers = tuple(dict.fromkeys(owners))
        self._open = True
        self._lease: Any = None
        self._direct: bool | None = None
        self._spans: list[Span] = []
        self._job = f"dsolver-{uuid.uuid4().hex[:12]}"
        packed = _packed("the program", (program, spec))
        gang = GangSpec(
            job=self._job,
            lease=f"lease-{self._job}",
            partition=partition,
            ranks=tuple(self._workers.index(owner) for owner in owners),
            kernels=kernels,
            token=secrets.token_bytes(TOKEN_BYTES),
            timeout=TIMEOUT,
        )
        with self._or_end():
            self._lease = self._scatter({gang.lease: self._job}, self._workers, direct=False)
            opened = self._opened(gang)
            self._all(ranks.connect_rank, [rank.address for rank in opened], packed)
            self.link = self._all(ranks.start_rank, opened[0].unique)[0]
        self._warn_of_nccl({rank.address[0] for rank in opened})
        logger.info("%s has %d ranks%s", self._job, gang.size, f" that use {self.link}" if self.link else "")

    @property
    def ended(self) -> bool:
        return not self._open

    def call(self, method: str, *args: Any) -> Any:
        packed = _packed_call(method, *args)
        with self._or_end():
            return self._told(self._all(ranks.call_rank, packed))

    def spans(self) -> list[Span]:
        spans, self._spans = self._spans, []
        return spans

    def load(self, name: str, blocks: Mapping[int, Any], *then: Any) -> Any:
        packed = _packed_call(*then)
        held = self._on_cluster(name, blocks)  # no rank knows of it yet, so what goes wrong here ends none
        with self._or_end():
            each: dict[int, tuple[Any, ...]] = {}
            for rank, worker in enumerate(self._workers):
                keys = {number: future.key for number, future in held.items() if self._owners[number] == worker}
                each[rank] = (self._job, name, keys, packed)
            return self._told(self._each(ranks.load_rank, each))

    def unload(self, name: str, *first: Any, host: bool = False) -> Mapping[int, Any]:
        packed = _packed_call(*first)
        with self._or_end():
            placed = self._all(ranks.unload_rank, packed, name, host)
            futures: Mapping[int, Any] = self._client.sync(self._adopt, placed)
            return futures

    def close(self) -> None:
        self._end(None)

    def _warn_of_nccl(self, hosts: set[str]) -> None:
        if self.link == "NCCL" and len(hosts) > 1 and self._workers[0].startswith(("tls://", "wss://")):
            logger.warning("the cluster uses TLS, but what NCCL carries between hosts is not encrypted")

    def _told(self, replies: Sequence[bytes | None]) -> Any:
        """What a call has returned; what it has measured is kept."""
        told = [pickle.loads(reply) for reply in replies if reply is not None]
        self._spans += [span for _, spans in told for span in spans]
        return told[0][0]

    # -- ranks, all at once --------------------------------------------------------------------------------------------

    def _opened(self, gang: GangSpec) -> list[ranks.Opened]:
        """Make every rank. Where one job at a time is possible they are made one after the other, in rank order.

        Rank order is the same for all jobs of a cluster, so two of them cannot wait for each other.
        """
        if not gang.exclusive:
            return self._each(ranks.open_rank, {rank: (gang, rank) for rank in range(gang.size)})
        opened: list[ranks.Opened] = []
        until, told = time.monotonic() + TURN, False
        while len(opened) < gang.size:
            rank = len(opened)
            reply = self._each(ranks.open_rank, {rank: (gang, rank)})[0]
            if not isinstance(reply, Busy):
                opened.append(reply)
                continue
            if time.monotonic() > until:
                raise RankError(f"worker {self._workers[rank]} was busy with {reply.job} for {TURN:g} s")
            if not told:
                logger.warning(
                    "waiting for the GPU of worker %s, which runs %s: jobs on GPUs run one after the other",
                    self._workers[rank],
                    reply.job,
                )
                told = True
            time.sleep(POLL)
        return opened

    def _all(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """function(job, *args) on every rank at once."""
        return self._each(function, dict.fromkeys(range(len(self._workers)), (self._job, *args)))

    def _each(self, function: Callable[..., Any], each: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        """function(*args) on the ranks given, at once; what they return, or their failure raised."""
        if not self._open:
            raise RankError("this job has ended: start a new one")
        replies: list[Any] = self._client.sync(self._gather, function, each)
        return replies

    async def _gather(self, function: Callable[..., Any], each: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        calls = [asyncio.ensure_future(self._one(rank, function, args)) for rank, args in each.items()]
        pulses = Pulses(self._pulse, [self._workers[rank] for rank in each], DEAF)
        try:
            loss = await self._finished(calls, pulses)
            replies = [call.result() for call in calls if call.done()]
        finally:
            pulses.stop()
            for call in calls:
                call.cancel()
        failures = [reply for reply in replies if isinstance(reply, Failure)]
        if failures or loss:
            raise _cause(failures, loss)
        return replies

    async def _pulse(self, worker: str) -> object:
        return await self._client.run(pulse, workers=[worker])

    async def _one(self, rank: int, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        worker = self._workers[rank]
        try:
            return (await self._client.run(function, *args, workers=[worker]))[worker]
        except Exception as error:  # of the connection; what fails in the function is returned
            made = WorkerLostError(f"rank {rank} on worker {worker} was lost or could not be called: {error!r}")
            made.__cause__ = error
            return Failure(error=made)

    async def _finished(self, calls: Sequence[asyncio.Future[Any]], pulses: Pulses) -> str | None:
        """Wait until every call is done or the cause of a failure is known. Returns how workers were lost, or None."""
        pending: set[asyncio.Future[Any]] = set(calls)
        loss: str | None = None
        until = float("inf")
        while pending and time.monotonic() < until:
            done, pending = await asyncio.wait(pending, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
            failures = [reply for call in done if isinstance(reply := call.result(), Failure)]
            if not all(failure.secondary for failure in failures):
                break
            loss = await self._loss(pulses) if not done else loss
            if failures or loss:
                until = min(until, time.monotonic() + GRACE)
            if loss:
                break
        return loss

    async def _loss(self, pulses: Pulses) -> str | None:
        """Which workers of this job are lost, and how; None where all are well."""
        present = await self._present()
        lost = [worker for worker in self._workers if worker not in present]
        if lost:
            return f"worker {', '.join(lost)} left the cluster while a rank of this job was on it"
        if silent := pulses.silent():
            return f"worker {', '.join(silent)} has not answered for {DEAF:g} s: it hangs, or its host is cut off"
        return None

    async def _present(self, seconds: float = math.inf) -> Mapping[str, int]:
        """The workers of this job that the scheduler knows."""
        scheduler: Any = self._client.scheduler
        with _answered():
            present: Mapping[str, int] = await answer(
                self._client, scheduler.ncores(workers=list(self._workers)), min(seconds, ANSWER)
            )
        return present

    # -- the end -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _or_end(self) -> Iterator[None]:
        """Whatever goes wrong inside, an interrupt by the user too, ends the job."""
        try:
            yield
        except BaseException as error:
            self._end(f"the client ends the job: {error!r}")
            raise

    def _end(self, reason: str | None) -> None:
        """Close every rank that can still be reached; the others miss their lease and end by themselves."""
        if not self._open:
            return
        self._open = False
        try:
            if self._client.status == "running":
                self._client.sync(self._close_all, reason)
        except (OSError, ClusterError) as error:
            logger.warning("the ranks of %s could not be told to end: %r", self._job, error)
        finally:
            self._lease = None

    async def _close_all(self, reason: str | None) -> None:
        there = [worker for worker in self._workers if worker in await self._present(GRACE)]
        closing = asyncio.ensure_future(
            self._client.run(ranks.close_rank, self._job, reason, workers=there, on_error="ignore")
        )
        _, late = await asyncio.wait([closing], timeout=GRACE)
        if late:
            closing.cancel()
            logger.warning("some ranks of %s are busy and will end as soon as they can", self._job)

    # -- data ----------------------------------------------------------------------------------------------------------

    def _on_cluster(self, name: str, blocks: Mapping[int, Any]) -> dict[int, Future[Any]]:
        """Blocks as futures: arrays are brought to their owner's memory, computations are waited for."""
        futures = arrived(self._client, name, blocks)
        by_owner: dict[str, dict[str, int]] = {}
        for number in blocks.keys() - futures.keys():
            by_owner.setdefault(self._owners[number], {})[f"dsolver-{name}-{uuid.uuid4().hex}"] = number
        for worker, numbers in by_owner.items():
            sent = self._scatter({key: blocks[number] for key, number in numbers.items()}, [worker])
            futures.update({number: sent[key] for key, number in numbers.items()})
        return futures

    def _scatter(self, data: dict[str, Any], workers: Sequence[str], direct: bool | None = None) -> Any:
        """Data into the memory of one of the workers, straight from this process where it can reach them."""
        if direct is None:
            if self._direct is None:
                self._direct = self._client.sync(self._reaches, workers[0])
            direct = self._direct
        with _answered():
            return self._client.sync(scattered, self._client, data, workers, direct)

    async def _reaches(self, worker: str) -> bool:
        if self._client.direct_to_workers is not None:
            return bool(self._client.direct_to_workers)
        try:
            await asyncio.wait_for(self._client.rpc(worker).identity(), REACH)
        except (OSError, TimeoutError):
            return False
        return True

    async def _adopt(self, placed: Sequence[Mapping[int, tuple[str, int]]]) -> dict[int, Future[Any]]:
        """Futures of what ranks have put into their workers' memory, as `Client.scatter` makes them."""
        where = {key: w for w, blocks in zip(self._workers, placed, strict=True) for key, _ in blocks.values()}
        sizes = {key: size for blocks in placed for key, size in blocks.values()}
        with _answered():
            futures = await answer(self._client, adopted(self._client, where, sizes), ANSWER)
        return {number: futures[key] for blocks in placed for number, (key, _) in blocks.items()}


@contextmanager
def _answered() -> Iterator[None]:
    """What connections raise, and the scheduler of a worker that it knows no more, as an error of this package."""
    try:
        yield
    except KeyError as error:
        raise WorkerLostError(f"worker {error.args[0]} left the cluster before it got its data") from error
    except (OSError, TimeoutError) as error:
        raise ClusterError(f"the cluster does not answer any more: {error!r}") from error


def _cause(failures: Sequence[Failure], loss: str | None) -> DsolverError:
    """The error to raise: a rank's own failure before those of ranks that only lost a peer."""
    first = next((failure for failure in failures if not failure.secondary), None)
    if first is not None:
        return first.error
    return WorkerLostError(loss) if loss else failures[0].error


def _packed_call(*call: Any) -> bytes | None:
    """A method's name and its arguments, pickled; None where nothing is called.

    Raises:
        InputError: that is not possible.
    """
    return _packed(f"the arguments of {call[0]}", call) if call else None


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
