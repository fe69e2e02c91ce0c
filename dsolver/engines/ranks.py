"""The worker's side of a resident job: one rank, its thread, its program.

The functions here run on workers through `Client.run`, in the worker's event loop, and hand the work to the rank's own
thread. So a rank starts at once whatever tasks the worker is busy with: no job can wait for a task slot that another
job's rank holds, on workers with a single slot either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from dsolver.engines.base import Engine
from dsolver.engines.mesh import Address, Mesh
from dsolver.engines.resident import ResidentEngine
from dsolver.engines.transport import Alone, SocketTransport, Transport
from dsolver.errors import RankError
from dsolver.partition import Partition

if TYPE_CHECKING:
    from distributed import Worker

_RANKS: dict[tuple[str, str], Rank] = {}
"""The ranks of this process by job and worker address (several workers may be threads of one process)."""


@final
@dataclass(frozen=True, kw_only=True)
class GangSpec:
    """What every rank of a job must know.

    Attributes:
        job: a unique name.
        partition: the chunks.
        ranks: the rank that owns each chunk.
        kernels: the backend's name.
        token: the secret with which ranks recognize each other.
        timeout: seconds of silence after which a rank that is waited for counts as lost.
    """

    job: str
    partition: Partition
    ranks: tuple[int, ...]
    kernels: str
    token: bytes
    timeout: float

    @property
    def size(self) -> int:
        """Number of ranks."""
        return max(self.ranks) + 1

    def owned(self, rank: int) -> tuple[int, ...]:
        """The chunks of a rank."""
        return tuple(number for number, owner in enumerate(self.ranks) if owner == rank)


@final
class Rank:
    """One rank: a thread, connections, an engine and a program on it."""

    def __init__(self, spec: GangSpec, rank: int, host: str, threads: int) -> None:
        self.spec = spec
        self.rank = rank
        self.mesh = Mesh(rank, host, spec.timeout)
        self.inputs: dict[str, dict[int, Any]] = {}
        self.outputs: dict[str, dict[int, Any]] = {}
        self._threads = threads
        self._executor = ThreadPoolExecutor(1, f"dsolver-rank-{rank}")
        self._transport: Transport | None = None
        self._engine: Engine | None = None
        self._program: Any = None

    async def within(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function in the rank's thread; when it fails, so does every rank."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, lambda: function(*args))
        except BaseException as error:
            reason = str(error) if isinstance(error, RankError) else f"rank {self.rank} failed: {error!r}"
            self.abort(reason)
            raise

    def connect(self, addresses: Sequence[Address], unique: tuple[int, ...] | None) -> None:
        """Connect to the other ranks and make the engine."""
        self.mesh.connect(addresses, self.spec.token)
        self._transport = self._connected(unique)
        self._engine = ResidentEngine(
            self.spec.partition,
            self.spec.kernels,
            threads=self._threads,
            owned=self.spec.owned(self.rank),
            transport=self._transport,
        )

    def start(self, program: Callable[[Engine, Any], Any], spec: Any) -> None:
        """Make the program on the engine."""
        assert self._engine is not None
        with self._engine.scope():
            self._program = program(self._engine, spec)

    def call(self, method: str, args: tuple[Any, ...]) -> Any:
        """Run a method of the program."""
        assert self._engine is not None
        with self._engine.scope():
            return getattr(self._program, method)(*args)

    def load(self, name: str) -> None:
        """Set a field from the blocks that tasks have brought."""
        self.call("load", (name, self.inputs.pop(name)))

    def unload(self, name: str) -> None:
        """Lay out a field's blocks for tasks to take."""
        self.outputs[name] = dict(self.call("unload", (name,)))

    def abort(self, reason: str) -> None:
        """End the connections with a reason, so that no other rank waits for this one."""
        (self._transport or self.mesh).abort(reason)

    def close(self) -> None:
        """Give back everything."""
        self._program = None
        if self._engine is not None:
            self._engine.close()
        self.mesh.close()
        self._executor.shutdown(wait=False)

    def _connected(self, unique: tuple[int, ...] | None) -> Transport:
        if self.spec.size == 1:
            return Alone()
        if unique is not None:
            from dsolver.engines.nccl import NcclTransport

            return NcclTransport(self.mesh, self.spec.ranks, unique)
        return SocketTransport(self.mesh, self.spec.ranks)


# -- called through Client.run, on the worker's event loop ------------------------------------------------------------


async def open_rank(spec: GangSpec, rank: int, *, dask_worker: Worker) -> tuple[Address, tuple[int, ...] | None]:
    """Make a rank; returns where it listens and, of rank 0 on GPUs, NCCL's unique id."""
    made = Rank(spec, rank, dask_worker.ip, dask_worker.state.nthreads)
    _RANKS[spec.job, dask_worker.address] = made
    unique = None
    if rank == 0 and spec.kernels == "cuda" and spec.size > 1:
        from dsolver.engines.nccl import unique_id

        unique = await made.within(unique_id)
    return made.mesh.address, unique


async def connect_rank(
    job: str, addresses: Sequence[Address], unique: tuple[int, ...] | None, *, dask_worker: Worker
) -> None:
    """Connect a rank to the others."""
    rank = _rank(job, dask_worker.address)
    await rank.within(rank.connect, addresses, unique)


async def start_program(job: str, program: Callable[[Engine, Any], Any], spec: Any, *, dask_worker: Worker) -> None:
    """Make the program on a rank."""
    rank = _rank(job, dask_worker.address)
    await rank.within(rank.start, program, spec)


async def call_program(job: str, method: str, args: tuple[Any, ...], *, dask_worker: Worker) -> Any:
    """Run a method of the program on a rank; only rank 0 returns what it returned, since all are equal."""
    rank = _rank(job, dask_worker.address)
    result = await rank.within(rank.call, method, args)
    return result if rank.rank == 0 else None


async def load_field(job: str, name: str, *, dask_worker: Worker) -> None:
    """Set a field of the program on a rank from the blocks that `put_block` has brought."""
    rank = _rank(job, dask_worker.address)
    await rank.within(rank.load, name)


async def unload_field(job: str, name: str, *, dask_worker: Worker) -> None:
    """Lay out a field of the program on a rank for `take_block`."""
    rank = _rank(job, dask_worker.address)
    await rank.within(rank.unload, name)


async def close_rank(job: str, reason: str | None, *, dask_worker: Worker) -> None:
    """End a rank; with a reason, whoever waits for it fails with that."""
    rank = _RANKS.pop((job, dask_worker.address), None)
    if rank is None:
        return
    if reason is not None:
        rank.abort(reason)
    await asyncio.get_running_loop().run_in_executor(None, rank.close)


# -- run as tasks on the chunk's owner ---------------------------------------------------------------------------------


def put_block(job: str, name: str, number: int, block: Any) -> None:
    """Bring a block to its rank."""
    from distributed import get_worker

    _rank(job, get_worker().address).inputs.setdefault(name, {})[number] = block


def take_block(job: str, name: str, number: int) -> Any:
    """Take a block from its rank."""
    from distributed import get_worker

    return _rank(job, get_worker().address).outputs[name].pop(number)


def _rank(job: str, address: str) -> Rank:
    try:
        return _RANKS[job, address]
    except KeyError:
        raise RankError(f"worker {address} has no rank of job {job}: it was restarted or the job was closed") from None
