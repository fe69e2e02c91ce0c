"""A matrix from a file that the workers of a cluster read: each its part of the bytes, and no process all of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
import numpy.typing as npt

from dsolver.cluster.devices import workers_of
from dsolver.cluster.rows.row_blocks import matrix_from_blocks, results_of, running
from dsolver.dask_types import Client
from dsolver.errors import InputError, in_a_line
from dsolver.grid.row_partition import RowPartition
from dsolver.matrices.canonical import compressed
from dsolver.matrices.files.entries import Entries, Sides
from dsolver.matrices.files.matrix_market import MarketHeader, market_part
from dsolver.matrices.io import all_entries, header_of, joined_rows, row_pointers, rows_of
from dsolver.matrices.io import read_matrix as read_here
from dsolver.matrices.problem import MatrixProblem

if TYPE_CHECKING:
    from distributed import Future

PART_BYTES: Final = 1 << 28
"""Bytes of text that a worker reads at a time at most: entries take about as many while they are sorted by owners."""
RANGES: Final = 3840  # ranges of rows whose entries are counted, at least; chunks begin with one of them
UNIT: Final = 12  # rows of a range are a multiple of it, so that blocks of 2, 3, 4 or 6 rows stay whole


@overload
def read_matrix(path: str | Path) -> Any: ...
@overload
def read_matrix(path: str | Path, *, client: Client, chunks: int | None = None) -> MatrixProblem: ...
def read_matrix(path: str | Path, *, client: Client | None = None, chunks: int | None = None) -> Any:
    """A sparse matrix from a file, read in this process, or by the workers of a cluster.

    Args:
        path: `.mtx`, `.mtx.gz` or `.mtx.bz2` for Matrix Market coordinates of any field and any symmetry (read on all
            cores by `scipy.io.mmread`, with symmetric entries mirrored and duplicates summed); `.npz` as
            `scipy.sparse.save_npz` writes; `.petsc` or `.bin` for PETSc's binary format with indices of 32 or 64 bits
            and values of float64 or float32, real or complex; `.rua`, `.rsa`, `.hb` and the like, and `.rb`, for
            Harwell-Boeing and Rutherford-Boeing; `.mat` for MATLAB's with one sparse matrix, up to version 7.
        client: a Dask cluster's, whose workers then read the file of a real matrix, from a folder that all see. Of a
            `.mtx` file each reads a part of the lines, and entries go to the owners of their rows; of PETSc's format,
            and of an `.npz` file in CSR format, each reads its rows. Any other file, such as a compressed `.mtx` file,
            one worker has to read alone: it needs the memory for all of it. Nothing of it comes here.
        chunks: on a cluster, into how many chunks the rows are cut, with about as many entries each; by default one for
            each worker.

    Returns:
        Without a client a `scipy.sparse.csr_array` of any shape with float64 or complex128 values, sorted columns and
        no duplicates. With one a problem as of `dsolver.matrix_from_blocks`, whose rows lie on the workers: solve it
        with the same client.

    Raises:
        InputError: there is no such file, its format is unknown, it is cut short, or a line of it (by number) is wrong;
            or SciPy is not installed. On a cluster also: as of `dsolver.matrix_from_blocks`.
        ClusterError: the cluster does not answer or has no workers, or a part of the matrix was lost.
    """
    if client is None:
        if chunks is not None:
            raise InputError("chunks= is for a cluster: dsolver.matrix(A, chunks=...) cuts a matrix in this process")
        return read_here(path)
    path = Path(path).absolute()
    return matrix_from_blocks(blocks_of_file(path, client, chunks), client=client, name=path.name)


def blocks_of_file(path: Path, client: Client, chunks: int | None = None) -> list[Future[Any]]:
    """Blocks of rows of a matrix from a file, each a future of a `scipy.sparse` matrix on the worker that read it."""
    workers = sorted(workers_of(running(client)))
    asked: Any = chunks
    if not isinstance(asked, Integral | None):
        raise InputError(f"chunks must be an integer, not {in_a_line(asked)}")
    chunks = len(workers) if chunks is None else int(chunks)
    pointers = client.submit(row_pointers, path, pure=False)
    if _result(client, client.submit(_is_none, pointers)):
        return _exchanged(path, client, workers, chunks)
    bounds = _result(client, client.submit(_bounds, pointers, chunks))
    return [
        client.submit(
            rows_of, path, span, client.submit(_slice, pointers, *span), **_near(workers, number, chunks), pure=False
        )
        for number, span in enumerate(pairwise(bounds))
    ]


def _exchanged(path: Path, client: Client, workers: Sequence[str], chunks: int) -> list[Future[Any]]:
    """Blocks of rows of a file with entries anywhere, sent by their readers; this process counts entries of rows."""
    if path.suffix.lower() == ".mtx":
        header = _result(client, client.submit(header_of, path, pure=False))
        cuts = _cuts(header, len(workers))
        parts = [
            client.submit(market_part, path, header, *span, **_near(workers, number, len(cuts) - 1), pure=False)
            for number, span in enumerate(pairwise(cuts))
        ]
        shape = header.shape
    else:
        header, parts = None, [client.submit(all_entries, path, pure=False)]
        shape = _result(client, client.submit(_shape, *parts))
    if shape[0] != shape[1]:
        raise InputError(
            f"{path} has shape {shape}: a system needs as many rows as columns; for dsolver.lsmr read it "
            f"without client="
        )
    least = max(RANGES, 64 * chunks)
    width = 1 if shape[0] <= least else UNIT * -(-shape[0] // (UNIT * least))
    counts = results_of(client, [client.submit(_counts, part, width, -(-shape[0] // width)) for part in parts])
    if header is not None:
        header.check(path, (found[:2] for found in counts))
    entries = np.concatenate([[0], np.cumsum(sum(found for _, _, found in counts))])
    if entries[-1] < shape[0] > least:  # a damaged file may tell of more rows than there is memory for
        raise InputError(
            f"{path} has {shape[0]} rows and {entries[-1]} entries: {shape[0] - entries[-1]} or more rows are empty; "
            f"take such rows out"
        )
    ranges = RowPartition.by_entries(entries, chunks).bounds
    bounds = (*(width * begin for begin in ranges[:-1]), shape[0])
    split = [client.submit(_split, part, bounds) for part in parts]
    return [
        client.submit(
            _joined,
            str(path),
            span,
            *[client.submit(getitem, part, number) for part in split],
            **_near(workers, number, chunks),
        )
        for number, span in enumerate(pairwise(bounds))
    ]


def _result(client: Client, task: Future[Any]) -> Any:
    (found,) = results_of(client, [task])
    return found


def _near(workers: Sequence[str], number: int, count: int) -> dict[str, Any]:
    """Options by which a task, the `number`-th of so many, runs on its worker if that is there."""
    return {"workers": [workers[number * len(workers) // count]], "allow_other_workers": True}


def _cuts(header: MarketHeader, workers: int) -> list[int]:
    """Bytes between which each task reads lines: one for each worker, or more where these would be long."""
    size = header.size - header.begin
    parts = max(workers, -(-size // PART_BYTES))
    return [header.begin + size * part // parts for part in range(parts + 1)]


# -- tasks -------------------------------------------------------------------------------------------------------------


def _is_none(found: Any) -> bool:
    return found is None


def _bounds(pointers: npt.NDArray[np.int64], chunks: int) -> tuple[int, ...]:
    return RowPartition.by_entries(pointers, chunks).bounds


def _slice(pointers: npt.NDArray[np.int64], first: int, last: int) -> npt.NDArray[np.int64]:
    return pointers[first : last + 1].copy()


def _shape(part: Entries) -> tuple[int, int]:
    return part.shape


def _counts(part: Entries, width: int, ranges: int) -> tuple[int, Sides, npt.NDArray[np.int64]]:
    """Lines and sides of a part, and the entries that it has in each range of rows."""
    return part.lines, part.sides, np.bincount(part.row // width, minlength=ranges)


def _split(part: Entries, bounds: tuple[int, ...]) -> list[Entries]:
    """The entries for each owner of rows, in the order of the file."""
    owner = np.searchsorted(bounds, part.row, side="right") - 1
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner, np.arange(len(bounds)), sorter=order)
    row, column, values = part.row[order], part.column[order], part.values[order]
    return [part._replace(row=row[a:b], column=column[a:b], values=values[a:b]) for a, b in pairwise(ends)]


def _joined(name: str, span: tuple[int, int], *parts: Entries) -> Any:
    """A block of rows, from entries of all parts."""
    return compressed(name, joined_rows(span, parts), span[0])
