"""A matrix in this process, cut into row blocks."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.grid.halo import HaloPlan
from dsolver.grid.partition import Partition
from dsolver.grid.row_partition import RowPartition
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.matrices.checked import backend_of, csr_of
from dsolver.matrices.chunks.row_block import ChunkCounts, CutRows, RowBlock, counts_of, row_block


class CutMatrix(CutRows):
    """A matrix in this process, cut into row blocks."""

    def __init__(
        self,
        matrix: Any,  # of `checked`; on a GPU if there is one chunk
        partition: RowPartition,
        formats: str | None = None,
        near: Any = None,  # float64 (rows, k), the near-null space of all rows, or None
        blocks: Sequence[int] = BLOCKS,  # sizes of blocks of which statistics are wanted
        # columns of each chunk, where the matrix is not square; by default those of its rows' numbers.
        columns: RowPartition | None = None,
    ) -> None:
        self._read = partition if columns is None else columns
        self._matrix, self._partition, self._formats, self._near = matrix, partition, formats, near
        self._blocks = blocks
        self._cut: list[RowBlock] = []  # as they were counted, until they are handed out

    @cached_property
    def _ghosts(self) -> list[npt.NDArray[np.int64]]:
        spans = zip(pairwise(self._partition.bounds), pairwise(self._read.bounds), strict=True)
        amg = backend_of(self._matrix.data).amg
        return [amg.ghosts([self._columns(*rows)], *columns)[0] for rows, columns in spans]

    @cached_property
    def plans(self) -> tuple[HaloPlan, ...]:
        """Halo exchange of each chunk."""
        if self._partition.chunks == 1:
            return (HaloPlan(sends=(), receives=()),)
        return self._read.halo_plans(self._ghosts)

    @property
    def senders(self) -> tuple[tuple[int, ...], ...]:
        """The chunks whose columns each chunk reads, ascending."""
        return tuple(tuple(source for source, _ in plan.receives) for plan in self.plans)

    def blocks(self, partition: Partition, *, host: bool, owners: Sequence[str] = ()) -> dict[int, RowBlock]:
        """The rows of every chunk of this partition, by number: for owners elsewhere in memory of the host."""
        assert partition.sizes == self._partition.sizes
        counts = self.counts  # which leaves the blocks that it was found of
        cut, self._cut = self._cut or self._all(), []
        more: dict[str, Any] = {"parts": None} if owners else {}  # which would travel with the rows
        pairs = enumerate(zip(cut, counts, strict=True))
        found = {n: replace(block, known=count.local, **more) for n, (block, count) in pairs}
        return {number: block.here for number, block in found.items()} if host or owners else found

    @cached_property
    def counts(self) -> tuple[ChunkCounts, ...]:
        """Counts of each chunk."""
        self._cut = self._all()
        count = partial(counts_of, backend_of(self._matrix.data))
        return tuple(map(count, self._cut, repeat(self._blocks), self._read.sizes[0]))

    def _columns(self, first: int, last: int) -> npt.NDArray[np.integer]:
        pointers = self._matrix.indptr
        return self._matrix.indices[pointers[first] : pointers[last]]

    def _all(self) -> list[RowBlock]:
        return [self._block(number) for number in range(self._partition.chunks)]

    def _block(self, number: int) -> RowBlock:
        block = self._whole() if self._partition.chunks == 1 else self._part(number)
        if self._near is None:
            return block
        first, last = self._partition.bounds[number : number + 2]
        return replace(block, near=self._near if len(self._near) == last - first else self._near[first:last].copy())

    def _whole(self) -> RowBlock:
        """The only chunk, which has all columns: its rows are the matrix's, and share its memory."""
        start, columns, values = csr_of(self._matrix)
        return RowBlock(start=start, columns=columns, values=values, plan=self.plans[0], formats=self._formats)

    def _part(self, number: int) -> RowBlock:
        first, last = self._partition.bounds[number : number + 2]
        pointers = self._matrix.indptr[first : last + 1].astype(np.int64)
        backend = backend_of(self._matrix.data)
        block = row_block(
            backend,
            pointers - pointers[0],
            self._columns(first, last),
            self._matrix.data[pointers[0] : pointers[-1]],
            (self._read.bounds[number], self._read.bounds[number + 1]),
            self._ghosts[number],
            self.plans[number],
            self._formats,
        )
        if not block.plan.slots:
            return block
        return replace(block, parts=backend.general.split(block.csr, self._read.sizes[0][number]))
