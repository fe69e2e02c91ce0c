"""Part numbers of a matrix's rows, one part for each chunk, so that few entries couple different parts."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError, installing

Indices = npt.NDArray[np.int64]


def graph_parts(rows: Any, parts: int) -> Indices:
    """The part of each row, by METIS: about as many entries each, and few between them.

    Args:
        rows: a CSR array of SciPy with symmetric columns.

    Returns:
        int64 (rows,), numbers from 0. The same matrix has the same parts everywhere.

    Raises:
        InputError: pymetis is not installed.
    """
    if parts == 1:
        return np.zeros(rows.shape[0], dtype=np.int64)
    metis = _metis()
    lengths = np.diff(rows.indptr)
    row = np.repeat(np.arange(rows.shape[0]), lengths)
    others = rows.indices != row  # a graph has no edge from a node to itself
    starts = np.concatenate([[0], np.cumsum(np.bincount(row[others], minlength=rows.shape[0]))])
    graph = metis.CSRAdjacency(starts, rows.indices[others])
    _, found = metis.part_graph(parts, graph, vweights=lengths)
    return np.asarray(found, dtype=np.int64)


def grouped_rows(parts: Any, rows: int) -> tuple[Indices, tuple[int, ...]]:
    """Rows part after part, in their own order, and the rows of each part that has some. InputError: bad numbers."""
    numbers = np.asarray(parts)
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu":
        raise InputError(
            f"partition must be 'rows', 'graph' or a part number for each of the {rows} rows, integers ({rows},), not "
            f"{numbers.dtype} {numbers.shape}"
        )
    if numbers.min() < 0:
        raise InputError(f"partition has the part number {numbers.min()}: parts are numbered from 0")
    order = np.argsort(numbers, kind="stable").astype(np.int64)
    return order, tuple(np.unique(numbers, return_counts=True)[1].tolist())


def _metis() -> Any:
    try:
        return importlib.import_module("pymetis")
    except ImportError as error:
        raise InputError(
            f"partition='graph' needs pymetis, which is not installed: {installing('partition')}"
        ) from error
