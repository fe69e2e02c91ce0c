"""Parts of files that hold a matrix: some lines of a Matrix Market file, some rows of SciPy's `.npz` and of PETSc's."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import check_real
from dsolver.matrices.canonical import checked_arrays, imported
from dsolver.matrices.files.entries import Entries, joined
from dsolver.matrices.files.matrix_market import MarketHeader, market_header
from dsolver.matrices.files.npz import npz_part, npz_pointers
from dsolver.matrices.files.petsc import PetscLayout
from dsolver.matrices.files.reading import reading
from dsolver.matrices.io import as_stored

PETSC: Final = (".petsc", ".bin")


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


# -- files that hold rows ----------------------------------------------------------------------------------------------


def row_pointers(path: Path) -> npt.NDArray[np.int64] | None:
    """Row pointers of a file of rows in turn, int64 (rows + 1,); None for any other. Raises as `read_matrix`."""
    with reading(path, "a sparse matrix"):
        if path.suffix.lower() == ".npz":
            return npz_pointers(path)
        if path.suffix.lower() in PETSC:
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
