"""SciPy's `.npz` files: the arrays of a matrix, whole or in part."""

import io
import zipfile
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.matrices.canonical import check_pointers, imported

INDICES: Final = frozenset(f"{name}.npy" for name in ("shape", "indptr", "indices", "row", "col", "coords", "offsets"))
"""Arrays of integers."""


def npz_matrix(path: Path) -> Any:
    """A matrix of `scipy.sparse` from a file. TypeError: its indices are no integers."""
    with zipfile.ZipFile(path) as file:
        _check_integers(file)
    return imported("sparse").load_npz(path)


def npz_pointers(path: Path) -> npt.NDArray[np.int64] | None:
    """Row pointers of a CSR matrix, int64 (rows + 1,); None for any other. InputError: its arrays are no rows."""
    with zipfile.ZipFile(path) as file:
        _check_integers(file)
        if np.load(file.open("format.npy")).item() not in ("csr", b"csr"):
            return None
        pointers, (rows, _) = np.load(file.open("indptr.npy")), _shape(file)
        numbers, values = (_length(file, f"{name}.npy") for name in ("indices", "data"))
    if numbers != values:
        raise ValueError(f"it has {numbers} columns for {values} values")
    check_pointers(str(path), pointers, rows, values)
    return pointers.astype(np.int64)


def npz_part(path: Path, first: int, last: int) -> tuple[int, npt.NDArray[Any], npt.NDArray[Any]]:
    """Number of columns, and columns and values of entries first .. last in CSR format. EOFError: it is cut short."""
    with zipfile.ZipFile(path) as file:
        _, columns = _shape(file)
        numbers, values = (_member(file, f"{name}.npy", first, last) for name in ("indices", "data"))
    return columns, numbers, values


def _shape(file: zipfile.ZipFile) -> tuple[int, int]:
    """Rows and columns of a matrix in a file of SciPy's."""
    rows, columns = np.load(file.open("shape.npy")).tolist()
    if not all(isinstance(extent, int) and extent >= 0 for extent in (rows, columns)):
        raise ValueError(f"it tells of {rows} rows and {columns} columns")
    return rows, columns


def _length(file: zipfile.ZipFile, name: str) -> int:
    """Items of an array of one dimension in a file of arrays."""
    with file.open(name) as member:
        shape, _ = _array_header(member)
    if len(shape) != 1:
        raise ValueError(f"its array {name} has shape {shape}")
    return shape[0]


def _member(file: zipfile.ZipFile, name: str, first: int, last: int) -> npt.NDArray[Any]:
    """Items [first, last) of an array in a file of arrays; what lies before them is read and left."""
    with file.open(name) as member:
        _, dtype = _array_header(member)
        member.seek(first * dtype.itemsize, io.SEEK_CUR)
        raw = member.read((last - first) * dtype.itemsize)
    if len(raw) < (last - first) * dtype.itemsize:
        raise EOFError(f"its array {name} is cut short")
    return np.frombuffer(raw, dtype)


def _check_integers(file: zipfile.ZipFile) -> None:
    """Refuse indices in a file of SciPy's that are no integers, which SciPy would round; raises TypeError."""
    for name in INDICES & set(file.namelist()):
        with file.open(name) as member:
            _, dtype = _array_header(member)
        if dtype.kind not in "iu":
            raise TypeError(f"its array {name} has dtype {dtype}: integers are needed")


def _array_header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array in NumPy's format, whose items come next."""
    version = np.lib.format.read_magic(member)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(member)
    return shape, dtype
