"""Matrices from files: Matrix Market, SciPy's `.npz`, PETSc's binary format."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError, in_a_line
from dsolver.matrices.canonical import canonical, imported
from dsolver.matrices.files.market import market_matrix, market_vectors
from dsolver.matrices.files.reading import reading

PETSC_MATRIX: Final = 1211216
"""First word of a matrix in PETSc's binary format (PETSc manual, MatLoad): big-endian like all that follow."""

NPZ_INDICES: Final = frozenset(
    f"{name}.npy" for name in ("shape", "indptr", "indices", "row", "col", "coords", "offsets")
)
"""Arrays of integers in a file of SciPy's."""


def read_matrix(path: str | Path) -> Any:
    """A sparse matrix from a file.

    Args:
        path: `.mtx`, `.mtx.gz` or `.mtx.bz2` for Matrix Market coordinates of any field but complex and any symmetry
            (read on all cores by `scipy.io.mmread`, with symmetric entries mirrored and duplicates summed); `.npz` as
            `scipy.sparse.save_npz` writes; `.petsc` or `.bin` for PETSc's binary format with 32-bit indices.

    Returns:
        A `scipy.sparse.csr_array` with float64 values, sorted columns and no duplicates.

    Raises:
        InputError: there is no such file, its format is unknown, it is cut short, or a line of it (by number) is wrong;
            or SciPy is not installed.
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path must be the name of a file, not {in_a_line(path)}")
    path = Path(path)
    return canonical(str(path), as_stored(path))


def as_stored(path: Path) -> Any:
    """A matrix of `scipy.sparse` as a file has it, of any shape, type and format.

    Raises:
        InputError: as of `read_matrix`.
    """
    reader = _reader_of(path)
    with reading(path, "a sparse matrix"):
        return reader(path)


def read_vectors(path: Path) -> npt.NDArray[np.float64]:
    """Vectors from a Matrix Market file of an array, float64 (rows, columns).

    Raises:
        InputError: there is no such file, or it holds something else; or SciPy is not installed.
    """
    with reading(path, "an array of numbers"):
        return market_vectors(path)


def write_petsc(path: str | Path, matrix: Any) -> None:
    """Write a matrix in PETSc's binary format, which `read_matrix` and PETSc's MatLoad read.

    Args:
        path: of the file, by custom with the ending `.petsc`.
        matrix: of `scipy.sparse` in any format, with at most 2³¹ - 1 rows and entries.

    Raises:
        InputError: the matrix is not square, real and finite, or has more rows or entries than 32-bit numbers tell.
    """
    rows = canonical("A", matrix)
    if max(rows.shape[0], rows.nnz) >= 1 << 31:
        raise InputError(f"A has {rows.shape[0]} rows and {rows.nnz} entries: PETSc's 32-bit format tells of 2³¹ - 1")
    with Path(path).open("wb") as file:
        np.array([PETSC_MATRIX, *rows.shape, rows.nnz], dtype=">i4").tofile(file)
        np.diff(rows.indptr).astype(">i4").tofile(file)
        rows.indices.astype(">i4").tofile(file)
        rows.data.astype(">f8").tofile(file)


def _reader_of(path: Path) -> Callable[[Path], Any]:
    kinds = [suffix.lower() for suffix in path.suffixes[-2:]]
    if kinds[-1:] == [".mtx"] or kinds in ([".mtx", ".gz"], [".mtx", ".bz2"]):
        return market_matrix
    if kinds[-1:] == [".npz"]:
        return _npz
    if kinds[-1:] in ([".petsc"], [".bin"]):
        return _petsc
    raise InputError(
        f"{path.name} ends in none of .mtx, .mtx.gz, .mtx.bz2 (Matrix Market), .npz (SciPy) and .petsc, .bin (PETSc)"
    )


def _npz(path: Path) -> Any:
    with zipfile.ZipFile(path) as file:
        check_integers(file)
    return imported("sparse").load_npz(path)


def check_integers(file: zipfile.ZipFile) -> None:
    """Refuse indices of a matrix in a file of SciPy's that are no integers: SciPy would round them.

    Raises:
        TypeError: some are.
    """
    for name in NPZ_INDICES & set(file.namelist()):
        with file.open(name) as member:
            _, dtype = array_header(member)
        if dtype.kind not in "iu":
            raise TypeError(f"its array {name} has dtype {dtype}: integers are needed")


def array_header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array in NumPy's format, whose items come next."""
    version = np.lib.format.read_magic(member)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(member)
    return shape, dtype


def _petsc(path: Path) -> Any:
    with path.open("rb") as file:
        lengths, rows, columns = petsc_lengths(file)
        entries = int(lengths.sum())
        numbers = _words(file, ">i4", entries).astype(np.int32)
        if entries and not 0 <= numbers.min() <= numbers.max() < columns:
            wrong = int(np.flatnonzero((numbers < 0) | (numbers >= columns))[0])
            raise ValueError(f"entry {wrong} is in column {numbers[wrong]} of {columns}")
        values = _words(file, ">f8", entries).astype(np.float64)
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    return imported("sparse").csr_array((values, numbers, pointers), shape=(rows, columns))


def petsc_lengths(file: BinaryIO) -> tuple[npt.NDArray[np.int64], int, int]:
    """Entries of each row of a matrix in PETSc's format, rows and columns; the file is left behind them.

    Raises:
        ValueError: the file is none, or contradicts itself.
        EOFError: it is cut short.
    """
    kind, rows, columns, entries = _words(file, ">i4", 4).tolist()
    if kind != PETSC_MATRIX:
        raise ValueError(f"its first word is {kind}, where a PETSc matrix has {PETSC_MATRIX}")
    if min(rows, columns, entries) < 0:
        raise ValueError(f"it tells of {rows} rows, {columns} columns and {entries} entries")
    lengths = _words(file, ">i4", rows).astype(np.int64)
    if lengths.min(initial=0) < 0 or lengths.sum() != entries:
        raise ValueError(f"its rows have {lengths.sum()} entries, but its header tells of {entries}")
    return lengths, rows, columns


def petsc_part(path: Path, first: int, last: int) -> tuple[int, npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Number of columns, and columns and values of entries [first, last) of a matrix in PETSc's format.

    Raises:
        EOFError: the file is cut short.
    """
    with path.open("rb") as file:
        _, rows, columns, entries = _words(file, ">i4", 4).tolist()
        begin = 16 + 4 * rows
        file.seek(begin + 4 * first)
        numbers = _words(file, ">i4", last - first).astype(np.int32)
        file.seek(begin + 4 * entries + 8 * first)
        return columns, numbers, _words(file, ">f8", last - first).astype(np.float64)


def _words(file: BinaryIO, dtype: str, count: int) -> Any:
    """So many numbers from a file that may be cut short."""
    size = np.dtype(dtype).itemsize * count
    raw = file.read(size)
    if len(raw) < size:
        raise EOFError(f"the file is cut short: {size} more bytes were to come where {len(raw)} are left")
    return np.frombuffer(raw, dtype)
