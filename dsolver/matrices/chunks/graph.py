"""Parts of a matrix's graph, a chunk of rows each, by METIS: about as many entries each, and few between them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.errors import of_extra


def parts_of_rows(rows: Any, parts: int, *, block: int, symmetric: bool) -> npt.NDArray[np.int64]:
    """The part of each row of a CSR array of SciPy, int64 (rows,), numbers from 0; nodes of `block` rows stay whole.

    InputError: pymetis is not installed.
    """
    graph = rows if symmetric else (abs(rows) + abs(rows.T)).tocsr()  # an entry couples both its rows
    graph = _node_pattern(graph, block) if block > 1 else graph
    return np.repeat(_parts(graph, parts), block)


def _node_pattern(rows: Any, size: int) -> Any:
    """The couplings of nodes: a CSR array of SciPy with an entry where any of their unknowns are coupled."""
    found = rows.tocoo()
    nodes = rows.shape[0] // size
    return type(rows)((found.data, (found.row // size, found.col // size)), shape=(nodes, nodes))


def _parts(graph: Any, parts: int) -> npt.NDArray[np.int64]:
    """The part of each node. The same graph has the same parts everywhere."""
    if parts == 1:
        return np.zeros(graph.shape[0], dtype=np.int64)
    metis = of_extra("pymetis", "partition", "partition='graph' needs pymetis, which is missing")
    lengths = np.diff(graph.indptr)
    row = np.repeat(np.arange(graph.shape[0]), lengths)
    others = graph.indices != row  # METIS knows no edge from a node to itself
    starts = np.concatenate([[0], np.cumsum(np.bincount(row[others], minlength=graph.shape[0]))])
    _, found = metis.part_graph(parts, metis.CSRAdjacency(starts, graph.indices[others]), vweights=lengths)
    return np.asarray(found, dtype=np.int64)
