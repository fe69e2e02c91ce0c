"""The canonical form of matrices of SciPy: compressed rows of float64 with sorted columns and no duplicates."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import psutil

from dsolver.errors import InputError, check_real, in_a_line, of_extra
from dsolver.kernels.reductions import some
from dsolver.units import counted

MANY: Final = 1 << 26  # rows from which on the memory for their pointers is asked for first


def check_form(name: str, matrix: Any, *, complex_too: bool = False) -> None:
    """Refuse a matrix that is not square, not two-dimensional, empty or not real; raises InputError."""
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"{name} has shape {tuple(matrix.shape)}: a system needs as many rows as columns; for the x with least "
            f"‖b - A x‖ use dsolver.lsmr(A, b)"
        )
    if matrix.shape[0] == 0:
        raise InputError(f"{name} has no rows")
    _check_real(name, matrix, complex_too=complex_too)


def compressed(name: str, matrix: Any, first: int = 0, *, complex_too: bool = False) -> Any:
    """Rows of a SciPy matrix of any format and shape as a CSR array: float64 values, sorted columns, no duplicates.

    The matrix stays as it is; one that is in this form already is returned without a copy. `first`: the number of the
    first row. `complex_too`: whether values may be complex, and are complex128 then. InputError: they are not real,
    have values that are NaN or infinite, or indices of rows or columns that are none; or this process has not the
    memory.
    """
    _check_real(name, matrix, complex_too=complex_too)
    values = np.complex128 if np.dtype(matrix.dtype).kind == "c" else np.float64
    matrix = checked_arrays(name, matrix)
    try:
        _check_memory(matrix.shape[0])
        if matrix.dtype != values:  # before entries at one place are added, of which small integers have no room
            matrix = matrix.astype(values)
        rows = imported("sparse").csr_array(matrix, copy=not getattr(matrix, "has_canonical_format", False))
        rows.sum_duplicates()  # sorts the columns of each row, too
        rows.data = np.ascontiguousarray(rows.data)  # loops are compiled for such alone: A.real has every other number
    except MemoryError as error:
        raise InputError(
            f"{name} has {matrix.shape[0]} rows and {counted(matrix.nnz, 'entry', 'entries')}, for which this process "
            "has not the memory"
        ) from error
    bad = np.flatnonzero(~np.isfinite(rows.data))
    if len(bad):
        row = int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1
        place = (first + row, int(rows.indices[bad[0]]))
        raise InputError(f"{name} has NaN or infinity in {counted(len(bad), 'entry', 'entries')}, the first at {place}")
    return rows


def _check_real(name: str, matrix: Any, *, complex_too: bool) -> None:
    check_real(name, np.dtype(matrix.dtype), "fiubc" if complex_too else "fiub")


def _check_memory(rows: int) -> None:
    """Refuse rows for whose pointers there is no memory: the system would end this process. Raises MemoryError."""
    if rows > MANY and 8 * rows > psutil.virtual_memory().available:
        raise MemoryError


def checked_arrays(name: str, matrix: Any) -> Any:
    """A SciPy matrix whose arrays were checked: SciPy's conversions would read and write where they lead.

    One of lists or of a dictionary comes as compressed rows or coordinates, which are checked in its place; InputError
    where indices, pointers or lengths lead out of the matrix.
    """
    if matrix.format == "lil":
        matrix = _lists_flattened(name, matrix)
    elif matrix.format == "dok":
        _check_each(name, matrix.keys(), matrix.shape, matrix.shape)
        matrix = matrix.tocoo()
    for numbers, extent in _ARRAYS[matrix.format](name, matrix):
        _check_numbers(name, numbers, extent, matrix.shape)
    return matrix


Indices: TypeAlias = Iterable[tuple[Any, int]]  # arrays of indices, and the extent below which each of them must be


def _coordinates(name: str, matrix: Any) -> Indices:
    _check_lengths(name, matrix.data, *matrix.coords)
    return zip(matrix.coords, matrix.shape, strict=True)


def _compressed(name: str, matrix: Any) -> Indices:
    """Indices of compressed rows, columns, or rows of blocks."""
    blocks = matrix.format == "bsr"
    if matrix.data.ndim != (3 if blocks else 1):
        raise InputError(f"{name} has values of shape {matrix.data.shape}: {3 if blocks else 1} dimensions are needed")
    block = matrix.data.shape[1:] if blocks else (1, 1)
    if 0 in block or any(extent % size for extent, size in zip(matrix.shape, block, strict=True)):
        raise InputError(f"{name} has blocks of shape {block}, which do not divide its shape {tuple(matrix.shape)}")
    across, along = (extent // size for extent, size in zip(matrix.shape, block, strict=True))
    if matrix.format == "csc":
        across, along = along, across
    check_pointers(name, matrix.indptr, across, min(len(matrix.indices), len(matrix.data)))
    return ((matrix.indices[: matrix.indptr[-1]], along),)


def _diagonals(name: str, matrix: Any) -> Indices:
    if matrix.data.ndim != 2 or matrix.offsets.shape != matrix.data.shape[:1]:
        raise InputError(f"{name} has diagonals of shape {matrix.data.shape}, offsets of shape {matrix.offsets.shape}")
    if len(np.unique(matrix.offsets)) < len(matrix.offsets):
        raise InputError(f"{name} has two diagonals with one offset")
    return ()


_ARRAYS: Final = {"coo": _coordinates, "csr": _compressed, "csc": _compressed, "bsr": _compressed, "dia": _diagonals}
"""Checks of the arrays of each format of SciPy, which give its indices."""


def _lists_flattened(name: str, matrix: Any) -> Any:
    """A matrix in LIL format as compressed rows, without a look at its columns."""
    if len(matrix.rows) != matrix.shape[0] or list(map(len, matrix.rows)) != list(map(len, matrix.data)):
        raise InputError(f"{name} has lists of columns (rows) and of values (data) of different lengths")
    _check_each(name, ((number,) for row in matrix.rows for number in row), matrix.shape[1:], matrix.shape)
    return matrix.tocsr()


def _check_each(name: str, places: Iterable[tuple[Any, ...]], extents: Sequence[int], shape: Sequence[int]) -> None:
    """Refuse places of Python's numbers that lead out of such extents."""
    for place in places:
        if len(place) != len(extents) or not all(
            isinstance(number, int | np.integer) and 0 <= number < extent
            for number, extent in zip(place, extents, strict=True)
        ):
            raise InputError(f"{name} has an index {in_a_line(place)}, but shape {tuple(shape)}: indices begin with 0")


def _check_lengths(name: str, *arrays: Any) -> None:
    if any(array.shape != (len(arrays[0]),) for array in arrays):
        raise InputError(f"{name} has arrays of shapes {[array.shape for array in arrays]}: they must be equal")


def _check_numbers(name: str, numbers: Any, extent: int, shape: Sequence[int]) -> None:
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise InputError(f"{name} has indices of dtype {numbers.dtype} and shape {numbers.shape}: integers are needed")
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < extent:
        wrong = int(numbers[(numbers < 0) | (numbers >= extent)][0])
        raise InputError(f"{name} has an index {wrong}, but shape {tuple(shape)}: indices begin with 0")


def check_pointers(name: str, pointers: Any, count: int, entries: int) -> None:
    """Refuse pointers (NumPy, CuPy) to so many rows or columns that lead out of so many entries; raises InputError."""
    if pointers.ndim != 1 or pointers.dtype.kind not in "iu":
        raise InputError(f"{name} has pointers (indptr) of dtype {pointers.dtype}: integers are needed")
    if len(pointers) != count + 1 or pointers[0] != 0 or some(pointers[1:] < pointers[:-1]):
        raise InputError(f"{name} has pointers to rows or columns (indptr) that do not ascend from 0")
    if pointers[-1] > entries:
        raise InputError(f"{name} has fewer entries than its pointers (indptr) tell of: {pointers[-1]}")


def imported(module: str) -> Any:
    """A module of SciPy, which users with a SciPy matrix have; an extra otherwise."""
    return of_extra(f"scipy.{module}", "matrices", "sparse matrices need SciPy, which is not installed")
