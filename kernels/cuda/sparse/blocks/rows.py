"""Matrices on a GPU whose rows come in full blocks: their nodes' graph beside the values of compressed rows."""

from typing import Any, Final, NamedTuple

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.cuda.sparse.stages.stages import WARP
from dsolver.kernels.formats.csr import Csr

FILE: Final = "sparse/blocks/rows.cu"
LANES: Final = 8  # threads of a row of blocks that is looked at, as in rows.cu


class BlockRows(NamedTuple):
    """A sparse matrix of full blocks."""

    # its blocks: where each row of them begins, and the columns in units of blocks. Values are those of the compressed
    # rows: rows × columns for each block, row after row.
    nodes: Csr
    rows: int
    columns: int

    @property
    def plain(self) -> Csr:
        """The compressed rows, which share the values."""
        count, entries = self.nodes.size, len(self.nodes.columns) * self.rows * self.columns
        start = cupy.empty(count * self.rows + 1, dtype=np.int64)
        out = Csr(start, cupy.empty(entries, dtype=np.int32), self.nodes.values)
        sizes = map(np.int32, (count, self.rows, self.columns))
        for_each(FILE, "expand", count, *sizes, *self.nodes[:2], *out[:2], lanes=WARP)
        return out


def in_blocks(*matrices: tuple[Csr, int, int]) -> tuple[BlockRows | None, ...]:
    """Matrices, given with rows and columns of blocks, by blocks that share values; None for others. It waits."""
    wrong = counters(len(matrices))
    found = [_in_blocks(*each, wrong[n : n + 1]) for n, each in enumerate(matrices)]
    return tuple(None if bad else each for each, bad in zip(found, read_back(wrong), strict=True))


def _in_blocks(a: Csr, rows: int, columns: int, wrong: Any) -> BlockRows | None:
    """A matrix by its blocks, unless the numbers of rows and entries tell that it has none.

    wrong: int64 (1,), which becomes one if some blocks are not full, or not in a row.
    """
    nodes, blocks = a.size // rows, len(a.columns) // (rows * columns)
    if a.size != nodes * rows or len(a.columns) != blocks * rows * columns:
        return None
    start, found = cupy.empty(nodes + 1, dtype=np.int64), cupy.empty(blocks, dtype=np.int32)
    for_each(FILE, "graph", nodes + 1, *a[:2], *map(np.int32, (nodes, rows, columns)), start, found, wrong, lanes=LANES)
    return BlockRows(Csr(start, found, a.values), rows, columns)
