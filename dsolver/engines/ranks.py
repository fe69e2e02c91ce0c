"""The worker's side of a resident job: one rank, its thread, its program.

The functions here run on workers through `Client.run`, in the worker's event loop, and hand the work to the rank's own
thread. So a rank starts at once whatever tasks the worker is busy with: no job can wait for a task slot, on workers
with a single slot either. Blocks of data come and go the same way, through the memory that the worker's tasks share.

What fails is returned as a `Failure`, not raised: `Client.run` would log a traceback on every worker, and an exception
that cannot be pickled would be lost on the way.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from distributed.protocol import pickle

from dsolver import kernels as backends
from dsolver.engines.base import Engine
from dsolver.engines.job import on_host
from dsolver.engines.mesh import Address, Mesh, PeerError
from dsolver.engines.resident import ResidentEngine
from dsolver.engines.transport import Alone, SocketTransport, Transport
from dsolver.errors import DsolverError, RankError
from dsolver.partition import Partition

if TYPE_CHECKING:
    from distributed import Worker

logger = logging.getLogger(__name__)

LOOK: Final = 1.0
"""Seconds between looks whether a rank's client is still there."""

_RANKS: dict[tuple[str, str], Rank] = {}
"""The ranks of this process by job and worker address (several workers may be threads of one process)."""


@final
@dataclass(frozen=True, kw_only=True)
class GangSpec:
    """What every rank of a job must know.

    Attributes:
        job: a unique name.
        lease: a key of the cluster that exists as long as the client wants the job.
        partition: the chunks.
        ranks: the rank that owns each chunk.
        kernels: the backend's name.
        token: the secret with which ranks recognize each other.
        timeout: seconds of silence after which a rank that is waited for counts as lost.
    """

    job: str
    lease: str
    partition: Partition
    ranks: tuple[int, ...]
    kernels: str
    token: bytes
    timeout: float

    @property
    def size(self) -> int:
        """Number of ranks."""
        return max(self.ranks) + 1

    @property
    def exclusive(self) -> bool:
        """Whether a worker can have one such rank at a time: two communicators on one GPU can block each other."""
        return self.kernels == "cuda"

    def owned(self, rank: int) -> tuple[int, ...]:
        """The chunks of a rank."""
        return tuple(number for number, owner in enumerate(self.ranks) if owner == rank)


@final
@dataclass(frozen=True, kw_only=True)
class Opened:
    """A rank that was made.

    Attributes:
        address: where it listens for the others.
        unique: of rank 0 on GPUs, NCCL's unique id.
    """

    address: Address
    unique: bytes | None


@final
@dataclass(frozen=True, kw_only=True)
class Busy:
    """No rank was made, for the worker has one of another job, and only one is possible at a time."""

    job: str


@final
@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a rank could not do what it was asked to.

    Attributes:
        error: what the client should raise.
        secondary: the rank only stopped because another one failed, or because it was told to.
    """

    error: DsolverError
    secondary: bool = False


@final
class Rank:
    """One rank: a thread, connections, an engine and a program on it.

    Everything runs in the rank's thread, except `abort`, which may be called from any.

    Args:
        spec: the job.
        number: of this rank.
        worker: the worker that it lives in.
    """

    def __init__(self, spec: GangSpec, number: int, worker: Worker) -> None:
        self.spec = spec
        self.number = number
        self.mesh = Mesh(number, worker.ip, spec.timeout)
        self.ending = False
        self.keeper = asyncio.create_task(_keep(self, worker))
        self._worker = worker.address
        self._threads = int(worker.state.nthreads)
        self._executor = ThreadPoolExecutor(1, f"dsolver-rank-{number}")
        self._made: tuple[Callable[[Engine, Any], Any], Any] | None = None
        self._transport: Transport | None = None
        self._engine: Engine | None = None
        self._program: Any = None
        self._reason: str | None = None

    async def within(self, function: Callable[..., Any], *args: Any) -> Any:
        """What the function returns in the rank's thread, or a `Failure`; then every rank is told."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._attempt, function, args)

    async def end(self, reason: str | None) -> None:
        """Stop as soon as possible when there is a reason, else after what is running; then give back everything."""
        self.ending = True
        if reason is not None:
            await asyncio.to_thread(self.abort, reason)
        await self.within(self._close)
        self._executor.shutdown(wait=False)

    def unique_id(self) -> bytes | None:
        """NCCL's unique id, on the rank that makes it."""
        if self.number > 0 or self.spec.size == 1 or self.spec.kernels != "cuda":
            return None
        from dsolver.engines.nccl import unique_id

        return unique_id()

    def connect(self, addresses: Sequence[Address], program: bytes) -> None:
        """Connect to the other ranks, and do all that may fail on one rank alone.

        For in `start` a rank on a GPU waits inside NCCL, where it cannot be told to stop, until all have come.
        """
        self._made = pickle.loads(program)
        backends.load(self.spec.kernels, self._threads if self.spec.kernels == "cpu" else 1)
        self.mesh.connect(addresses, self.spec.token)

    def start(self, unique: bytes | None) -> None:
        """Make the engine, and the program on it."""
        assert self._made is not None
        program, spec = self._made
        self._transport = self._connected(unique)
        self._engine = ResidentEngine(
            self.spec.partition,
            self.spec.kernels,
            threads=self._threads,
            owned=self.spec.owned(self.number),
            transport=self._transport,
        )
        with self._engine.scope():
            self._program = program(self._engine, spec)

    def call(self, method: str, args: bytes) -> bytes | None:
        """Run a method of the program; only rank 0 returns what it returned, since all are equal."""
        result = self._run(method, *pickle.loads(args))
        return pickle.dumps(result) if self.number == 0 else None

    def load(self, name: str, blocks: Mapping[int, Any], missing: Sequence[Any]) -> None:
        """Set a field from the blocks of the owned chunks."""
        if missing:
            raise RankError(f"blocks of {name} are gone, with the worker that had them: {missing}")
        self._run("load", name, blocks)

    def unload(self, name: str, host: bool) -> dict[int, Any]:
        """A field as blocks of the owned chunks, on the device or as NumPy arrays."""
        blocks = self._run("unload", name)
        return {number: on_host(block) if host else block for number, block in blocks.items()}

    def abort(self, reason: str) -> None:
        """Stop at the next iteration or wait, and tell the other ranks the reason."""
        if self._reason is None:
            self._reason = reason
            (self._transport or self.mesh).abort(reason)

    def _run(self, method: str, *args: Any) -> Any:
        assert self._engine is not None
        with self._engine.scope():
            return getattr(self._program, method)(*args)

    def _attempt(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        try:
            return function(*args)
        except BaseException as error:  # a SystemExit too must not reach the worker's event loop
            failure = self._failure(error)
            self.abort(str(failure.error))
            return failure

    def _failure(self, error: BaseException) -> Failure:
        if isinstance(error, PeerError) or self._reason is not None:
            return Failure(error=RankError(self._reason or str(error)), secondary=True)
        where = f"rank {self.number} on worker {self._worker}"
        logger.error("%s of job %s failed: %r", where, self.spec.job, error)
        if isinstance(error, DsolverError) and _survives_pickling(error):
            error.add_note(f"raised by {where}")
            return Failure(error=error)
        made = RankError(f"{where} failed: {error!r}")
        made.add_note("".join(traceback.format_exception(error)))
        return Failure(error=made)

    def _connected(self, unique: bytes | None) -> Transport:
        if self.spec.size == 1:
            return Alone()
        if unique is not None:
            from dsolver.engines.nccl import NcclTransport

            return NcclTransport(self.mesh, self.spec.ranks, unique)
        return SocketTransport(self.mesh, self.spec.ranks)

    def _close(self) -> None:
        self._program = self._made = None
        with ExitStack() as last_first:
            last_first.callback(self.mesh.close)
            if (top := self._engine or self._transport) is not None:
                last_first.callback(top.close)


# -- called through Client.run, on the worker's event loop ------------------------------------------------------------


async def open_rank(spec: GangSpec, number: int, *, dask_worker: Worker) -> Opened | Busy | Failure:
    """Make a rank."""
    address = dask_worker.address
    if spec.exclusive:
        for (job, place), other in _RANKS.items():
            if place == address and other.spec.exclusive:
                return Busy(job=job)
    try:
        rank = Rank(spec, number, dask_worker)
    except OSError as error:
        return Failure(error=RankError(f"rank {number} cannot listen on worker {address}: {error}"))
    _RANKS[spec.job, address] = rank
    unique = await rank.within(rank.unique_id)
    return unique if isinstance(unique, Failure) else Opened(address=rank.mesh.address, unique=unique)


async def connect_rank(job: str, addresses: Sequence[Address], program: bytes, *, dask_worker: Worker) -> Any:
    """Connect a rank to the others; the program is the pickled pair of what `start_rank` calls."""
    return await _within(job, dask_worker, Rank.connect, addresses, program)


async def start_rank(job: str, unique: bytes | None, *, dask_worker: Worker) -> Any:
    """Make the program on a rank."""
    return await _within(job, dask_worker, Rank.start, unique)


async def call_rank(job: str, method: str, args: bytes, *, dask_worker: Worker) -> Any:
    """Run a method of the program on a rank, with pickled arguments and result."""
    return await _within(job, dask_worker, Rank.call, method, args)


async def load_rank(job: str, name: str, keys: Mapping[int, Any], *, dask_worker: Worker) -> Any:
    """Set a field of the program on a rank from data of the cluster: the keys of the blocks of its chunks."""
    found = await _values(dask_worker, list(keys.values()))
    blocks = {number: found[key] for number, key in keys.items() if key in found}
    return await _within(job, dask_worker, Rank.load, name, blocks, [k for k in keys.values() if k not in found])


async def unload_rank(job: str, name: str, host: bool, *, dask_worker: Worker) -> Any:
    """Put a field of a rank into the worker's memory; per chunk the key and the bytes, for the scheduler to know."""
    from dask.sizeof import sizeof

    blocks = await _within(job, dask_worker, Rank.unload, name, host)
    if isinstance(blocks, Failure):
        return blocks
    data: dict[Any, object] = {f"dsolver-{name}-{uuid.uuid4().hex}": block for block in blocks.values()}
    dask_worker.update_data(data=data)
    return {number: (key, sizeof(data[key])) for number, key in zip(blocks, data, strict=True)}


async def close_rank(job: str, reason: str | None, *, dask_worker: Worker) -> None:
    """End a rank; with a reason, whoever waits for it fails with that."""
    await _end((job, dask_worker.address), reason)


# -- the rest ---------------------------------------------------------------------------------------------------------


async def _keep(rank: Rank, worker: Worker) -> None:
    """End a rank whose client has left without a word, or whose worker is going."""
    spec, place = rank.spec, (rank.spec.job, worker.address)
    while not rank.ending:
        await asyncio.sleep(LOOK)
        reason = await _why_end(spec, worker)
        if reason is not None and not rank.ending:
            logger.warning("job %s is ended: %s", spec.job, reason)
            await _end(place, reason)


async def _end(place: tuple[str, str], reason: str | None) -> None:
    """End a rank. Only when its thread has come to an end is the rank forgotten, and a GPU free for the next."""
    rank = _RANKS.get(place)
    if rank is None or rank.ending:
        return
    try:
        await rank.end(reason)
    finally:
        del _RANKS[place]
        if rank.keeper is not asyncio.current_task():
            rank.keeper.cancel()


async def _why_end(spec: GangSpec, worker: Worker) -> str | None:
    if worker.status.name in ("closing", "closed", "failed"):
        return f"worker {worker.address} was closed"
    try:
        holders = await worker.scheduler.who_has(keys=[spec.lease])
    except (OSError, TimeoutError):
        return None  # the worker itself decides how long it lives without a scheduler
    return None if holders[spec.lease] else "its client has left"


async def _within(job: str, worker: Worker, method: Callable[..., Any], *args: Any) -> Any:
    rank = _RANKS.get((job, worker.address))
    if rank is None or rank.ending:
        return Failure(
            error=RankError(f"worker {worker.address} has no rank of {job}: it was restarted, or the job was ended"),
            secondary=True,
        )
    return await rank.within(method, rank, *args)


async def _values(worker: Worker, keys: Sequence[Any]) -> dict[Any, Any]:
    """The data of these keys, from this worker's memory or the other workers'; keys that are gone are left out."""
    from distributed.utils_comm import gather_from_workers

    found = {key: worker.data[key] for key in keys if key in worker.data}
    away = [key for key in keys if key not in found]
    if away:
        holders = await worker.scheduler.who_has(keys=away)
        data, *_ = await gather_from_workers(holders, rpc=worker.rpc, who=worker.address)
        found.update(data)
    return found


def _survives_pickling(error: BaseException) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:  # whatever an exception's own __init__ or __reduce__ does
        return False
