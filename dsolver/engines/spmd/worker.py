"""The worker's side of a resident program: makes ranks, calls them and ends them.

The functions here run on workers through `Client.run`, in the worker's event loop, and hand the work to the rank's own
thread. So a rank starts at once whatever tasks the worker is busy with: no program can wait for a task slot, on workers
with a single slot either. Blocks of data come and go the same way, through the memory that the worker's tasks share.

What fails is returned as a `Failure`, not raised: `Client.run` would log a traceback on every worker, and an exception
that cannot be pickled would be lost on the way.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dsolver.dask_types import Worker
from dsolver.engines.dask.connection import ANSWER
from dsolver.engines.spmd import resting_links
from dsolver.engines.spmd.rank import Rank
from dsolver.engines.spmd.rank_spec import Busy, Failure, RankSpec
from dsolver.engines.transport.handshake import Address
from dsolver.errors import RankError
from dsolver.kernels.lending.arrays import LentArray
from dsolver.monitor.gpu_memory import tell_gpu_memory

logger = logging.getLogger(__name__)

LOOK: Final = 1.0  # seconds between looks whether a rank's client is still there
LEFT: Final = "its Solver, or the client, is gone"  # reason of the end of a rank whose lease is gone
ABSENT: Final = 600.0
"""Seconds without a sign of life after which a client counts as gone. One that was stopped keeps its connection; but
functions that hold the interpreter's lock, and computers that sleep, are silent for minutes, too."""
ABSENT_LOOK: Final = 60.0
"""Seconds between looks at a client's last sign of life, of which two in a row have to find it too old: a scheduler
that was stopped itself has not heard of any for as long."""

_RANKS: dict[tuple[str, str], Rank] = {}
"""The ranks of this process by program and worker address (several workers may be threads of one process)."""
_KEEPERS: dict[Rank, asyncio.Task[None]] = {}  # the task that looks after each of them


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A rank that was made: its address, NCCL's unique id if it has it, and who has left it a link, or ""."""

    address: Address
    unique: bytes | None
    left: str = ""


# -- called through Client.run, on the worker's event loop ------------------------------------------------------------


async def open_rank(spec: RankSpec, made: bytes | None, number: int, *, dask_worker: Worker) -> Opened | Busy | Failure:
    """Make a rank, and the program on one that is alone; rank 0 puts the lease into its worker's memory."""
    address = dask_worker.address
    if number == 0 and spec.lease not in dask_worker.data:
        dask_worker.update_data(data={spec.lease: spec.program})
    if spec.exclusive:
        for (name, place), other in _RANKS.items():
            if place == address and other.spec.exclusive:
                return Busy(program=name)
    left = resting_links.take(address) if spec.exclusive else None
    try:
        rank = Rank(spec, number, dask_worker, left)
    except OSError as error:
        if left is not None:
            await resting_links.rest(dask_worker, left)
        return Failure(error=RankError(f"rank {number} cannot listen on worker {address}: {error}"))
    if spec.exclusive:
        tell_gpu_memory(dask_worker)
    _RANKS[spec.program, address] = rank
    _KEEPERS[rank] = asyncio.create_task(_keep(rank, dask_worker))
    alone = spec.size == 1  # which waits for no other
    found = await (rank.within(rank.join, [], made, False) if alone else rank.within(rank.unique_id))
    if isinstance(found, Failure):
        return found
    known = left is not None and left.suits(number, spec.ranks, spec.timeout)
    left_by = left.program if left and known else ""
    return Opened(address=rank.connections.address, unique=None if alone else found, left=left_by)


async def connect_rank(program: str, addresses: Sequence[Address], made: bytes, *, dask_worker: Worker) -> Any:
    """Connect a rank to the others; what makes the program on it is a pickled pair for `start_rank`."""
    return await _within(program, dask_worker, Rank.connect, addresses, made)


async def join_rank(
    program: str, addresses: Sequence[Address], made: bytes, linked: bool, *, dask_worker: Worker
) -> Any:
    """Connect a rank to all others, by the link that it has where all have it, and make the program on it."""
    return await _within(program, dask_worker, Rank.join, addresses, made, linked)


async def start_rank(program: str, unique: bytes | None, *, dask_worker: Worker) -> Any:
    """Make the program on a rank."""
    return await _within(program, dask_worker, Rank.start, unique)


async def stay(program: str, *, dask_worker: Worker) -> None:
    """Do nothing, after what was put ahead of this."""


async def call_rank(program: str, call: bytes, *, dask_worker: Worker) -> Any:
    """Run a command on a rank, pickled as what it returns is."""
    return await _within(program, dask_worker, Rank.call, call)


async def load_rank(program: str, name: str, call: bytes, keys: Mapping[int, Any], *, dask_worker: Worker) -> Any:
    """Run a command with the blocks of the rank's chunks: keys of the cluster's data, or arrays, lent or not."""
    return await _within(program, dask_worker, Rank.load, name, *await _blocks(dask_worker, keys), call)


async def unload_rank(program: str, call: bytes, made_as: str | None, *, dask_worker: Worker) -> Any:
    """Run a command that returns blocks, and put them into the worker's memory by this name.

    Returns the bytes of each block by chunk number, for the scheduler to know; without a name the blocks themselves,
    which are lent until the next command.
    """
    blocks = await _within(program, dask_worker, Rank.unload, call, made_as is None)
    return blocks if isinstance(blocks, Failure) or made_as is None else _placed(dask_worker, blocks, made_as)


async def exchange_rank(
    program: str,
    name: str,
    call: bytes,
    made_as: str | None,
    lend: bool,
    keys: Mapping[int, Any],
    *,
    dask_worker: Worker,
) -> Any:
    """`load_rank` with a command that also returns blocks or None.

    Returns what `load_rank` does, and None or what `unload_rank` returns; the blocks themselves where the client has no
    name for them, lent or not.
    """
    found = await _within(program, dask_worker, Rank.exchange, name, *await _blocks(dask_worker, keys), call, lend)
    if isinstance(found, Failure):
        return found
    reply, blocks = found
    return reply, blocks if blocks is None or made_as is None else _placed(dask_worker, blocks, made_as)


async def close_rank(program: str, reason: str | None, *, dask_worker: Worker) -> None:
    """End a rank; with a reason, a caller that waits for it fails with that."""
    await _end((program, dask_worker.address), reason, dask_worker)


# -- the rest ---------------------------------------------------------------------------------------------------------


async def _keep(rank: Rank, worker: Worker) -> None:
    """End a rank whose client has left without a word, or whose worker is going."""
    spec, place = rank.spec, (rank.spec.program, worker.address)
    closed = asyncio.ensure_future(worker.finished())
    watch = asyncio.ensure_future(_watch(spec.lease, worker)) if rank.number == 0 else None
    loop, leased = asyncio.get_running_loop(), False
    until = loop.time() + ANSWER  # the scheduler is told of the lease while ranks are opened
    try:
        while not rank.ending:
            await asyncio.wait([closed], timeout=LOOK)
            reason = await _why_end(spec, worker)
            leased = leased or reason is None
            if reason == LEFT and not leased and loop.time() < until:
                continue
            if reason is not None and not rank.ending:
                logger.warning("program %s is ended: %s", spec.program, reason)
                await _end(place, reason, worker)
    finally:
        closed.cancel()
        if watch is not None:
            watch.cancel()


async def _watch(lease: str, worker: Worker) -> None:
    """Have the scheduler forget a lease whose client gives no sign of life: then every rank ends."""
    from distributed.worker import dumps_function

    def look(
        absent: float, give_up: bool, dask_scheduler: Any
    ) -> bool:  # goes by its text: a scheduler may be without this package
        from distributed.metrics import time

        task = dask_scheduler.tasks.get(lease)
        silent = [client for client in task.who_wants if time() - client.last_seen > absent] if task else []
        for client in silent if give_up else ():
            dask_scheduler.client_releases_keys([lease], client.client_key)
        return bool(silent)

    found = False
    while True:
        await asyncio.sleep(ABSENT_LOOK)
        try:
            told = await worker.scheduler.run_function(
                function=dumps_function(look),
                args=dumps_function((ABSENT, found)),
                kwargs=dumps_function({}),
                wait=True,
            )
        except (OSError, RuntimeError):  # as in `_why_end`
            continue
        found = told["status"] == "OK" and told["result"]


async def _end(place: tuple[str, str], reason: str | None, worker: Worker) -> None:
    """End a rank. Only when its thread has come to an end is the rank forgotten, and a GPU free for the next."""
    rank = _RANKS.get(place)
    if rank is None or rank.ending:
        return
    try:
        await rank.end(reason)
    finally:
        if rank.link is not None:
            await resting_links.rest(worker, rank.link)
        del _RANKS[place]
        keeper = _KEEPERS.pop(rank)
        if keeper is not asyncio.current_task():
            keeper.cancel()


async def _why_end(spec: RankSpec, worker: Worker) -> str | None:
    if worker.status.name in ("closing", "closed", "failed"):
        return f"worker {worker.address} was closed"
    try:
        holders = await worker.scheduler.who_has(keys=[spec.lease])
    except OSError:
        return None  # the worker itself decides how long it lives without a scheduler
    except RuntimeError as error:  # of a worker that closes its connections meanwhile, which must not end the looking
        return f"worker {worker.address} asks no rank any more: {error}"
    return None if holders[spec.lease] else LEFT


async def _within(program: str, worker: Worker, method: Callable[..., Any], *args: Any) -> Any:
    rank = _RANKS.get((program, worker.address))
    if rank is None or rank.ending:
        return Failure(
            error=RankError(f"worker {worker.address} has no rank of {program}: it restarted, or the program ended"),
            secondary=True,
        )
    return await rank.within(method, rank, *args)


def key_of(name: str, number: int) -> str:
    """Key of a chunk's block."""
    return f"{name}-{number}"


def _placed(worker: Worker, blocks: Mapping[int, Any], name: str) -> dict[int, int]:
    """Bytes of each chunk's block, put into the worker's memory."""
    from dask.sizeof import sizeof

    worker.update_data(data={key_of(name, number): block for number, block in blocks.items()})
    return {number: sizeof(block) for number, block in blocks.items()}


async def _blocks(worker: Worker, keys: Mapping[int, Any]) -> tuple[dict[int, Any], list[Any]]:
    """The blocks of these keys by chunk number, and the keys that are gone; arrays, lent or not, stay what they are."""
    blocks = {number: key for number, key in keys.items() if isinstance(key, LentArray | np.ndarray)}
    asked = {number: key for number, key in keys.items() if number not in blocks}
    found = await values_of(worker, list(asked.values()))
    blocks |= {number: found[key] for number, key in asked.items() if key in found}
    return blocks, [key for key in asked.values() if key not in found]


async def values_of(worker: Worker, keys: Sequence[Any]) -> dict[Any, Any]:
    """The data of these keys, from this worker's memory or the other workers'; keys that are gone are left out."""
    from distributed.utils_comm import gather_from_workers

    found = {key: worker.data[key] for key in keys if key in worker.data}
    away = [key for key in keys if key not in found]
    if away:
        holders = await worker.scheduler.who_has(keys=away)
        data, *_ = await gather_from_workers(holders, rpc=worker.rpc, who=worker.address)
        found.update(data)
    return found
