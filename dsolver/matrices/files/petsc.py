"""PETSc's binary format (PETSc manual, MatLoad and MatView): big-endian, without a word for its kinds of numbers.

These follow from where the file ends, or another object of PETSc begins. Complex numbers of float32 take as many bytes
as float64: they are told by imaginary parts that are ordinary numbers, one and all. Those of float64 take as many as
numbers of 128 bits, and are told by that, too.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.matrices.canonical import imported

MATRIX: Final = 1211216  # first word of a matrix
OBJECTS: Final = range(1211211, 1211240)  # first words of objects
VALUES: Final = {8: ">f8", 4: ">f4", 16: ">c16"}  # kinds of values that are read, by their bytes
OTHERS: Final = {2: "of 16 bits", 32: "complex and of 128 bits"}  # kinds of values that are not read, by their bytes
TELLING: Final = 16  # different imaginary parts from which on it is no chance that all of them are ordinary numbers
ORDINARY: Final = (1e-12, 1e12)
"""Sizes of ordinary numbers: the second half of a float64 is one, as a float32, three times out of ten."""


@dataclass(frozen=True, kw_only=True)
class PetscLayout:
    """Layout of a matrix in a file."""

    rows: int
    columns: int
    entries: int
    index: np.dtype[Any]  # dtype of lengths and indices
    value: np.dtype[Any]  # dtype of values

    @classmethod
    def of(cls, file: IO[bytes]) -> Self:
        """Layout of an open file. ValueError: it contradicts itself; EOFError: it is cut; InputError: its precision."""
        wide = _words(file, 0, np.dtype(">i4"), 2).tolist() == [0, MATRIX]
        index: np.dtype[Any] = np.dtype(">i8" if wide else ">i4")
        kind, rows, columns, entries = _words(file, 0, index, 4).tolist()
        if kind != MATRIX:
            raise ValueError(f"its first word is {kind}, where a PETSc matrix has {MATRIX}")
        if min(rows, columns, entries) < 0:
            raise ValueError(f"it tells of {rows} rows, {columns} columns and {entries} entries")
        begin = index.itemsize * (4 + rows + entries)
        return cls(rows=rows, columns=columns, entries=entries, index=index, value=_value(file, begin, entries, index))

    def pointers(self, file: IO[bytes]) -> npt.NDArray[np.int64]:
        """Row pointers, int64 (rows + 1,). ValueError: they do not sum to the entries; EOFError: a file cut short."""
        lengths = _words(file, 4 * self.index.itemsize, self.index, self.rows).astype(np.int64)
        if lengths.min(initial=0) < 0 or lengths.max(initial=0) > self.entries or lengths.sum() != self.entries:
            raise ValueError(f"its rows have {lengths.sum()} entries, but its header tells of {self.entries}")
        return np.concatenate([[0], np.cumsum(lengths)])

    def part(self, file: IO[bytes], first: int, last: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Columns, int32 or int64, and values, float64 or complex128, of entries first .. last. Raises as `of`."""
        begin = self.index.itemsize * (4 + self.rows)
        numbers = _words(file, begin + self.index.itemsize * first, self.index, last - first)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.columns:
            wrong = int(np.flatnonzero((numbers < 0) | (numbers >= self.columns))[0])
            raise ValueError(f"entry {first + wrong} is in column {numbers[wrong]} of {self.columns}")
        begin += self.index.itemsize * self.entries
        values = _words(file, begin + self.value.itemsize * first, self.value, last - first)
        numbers = numbers.astype(self.index.newbyteorder("="))
        if self.value.kind == "c" and not _ordinary(values.imag):
            raise ValueError("its values are of 128 bits: complex ones have two ordinary numbers")
        if _looks_complex(values):
            values = values.view(">c8")
        return numbers, values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def petsc_matrix(path: Path) -> Any:
    """A matrix of `scipy.sparse` from a file; raises as `PetscLayout.of`."""
    with path.open("rb") as file:
        layout = PetscLayout.of(file)
        pointers = layout.pointers(file)
        numbers, values = layout.part(file, 0, layout.entries)
    return imported("sparse").csr_array((values, numbers, pointers), shape=(layout.rows, layout.columns))


def _value(file: IO[bytes], begin: int, entries: int, index: np.dtype[Any]) -> np.dtype[Any]:
    """The type of values that begin at a byte, behind which the file ends or another object begins."""
    left = os.fstat(file.fileno()).st_size - begin
    for size in (*VALUES, *OTHERS):
        end = begin + size * entries
        if left == size * entries or _object_at(file, end, index):
            if size in OTHERS and entries:
                raise InputError(
                    f"{file.name} has values of {size} bytes, {OTHERS[size]}: float64 and float32, real or complex, "
                    f"are read; have PETSc write it where PetscScalar is one of them"
                )
            return np.dtype(VALUES.get(size, ">f8"))
    if left < 8 * entries:
        raise EOFError(f"the file is cut short: {8 * entries} more bytes were to come where {max(left, 0)} are left")
    raise ValueError(f"behind its values, at byte {begin + 8 * entries}, comes no other object of PETSc")


def _object_at(file: IO[bytes], place: int, index: np.dtype[Any]) -> bool:
    """Whether an object of PETSc begins at a byte of a file."""
    if place + index.itemsize > os.fstat(file.fileno()).st_size:
        return False
    return int(_words(file, place, index, 1)[0]) in OBJECTS


def _looks_complex(values: npt.NDArray[Any]) -> bool:
    """Whether values of float64 must be pairs of float32."""
    if values.dtype.itemsize != 8:
        return False
    second = values.view(">f4")[1::2]
    with np.errstate(all="ignore"):
        return len(np.unique(abs(second[second != 0.0]))) >= TELLING and _ordinary(second)


def _ordinary(values: npt.NDArray[Any]) -> bool:
    """Whether all values beside zero are ordinary numbers."""
    with np.errstate(all="ignore"):
        sizes = abs(values[values != 0.0])
        return bool(((sizes >= ORDINARY[0]) & (sizes <= ORDINARY[1])).all())


def _words(file: IO[bytes], place: int, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    """Numbers at a byte of a file that may be cut short."""
    size = dtype.itemsize * count
    left = max(0, os.fstat(file.fileno()).st_size - place)
    if left < size:
        raise EOFError(f"the file is cut short: {size} more bytes were to come where {left} are left")
    file.seek(place)
    return np.frombuffer(file.read(size), dtype)
