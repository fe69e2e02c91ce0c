"""Parts of files that hold a matrix: some lines of a Matrix Market file, some rows of SciPy's `.npz` and of PETSc's."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.errors import check_real
from dsolver.matrices.canonical import check_pointers, checked_arrays, imported
from dsolver.matrices.files.entries import Entries, joined
from dsolver.matrices.files.market import MarketHeader, market_header
from dsolver.matrices.files.reading import reading
from dsolver.matrices.io import array_header, as_stored, check_integers, petsc_lengths, petsc_part


def header_of(path: Path) -> MarketHeader:
    """The header of an uncompressed Matrix Market file of coordinates.

    Raises:
        InputError: there is no such file, or it holds no coordinates of real numbers.
    """
    with reading(path, "a sparse matrix"), path.open("rb") as file:
        return market_header(path, file)


def all_entries(path: Path) -> Entries:
    """All entries of a file that cannot be read in parts.

    Raises:
        InputError: as of `read_matrix`.
    """
    found = checked_arrays(str(path), as_stored(path)).tocoo()
    check_real(str(path), found.dtype, "fiub")
    return Entries(found.shape, found.row, found.col, found.data.astype(np.float64, copy=False))


def joined_rows(span: tuple[int, int], parts: Sequence[Entries]) -> Any:
    """Rows [first, last), a `scipy.sparse.coo_array` with all columns, from entries that are in these rows."""
    found = joined(parts)
    shape = (span[1] - span[0], found.shape[1])
    return imported("sparse").coo_array((found.values, (found.row - span[0], found.column)), shape=shape)


# -- files that hold rows ----------------------------------------------------------------------------------------------


def row_pointers(path: Path) -> npt.NDArray[np.int64] | None:
    """Row pointers of a file that holds rows one after the other, int64 (rows + 1,); None for any other file.

    Raises:
        InputError: there is no such file, or it is cut short.
    """
    with reading(path, "a sparse matrix"):
        if path.suffix.lower() == ".npz":
            return _npz_pointers(path)
        if path.suffix.lower() in (".petsc", ".bin"):
            with path.open("rb") as file:
                lengths, _, _ = petsc_lengths(file)
            return np.concatenate([[0], np.cumsum(lengths)])
    return None


def rows_of(path: Path, bounds: tuple[int, int], pointers: npt.NDArray[np.int64]) -> Any:
    """Rows [first, last) of such a file, a `scipy.sparse.csr_array` with all columns.

    Args:
        path: of the file.
        bounds: first, last.
        pointers: where these rows begin, (last - first + 1,).

    Raises:
        InputError: the file is cut short, or a column is none.
    """
    begin, end = int(pointers[0]), int(pointers[-1])
    with reading(path, "a sparse matrix"):
        if path.suffix.lower() == ".npz":
            with zipfile.ZipFile(path) as file:
                _, columns = _npz_shape(file)
                numbers, values = (_member(file, f"{name}.npy", begin, end) for name in ("indices", "data"))
        else:
            columns, numbers, values = petsc_part(path, begin, end)
        check_real(str(path), values.dtype, "fiub")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < columns:
            wrong = int(np.flatnonzero((numbers < 0) | (numbers >= columns))[0])
            raise ValueError(f"entry {begin + wrong} is in column {numbers[wrong]} of {columns}")
        shape = (bounds[1] - bounds[0], columns)
        return imported("sparse").csr_array((values, numbers, pointers - begin), shape=shape)


def _npz_pointers(path: Path) -> npt.NDArray[np.int64] | None:
    """As `row_pointers`, of a file of SciPy's.

    Raises:
        InputError: its arrays are no rows of a matrix.
    """
    with zipfile.ZipFile(path) as file:
        check_integers(file)
        if np.load(file.open("format.npy")).item() not in ("csr", b"csr"):
            return None
        pointers, (rows, _) = np.load(file.open("indptr.npy")), _npz_shape(file)
        numbers, values = (_npz_length(file, f"{name}.npy") for name in ("indices", "data"))
    if numbers != values:
        raise ValueError(f"it has {numbers} columns for {values} values")
    check_pointers(str(path), pointers, rows, values)
    found: npt.NDArray[np.int64] = pointers.astype(np.int64)
    return found


def _npz_shape(file: zipfile.ZipFile) -> tuple[int, int]:
    """Rows and columns of a matrix in a file of SciPy's."""
    rows, columns = np.load(file.open("shape.npy")).tolist()
    if not all(isinstance(extent, int) and extent >= 0 for extent in (rows, columns)):
        raise ValueError(f"it tells of {rows} rows and {columns} columns")
    return rows, columns


def _npz_length(file: zipfile.ZipFile, name: str) -> int:
    """Items of an array of one dimension in a file of arrays."""
    with file.open(name) as member:
        shape, _ = array_header(member)
    if len(shape) != 1:
        raise ValueError(f"its array {name} has shape {shape}")
    return shape[0]


def _member(file: zipfile.ZipFile, name: str, first: int, last: int) -> npt.NDArray[Any]:
    """Items [first, last) of an array in a file of arrays; what lies before them is read and left."""
    with file.open(name) as member:
        _, dtype = array_header(member)
        member.seek(first * dtype.itemsize, io.SEEK_CUR)
        raw = member.read((last - first) * dtype.itemsize)
    if len(raw) < (last - first) * dtype.itemsize:
        raise EOFError(f"its array {name} is cut short")
    return np.frombuffer(raw, dtype)
