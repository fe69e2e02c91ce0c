"""Lines of numbers: a text is looked through before a library reads it, which may skip what it does not know."""

from functools import cache
from typing import IO, Final, Literal

import numpy as np

from dsolver.kernels.cpu.automaton import Automaton, first_wrong

Kind = Literal["index", "integer", "real"]  # kinds of numbers: an index has no sign
NAMES: Final[dict[Kind, str]] = {"index": "an index", "integer": "a whole number", "real": "a real number"}
CACHED: Final = 1 << 20  # bytes of which a copy stays in a core's cache
DIGITS: Final = b"0123456789"
BLANKS: Final = b" \t"
SHOWN: Final = 60  # bytes of a wrong line that a message shows
_PLAIN: Final = bytes.maketrans(b"dD", b"EE")


def checked_lines(text: bytes, kinds: tuple[Kind, ...], before: int) -> tuple[bytes, int]:
    """A text as SciPy reads it, and its lines that are not blank.

    Fortran's exponents (D) and the sign + are put in C's words.

    `text`: whole lines; the end of the last one may be missing. ValueError: a line, by number, has something else.
    """
    if text and not text.endswith(b"\n"):
        text += b"\n"
    if first_wrong(text, _language(kinds, loose=False)) < 0:
        return text, _line_ends(text)
    place = first_wrong(text, _language(kinds, loose=True))
    if place >= 0:
        raise ValueError(_told(text, place, kinds, before))
    return text.translate(_PLAIN, b"+"), sum(1 for line in text.splitlines() if line.strip())


def plain_lines(file: IO[bytes], kinds: tuple[Kind, ...]) -> int:
    """Lines of the rest of a file if SciPy reads each as what it says, else -1. The file is left at its end."""
    lines, language = 0, _language(kinds, loose=False)
    while text := file.read(CACHED):
        text += file.readline()
        if not text.endswith(b"\n"):
            text += b"\n"
        if first_wrong(text, language) >= 0:
            return -1
        lines += _line_ends(text)
    return lines


def _line_ends(text: bytes) -> int:
    """Line ends of a text: thrice as fast as its own count."""
    found = np.frombuffer(text, np.uint8)
    return sum(int(np.count_nonzero(found[k : k + CACHED] == 10)) for k in range(0, len(text), CACHED))


def _told(text: bytes, place: int, kinds: tuple[Kind, ...], before: int) -> str:
    begin, end = text.rfind(b"\n", 0, place) + 1, text.find(b"\n", place)
    shown = text[begin:end].rstrip(b"\r")
    dots = "..." if len(shown) > SHOWN else ""
    what = ", ".join(NAMES[kind] for kind in kinds)
    line = before + 1 + text.count(b"\n", 0, begin)
    return f"Line {line}: {what} must be there, not {shown[:SHOWN].decode('latin-1')!r}{dots}"


@cache
def _language(kinds: tuple[Kind, ...], *, loose: bool) -> Automaton:
    """The automaton of lines of such numbers; loose: with blank lines, exponents with a D, and the sign +."""
    table = _Table()
    begin = table.state()
    end = table.state()  # behind the \r of a line's end
    table.lead(end, b"\n", begin)
    table.lead(begin, BLANKS, begin)
    if loose:
        table.lead(begin, b"\n", begin)
        table.lead(begin, b"\r", end)
    before = begin
    for number, kind in enumerate(kinds):
        last = _real(table, before, loose) if kind == "real" else _whole(table, before, kind == "integer", loose)
        before = table.state()
        for state in (*last, before):
            table.lead(state, BLANKS, before)
            if number == len(kinds) - 1:
                table.lead(state, b"\n", begin)
                table.lead(state, b"\r", end)
    return table.made()


def _whole(table: "_Table", before: int, signed: bool, loose: bool) -> tuple[int, ...]:
    """The states in which a whole number may end."""
    sign, digits = table.state(), table.state()
    if signed:
        table.lead(before, b"+-" if loose else b"-", sign)
        table.lead(sign, DIGITS, digits)
    table.lead(before, DIGITS, digits)
    table.lead(digits, DIGITS, digits)
    return (digits,)


def _real(table: "_Table", before: int, loose: bool) -> tuple[int, ...]:
    """The states in which a decimal number may end."""
    sign, whole, point, fraction, e, e_sign, exponent = (table.state() for _ in range(7))
    table.lead(before, b"+-" if loose else b"-", sign)
    for state in (before, sign):
        table.lead(state, DIGITS, whole)
        table.lead(state, b".", point)
    table.lead(point, DIGITS, fraction)
    table.lead(whole, DIGITS, whole)
    table.lead(whole, b".", fraction)
    table.lead(fraction, DIGITS, fraction)
    for state in (whole, fraction):
        table.lead(state, b"eEdD" if loose else b"eE", e)
    table.lead(e, b"+-", e_sign)
    for state in (e, e_sign, exponent):
        table.lead(state, DIGITS, exponent)
    return whole, fraction, exponent


class _Table:
    """An automaton on its way: state 0 is the wrong one."""

    def __init__(self) -> None:
        self._rows = [[0] * 256]

    def state(self) -> int:
        self._rows.append([0] * 256)
        return len(self._rows) - 1

    def lead(self, state: int, found: bytes, to: int) -> None:
        for byte in found:
            self._rows[state][byte] = to

    def made(self) -> Automaton:
        return Automaton(self._rows)
