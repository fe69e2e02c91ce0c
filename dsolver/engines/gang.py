"""The client's side of a resident job: starts one rank a worker, all at once, and calls them together."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from dsolver.engines import ranks
from dsolver.engines.base import Engine
from dsolver.engines.job import Job
from dsolver.engines.mesh import TOKEN_BYTES, PeerError
from dsolver.errors import DsolverError, RankError
from dsolver.partition import Partition

if TYPE_CHECKING:
    from distributed import Client, Future

TIMEOUT: Final = 120.0
"""Seconds of silence after which a rank that others wait for counts as lost."""
GRACE: Final = 5.0
"""Seconds that the other ranks get to end after one has failed."""
LOOK: Final = 2.0
"""Seconds between looks whether every worker is still there."""


@final
class GangJob(Job):
    """A program with one rank on each owner of a chunk.

    Args:
        client: the cluster.
        partition: the chunks.
        owners: the worker address of each chunk.
        kernels: the backend's name.
        program: made on every rank as program(engine, spec).
        spec: what the program needs; picklable.

    Raises:
        RankError: a rank could not be started; none is left running.
    """

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
        self._job = f"dsolver-{uuid.uuid4().hex[:12]}"
        gang = ranks.GangSpec(
            job=self._job,
            partition=partition,
            ranks=tuple(self._workers.index(owner) for owner in owners),
            kernels=kernels,
            token=secrets.token_bytes(TOKEN_BYTES),
            timeout=TIMEOUT,
        )
        opened = self._everywhere(ranks.open_rank, each=[(gang, rank) for rank in range(len(self._workers))])
        addresses = [address for address, _ in opened]
        self._all(ranks.connect_rank, addresses, opened[0][1])
        self._all(ranks.start_program, program, spec)

    def call(self, method: str, *args: Any) -> Any:
        return self._all(ranks.call_program, method, args)[0]

    def load(self, name: str, blocks: Mapping[int, Any]) -> None:
        futures = []
        for number, block in blocks.items():
            if _is_array(block):
                block = self._client.scatter(block, workers=[self._owners[number]], hash=False)
            futures.append(self._task(ranks.put_block, name, number, block))
        for future in futures:
            future.result()
        self._all(ranks.load_field, name)

    def unload(self, name: str) -> Mapping[int, Any]:
        self._all(ranks.unload_field, name)
        blocks = {number: self._task(ranks.take_block, name, number) for number in range(len(self._owners))}
        for block in blocks.values():
            block.exception()  # taken before the ranks may go; whoever asks for the block gets the error
        return blocks

    def close(self) -> None:
        self._end(None)

    def _task(self, function: Callable[..., Any], name: str, number: int, *args: Any) -> Future[Any]:
        """A task on the owner of a chunk."""
        return self._client.submit(
            function,
            self._job,
            name,
            number,
            *args,
            workers=[self._owners[number]],
            allow_other_workers=False,
            pure=False,
            key=f"{function.__name__.replace('_', '-')}-{self._job}-{name}-{number}-{uuid.uuid4().hex[:8]}",
        )

    def _all(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """function(job, *args) on every rank at once."""
        if not self._open:
            raise RankError("this job has ended: start a new one")
        return self._everywhere(function, each=[(self._job, *args)] * len(self._workers))

    def _everywhere(self, function: Callable[..., Any], each: Sequence[tuple[Any, ...]]) -> list[Any]:
        try:
            results: list[Any] = self._client.sync(self._gather, function, each)
        except BaseException as error:
            self._end(str(error) or type(error).__name__)
            raise
        return results

    async def _gather(self, function: Callable[..., Any], each: Sequence[tuple[Any, ...]]) -> list[Any]:
        """One call a rank, in parallel. When one fails the others get a grace period; the first cause is raised."""
        calls = [
            asyncio.ensure_future(self._client.run(function, *args, workers=[worker]))
            for worker, args in zip(self._workers, each, strict=True)
        ]
        try:
            await self._finished(calls)
            failed = {i: call.exception() for i, call in enumerate(calls) if call.done() and call.exception()}
            if failed or not all(call.done() for call in calls):
                raise self._cause(failed)
            return [call.result()[worker] for worker, call in zip(self._workers, calls, strict=True)]
        finally:
            for call in calls:
                call.cancel()

    async def _finished(self, calls: Sequence[asyncio.Future[Any]]) -> None:
        """Wait until every call is done, or one has failed or lost its worker and the grace period is over."""
        pending: set[asyncio.Future[Any]] = set(calls)
        while pending:
            done, pending = await asyncio.wait(pending, timeout=LOOK, return_when=asyncio.FIRST_EXCEPTION)
            if any(call.exception() for call in done) or (pending and await self._lost()):
                if pending:
                    await asyncio.wait(pending, timeout=GRACE)
                return

    async def _lost(self) -> list[str]:
        """Workers of this job that have left the cluster."""
        present = await self._present()
        return [worker for worker in self._workers if worker not in present]

    async def _present(self) -> Mapping[str, Any]:
        """The cluster's workers by address."""
        scheduler: Any = self._client.scheduler
        identity = await scheduler.identity(n_workers=-1)
        workers: Mapping[str, Any] = identity["workers"]
        return workers

    def _cause(self, failed: Mapping[int, BaseException | None]) -> BaseException:
        """The error to raise: a rank's own failure before those of ranks that only lost a peer."""
        for rank, error in sorted(failed.items(), key=lambda item: isinstance(item[1], PeerError)):
            if isinstance(error, DsolverError):
                return error
            made = RankError(f"rank {rank} on worker {self._workers[rank]} failed: {error!r}")
            made.__cause__ = error
            return made
        return RankError(f"a worker of this job left the cluster: it had {', '.join(self._workers)}")

    def _end(self, reason: str | None) -> None:
        """Close every rank that can still be reached."""
        if not self._open:
            return
        self._open = False
        self._client.sync(self._close_all, reason)

    async def _close_all(self, reason: str | None) -> None:
        present = await self._present()
        there = [worker for worker in self._workers if worker in present]
        closing = self._client.run(ranks.close_rank, self._job, reason, workers=there, on_error="ignore")
        await asyncio.wait([asyncio.ensure_future(closing)], timeout=GRACE)


def _is_array(block: Any) -> bool:
    return hasattr(block, "__array__") or hasattr(block, "__cuda_array_interface__")
