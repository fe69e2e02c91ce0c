"""Harwell-Boeing and Rutherford-Boeing files: columns of a matrix in fields of fixed width.

Duff, Grimes and Lewis, Users' guide for the Harwell-Boeing sparse matrix collection, 1992, and The Rutherford-Boeing
sparse matrix collection, 1997. SciPy reads unsymmetric matrices of them alone, and numbers that blanks part.
"""

import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.matrices.canonical import checked_arrays, imported
from dsolver.matrices.files.entries import Entries, check_sides, mirrored
from dsolver.matrices.files.lines import Kind, checked_lines

ENDING: Final = re.compile(r"\.(rb|hb|[rcpi][usrzh][ae])", re.IGNORECASE)
"""Endings of names; those of three letters are the type of the matrix."""
WIDTH: Final = 14  # characters of a number in the header
SYMMETRIES: Final = {"u": "general", "r": "general", "s": "symmetric", "z": "skew-symmetric", "h": "hermitian"}
FORMAT: Final = re.compile(r"\((?:(\d+)P,?)?(\d*)([IEDFG])(\d+)(?:\.(\d+)(?:E\d+)?)?\)", re.IGNORECASE)
"""Formats of Fortran for a line: a scale factor, how many numbers, their kind, their width and decimals."""


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Fields of a line of numbers."""

    count: int
    width: int
    kind: Kind
    pointed: bool  # whether each number must have a point: without one Fortran would divide it by a power of ten
    exponents: bool  # whether each number must have an exponent: without one a scale factor would divide it

    def split(self, line: bytes) -> list[bytes]:
        """The numbers of a line, without the blanks about them. ValueError: one is none."""
        line = line.rstrip()
        found = [line[k : k + self.width].strip() for k in range(0, len(line), self.width)]
        if len(parted := line.split()) == len(found):  # some files of SciPy have narrower fields than they say
            found = parted
        text, lines = checked_lines(b"\n".join(found), (self.kind,), 0)
        if lines != len(found) or lines > self.count:
            raise ValueError(f"{self.count} numbers of {self.width} characters must be there, not {line[:80]!r}")
        for number in found if self.pointed or self.exponents else ():
            if (self.pointed and b"." not in number) or (self.exponents and not re.search(rb"[eEdD]", number)):
                raise ValueError(f"{number.decode()!r} has no point or no exponent: Fortran would divide it")
        return text.split()


def harwell_boeing(path: Path) -> Any:
    """A matrix of `scipy.sparse` from a file. ValueError: a wrong line; InputError: both triangles are given."""
    with path.open("rb") as file:
        lines = _Lines(file)
        lines.next()  # a title
        counts = lines.numbers(0, 4)
        right_hand_sides = lines.last[4 * WIDTH : 5 * WIDTH].strip() not in (b"", b"0")
        kind, sizes = "", lines.numbers(WIDTH, 3)
        kind = lines.last[:3].decode("latin-1").lower()
        if kind[:1] not in ("r", "c", "p", "i") or kind[1:2] not in SYMMETRIES or kind[2:] != "a":
            raise ValueError(f"Line 3: {kind!r} is no type of a matrix that is assembled")
        formats = lines.next()
        spans = (formats[:16], formats[16:32], formats[32:52])
        fields = [_fields(part, index=number < 2) for number, part in enumerate(spans[: 2 if kind[0] == "p" else 3])]
        if right_hand_sides:
            lines.next()
        rows, columns, entries = sizes
        pointers = lines.section(counts[1], columns + 1, fields[0])
        numbers = lines.section(counts[2], entries, fields[1])
        each = 1 + (kind[0] == "c")  # real and imaginary parts take turns
        values = np.ones(entries) if kind[0] == "p" else lines.section(counts[3], each * entries, fields[2])
    values = values.astype(np.float64)
    arrays = (
        values.view(np.complex128) if kind[0] == "c" else values,
        numbers.astype(np.int64) - 1,
        pointers.astype(np.int64) - 1,
    )
    found = checked_arrays(str(path), imported("sparse").csc_array(arrays, shape=(rows, columns)))
    symmetry = SYMMETRIES[kind[1]]
    if symmetry == "general":
        return found
    if rows != columns:
        raise ValueError(f"it is {symmetry}, and has {rows} rows and {columns} columns")
    lower = found.tocoo()
    whole = mirrored(Entries(found.shape, lower.row, lower.col, lower.data), symmetry)
    check_sides(path, symmetry, [whole.sides])
    return imported("sparse").coo_array((whole.values, (whole.row, whole.column)), shape=whole.shape)


class _Lines:
    """Lines of a file, counted; `last` is the last one that was taken."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._number = file, 0
        self.last = b""

    def next(self) -> bytes:
        """The next one."""
        self._number += 1
        self.last = self._file.readline()
        if not self.last:
            raise EOFError(f"the file is cut short: it ends before line {self._number}")
        return self.last

    def numbers(self, begin: int, count: int) -> list[int]:
        """Whole numbers of the header's width, of the next line from a column on."""
        line = self.next()
        found = [line[begin + k * WIDTH : begin + (k + 1) * WIDTH].strip() for k in range(count)]
        if not all(number.isdigit() for number in found):
            raise ValueError(f"Line {self._number}: {count} whole numbers in {WIDTH} columns each must be there")
        return list(map(int, found))

    def section(self, lines: int, count: int, fields: Fields) -> npt.NDArray[Any]:
        """Numbers of the next lines, as bytes."""
        if lines != -(-count // fields.count):
            raise ValueError(f"it has {lines} lines for {count} numbers, {fields.count} in each")
        first, taken = self._number + 1, list(islice(self._file, lines))
        self._number += lines
        if len(taken) < lines:
            raise EOFError(f"the file is cut short: it ends before line {first + len(taken)}")
        found: list[bytes] = []
        for number, line in enumerate(taken):
            try:
                part = fields.split(line)
            except ValueError as error:
                raise ValueError(f"Line {first + number}: {str(error).removeprefix('Line 1: ')}") from None
            if len(part) != min(fields.count, count - len(found)):
                raise ValueError(f"Line {first + number}: it has {len(part)} numbers where others are told of")
            found += part
        return np.array(found or np.zeros(0, "S1"))


def _fields(text: bytes, *, index: bool) -> Fields:
    """The fields that a format of Fortran tells of."""
    shown = text.decode("latin-1").strip()
    found = FORMAT.fullmatch(shown.replace(" ", ""))
    if found is None or (index and found[3].upper() != "I") or int(found[4]) == 0:
        raise ValueError(f"Line 4: {shown!r} is no format of {'whole' if index else 'real'} numbers")
    whole = found[3].upper() == "I"
    return Fields(
        count=int(found[2] or 1),
        width=int(found[4]),
        kind="index" if index else "integer" if whole else "real",
        pointed=not whole and int(found[5] or 0) > 0,
        exponents=int(found[1] or 0) > 0,
    )
