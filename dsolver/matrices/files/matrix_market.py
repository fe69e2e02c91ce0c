"""Matrix Market files: coordinates, and arrays of vectors (Boisvert, Pozo and Remington, NISTIR 5935, 1996)."""

import bz2
import gzip
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.matrices.canonical import imported
from dsolver.matrices.files.entries import Entries, Sides, check_sides, joined, mirrored
from dsolver.matrices.files.lines import Kind, checked_lines, plain_lines
from dsolver.matrices.files.reading import reading
from dsolver.units import counted

FIELDS: Final[dict[str, tuple[Kind, ...]]] = {
    "real": ("real",),
    "double": ("real",),
    "integer": ("integer",),
    "unsigned-integer": ("integer",),
    "complex": ("real", "real"),
    "pattern": (),
}
"""Numbers behind the indices of a line, by the third word behind the banner."""
OPENERS: Final[dict[str, Any]] = {".gz": gzip.open, ".bz2": bz2.open}
SYMMETRIES: Final = ("general", "symmetric", "skew-symmetric", "hermitian")
AT_ONCE: Final = 1 << 28  # bytes of text that are read at a time, about
LEAST: Final = 1 << 20  # bytes of text that are read at a time at least, from compressed files, too
MOST: Final = 1 << 62  # rows, columns and entries that a file may tell of


@dataclass(frozen=True, kw_only=True)
class MarketHeader:
    """The beginning of a Matrix Market file."""

    field: str
    symmetry: str  # which entries stand for two
    sizes: tuple[int, ...]  # rows and columns; of coordinates also entries
    line: int
    begin: int  # the byte where the next one begins
    size: int  # bytes of the file; of one that is compressed they tell nothing

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.sizes[0], self.sizes[1]

    def check(self, path: Path, parts: Iterable[tuple[int, Sides]]) -> None:
        """Refuse a file with more or fewer lines than it tells of, or mirrored entries on both sides (InputError)."""
        found = list(parts)
        lines = sum(count for count, _ in found)
        if lines != self.sizes[2]:
            what = "is cut short" if lines < self.sizes[2] else "has too many lines"
            entries = counted(self.sizes[2], "entry", "entries")
            raise InputError(f"{path} {what}: its header tells of {entries}, but {counted(lines, 'line')} follow")
        check_sides(path, self.symmetry, [sides for _, sides in found])


def opened(path: Path) -> IO[bytes]:
    """The text of a file, which may be compressed."""
    return OPENERS.get(path.suffix.lower(), io.open)(path, "rb")


def market_header(path: Path, file: IO[bytes], what: str = "coordinate") -> MarketHeader:
    """The header of a Matrix Market file, which is left behind it.

    Args:
        what: "coordinate" or "array".

    Raises:
        ValueError: it has none.
        TypeError: it holds the other one.
    """
    words = file.readline().decode("ascii", "replace").lower().split()
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
        raise ValueError("Missing banner in its first line")
    if words[2] != what:
        needed = "a matrix must be given by coordinates" if what == "coordinate" else "vectors are an 'array'"
        raise TypeError(f"its first line says {words[2]!r}: {needed}")
    if words[3] not in FIELDS or words[4] not in SYMMETRIES or (what == "array" and words[3] == "pattern"):
        raise ValueError(f"its first line says {' '.join(words[3:])!r}: such values are not known")
    number = 2
    while (line := file.readline()) and (line.startswith(b"%") or not line.strip()):
        number += 1
    count = 3 if what == "coordinate" else 2
    sizes = line.split()
    if len(sizes) != count or not all(size.isdigit() and len(size) < 20 for size in sizes):
        needed = "three numbers must be there: rows, columns and entries"
        raise ValueError(f"Line {number}: {needed if count == 3 else 'two numbers must be there: rows and columns'}")
    found = tuple(map(int, sizes))
    if max(found) > MOST:
        raise ValueError(f"Line {number}: {max(found)} is out of range")
    if words[4] != "general" and found[0] != found[1]:
        raise ValueError(f"it is {words[4]}, and has {found[0]} rows and {found[1]} columns")
    size = path.stat().st_size
    return MarketHeader(field=words[3], symmetry=words[4], sizes=found, line=number, begin=file.tell(), size=size)


def market_matrix(path: Path) -> Any:
    """A matrix of `scipy.sparse` from a file of coordinates. InputError: a wrong line, by number, or a wrong count."""
    with opened(path) as file:
        header = market_header(path, file)
        if path.suffix.lower() == ".mtx" and header.symmetry == "general" and header.field in ("real", "pattern"):
            lines = plain_lines(file, ("index", "index", *FIELDS[header.field]))
            if lines >= 0:  # most files: no copy of their text is needed
                header.check(path, [(lines, (None, None))])
                return _in_place(_whole(path, header))
            file.seek(header.begin)
        parts: list[Entries] = []
        before, at_once = header.line, min(AT_ONCE, max(header.size, LEAST))
        while (text := file.read(at_once)) or not parts:
            text += file.readline()
            parts.append(market_entries(header, text, before))
            before += text.count(b"\n") if len(text) >= at_once else 0  # of the last one it is not asked
    header.check(path, ((part.lines, part.sides) for part in parts))
    return _in_place(joined(parts))


def _whole(path: Path, header: MarketHeader) -> Entries:
    """The entries of a file of plain lines, as SciPy reads them from it."""
    found = imported("io").mmread(path)
    if found.shape != header.shape:
        raise ValueError(f"it has shape {found.shape} where {header.shape} was read")
    return Entries(header.shape, found.row, found.col, found.data, len(found.row))


def market_part(path: Path, header: MarketHeader, first: int, last: int) -> Entries:
    """Entries whose lines begin in bytes first .. last of a file, with mirrored ones. InputError: a wrong line."""
    with reading(path, "a sparse matrix"), path.open("rb") as file:
        begin, end = (_line_start(file, header, place) for place in (first, last))
        file.seek(begin)
        text = file.read(end - begin)
        try:
            return market_entries(header, text, 0)
        except ValueError:  # now the lines before are counted
            return market_entries(header, text, _line_ends(file, begin))


def market_entries(header: MarketHeader, text: bytes, before: int) -> Entries:
    """Entries of some lines, with mirrored ones; before: lines that go before these. ValueError: a line is wrong."""
    text, lines = checked_lines(text, ("index", "index", *FIELDS[header.field]), before)
    field = header.field if header.field in ("pattern", "complex") else "real"
    head = b"%%%%MatrixMarket matrix coordinate %s general\n%d %d %d\n" % (field.encode(), *header.shape, lines)
    found = _read(head, text, before)
    entries = Entries(header.shape, found.row, found.col, found.data, lines)
    return entries if header.symmetry == "general" else mirrored(entries, header.symmetry)


def market_vectors(path: Path) -> npt.NDArray[Any]:
    """Vectors, real or complex (rows, columns), of an array or a column of coordinates; ValueError, TypeError."""
    with opened(path) as file:
        if b"coordinate" in file.readline().lower().split()[2:3]:
            return _column(market_matrix(path))
        file.seek(0)
        header = market_header(path, file, "array")
        text, lines = checked_lines(file.read(), FIELDS[header.field], header.line)
    rows, columns = header.shape
    if header.symmetry != "general":
        raise ValueError(f"its first line says {header.symmetry!r}: vectors are 'general'")
    if lines != rows * columns:
        raise ValueError(f"it has {lines} values: {rows} rows and {columns} columns need {rows * columns}")
    field = b"complex" if header.field == "complex" else b"real"
    head = b"%%%%MatrixMarket matrix array %s general\n%d %d\n" % (field, *header.shape)
    return _read(head, text, header.line)


def _column(found: Any) -> npt.NDArray[Any]:
    """A matrix of one column as a vector."""
    if found.shape[1] != 1:
        raise TypeError(f"it holds coordinates in {found.shape[1]} columns: vectors are an array, or have one column")
    column: npt.NDArray[Any] = found.toarray()
    return column.astype(np.result_type(column.dtype, np.float64))


class _Headed:
    """A file of a head and a text, which is not copied as a whole."""

    def __init__(self, head: bytes, text: bytes) -> None:
        self._head, self._text, self._place = head, memoryview(text), 0

    def read(self, size: int) -> bytes:
        """The next bytes, empty at the end; the head comes by itself."""
        if self._head:
            head, self._head = self._head, b""
            return head
        begin, self._place = self._place, self._place + size
        return bytes(self._text[begin : self._place])


def _read(head: bytes, text: bytes, before: int) -> Any:
    """The matrix, by SciPy, of a header of two lines and a text that was looked through."""
    try:
        return imported("io").mmread(_Headed(head, text))
    except (ValueError, OverflowError) as error:
        told = re.sub(r"Line (\d+)", lambda match: f"Line {int(match[1]) - head.count(10) + before}", str(error))
        raise ValueError(told) from None


def _in_place(found: Entries) -> Any:
    """Coordinates as compressed rows without a move, where they come row after row; else as they are.

    Most files are written so, and then a third of the time from coordinates to sorted rows is enough.
    """
    sparse, (rows, _) = imported("sparse"), found.shape
    entries = len(found.row)
    if rows > entries or (found.row[1:] < found.row[:-1]).any():
        return sparse.coo_array((found.values, (found.row, found.column)), shape=found.shape)
    pointers = np.concatenate([[0], np.cumsum(np.bincount(found.row, minlength=rows))])
    # With pointers of 64 bits SciPy would widen the columns, too.
    pointers = pointers.astype(found.column.dtype if entries <= np.iinfo(found.column.dtype).max else np.int64)
    matrix = sparse.csr_array((found.values, found.column, pointers), shape=found.shape)
    matrix.sum_duplicates()
    return matrix


def _line_start(file: IO[bytes], header: MarketHeader, place: int) -> int:
    """The first byte at `place` or behind it with which a line begins."""
    if place <= header.begin:
        return header.begin
    file.seek(place - 1)
    file.readline()
    return file.tell()


def _line_ends(file: IO[bytes], before: int) -> int:
    """Line ends in the first bytes of a file."""
    count = 0
    file.seek(0)
    while before > 0 and (block := file.read(min(AT_ONCE, before))):
        count, before = count + block.count(b"\n"), before - len(block)
    return count
