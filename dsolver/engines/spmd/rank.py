"""A rank of a resident program: a thread, connections, an engine and a program on it."""

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from distributed.protocol import pickle

from dsolver import kernels as backends
from dsolver.dask_types import Worker
from dsolver.engines.base import Engine
from dsolver.engines.dask.lending import Loans
from dsolver.engines.eager.resident import ResidentEngine
from dsolver.engines.out_of_memory import clear_frames, free_unused, is_out_of_memory, out_of_memory_error
from dsolver.engines.redistribution import OtherCut, Redistributed, redistributed
from dsolver.engines.spmd.rank_spec import Failure, RankSpec
from dsolver.engines.spmd.resting_links import RestingLink
from dsolver.engines.transport.base import Alone, PeerError, Transport
from dsolver.engines.transport.connections import Connections, tree
from dsolver.engines.transport.handshake import Address, Encryption
from dsolver.engines.transport.nccl_interface import point_nccl_at
from dsolver.errors import DsolverError, RankError
from dsolver.kernels.lending.arrays import LentArray

logger = logging.getLogger(__name__)


class Rank:
    """A rank of a program, in a thread of its own.

    Everything runs in the rank's thread, except `abort`, which may be called from any.

    Attributes:
        connections: to the other ranks, where they do not come with a link.
        ending: whether it is being ended.
        link: what it has not taken, or has left, of links with the other ranks.
    """

    def __init__(self, spec: RankSpec, number: int, worker: Worker, left: RestingLink | None = None) -> None:
        self.spec = spec
        self.number = number
        self.link = left
        self.connections = Connections(number, worker.ip, spec.timeout, _encryption_of(worker))
        self.ending = False
        self._worker, self._ip = worker.address, worker.ip
        self._threads = int(worker.state.nthreads)
        self._executor = ThreadPoolExecutor(1, f"dsolver-rank-{number}")
        self._made: tuple[Callable[[Engine, Any], Any], Any] | None = None
        self._transport: Transport | None = None
        self._engine: ResidentEngine | None = None
        self._program: Any = None
        self._reason: str | None = None
        self._short = False
        self._lent = ExitStack()  # with what the client reads until the next command

    async def within(self, function: Callable[..., Any], *args: Any) -> Any:
        """Result of the function in the rank's thread, or a `Failure`, of which every rank learns."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._attempt, function, args)

    async def end(self, reason: str | None) -> None:
        """Stop as soon as possible when there is a reason, else after what is running; then give back everything."""
        self.ending = True
        if reason is not None:
            await asyncio.to_thread(self.abort, reason)
        await self.within(self._close)
        self._executor.shutdown(wait=False)

    def unique_id(self) -> bytes | None:
        """NCCL's unique id, on the rank that makes it; None where connected ranks tell each other, if they need one."""
        if self.number > 0 or self.spec.meshed:
            return None
        from dsolver.engines.transport.nccl import unique_id

        point_nccl_at(self._ip)
        return unique_id()

    def connect(self, addresses: Sequence[Address], program: bytes) -> None:
        """Connect to the other ranks, and do all that may fail on one rank alone.

        For in `start` a rank on a GPU waits inside NCCL, where it cannot be told to stop, until all have come.
        """
        self._take(program)
        near = None if self.spec.meshed else tree(self.number, self.spec.size)
        self.connections.connect(addresses, self.spec.token, near)

    def join(self, addresses: Sequence[Address], program: bytes, linked: bool) -> str:
        """`connect` and `start` of a rank that is connected with every other one.

        None of these waits inside NCCL before all have come: they agree on the transport first.

        linked: all ranks have a link of the same program, and take it.
        """
        left, self.link = self.link, None
        if left is not None and linked:
            self.connections.close()
            self._transport = left.link.transport()
            if self._reason is not None:  # which the others were not told
                self._transport.abort(self._reason)
                raise PeerError(self._reason)
            self._take(program)
            return self.start(None)
        if left is not None:
            left.link.close()
        self.connect(addresses, program)
        return self.start(None)

    def _take(self, program: bytes) -> None:
        self._made = pickle.loads(program)
        backends.load(self.spec.kernels, self._threads if self.spec.kernels == "cpu" else 1)

    def start(self, unique: bytes | None) -> str:
        """Make the engine, and the program on it; returns what carries values to the other ranks, for people."""
        assert self._made is not None
        program, spec = self._made
        self._transport = self._transport or self._connected(unique)
        self._engine = ResidentEngine(
            self.spec.partition,
            self.spec.kernels,
            threads=self._threads,
            owned=self.spec.owned(self.number),
            transport=self._transport,
            hosts=self.spec.hosts,
        )
        with self._engine.scope():
            self._program = program(self._engine, spec)
        return self._transport.name if self.spec.size > 1 else ""

    def call(self, call: bytes) -> bytes | None:
        """Run a command. Returns what it returned (rank 0 alone, since all are equal) and measured, or None."""
        return self._packed(self._run(*pickle.loads(call)))

    def load(self, name: str, blocks: Mapping[int, Any], missing: Sequence[Any], call: bytes) -> bytes | None:
        """Run a command with the blocks of the owned chunks."""
        return self._packed(self._run_with(name, blocks, missing, call))

    def exchange(
        self, name: str, blocks: Mapping[int, Any], missing: Sequence[Any], call: bytes, lend: bool
    ) -> tuple[bytes | None, dict[int, Any] | None]:
        """Run a command with the blocks of the owned chunks that also returns blocks of them, or None."""
        result, made = self._run_with(name, blocks, missing, call)
        return self._packed(result), None if made is None else self._lending(made, lend)

    def unload(self, call: bytes, lend: bool) -> dict[int, Any]:
        """Run a command that returns blocks of the owned chunks."""
        return self._lending(self._run(*pickle.loads(call)), lend)

    def _lending(self, blocks: Mapping[int, Any], lend: bool) -> dict[int, Any]:
        """Blocks; those that are better read in place are lent until the next command."""
        if not lend:
            return dict(blocks)
        loans = Loans()
        lent = {number: loans.of(block) for number, block in blocks.items()}
        self._lent.enter_context(loans.open())
        return {number: block if lent[number] is None else lent[number] for number, block in blocks.items()}

    def abort(self, reason: str) -> None:
        """Stop at the next iteration or wait, and tell the other ranks the reason."""
        if self._reason is None:
            self._reason = reason
            (self._transport or self.connections).abort(reason)

    def _run_with(self, name: str, blocks: Mapping[int, Any], missing: Sequence[Any], call: bytes) -> Any:
        if missing:
            raise RankError(f"blocks of {name} are gone, with the worker that had them: {missing}")
        command, args, named = pickle.loads(call)
        if isinstance(command, Redistributed):
            blocks, command = self._redistributed(command.cut, blocks), command.command
        return self._run(command, (self._here(blocks), *args), named)

    def _redistributed(self, cut: OtherCut, blocks: Mapping[int, Any]) -> Mapping[int, Any]:
        engine = self._engine
        assert engine is not None
        with engine.scope():
            return redistributed(engine, cut, blocks)

    def _here(self, blocks: Mapping[int, Any]) -> Mapping[int, Any]:
        """Blocks of which those that the client lends were read: it has them back when this call returns."""
        engine = self._engine
        assert engine is not None
        with engine.scope():
            return {n: engine.backend.asarray(b) if isinstance(b, LentArray) else b for n, b in blocks.items()}

    def _run(self, command: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        assert self._engine is not None
        self._lent.close()
        with self._engine.scope():
            return command(self._program, *args, **named)

    def _packed(self, result: Any) -> bytes | None:
        assert self._engine is not None
        spans = [replace(span, rank=self.number) for span in self._engine.spans()]
        return pickle.dumps((result if self.number == 0 else None, spans)) if self.number == 0 or spans else None

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
        logger.error("%s of program %s failed: %r", where, self.spec.program, error)
        if is_out_of_memory(error):
            self._short = True
            return Failure(error=out_of_memory_error(error, f"{where}: "))
        if isinstance(error, DsolverError) and _survives_pickling(error):
            error.add_note(f"raised by {where}")
            clear_frames(error)
            return Failure(error=error)
        made = RankError(f"{where} failed: {error!r}")
        made.add_note("".join(traceback.format_exception(error)))
        return Failure(error=made)

    def _connected(self, unique: bytes | None) -> Transport:
        if self.spec.size == 1:
            return Alone()
        if self.spec.kernels != "cuda":
            from dsolver.engines.transport.sockets import SocketTransport

            return SocketTransport(self.connections, self.spec.ranks)
        from dsolver.engines.transport import nccl, peer

        if self.spec.meshed and (direct := peer.connect(self.connections, self.spec.ranks)) is not None:
            return direct
        point_nccl_at(self._ip)
        unique = nccl.told_id(self.connections) if unique is None else unique
        return nccl.NcclTransport(self.connections, self.spec.ranks, unique)

    def _close(self) -> None:
        self._program = self._made = None
        self._lent.close()
        with ExitStack() as last_first:
            last_first.callback(self.connections.close)
            if self._transport is not None:
                last_first.callback(self._transport.close)
            if self._engine is not None:
                self._engine.leave()
            left = None if self._transport is None or self._reason is not None else self._transport.detached()
            if left is not None:
                last_first.pop_all()
                spec = self.spec
                self.link = RestingLink(
                    program=spec.program, number=self.number, owners=spec.ranks, timeout=spec.timeout, link=left
                )
        self._engine = self._transport = None
        if self._short:
            free_unused()


def _encryption_of(worker: Worker) -> Encryption | None:
    """Encryption of the worker's own connections, with its certificates."""
    if not worker.address.startswith(("tls://", "wss://")):
        return None
    calling, answering = worker.security.get_connection_args("worker"), worker.security.get_listen_args("worker")
    return Encryption(client=calling["ssl_context"], server=answering["ssl_context"])


def _survives_pickling(error: BaseException) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:  # whatever an exception's own __init__ or __reduce__ does
        return False
