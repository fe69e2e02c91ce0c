"""The canonical form of matrices of SciPy: compressed rows of float64 with sorted columns and no duplicates."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from dsolver.errors import InputError, check_real, installing


def canonical(name: str, matrix: Any) -> Any:
    """A SciPy matrix of any format as a CSR array with float64 values, sorted columns and no duplicates.

    The matrix that is given stays as it is; one that is in this form already is returned without a copy.

    Args:
        name: of the matrix, for messages.
        matrix: in any format of `scipy.sparse`.

    Raises:
        InputError: it is not square, not two-dimensional, empty, not real, or has values that are NaN or infinite; or
            this process has not the memory for it.
    """
    check_form(name, matrix)
    return compressed(name, matrix)


def check_form(name: str, matrix: Any) -> None:
    """Refuse a matrix that is not square, not two-dimensional, empty or not real.

    Raises:
        InputError: it is one.
    """
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{name} has shape {tuple(matrix.shape)}: a system needs as many rows as columns")
    if matrix.shape[0] == 0:
        raise InputError(f"{name} has no rows")
    _check_real(name, matrix)


def compressed(name: str, matrix: Any, first: int = 0) -> Any:
    """Rows of a SciPy matrix of any format and shape, in the form of `canonical`.

    Args:
        name: for messages.
        matrix: some rows of a system.
        first: the number of the first one.

    Raises:
        InputError: they are not real, have values that are NaN or infinite, or indices of rows or columns that are
            none; or this process has not the memory.
    """
    _check_real(name, matrix)
    _check_indices(name, matrix)
    try:
        rows = imported("sparse").csr_array(
            matrix, dtype=np.float64, copy=not getattr(matrix, "has_canonical_format", False)
        )
        rows.sum_duplicates()  # sorts the columns of each row, too
    except MemoryError as error:
        raise InputError(
            f"{name} has {matrix.shape[0]} rows and {matrix.nnz} entries, for which this process has not the memory"
        ) from error
    bad = np.flatnonzero(~np.isfinite(rows.data))
    if len(bad):
        row = int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1
        place = (first + row, int(rows.indices[bad[0]]))
        raise InputError(f"{name} has {len(bad)} entries that are NaN or infinite, the first at {place}")
    return rows


def _check_real(name: str, matrix: Any) -> None:
    check_real(name, np.dtype(matrix.dtype), "fiub")


def _check_indices(name: str, matrix: Any) -> None:
    """Refuse a matrix whose arrays lead out of it: SciPy's conversions would read and write there.

    Raises:
        InputError: it is one.
    """
    if matrix.format == "coo":
        indices = tuple(zip(matrix.coords, matrix.shape, strict=True))
    elif matrix.format in ("csr", "csc", "bsr"):
        block = matrix.blocksize if matrix.format == "bsr" else (1, 1)
        across, along = (extent // size for extent, size in zip(matrix.shape, block, strict=True))
        if matrix.format == "csc":
            across, along = along, across
        check_pointers(name, matrix.indptr, across, min(len(matrix.indices), len(matrix.data)))
        indices = ((matrix.indices[: matrix.indptr[-1]], along),)
    else:
        return
    for numbers, extent in indices:
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < extent:
            wrong = int(numbers[(numbers < 0) | (numbers >= extent)][0])
            raise InputError(f"{name} has an index {wrong}, but shape {tuple(matrix.shape)}: indices begin with 0")


def check_pointers(name: str, pointers: Any, count: int, entries: int) -> None:
    """Refuse pointers, of NumPy or CuPy, to so many rows or columns that lead out of so many entries.

    Raises:
        InputError: they do.
    """
    if len(pointers) != count + 1 or pointers[0] != 0 or (pointers[1:] < pointers[:-1]).any():
        raise InputError(f"{name} has pointers to rows or columns (indptr) that do not ascend from 0")
    if pointers[-1] > entries:
        raise InputError(f"{name} has fewer entries than its pointers (indptr) tell of: {pointers[-1]}")


def imported(module: str) -> Any:
    """A module of SciPy, which whoever brings a SciPy matrix has; an extra otherwise."""
    try:
        return importlib.import_module(f"scipy.{module}")
    except ImportError as error:
        raise InputError(f"sparse matrices need SciPy, which is not installed: {installing('matrices')}") from error
