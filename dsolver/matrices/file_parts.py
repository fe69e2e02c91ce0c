"""Parts of files that hold a matrix: some lines of a Matrix Market file, some rows of SciPy's `.npz` and of PETSc's."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError, check_real
from dsolver.matrices.canonical import check_pointers, checked_arrays, imported
from dsolver.matrices.io import array_header, as_stored, check_integers, petsc_lengths, petsc_part, reading

FIELDS: Final = ("real", "double", "integer", "unsigned-integer", "pattern")
AT_ONCE: Final = 1 << 24
"""Bytes that are looked through for line ends at a time."""
HEADER_LINES: Final = 2
"""Lines that go before those of a part for SciPy's reader."""


class Entries(NamedTuple):
    """Entries of a matrix by coordinates.

    Attributes:
        shape: of the matrix.
        lines: of the file that they come from; mirrored ones have none of their own.
        row: (entries,), from 0.
        column: (entries,), from 0.
        values: float64 (entries,).
    """

    shape: tuple[int, int]
    lines: int
    row: npt.NDArray[Any]
    column: npt.NDArray[Any]
    values: npt.NDArray[np.float64]


@final
@dataclass(frozen=True, kw_only=True)
class MarketHeader:
    """The beginning of a Matrix Market file of coordinates.

    Attributes:
        banner: its first line.
        shape: rows and columns.
        entries: lines that follow.
        begin: the byte where they begin.
        size: bytes of the file.
    """

    banner: bytes
    shape: tuple[int, int]
    entries: int
    begin: int
    size: int

    def check(self, path: Path, lines: int) -> None:
        """Refuse a file with fewer or more lines than it tells of.

        Raises:
            InputError: it is one.
        """
        if lines != self.entries:
            what = "is cut short" if lines < self.entries else "has too many lines"
            raise InputError(f"{path} {what}: its header tells of {self.entries} entries, but {lines} lines follow")


def market_header(path: Path) -> MarketHeader:
    """The header of an uncompressed Matrix Market file.

    Raises:
        InputError: there is no such file, or it holds no coordinates of real numbers.
    """
    with reading(path, "a sparse matrix"), path.open("rb") as file:
        banner = file.readline()
        words = banner.decode("ascii", "replace").lower().split()
        if len(words) != 5 or words[0] != "%%matrixmarket":
            raise ValueError("Missing banner in its first line")
        if words[1:3] != ["matrix", "coordinate"]:
            raise TypeError("it is an array of all values: a matrix must be given by coordinates")
        if words[3] not in FIELDS:
            raise InputError(f"{path} has values that are {words[3]}: real numbers are needed")
        number = 1
        while (line := file.readline()) and (line.startswith(b"%") or not line.strip()):
            number += 1
        sizes = line.split()
        if len(sizes) != 3 or not all(size.isdigit() for size in sizes):
            raise ValueError(f"Line {number + 1}: three numbers must be there: rows, columns and entries")
        rows, columns, entries = map(int, sizes)
        begin = file.tell()
        return MarketHeader(
            banner=banner, shape=(rows, columns), entries=entries, begin=begin, size=file.seek(0, io.SEEK_END)
        )


def market_entries(path: Path, header: MarketHeader, first: int, last: int) -> Entries:
    """The entries whose lines begin in bytes [first, last) of a file, with mirrored ones.

    Raises:
        InputError: a line of them, by number, is wrong.
    """
    with path.open("rb") as file:
        begin, end = (_line_start(file, header, place) for place in (first, last))
        file.seek(begin)
        text = file.read(end - begin)
    lines = _lines(text)
    head = b"%s\n%d %d %d\n" % (header.banner.strip(), *header.shape, lines)
    try:
        found = imported("io").mmread(io.BytesIO(head + text))
    except (ValueError, OverflowError) as error:
        before = _line_ends(path, begin) - HEADER_LINES
        told = re.sub(r"Line (\d+)", lambda match: f"Line {int(match[1]) + before}", str(error))
        raise InputError(f"{path} cannot be read as a sparse matrix: {told}") from None
    return _entries(found, lines)


def all_entries(path: Path) -> Entries:
    """All entries of a file that cannot be read in parts.

    Raises:
        InputError: as of `read_matrix`.
    """
    return _entries(checked_arrays(str(path), as_stored(path)).tocoo(), 0)


def joined_rows(span: tuple[int, int], parts: Sequence[Entries]) -> Any:
    """Rows [first, last), a `scipy.sparse.coo_array` with all columns, from entries that are in these rows."""
    row, column, values = (np.concatenate(arrays) for arrays in zip(*(part[2:] for part in parts), strict=True))
    shape = (span[1] - span[0], parts[0].shape[1])
    return imported("sparse").coo_array((values, (row - span[0], column)), shape=shape)


def _entries(found: Any, lines: int) -> Entries:
    """The entries of a matrix of `scipy.sparse` by coordinates."""
    check_real("the matrix", found.dtype, "fiub")
    return Entries(found.shape, lines, found.row, found.col, found.data.astype(np.float64, copy=False))


def _line_start(file: BinaryIO, header: MarketHeader, place: int) -> int:
    """The first byte at `place` or behind it with which a line begins."""
    if place <= header.begin:
        return header.begin
    file.seek(place - 1)
    file.readline()
    return file.tell()


def _lines(text: bytes) -> int:
    """Lines that are not blank."""
    if text.startswith((b"\n", b"\r")) or b"\n\n" in text or b"\n\r" in text:
        return sum(1 for line in text.splitlines() if line.strip())
    return text.count(b"\n") + (bool(text) and not text.endswith(b"\n"))


def _line_ends(path: Path, before: int) -> int:
    """Line ends in the first bytes of a file."""
    count = 0
    with path.open("rb") as file:
        while before > 0 and (block := file.read(min(AT_ONCE, before))):
            count, before = count + block.count(b"\n"), before - len(block)
    return count


# -- files that hold rows ----------------------------------------------------------------------------------------------


def row_pointers(path: Path) -> npt.NDArray[np.int64] | None:
    """Row pointers of a file that holds rows one after the other, int64 (rows + 1,); None for any other file.

    Raises:
        InputError: there is no such file, or it is cut short.
    """
    with reading(path, "a sparse matrix"):
        if path.suffix == ".npz":
            return _npz_pointers(path)
        if path.suffix in (".petsc", ".bin"):
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
        if path.suffix == ".npz":
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
