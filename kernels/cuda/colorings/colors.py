"""Colors of the rows of a matrix on a GPU, with the results of `dsolver.kernels.cpu.colorings`."""

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.colorings.graph import Graph, of_pairs
from dsolver.kernels.cpu.colorings import colors as host
from dsolver.kernels.cuda.launch.loader import device_property, for_each
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE: Final = "colorings/colors.cu"
WARP: Final = 32
BLOCKS: Final = 8  # blocks for each multiprocessor at most: as many as run at once
VISITS: Final = 64
"""Rounds of visits between two looks whether rows are left: a launch takes 5 us, and most orders need hundreds."""
MOST_VISITS: Final = 8192
"""Rounds from where on the host, which visits a row in about 0.1 us, is the faster one: of chains of rows."""
ROUNDS: Final = 8  # rounds of independent sets between two looks


def graph_of(a: Csr) -> Graph:
    """See `SweepSetup.graph_of`; rows may be among their own columns, which are ignored."""
    graph = Graph(a.start, a.columns)
    missing = counters(1)
    _by_rows("one_way", graph, missing.view(np.uint64))
    if not read_back(missing)[0]:
        return graph
    size, rows, columns = np.int64(a.size), rows_of(graph).astype(np.int64), a.columns.astype(np.int64)
    return of_pairs(cupy.unique(cupy.concatenate([rows * size + columns, columns * size + rows])), a.size)


def rows_of(graph: Graph) -> Array:
    """Row of each coupling: int32."""
    out = cupy.empty(len(graph.columns), dtype=np.int32)
    _by_rows("rows_of", graph, out)
    return out


def first_fit(graph: Graph) -> Array:
    made = _visited("visit_fit", graph, max(1, graph.size))
    return cupy.asarray(host.first_fit(_on_host(graph))) if made is None else made


def levels_inside(graph: Graph, block: int) -> Array:
    made = _visited("visit_levels", graph, block)
    return cupy.asarray(host.levels_inside(_on_host(graph), block)) if made is None else made


def sets(graph: Graph, keys: Array, *, smallest: bool) -> Array:
    color, chosen = cupy.full(graph.size, -1, dtype=np.int32), cupy.empty(graph.size, dtype=np.int32)
    made, count, left = len(keys) * (2 if smallest else 1), 0, graph.size
    rows, hashes = np.int32(graph.size), np.int32(len(keys))
    while left:
        counts = counters(ROUNDS).view(np.uint64)
        for number in range(ROUNDS):
            _by_rows("choose", graph, keys, hashes, np.int32(smallest), color, chosen)
            arguments = rows, np.int32(count), chosen, color, counts[number:]
            for_each(FILE, "color_chosen", graph.size, *arguments, most=_most_blocks())
            count += made
        left = int(read_back(counts)[-1])
    return color


def _visited(name: str, graph: Graph, block: int) -> Array | None:
    """Colors or levels of rows that are visited in their order, int32 (rows,); None where these are a long chain.

    Rows whose neighbors before them have all been visited come together in a round.
    """
    if not graph.size:
        return cupy.empty(0, dtype=np.int32)
    waits, made = (cupy.empty(graph.size, dtype=np.int32) for _ in range(2))
    lists, counts = cupy.empty((2, graph.size), dtype=np.int32), cupy.zeros(4, dtype=np.int32)
    work = np.int32(block), waits, lists, counts
    _by_rows("count_before", graph, *work)
    for number in range(MOST_VISITS):
        _by_rows(name, graph, *work, made, np.int32(number))
        if (number + 1) % VISITS == 0 and not read_back(counts)[(number + 1) % 4]:
            return made
    return None


def _by_rows(name: str, graph: Graph, *arguments: Any) -> None:
    """Launch a kernel with a warp for a row, or fewer that take several."""
    given = (graph.start, graph.columns, np.int32(graph.size), *arguments)
    for_each(FILE, name, graph.size, *given, lanes=WARP, most=_most_blocks())


def _most_blocks() -> int:
    return BLOCKS * device_property("multiProcessorCount")


def _on_host(graph: Graph) -> Graph:
    return Graph(graph.start.get(), graph.columns.get())
