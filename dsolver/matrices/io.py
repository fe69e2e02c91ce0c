"""Matrices from files, by the endings of their names."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from dsolver.errors import InputError, in_a_line
from dsolver.matrices.canonical import compressed, imported
from dsolver.matrices.files.harwell_boeing import ENDING, harwell_boeing
from dsolver.matrices.files.matlab import matlab_matrix
from dsolver.matrices.files.matrix_market import market_matrix, market_vectors
from dsolver.matrices.files.npz import npz_matrix
from dsolver.matrices.files.petsc import petsc_matrix
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
