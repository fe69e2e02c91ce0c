"""A matrix of this process on a cluster: its rows go to the owners of their chunks as they lie, and are cut there.

Owners read them where they lie if they can (`dsolver.engines.dask.lending`), find which columns of others they read,
number their columns and count. This process asks each of them once, for the numbers of columns and the counts, plans
the exchange, and has no part in the rest: a matrix of 28 million entries took it 1.2 s to cut for two owners.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from dsolver.cluster.rows.placed_rows import CutPiece, GivenRows, cut_given, told, with_plan
from dsolver.cluster.rows.row_blocks import results_of
from dsolver.cluster.runtime import Runtime
from dsolver.engines.dask.blocks import scatter
from dsolver.engines.dask.connection import answering
from dsolver.engines.dask.lending import Loans, reach_of
from dsolver.errors import InputError
from dsolver.grid.cut import owners_of
from dsolver.grid.halo import HaloPlan
from dsolver.grid.partition import Partition
from dsolver.grid.row_partition import RowPartition
from dsolver.kernels.lending.arrays import WORTH
from dsolver.matrices.checked import as_arrays
from dsolver.matrices.chunks.plan import block_sizes
from dsolver.matrices.chunks.row_block import ChunkCounts, CutRows, RowBlock

if TYPE_CHECKING:
    import numpy.typing as npt
    from distributed import Client, Future


ANYHOW: Final = {"allow_other_workers": True, "pure": False}
"""Options of tasks that run again elsewhere where their worker is lost."""
AHEAD: Final = 1 << 20
"""Entries from which on a matrix is sent before this process has looked at it, which takes 4 ns of a core for each."""


@final
@dataclass(frozen=True, kw_only=True)
class CutWishes:
    """Wishes about rows of a matrix that their owners cut."""

    bounds: tuple[int, ...]  # of the chunks' rows
    owners: tuple[str, ...]
    kernels: str
    formats: str | None
    blocks: tuple[int, ...]  # sizes of blocks of which statistics are wanted


@final
class Sending:
    """Rows of a matrix on their way to the owners of its chunks, who cut and count them.

    An owner reads what it is lent for as long as its task runs, whether or not its rows are still wanted.
    """

    def __init__(self, client: Client, matrix: Any, near: Any, cut: CutWishes, readers: Collection[str]) -> None:
        self._client, self._of, self._cut_as = client, _places(matrix, near), cut
        self.pieces: list[Future[CutPiece | None]] = []
        self._told: list[Future[Any]] = []
        how = {"size": matrix.shape[1], "formats": cut.formats, "blocks": cut.blocks, "kernels": cut.kernels}
        for span, owner in zip(pairwise(cut.bounds), cut.owners, strict=True):
            loans = Loans() if owner in readers else None
            rows = self._given(_rows_of(matrix, near, span), owner, loans)
            lent = ExitStack()
            if loans is not None:
                lent.enter_context(loans.open())
            self.pieces.append(client.submit(cut_given, rows, **how, **ANYHOW, workers=[owner]))
            self._told.append(client.submit(told, self.pieces[-1], pure=False))
            self._told[-1].add_done_callback(partial(_close, lent))

    def is_of(self, matrix: Any, near: Any, cut: CutWishes) -> bool:
        """Whether these are the rows of such a matrix, cut like this, which have not been dropped."""
        return bool(self.pieces) and (self._of, self._cut_as) == (_places(matrix, near), cut)

    def told(self) -> list[tuple[npt.NDArray[np.int64], ChunkCounts]]:
        """Ghosts and counts of each chunk, which this waits for. Raises as `results_of`, or that rows were changed."""
        found = results_of(self._client, self._told)
        if any(one is None for one in found):
            raise InputError("A was changed while it was read: its rows lead out of their arrays")
        return found

    def drop(self) -> None:
        """Let go of the rows there, unless they were taken."""
        self.pieces, self._told = [], []

    def _given(self, given: GivenRows, owner: str, loans: Loans | None) -> Any:
        """Rows of a chunk for its owner: what it reads by itself, or a future of copies."""
        if loans is not None:
            arrays = given.start, given.columns, given.values, given.near
            lent = [array if array is None or array.nbytes < WORTH else loans.of(array) for array in arrays]
            if all(found is not None for found, array in zip(lent, arrays, strict=True) if array is not None):
                return GivenRows(given.span, *lent)
        with answering():
            return self._client.sync(scatter, self._client, given, [owner])


def _close(lent: ExitStack, _: Any) -> None:
    lent.close()


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


@final
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
        self._cut: list[Future[CutPiece | None]] = []
        self._sent: list[Future[RowBlock]] = []
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
        there = tuple(owners) == self._cut_as.owners and all(piece.status == "finished" for piece in self._cut)
        if not there or not self._sent:
            self._cut_as = replace(self._cut_as, owners=tuple(owners))
            self._take(self._send())
        sent, self._sent, self._cut = self._sent, [], []
        return dict(enumerate(sent))

    def _send(self) -> Sending:
        """Have every owner take its rows and cut them."""
        with answering():
            readers = self._client.sync(reach_of, self._client, self._cut_as.owners).readers
        return Sending(self._client, self._matrix, self._near, self._cut_as, readers)

    def _take(self, sending: Sending) -> tuple[ChunkCounts, ...]:
        """Take the rows that were sent, with the plan of their exchange; counts of each chunk."""
        found = sending.told()
        self._plans = self._plans or self._partition.halo_plans([ghosts for ghosts, _ in found])
        self._cut = sending.pieces
        each = zip(self._cut, self._plans, self._cut_as.owners, strict=True)
        self._sent = [
            self._client.submit(with_plan, piece, plan, **ANYHOW, workers=[owner]) for piece, plan, owner in each
        ]
        sending.drop()
        return tuple(counts for _, counts in found)
