"""A matrix in canonical form where it lies, in this process's memory or on its GPU, and what its entries tell."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dsolver.engines.out_of_memory import if_memory_suffices
from dsolver.errors import check_compiler
from dsolver.kernels import Backend, load, usable_cpus
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.general.look import Look
from dsolver.kernels.reductions import some
from dsolver.matrices.canonical import check_form, check_pointers, compressed, imported
from dsolver.matrices.sent import CompressedOnGpu, EntriesOnGpu, sent

ASYMMETRY: Final = 1e-12
"""Largest difference of two mirrored entries, as a part of the largest one of the matrix: rounding of assembly."""


@dataclass(frozen=True, kw_only=True)
class RowsOnGpu:
    """A matrix on a GPU in canonical form, with names of a CSR array of SciPy; it may be its user's memory."""

    indptr: Any  # int64 (rows + 1,), of CuPy like the others
    indices: Any  # int32
    data: Any  # float64, or complex128
    columns: int | None = None  # None for as many as rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows = len(self.indptr) - 1
        return rows, rows if self.columns is None else self.columns

    @property
    def nnz(self) -> int:
        """Number of entries."""
        return len(self.indices)

    def diagonal(self) -> Any:
        """Diagonal of a square matrix, zero where it has no entry: of the type of `data`, (rows,)."""
        every = np.arange(self.nnz, like=self.indptr)
        row = np.searchsorted(self.indptr[1:], every, side="right")
        on, found = row == self.indices, np.zeros_like(self.data, shape=self.shape[0])
        found[row[on]] = self.data[on]
        return found

    def get(self) -> Any:
        """The matrix as a CSR array of SciPy."""
        arrays = tuple(map(backend_of(self.data).to_host, (self.data, self.indices, self.indptr)))
        return imported("sparse").csr_array(arrays, shape=self.shape)


def matrix_of(row: Any, col: Any, data: Any, rows: int) -> Any:
    """A square matrix of its entries, arrays of NumPy or CuPy: of SciPy, or `EntriesOnGpu`."""
    if isinstance(data, np.ndarray):
        return imported("sparse").coo_array((data, (row, col)), shape=(rows, rows)).tocsr()
    return EntriesOnGpu(row=row, col=col, data=data, shape=(rows, rows))


def checked(name: str, A: Any, *, gpu: bool = False) -> tuple[Any, Look]:
    """A matrix in canonical form, and what its entries tell.

    Args:
        A: of SciPy or CuPy, in any format, or `EntriesOnGpu`. Compressed rows and columns, and coordinates, stay on a
            GPU.
        gpu: whether a matrix of SciPy goes to the GPU of this process, and is looked at there.

    Returns:
        a CSR array of SciPy, or `RowsOnGpu`.

    Raises:
        InputError: as of `check_form`.
    """
    check_form(name, A)
    package = type(A).__module__.partition(".")[0]
    if gpu and package == "scipy" and (found := _looked_at_there(name, A)) is not None:
        return found
    if isinstance(A, EntriesOnGpu) or package == "cupyx":
        if (found := _on_gpu(name, A)) is not None:
            return found
        A = _brought(name, A)
    if (found := _as_it_is(A)) is not None:
        return found
    rows = compressed(name, A)
    return rows, look_at(rows)


def _as_it_is(A: Any) -> tuple[Any, Look] | None:
    """As `checked`, for compressed rows in canonical form, whose arrays are looked at once; None for others."""
    if not as_arrays(A) or A.dtype != np.float64:
        return None
    check_compiler()
    rows = compressed_rows(A) if A.indptr[-1] == len(A.indices) == len(A.data) else None
    look = None if rows is None else backend_of(A.data).general.look(rows, ASYMMETRY)
    if look is None or look.faults.some:
        return None
    made = imported("sparse").csr_array(A, copy=False)
    made.has_canonical_format = True  # SciPy would look for itself
    return made, look


def as_arrays(A: Any) -> bool:
    """Whether a matrix of SciPy is compressed rows with arrays as they should be: those of A.real are a part of its."""
    if A.format != "csr":
        return False
    parts = A.indptr, A.indices, A.data
    lines = all(part.ndim == 1 and part.flags.c_contiguous for part in parts)
    return lines and all(part.dtype.kind in "iu" for part in parts[:2]) and len(A.indptr) == A.shape[0] + 1


def look_at(rows: Any) -> Look:
    """Findings about the entries of a matrix in canonical form."""
    if not isinstance(rows, RowsOnGpu):
        check_compiler()
    return backend_of(rows.data).general.look(csr_of(rows), ASYMMETRY)


def csr_of(rows: Any) -> Csr:
    """A matrix of `checked`, or a complex one, as compressed rows, which share its memory where types allow it."""
    value = np.complex128 if rows.data.dtype.kind == "c" else np.float64
    kinds = zip((rows.indptr, rows.indices, rows.data), (np.int64, np.int32, value), strict=True)
    return Csr(*(part.astype(kind, copy=False) for part, kind in kinds))


def on_host(rows: Any) -> Any:
    """A matrix of `checked` as a CSR array of SciPy."""
    return rows.get() if isinstance(rows, RowsOnGpu) else rows


def entry(rows: Any, i: int, j: int) -> Any:
    """An entry of a matrix of `checked`, or of a complex one; 0 where there is none."""
    part = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
    return rows.data[part][rows.indices[part] == j].sum().item()


def to_gpu(rows: Any) -> Any:
    """A matrix of `checked` on the GPU of this process; where it lies if that has not the memory for it."""
    if isinstance(rows, RowsOnGpu):
        return rows
    there = if_memory_suffices(lambda: csr_of(sent(rows)))
    return rows if there is None else RowsOnGpu(indptr=there.start, indices=there.columns, data=there.values)


def backend_of(array: Any) -> Backend:
    """The backend of the memory where an array of NumPy or CuPy lies, with all cores."""
    return load("cpu" if isinstance(array, np.ndarray) else "cuda", usable_cpus())


def rows_on_gpu(name: str, A: Any) -> RowsOnGpu | None:
    """Compressed rows of SciPy or CuPy on the GPU, of any shape: a `Look`, at mirrors, too, is of square ones alone.

    None for other formats, and for rows that are not in canonical form, or not finite. InputError: pointers lead out of
    their arrays.
    """
    if A.format != "csr":
        return None
    there = sent(A)
    assert isinstance(there, CompressedOnGpu)
    check_pointers(name, there.indptr, A.shape[0], min(len(A.indices), len(A.data)))
    count = int(A.indptr[-1])
    columns = there.indices[:count]
    row = backend_of(columns).general.places(there.indptr, count)
    outside = some((columns < 0) | (columns >= A.shape[1]))
    unsorted = some((row[1:] == row[:-1]) & (columns[1:] <= columns[:-1]))
    start, columns, values = csr_of(RowsOnGpu(indptr=there.indptr, indices=columns, data=there.data[:count]))
    parts = values.view(np.float64)
    if outside or unsorted or some(parts - parts != 0.0):
        return None
    return RowsOnGpu(indptr=start, indices=columns, data=values, columns=A.shape[1])


def _looked_at_there(name: str, A: Any) -> tuple[Any, Look] | None:
    """As `checked`, for a matrix of SciPy on the GPU; None where it has faults, or that has not the memory for it."""

    def looked_at() -> tuple[Any, Look] | None:
        there = sent(A)
        return None if there is None else _on_gpu(name, there)

    return if_memory_suffices(looked_at)


def _on_gpu(name: str, A: Any) -> tuple[Any, Look] | None:
    """As `checked`, for arrays of CuPy; None where they have faults that the host mends or tells."""
    if A.format == "csc":  # its pointers are followed before its rows are looked at
        check_pointers(name, A.indptr, A.shape[0], min(len(A.indices), len(A.data)))
    read = READERS.get(A.format)
    rows = None if read is None else read(A)
    if rows is None:
        return None
    general = backend_of(rows.values).general
    found = general.look(rows, ASYMMETRY)
    if found.faults.unsorted:
        rows = general.compressed(general.places(rows.start, len(rows.columns)), rows.columns, rows.values, rows.size)
        found = general.look(rows, ASYMMETRY)
    if found.faults.some:
        return None
    return RowsOnGpu(indptr=rows.start, indices=rows.columns, data=rows.values), found


def _brought(name: str, A: Any) -> Any:
    """A matrix of CuPy as one of SciPy. InputError: pointers lead out of its arrays, which SciPy words differently."""
    if A.format in ("csr", "csc"):
        check_pointers(name, A.indptr, A.shape[0], min(len(A.indices), len(A.data)))
    return A.get()


def compressed_rows(A: Any) -> Csr | None:
    """The arrays of a CSR matrix as they are."""
    if len(A.indptr) != A.shape[0] + 1 or len(A.indices) > len(A.data) or not _fits(A.indices, A.shape[1]):
        return None
    entries = slice(int(A.indptr[-1]))
    return csr_of(RowsOnGpu(indptr=A.indptr, indices=A.indices[entries], data=A.data[entries]))


def _compressed_columns(A: Any) -> Csr | None:
    """Rows of a CSC matrix, whose pointers are right."""
    entries = int(A.indptr[-1])
    column = backend_of(A.data).general.places(A.indptr, entries)
    return _sorted(A.indices[:entries], column, A.data[:entries].astype(np.float64, copy=False), A.shape[0])


def _coordinates(A: Any) -> Csr | None:
    """Rows of a COO matrix."""
    return _sorted(A.row, A.col, A.data.astype(np.float64, copy=False), A.shape[0])


def _fits(columns: Any, count: int) -> bool:
    """Whether columns may be made int32: wider ones may lead out of it, and out of the matrix."""
    return columns.dtype.itemsize <= 4 or not some((columns < 0) | (columns >= count))


def _sorted(row: Any, col: Any, values: Any, rows: int) -> Csr | None:
    """Entries as compressed rows; None where there are none, or one is out of the matrix."""
    if not len(values) or any(some((part < 0) | (part >= rows)) for part in (row, col)):
        return None
    return backend_of(values).general.compressed(row, col, values, rows)


READERS: Final = {"csr": compressed_rows, "csc": _compressed_columns, "coo": _coordinates}
"""Functions that read a matrix on a GPU, by its format; others are brought to the host."""
