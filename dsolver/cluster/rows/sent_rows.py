"""A matrix of this process on a cluster: its rows go to the owners of their chunks as they lie, and are cut there.

Owners read them where they lie if they can (`dsolver.engines.dask.lending`), find which columns of others they read,
number their columns and count. This process asks each of them once, for the numbers of columns and the counts, plans
the exchange, and has no part in the rest: a matrix of 28 million entries took it 1.2 s to cut for two owners.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dsolver.cluster.rows.placed_rows import GivenRows
from dsolver.cluster.rows.taken_rows import TakenRows, forget_rows, take_plans, take_rows
from dsolver.cluster.runtime import Runtime
from dsolver.engines.dask.blocks import register, scatter
from dsolver.engines.dask.connection import ANSWER, answering, begun, wait_for
from dsolver.engines.dask.lending import Loans, reach_of
from dsolver.engines.spmd.calls import RankCalls, answered
from dsolver.engines.spmd.relay import Call, packed
from dsolver.grid.cut import owners_of
from dsolver.grid.halo import HaloPlan
from dsolver.grid.partition import Partition
from dsolver.grid.row_partition import RowPartition
from dsolver.kernels.lending.arrays import WORTH
from dsolver.matrices.checked import as_arrays
from dsolver.matrices.chunks.plan import block_sizes
from dsolver.matrices.chunks.row_block import ChunkCounts, CutRows, RowBlock

if TYPE_CHECKING:
    from distributed import Client, Future


AHEAD: Final = 1 << 20
"""Entries from which on a matrix is sent before this process has looked at it, which takes 4 ns of a core for each."""


@dataclass(frozen=True, kw_only=True)
class CutWishes:
    """Wishes about rows of a matrix that their owners cut."""

    bounds: tuple[int, ...]  # of the chunks' rows
    owners: tuple[str, ...]
    kernels: str
    formats: str | None
    blocks: tuple[int, ...]  # sizes of blocks of which statistics are wanted


class Sending:
    """Rows of a matrix on their way to the owners of its chunks, who cut and count them.

    An owner reads what it is lent for as long as that takes, whether or not its rows are still wanted.
    """

    def __init__(self, client: Client, matrix: Any, near: Any, cut: CutWishes, readers: Collection[str]) -> None:
        self._client, self._of, self._cut_as = client, _places(matrix, near), cut
        self._names = [f"dsolver-rows-{uuid.uuid4().hex}" for _ in cut.owners]
        self._calls = RankCalls(client, tuple(dict.fromkeys(cut.owners)), "rows of a matrix")
        loans = Loans()
        cut_out = [_rows_of(matrix, near, span) for span in pairwise(cut.bounds)]
        each = zip(cut_out, cut.owners, strict=True)
        given = [self._given(rows, owner, loans if owner in readers else None) for rows, owner in each]
        lent = ExitStack()
        lent.enter_context(loans.open())
        options = {"formats": cut.formats, "blocks": cut.blocks, "kernels": cut.kernels}
        keys = [rows if isinstance(rows, GivenRows) else rows.key for rows in given]
        taking = self._calls.gather(packed((take_rows, (matrix.shape[1], options))), self._to_owners(keys))
        self._taken: Any = begun(client, taking)
        self._rows: Any = begun(client, self._registered([rows.bytes for rows in cut_out]))
        begun(client, self._ended(self._taken, (self._rows, given), lent))

    def is_of(self, matrix: Any, near: Any, cut: CutWishes) -> bool:
        """Whether these are the rows of such a matrix, cut like this, which have not been dropped."""
        return self._rows is not None and (self._of, self._cut_as) == (_places(matrix, near), cut)

    def told(self) -> list[TakenRows]:
        """Findings about each chunk's rows, which this waits for. InputError: rows were changed meanwhile."""
        by_name = {name: taken for reply in self._taken.result() for name, taken in reply.items()}
        return [by_name[name] for name in self._names]

    def planned(self, plans: Sequence[HaloPlan]) -> Any:
        """Future of the futures of each chunk's rows, whose owners are told their exchange meanwhile."""
        return begun(self._client, self._planned(plans, self._rows))

    async def _planned(self, plans: Sequence[HaloPlan], rows: Any) -> dict[int, Future[RowBlock]]:
        if any(plan.sends for plan in plans):  # those that exchange nothing have it
            await self._calls.gather(packed((take_plans, ())), self._to_owners(plans))
        futures = await asyncio.wrap_future(rows)
        return {number: futures[name] for number, name in enumerate(self._names)}

    def drop(self) -> None:
        """Let go of the rows there, unless they were taken."""
        self._taken = self._rows = None

    def _to_owners(self, each: Sequence[Any]) -> list[Call]:
        """Calls that bring each owner something of its chunks, by their names."""
        found: dict[str, dict[str, Any]] = {owner: {} for owner in self._calls.workers}
        for name, owner, mine in zip(self._names, self._cut_as.owners, each, strict=True):
            found[owner][name] = mine
        return [Call(rank, owner, ((mine,),)) for rank, (owner, mine) in enumerate(found.items())]

    async def _registered(self, sizes: Sequence[int]) -> dict[str, Future[RowBlock]]:
        """Futures of rows by name, of which the scheduler is told while they are taken; sizes: their bytes, about."""
        where = dict(zip(self._names, self._cut_as.owners, strict=True))
        bytes_of = dict(zip(self._names, sizes, strict=True))
        return await wait_for(self._client, register(self._client, where, bytes_of), ANSWER)

    async def _ended(self, taken: Any, held: Any, lent: ExitStack) -> None:
        """End the loan once rows are taken; owners forget theirs where one has failed.

        held: until then, what they are made of, and their futures: a name that the scheduler has forgotten would stay
        with an owner that is late.
        """
        over = asyncio.wrap_future(taken)
        try:  # its error does not pass here: clearing its frames, as handlers of it do, would end this one
            await asyncio.wait([over])
        finally:
            lent.close()
        if not over.cancelled() and over.exception() is not None:
            with suppress(Exception):  # of an owner that is lost
                await self._calls.gather(packed((forget_rows, ())), self._to_owners([None] * len(self._names)))
        del held

    def _given(self, given: GivenRows, owner: str, loans: Loans | None) -> Any:
        """Rows of a chunk for its owner: what it reads by itself, few that travel at once, or a future of copies."""
        if given.bytes < WORTH:
            return given
        if loans is not None:
            arrays = given.start, given.columns, given.values, given.near
            lent = [array if array is None or array.nbytes < WORTH else loans.of(array) for array in arrays]
            if all(found is not None for found, array in zip(lent, arrays, strict=True) if array is not None):
                return GivenRows(given.span, *lent)
        with answering():
            return self._client.sync(scatter, self._client, given, [owner])


def _places(matrix: Any, near: Any) -> tuple[Any, ...]:
    """Places in memory by which arrays are known, for SciPy makes new ones of the same memory."""
    arrays = matrix.indptr, matrix.indices, matrix.data
    return (*((one.ctypes.data, one.shape, one.dtype) for one in arrays), id(near))


def _rows_of(matrix: Any, near: Any, span: tuple[int, int]) -> GivenRows:
    first, last = span
    begin, end = int(matrix.indptr[first]), int(matrix.indptr[last])
    arrays = matrix.indptr[first : last + 1], matrix.indices[begin:end], matrix.data[begin:end]
    return GivenRows(span, *arrays, None if near is None else near[first:last])


def sent_ahead(client: Client, A: Any, connected: Callable[[], Runtime], chunks: int | None = None) -> Sending | None:
    """Rows that owners take while this process looks at a matrix of SciPy, should that be the one that is solved with.

    They do for compressed rows whose types stay, where each of them reads this process: a copy for nothing is too much.

    Args:
        connected: as of `dsolver.cluster.runtime.connect`, whose errors it raises.
        chunks: how many there are to be; by default one for each worker.
    """
    if not as_arrays(A) or not isinstance(A.data, np.ndarray) or A.shape[0] != A.shape[1]:
        return None
    stay = A.dtype == np.float64 and A.indices.dtype == np.int32
    if not stay or len(A.data) < AHEAD or not A.indptr[-1] == len(A.indices) == len(A.data):
        return None
    runtime = connected()
    if runtime.client is None:
        return None
    with answering():
        readers = client.sync(reach_of, client, runtime.workers).readers
    if not readers.issuperset(runtime.workers):
        return None
    partition = RowPartition.by_entries(A.indptr, min(chunks or len(runtime.workers), A.shape[0]))
    cut = cut_of(runtime, partition, None, block_sizes(None, 1, cuda=runtime.device == "cuda"))
    return Sending(client, A, None, cut, readers)


def cut_of(runtime: Runtime, partition: RowPartition, formats: str | None, blocks: Sequence[int]) -> CutWishes:
    """A cut of a partition on the workers of a runtime."""
    owners = owners_of(Partition((partition.rows, 1, 1), partition.sizes), runtime.workers)
    return CutWishes(
        bounds=partition.bounds, owners=owners, kernels=runtime.kernels, formats=formats, blocks=tuple(blocks)
    )


class SentMatrix(CutRows):
    """A matrix of this process, whose rows were sent to the owners of its chunks.

    ClusterError: a worker was lost, or the cluster does not answer.
    """

    def __init__(
        self,
        runtime: Runtime,
        ahead: Sending | None,  # rows that may have been sent before
        matrix: Any,  # of `dsolver.matrices.checked.checked`, on the host
        partition: RowPartition,
        formats: str | None,
        near: Any,
        blocks: Sequence[int],  # sizes of blocks of which statistics are wanted
    ) -> None:
        assert runtime.client is not None
        self._client, self._matrix, self._partition, self._near = runtime.client, matrix, partition, near
        self._plans: tuple[HaloPlan, ...] = ()
        self._cut_as = cut_of(runtime, partition, formats, blocks)
        self._sent: Any = None
        there = ahead is not None and ahead.is_of(matrix, near, self._cut_as)
        self._counts = self._take(ahead if there and ahead is not None else self._send())

    @property
    def counts(self) -> tuple[ChunkCounts, ...]:
        """As of `CutRows`, like `senders`."""
        return self._counts

    @property
    def senders(self) -> tuple[tuple[int, ...], ...]:
        """Found by the owners."""
        return tuple(tuple(source for source, _ in plan.receives) for plan in self._plans)

    def blocks(self, partition: Partition, *, host: bool, owners: Sequence[str]) -> Mapping[int, Any]:  # noqa: ARG002
        """Futures of the rows of every chunk, by number, which this keeps no longer: another call sends rows again."""
        assert partition.sizes == self._partition.sizes
        found: Mapping[int, Any] = {}
        if tuple(owners) == self._cut_as.owners and self._sent is not None:
            found = self._given_away()
        if not found or any(rows.status != "finished" for rows in found.values()):
            self._cut_as = replace(self._cut_as, owners=tuple(owners))
            self._take(self._send())
            found = self._given_away()
        return found

    def _given_away(self) -> Mapping[int, Any]:
        sent, self._sent = self._sent, None
        with answered():
            found: Mapping[int, Any] = sent.result()
        return found

    def _send(self) -> Sending:
        """Have every owner take its rows and cut them."""
        with answering():
            readers = self._client.sync(reach_of, self._client, self._cut_as.owners).readers
        return Sending(self._client, self._matrix, self._near, self._cut_as, readers)

    def _take(self, sending: Sending) -> tuple[ChunkCounts, ...]:
        """Take the rows that were sent, with the plan of their exchange; counts of each chunk."""
        found = sending.told()
        self._plans = self._plans or self._partition.halo_plans([each.ghosts for each in found])
        self._sent = sending.planned(self._plans)
        return tuple(each.counts for each in found)
