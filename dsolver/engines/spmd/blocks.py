"""Blocks of data on their way to ranks and from them: on the cluster, lent, or brought."""

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from distributed import Future

from dsolver.dask_types import Client
from dsolver.engines.dask.blocks import register, scatter_to_owners, wait_for_blocks
from dsolver.engines.dask.connection import ANSWER, begun, wait_for
from dsolver.engines.dask.lending import Loans, reach_of
from dsolver.engines.redistribution import BlocksInBoxes, OtherCut
from dsolver.engines.running_program import Blocks, PartsOfArray
from dsolver.engines.spmd import worker as ranks
from dsolver.engines.spmd.calls import Held, OnRanks, RankCalls, answered
from dsolver.engines.spmd.relay import Call
from dsolver.errors import WorkerLostError
from dsolver.grid.partition import Partition
from dsolver.kernels.cpu.loops.copying import HostRoom
from dsolver.kernels.lending.arrays import WORTH, LentArray
from dsolver.kernels.lending.memory import LendingError

MOVED_BY: Final = ("cuda",)
"""Kernels between whose devices blocks of another cut are moved: between processes of a host that costs more."""
ITEM: Final = 8  # bytes of an item of x
HEAD_START: Final = 0.001
"""Seconds that calls are ahead of what the scheduler is told of their results: ranks wait for the calls."""


class RankBlocks:
    """Blocks that ranks take, and blocks that they have made."""

    def __init__(
        self, client: Client, partition: Partition, owners: Sequence[str], kernels: str, calls: RankCalls
    ) -> None:
        self._client, self._partition, self._owners, self._calls = client, partition, tuple(owners), calls
        self._moves = kernels in MOVED_BY
        self._telling: asyncio.Future[Any] | None = None  # held, as the loop does not hold it
        self._reach = begun(client, reach_of(client, calls.workers))

    @property
    def all_lend(self) -> bool:
        """Whether this process reads arrays of all workers where they lie."""
        return self._reach.result().lenders >= set(self._calls.workers)

    def taken(self, name: str, blocks: Mapping[int, Any], loans: Loans) -> tuple[OtherCut | None, OnRanks]:
        """Blocks as ranks take them: of their chunks, or of another cut, as they lie in memory, and which one it is."""
        if not (isinstance(blocks, BlocksInBoxes) and self._moves and len(self._calls.workers) > 1):
            held = wait_for_blocks(self._client, name, blocks)
            return None, self._on_cluster(name, blocks, held, loans, self._owners)
        arrays = dict(enumerate(blocks.arrays))
        futures = wait_for_blocks(self._client, name, arrays)
        with answered():
            there = self._client.sync(self._who_has, [future.key for future in futures.values()]) if futures else {}
        near = {number: there.get(future.key, ()) for number, future in futures.items()}
        # A block is taken where it is, and where it is on no rank by any.
        takers = [
            next((rank for rank, worker in enumerate(self._calls.workers) if worker in near.get(number, ())), number)
            for number in arrays
        ]
        workers = [self._calls.workers[taker % len(self._calls.workers)] for taker in takers]
        cut = OtherCut(boxes=blocks.boxes, holders=tuple(self._owners.index(worker) for worker in workers))
        return cut, self._on_cluster(name, arrays, futures, loans, workers)

    async def _who_has(self, keys: Sequence[Any]) -> Mapping[Any, Sequence[str]]:
        """The workers that have each of these keys."""
        scheduler: Any = self._client.scheduler
        return await wait_for(self._client, scheduler.who_has(keys=list(keys)), ANSWER)

    def _on_cluster(
        self, name: str, blocks: Mapping[int, Any], computed: Mapping[int, Held], loans: Loans, takers: Sequence[str]
    ) -> OnRanks:
        """Blocks as ranks take them: computed ones are there, arrays are lent, or brought to their taker's memory.

        Arrays that are all together not worth lending travel with the call.
        """
        held = dict(computed)
        rest = {number: block for number, block in blocks.items() if number not in held}
        small = all(type(block) is np.ndarray for block in rest.values())
        if small and sum(block.nbytes for block in rest.values()) < WORTH:
            held |= rest
        readers = self._reach.result().readers if held.keys() < blocks.keys() else ()
        for number in blocks.keys() - held.keys():
            if takers[number] in readers and (array := loans.of(blocks[number])) is not None:
                held[number] = array
        keys = {number: f"dsolver-{name}-{uuid.uuid4().hex}" for number in blocks.keys() - held.keys()}
        by_taker: dict[str, dict[str, Any]] = {}
        for number, key in keys.items():
            by_taker.setdefault(takers[number], {})[key] = blocks[number]
        if by_taker:
            with answered():
                sent = self._client.sync(scatter_to_owners, self._client, by_taker, self._calls.directly.result())
            held |= {number: sent[key] for number, key in keys.items()}
        return {number: (takers[number], block) for number, block in held.items()}

    async def told(self, name: str, sizes: Mapping[int, int], wait: float = 0.0) -> dict[int, Future[Any]]:
        """Futures of blocks of that name in their owners' memory, of which the scheduler is told after some seconds.

        sizes: bytes of each, by chunk number.
        """
        await asyncio.sleep(wait)
        keys = {number: ranks.key_of(name, number) for number in sizes}
        where = {key: self._owners[number] for number, key in keys.items()}
        with answered():
            made = register(self._client, where, {keys[number]: size for number, size in sizes.items()})
            futures = await wait_for(self._client, made, ANSWER)
        return {number: futures[key] for number, key in keys.items()}

    def _let_go(self, told: asyncio.Future[Any]) -> None:
        """Forget futures that only this task has; where ranks fail, their error is raised, and not that of this one."""
        self._telling = None
        if not told.cancelled():
            told.exception()

    async def _room(self) -> HostRoom | None:
        """Memory of this process for what ranks will have made, made ready while they work; None for little."""
        whole = self._partition.grid, np.dtype(np.float64)
        return await asyncio.to_thread(HostRoom, *whole) if HostRoom.pays(*whole) else None

    def brought(self, replies: Iterable[Mapping[int, Any]], room: HostRoom | None = None) -> Blocks:
        """Blocks of ranks in this process: those that they lend are read; WorkerLostError where one has gone."""
        found = {number: block for blocks in replies for number, block in blocks.items()}
        made = PartsOfArray(self._partition, next(iter(found.values())).dtype, room)
        for number, block in found.items():
            if isinstance(block, LentArray):
                try:
                    block.fill(made[number])
                except LendingError as error:
                    raise WorkerLostError(f"worker {self._owners[number]} was lost with its part of x") from error
            else:
                made[number][...] = block
        return made

    async def exchanged(self, name: str | None, what: bytes, calls: Sequence[Call]) -> tuple[list[Any], Blocks | None]:
        """Replies of ranks to `exchange_rank`, and the blocks that they have made: futures, or arrays without a name.

        The scheduler is told of the blocks while ranks make them: none is asked for before its future is returned.
        """
        if name is None:
            # Calls are on their way first: threads that touch pages hold the interpreter as well.
            replies, room = await asyncio.gather(self._calls.gather(what, calls), self._room())
            made = [blocks for _, blocks in replies if blocks is not None]
            return replies, await asyncio.to_thread(self.brought, made, room) if made else None
        sizes = {number: ITEM * self._partition[number].box.points for number in range(len(self._owners))}
        self._telling = telling = asyncio.ensure_future(self.told(name, sizes, HEAD_START))
        telling.add_done_callback(self._let_go)
        replies = await self._calls.gather(what, calls)
        futures = await telling
        return replies, futures if any(placed for _, placed in replies) else None


# -- blocks of several commands in one reply ---------------------------------------------------------------------------


def made_by_each(
    program: Any, command: Callable[..., Blocks], options: Sequence[Mapping[str, Any]]
) -> dict[tuple[int, int], Any]:
    """Blocks of a command with each of several options, by the number of these and the chunk's."""
    made = enumerate(command(program, **each) for each in options)
    return {(number, chunk): block for number, blocks in made for chunk, block in blocks.items()}


def blocks_of(number: int, replies: Iterable[Mapping[tuple[int, int], Any]]) -> list[dict[int, Any]]:
    """Blocks by chunk number of ranks' replies to `made_by_each` that belong to the options of this number."""
    return [{chunk: block for (of, chunk), block in made.items() if of == number} for made in replies]
