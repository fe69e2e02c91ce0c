"""The client's side of a resident program: starts one rank a worker, all at once, and calls them together."""

import asyncio
import logging
import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Concatenate, Final

from distributed.protocol import pickle

from dsolver.dask_types import Client
from dsolver.engines.base import Engine
from dsolver.engines.dask.blocks import register
from dsolver.engines.dask.connection import ANSWER, begun, unanswered, wait_for
from dsolver.engines.dask.direct import tell_each
from dsolver.engines.dask.lending import Loans
from dsolver.engines.redistribution import OtherCut, Redistributed
from dsolver.engines.running_program import Blocks, Exchanging, P_co, Q, R, RunningProgram, S, Taking
from dsolver.engines.spmd import worker as ranks
from dsolver.engines.spmd.blocks import RankBlocks, blocks_of, made_by_each
from dsolver.engines.spmd.calls import GRACE, OccupiedError, OnRanks, RankCalls, answered
from dsolver.engines.spmd.rank_spec import RankSpec
from dsolver.engines.spmd.relay import FAN
from dsolver.engines.transport.handshake import TOKEN_BYTES
from dsolver.errors import ClusterError, InputError, RankError
from dsolver.grid.partition import Partition
from dsolver.monitor.spans import Span

logger = logging.getLogger(__name__)

TIMEOUT: Final = 120.0  # seconds of silence after which a rank that others wait for counts as lost
STRIDE: Final = 0.5
"""Seconds of iterations that a call should be worth: long beside its milliseconds, short for people who watch."""
LEASE_BYTES: Final = 64  # about


class SpmdProgram(RunningProgram[P_co]):
    """A program with one rank on each owner of a chunk.

    A call costs milliseconds, whatever is called, so calls are made worth it: see `stride`, `bring` and `exchange`. The
    first one starts a rank that is alone, or has ranks that were made join each other.

    As long as the program is open the client holds a key of the cluster, the lease. When the client goes away the
    scheduler forgets the key, and the ranks, which look for it from time to time, end. InputError: the program cannot
    be sent to the workers. RankError: a rank could not be started; none is left running.
    """

    stride = STRIDE

    def __init__(
        self,
        client: Client,
        partition: Partition,
        owners: Sequence[str],
        kernels: str,
        program: Callable[[Engine, S], P_co],  # made on every rank as program(engine, spec)
        spec: S,  # what the program needs; picklable
    ) -> None:
        self._client = client
        self._workers = tuple(dict.fromkeys(owners))
        self._open = True
        self._lent = ExitStack()  # with what ranks read ahead of the next call
        self._spans: list[Span] = []
        self._name = f"dsolver-{uuid.uuid4().hex[:12]}"
        self._calls = RankCalls(client, self._workers, self._name)
        self._blocks = RankBlocks(client, partition, owners, kernels, self._calls)
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
        self._lease: Any = begun(client, self._leased(shared.lease))
        if shared.size == 1:
            self._calls.ahead(ranks.open_rank, shared, made, each={0: (0,)})
            return
        with self._or_end():
            opened = self._opened(shared)
            addresses, left = [rank.address for rank in opened], {rank.left for rank in opened}
            heard = partial(self._started, {host for host, _ in addresses})
            if shared.meshed:
                linked = len(left) == 1 and "" not in left
                self._calls.ahead(ranks.join_rank, self._name, addresses, made, linked, heard=heard)
            else:
                self._calls.all(ranks.connect_rank, addresses, made)
                self._calls.ahead(ranks.start_rank, self._name, opened[0].unique, heard=heard)

    @property
    def ended(self) -> bool:
        return not self._open

    def call(self, command: Callable[Concatenate[P_co, Q], R], *args: Q.args, **named: Q.kwargs) -> R:
        call = _packed_call(command, args, named)
        with self._or_end():
            return self._result(self._calls.all(ranks.call_rank, call))

    def spans(self) -> list[Span]:
        spans, self._spans = self._spans, []
        return spans

    def settle(self) -> None:
        with self._or_end():
            if self._calls.waiting:
                self._calls.all(ranks.stay)

    def bring(self, name: str, blocks: Blocks, command: Taking[P_co, Q, Any], *args: Q.args, **named: Q.kwargs) -> None:
        call, held, loans = self._taken(name, blocks, command, args, named)
        self._lent.enter_context(loans.open())
        each = self._calls.own(held)
        self._calls.ahead(ranks.load_rank, self._name, name, call, each=each, heard=self._result, held=held)

    def load(self, name: str, blocks: Blocks, command: Taking[P_co, Q, R], *args: Q.args, **named: Q.kwargs) -> R:
        call, held, loans = self._taken(name, blocks, command, args, named)
        with self._or_end(), loans.open():
            return self._result(self._calls.with_blocks(ranks.load_rank, held, name, call))

    def exchange(
        self, name: str, blocks: Blocks, here: bool, command: Exchanging[P_co, Q, R], *args: Q.args, **named: Q.kwargs
    ) -> tuple[R, Blocks | None]:
        call, held, loans = self._taken(name, blocks, command, args, named)
        lend = here and self._blocks.all_lend
        here = here and (lend or len(self._workers) <= FAN)  # of more ranks they would travel by way of others
        made_as = None if here else _new_name()
        with self._or_end(), loans.open():
            replies, made = self._calls.with_blocks(
                ranks.exchange_rank, held, name, call, made_as, lend, gather=partial(self._blocks.exchanged, made_as)
            )
            result: R = self._result([reply for reply, _ in replies])
            return result, made

    def unload(self, command: Callable[Concatenate[P_co, Q], Blocks], *args: Q.args, **named: Q.kwargs) -> Blocks:
        call, name = _packed_call(command, args, named), _new_name()
        with self._or_end():
            made = self._calls.all(ranks.unload_rank, call, name)
            sizes = {number: size for blocks in made for number, size in blocks.items()}
            return self._client.sync(self._blocks.told, name, sizes)

    def fetch(self, command: Callable[Concatenate[P_co, Q], Blocks], *args: Q.args, **named: Q.kwargs) -> Blocks:
        if not self._blocks.all_lend:
            return self.unload(command, *args, **named)
        call = _packed_call(command, args, named)
        with self._or_end():
            return self._blocks.brought(self._calls.all(ranks.unload_rank, call, None))

    def fetch_each(self, command: Callable[..., Blocks], options: Sequence[Mapping[str, Any]]) -> list[Blocks]:
        if not self._blocks.all_lend:
            return super().fetch_each(command, options)
        call = _packed_call(made_by_each, (command, options), {})
        with self._or_end():
            replies = self._calls.all(ranks.unload_rank, call, None)
            return [self._blocks.brought(blocks_of(number, replies)) for number in range(len(options))]

    def close(self) -> None:
        self._end(None)

    def _taken(self, name: str, blocks: Blocks, command: Any, args: Any, named: Any) -> tuple[bytes, OnRanks, Loans]:
        """A call, its blocks, and what is lent of them; errors end no rank, and take back what was brought for it."""
        loans = Loans()
        try:
            cut, held = self._blocks.taken(name, blocks, loans)
            return _packed_call(command, args, named, cut), held, loans
        except BaseException:
            self._calls.forget(ranks.load_rank)
            self._lent.close()
            raise

    def _started(self, hosts: set[str], links: Sequence[str]) -> None:
        """Take down what the ranks have told of their link."""
        self.link = links[0]
        if self.link == "NCCL" and len(hosts) > 1 and self._workers[0].startswith(("tls://", "wss://")):
            logger.warning("the cluster uses TLS, but what NCCL carries between hosts is not encrypted")
        logger.info("%s has %d ranks that use %s", self._name, len(links), self.link)

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
        every = {rank: (rank,) for rank in range(shared.size)}
        try:
            found: list[ranks.Opened] = self._calls.each(ranks.open_rank, every, shared, None)
        except OccupiedError:
            self._client.sync(self._close_all, None)
            return [self._calls.each(ranks.open_rank, {rank: own}, shared, None)[0] for rank, own in every.items()]
        return found

    async def _leased(self, lease: str) -> Any:
        """The lease, of which the scheduler is told while rank 0 is opened, which puts it there."""
        telling = register(self._client, {lease: self._workers[0]}, {lease: LEASE_BYTES})
        return (await wait_for(self._client, telling, ANSWER))[lease]

    # -- the end -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _or_end(self) -> Iterator[None]:
        """Context in which any error, an interrupt by the user too, ends the program."""
        if not self._open:
            raise RankError("this program has ended: start a new one")
        try:
            with self._lent:
                yield
            with answered():
                self._lease.result()
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
            self._lent.close()

    async def _close_all(self, reason: str | None) -> None:
        present = self._workers if reason is None else await self._calls.present(GRACE)
        there = [worker for worker in self._workers if worker in present]
        closing = asyncio.ensure_future(tell_each(self._client, there, ranks.close_rank, self._name, reason))
        _, late = await asyncio.wait([closing], timeout=GRACE)
        if late:
            closing.cancel()
            logger.warning("some ranks of %s are busy and will end as soon as they can", self._name)


def _packed_call(
    command: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any], cut: OtherCut | None = None
) -> bytes:
    """A command and its arguments, pickled; cut: of its blocks, if not the chunks'; InputError where it cannot be."""
    what = command if cut is None else Redistributed(command=command, cut=cut)
    return _packed(f"the arguments of {command.__name__}", (what, args, named))


def _packed(what: str, value: Any) -> bytes:
    """The value pickled, once for all ranks; InputError where it cannot be."""
    try:
        packed: bytes = pickle.dumps(value)
    except Exception as error:  # each type fails in its own way
        raise InputError(
            f"{what} cannot be sent to the workers: {error!r}; leave that out of functions and options, or solve in "
            f"this process, with client=False"
        ) from error
    return packed


def _new_name() -> str:
    """Name of blocks that ranks are to make, from which their keys follow."""
    return f"dsolver-block-{uuid.uuid4().hex}"
