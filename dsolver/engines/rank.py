"""One rank of a resident job: a thread, connections, an engine and a program on it."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

from distributed.protocol import pickle

from dsolver import kernels as backends
from dsolver.engines.base import Engine
from dsolver.engines.interface import point_nccl_at
from dsolver.engines.job import on_host
from dsolver.engines.links import Address, Encryption
from dsolver.engines.mesh import Mesh, PeerError
from dsolver.engines.resident import ResidentEngine
from dsolver.engines.shortage import give_back, is_shortage, let_go, shortage
from dsolver.engines.transport import Alone, SocketTransport, Transport
from dsolver.errors import DsolverError, RankError
from dsolver.partition import Partition

if TYPE_CHECKING:
    from distributed import Worker

logger = logging.getLogger(__name__)


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
        self.mesh = Mesh(number, worker.ip, spec.timeout, _encryption_of(worker))
        self.ending = False
        self._worker, self._ip = worker.address, worker.ip
        self._threads = int(worker.state.nthreads)
        self._executor = ThreadPoolExecutor(1, f"dsolver-rank-{number}")
        self._made: tuple[Callable[[Engine, Any], Any], Any] | None = None
        self._transport: Transport | None = None
        self._engine: Engine | None = None
        self._program: Any = None
        self._reason: str | None = None
        self._short = False

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

        point_nccl_at(self._ip)
        return unique_id()

    def connect(self, addresses: Sequence[Address], program: bytes) -> None:
        """Connect to the other ranks, and do all that may fail on one rank alone.

        For in `start` a rank on a GPU waits inside NCCL, where it cannot be told to stop, until all have come.
        """
        self._made = pickle.loads(program)
        backends.load(self.spec.kernels, self._threads if self.spec.kernels == "cpu" else 1)
        self.mesh.connect(addresses, self.spec.token)

    def start(self, unique: bytes | None) -> str:
        """Make the engine, and the program on it; returns what carries values to the other ranks, for people."""
        assert self._made is not None
        program, spec = self._made
        self._transport = self._connected(unique)
        self._engine = ResidentEngine(
            self.spec.partition,
            self.spec.kernels,
            threads=self._threads,
            owned=self.spec.owned(self.number),
            transport=self._transport,
            hosts=[self.spec.ranks.index(rank) for rank in range(self.spec.size)],
        )
        with self._engine.scope():
            self._program = program(self._engine, spec)
        return self._transport.name if self.spec.size > 1 else ""

    def call(self, call: bytes | None) -> bytes | None:
        """Run a method of the program, or none. Returns what it returned and measured, or None.

        Only rank 0 tells what it returned, since all are equal.
        """
        assert self._engine is not None
        result = None if call is None else self._run(*pickle.loads(call))
        spans = [replace(span, rank=self.number) for span in self._engine.spans()]
        return pickle.dumps((result if self.number == 0 else None, spans)) if self.number == 0 or spans else None

    def load(self, name: str, blocks: Mapping[int, Any], missing: Sequence[Any], then: bytes | None) -> bytes | None:
        """Set a field from the blocks of the owned chunks, then call."""
        if missing:
            raise RankError(f"blocks of {name} are gone, with the worker that had them: {missing}")
        self._run("load", name, blocks)
        return self.call(then)

    def unload(self, first: bytes | None, name: str, host: bool) -> dict[int, Any]:
        """Call, then a field as blocks of the owned chunks, on the device or as NumPy arrays."""
        self.call(first)
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
        if is_shortage(error):
            self._short = True
            return Failure(error=shortage(error, f"{where}: "))
        if isinstance(error, DsolverError) and _survives_pickling(error):
            error.add_note(f"raised by {where}")
            let_go(error)
            return Failure(error=error)
        made = RankError(f"{where} failed: {error!r}")
        made.add_note("".join(traceback.format_exception(error)))
        return Failure(error=made)

    def _connected(self, unique: bytes | None) -> Transport:
        if self.spec.size == 1:
            return Alone()
        if self.spec.kernels != "cuda":
            return SocketTransport(self.mesh, self.spec.ranks)
        from dsolver.engines import nccl, peer

        point_nccl_at(self._ip)
        assert unique is not None
        return peer.connected(self.mesh, self.spec.ranks) or nccl.NcclTransport(self.mesh, self.spec.ranks, unique)

    def _close(self) -> None:
        self._program = self._made = None
        with ExitStack() as last_first:
            last_first.callback(self.mesh.close)
            if (top := self._engine or self._transport) is not None:
                last_first.callback(top.close)
        self._engine = self._transport = None
        if self._short:
            give_back()


def _encryption_of(worker: Worker) -> Encryption | None:
    """What the worker's own connections speak, with the same certificates."""
    if not worker.address.startswith(("tls://", "wss://")):
        return None
    calling, answering = worker.security.get_connection_args("worker"), worker.security.get_listen_args("worker")
    return Encryption(calling=calling["ssl_context"], answering=answering["ssl_context"])


def _survives_pickling(error: BaseException) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:  # whatever an exception's own __init__ or __reduce__ does
        return False
