"""Matrices from files, whole or in parts, by the endings of their names."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError, check_real, in_a_line
from dsolver.matrices.canonical import checked_arrays, compressed, imported
from dsolver.matrices.files.entries import Entries, joined
from dsolver.matrices.files.harwell_boeing import ENDING, harwell_boeing
from dsolver.matrices.files.matlab import matlab_matrix
from dsolver.matrices.files.matrix_market import MarketHeader, market_header, market_matrix, market_vectors
from dsolver.matrices.files.npz import npz_matrix, npz_part, npz_pointers
from dsolver.matrices.files.petsc import PetscLayout, petsc_matrix
from dsolver.matrices.files.reading import reading


def read_matrix(path: str | Path) -> Any:
    """A sparse matrix from a file, read in this process: see `dsolver.read_matrix`."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path must be the name of a file, not {in_a_line(path)}")
    path = Path(path)
    matrix = as_stored(path)
    if 0 in matrix.shape:
        raise InputError(f"{path} has a matrix of shape {matrix.shape}, without entries")
    return compressed(str(path), matrix, complex_too=True)


def as_stored(path: Path) -> Any:
    """A matrix of `scipy.sparse` as a file has it, of any shape, type and format. Raises as `read_matrix`."""
    reader = _reader_of(path)
    with reading(path, "a sparse matrix"):
        return reader(path)


def read_vectors(path: Path) -> npt.NDArray[Any]:
    """Vectors from a Matrix Market file, float64 or complex128 (rows, n). InputError: it holds something else."""
    with reading(path, "an array of numbers"):
        return market_vectors(path)


def write_vector(path: Path, x: npt.NDArray[Any]) -> None:
    """A Matrix Market file of x, (n,) or (n, k), for `read_vectors`. InputError: SciPy is not installed."""
    mmwrite = imported("io").mmwrite
    with path.open("wb") as file:
        mmwrite(file, x.reshape(len(x), -1), precision=17)


def _reader_of(path: Path) -> Callable[[Path], Any]:
    kinds = [suffix.lower() for suffix in path.suffixes[-2:]]
    if kinds[-1:] == [".mtx"] or kinds in ([".mtx", ".gz"], [".mtx", ".bz2"]):
        return market_matrix
    reader = READERS.get(kinds[-1]) if kinds else None
    if reader is None and kinds and ENDING.fullmatch(kinds[-1]):
        reader = harwell_boeing
    if reader is None:
        raise InputError(
            f"{path.name} ends in none of .mtx, .mtx.gz, .mtx.bz2 (Matrix Market), .npz (SciPy), .petsc, .bin (PETSc), "
            f".rua, .rsa, .hb, .rb (Harwell-Boeing and Rutherford-Boeing) and .mat (MATLAB)"
        )
    return reader


READERS: Final[dict[str, Callable[[Path], Any]]] = {
    ".npz": npz_matrix,
    ".petsc": petsc_matrix,
    ".bin": petsc_matrix,
    ".mat": matlab_matrix,
}
"""Functions that read a matrix, by the ending of a file's name."""


# -- parts: lines of Matrix Market's files ----------------------------------------------------------------------------


def header_of(path: Path) -> MarketHeader:
    """The header of an uncompressed Matrix Market file of coordinates. InputError: it is none of real numbers."""
    with reading(path, "a sparse matrix"), path.open("rb") as file:
        found = market_header(path, file)
        if found.field == "complex":
            check_real(str(path), np.dtype(np.complex128))
        return found


def all_entries(path: Path) -> Entries:
    """All entries of a file that cannot be read in parts. Raises as `read_matrix`."""
    found = checked_arrays(str(path), as_stored(path)).tocoo()
    check_real(str(path), found.dtype, "fiub")
    return Entries(found.shape, found.row, found.col, found.data.astype(np.float64, copy=False))


def joined_rows(span: tuple[int, int], parts: Sequence[Entries]) -> Any:
    """Rows [first, last), a `scipy.sparse.coo_array` with all columns, from entries that are in these rows."""
    found = joined(parts)
    shape = (span[1] - span[0], found.shape[1])
    return imported("sparse").coo_array((found.values, (found.row - span[0], found.column)), shape=shape)


# -- parts: rows of SciPy's and PETSc's --------------------------------------------------------------------------------


def row_pointers(path: Path) -> npt.NDArray[np.int64] | None:
    """Row pointers of a file of rows in turn, int64 (rows + 1,); None for any other. Raises as `read_matrix`."""
    with reading(path, "a sparse matrix"):
        reader = READERS.get(path.suffix.lower())
        if reader is npz_matrix:
            return npz_pointers(path)
        if reader is petsc_matrix:
            with path.open("rb") as file:
                return PetscLayout.of(file).pointers(file)
    return None


def rows_of(path: Path, bounds: tuple[int, int], pointers: npt.NDArray[np.int64]) -> Any:
    """Rows first .. last of such a file, a CSR array, at pointers (last - first + 1,). InputError: they are no such."""
    begin, end = int(pointers[0]), int(pointers[-1])
    with reading(path, "a sparse matrix"):
        if path.suffix.lower() == ".npz":
            columns, numbers, values = npz_part(path, begin, end)
        else:
            with path.open("rb") as file:
                layout = PetscLayout.of(file)
                columns, (numbers, values) = layout.columns, layout.part(file, begin, end)
        check_real(str(path), values.dtype, "fiub")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < columns:
            wrong = int(np.flatnonzero((numbers < 0) | (numbers >= columns))[0])
            raise ValueError(f"entry {begin + wrong} is in column {numbers[wrong]} of {columns}")
        shape = (bounds[1] - bounds[0], columns)
        return imported("sparse").csr_array((values, numbers, pointers - begin), shape=shape)
