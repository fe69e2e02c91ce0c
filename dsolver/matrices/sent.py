"""A matrix of SciPy, sent to a GPU as it is: index widths, value types and formats are converted there."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dsolver.errors import DeviceError
from dsolver.kernels import Backend, load
from dsolver.matrices.canonical import check_pointers, imported


@dataclass(frozen=True, kw_only=True)
class CompressedOnGpu:
    """Compressed rows ("csr") or columns ("csc") on a GPU, of CuPy, with the names of a matrix of SciPy."""

    format: str
    indptr: Any
    indices: Any
    data: Any
    shape: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class EntriesOnGpu:
    """Entries of a square matrix on a GPU in any order, of CuPy, with the names of a COO array of SciPy."""

    row: Any
    col: Any
    data: Any
    shape: tuple[int, int]
    format: ClassVar = "coo"

    @property
    def dtype(self) -> Any:
        """The type of the values."""
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """Number of entries."""
        return len(self.data)

    def get(self) -> Any:
        """The matrix as a COO array of SciPy."""
        data, *places = map(load("cuda").to_host, (self.data, self.row, self.col))
        return imported("sparse").coo_array((data, tuple(places)), shape=self.shape)


def sent(A: Any) -> CompressedOnGpu | EntriesOnGpu | None:
    """Entries of a SciPy matrix on the GPU; None for no format of arrays. InputError: bad pointers; DeviceError."""
    try:
        backend = load("cuda")
    except ImportError as error:
        raise DeviceError(f"device='cuda' was asked for, but {error}") from error
    match A.format:
        case "csr" | "csc":
            start, inner, data = backend.asarrays(A.indptr, A.indices, A.data)
            return CompressedOnGpu(format=A.format, shape=A.shape, indptr=start, indices=inner, data=data)
        case "coo":
            row, col, data = backend.asarrays(*A.coords, A.data)
            return EntriesOnGpu(row=row, col=col, data=data, shape=A.shape)
        case "bsr":
            return _of_blocks(A, backend)
        case "dia":
            return _of_diagonals(A, backend)
    return None


def _of_blocks(A: Any, backend: Backend) -> EntriesOnGpu:
    """Entries of blocks, row after row of each block."""
    high, wide = A.blocksize
    check_pointers("A", A.indptr, A.shape[0] // high, min(len(A.indices), len(A.data)))
    count, xp = int(A.indptr[-1]), backend.xp
    start, indices, data = backend.asarrays(A.indptr, A.indices[:count], A.data[:count])
    indices, block = indices.astype(np.int64), backend.general.places(start.astype(np.int64), count)
    shape = (count, high, wide)
    row = xp.broadcast_to((block * high)[:, None, None] + xp.arange(high)[:, None], shape)
    col = xp.broadcast_to((indices * wide)[:, None, None] + xp.arange(wide), shape)
    return EntriesOnGpu(row=row.ravel(), col=col.ravel(), data=data.ravel(), shape=A.shape)


def _of_diagonals(A: Any, backend: Backend) -> EntriesOnGpu:
    """Entries of diagonals, row after row with ascending columns. That of offset d has A[j - d, j] at j."""
    xp, order = backend.xp, np.argsort(A.offsets, kind="stable")
    data, offsets = backend.asarrays(A.data, A.offsets[order].astype(np.int64))
    row = xp.arange(A.shape[0])[:, None] + xp.zeros_like(offsets)
    col = row + offsets
    there = (col >= 0) & (col < min(A.data.shape[1], A.shape[1]))
    values = data[backend.asarray(order), xp.where(there, col, 0)]
    there &= values != 0  # what SciPy takes for entries, too
    return EntriesOnGpu(row=row[there], col=col[there], data=values[there], shape=A.shape)
