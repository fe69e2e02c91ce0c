"""Columns in a range and outside of it, where nearly all are in it: whole blocks are looked at before single ones."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dsolver.kernels.cpu.loops.compiled import compiled, inlined
from dsolver.kernels.cpu.loops.team import Team

WORTH: Final = 1 << 16
"""Numbers that are worth a thread."""
BLOCK: Final = 256
"""Numbers that are looked at together."""


def outside(numbers: Any, first: int, last: int, team: Team) -> Any:
    """Places of the numbers that are not first .. last: int64, ascending."""
    found = team.run(_outside, 0, len(numbers), numbers, first, last, worth=WORTH)
    return found[0] if len(found) == 1 else np.concatenate(found)


def left_out(entries: Any, columns: Any, values: Any, shift: int, team: Team) -> tuple[Any, Any]:
    """Columns, less a number, int32, and values of all entries but some; entries: int64, those, ascending."""
    count = len(columns) - len(entries)
    out = np.empty(count, np.int32), np.empty(count, values.dtype)
    team.run(_left_out, 0, len(columns), entries, columns, values, shift, *out, worth=WORTH)
    return out


@inlined()
def count_outside(numbers: Any, first: Any, width: Any) -> Any:
    """Count of numbers that are not first .. first + width (uint64).

    One comparison tells: a number below the first one, less that, is a large one without its sign.
    """
    count = 0
    for number in numbers:
        count += int(np.uint64(number - first) >= width)
    return count


@compiled()
def _outside(begin: int, end: int, numbers: Any, first: int, last: int) -> Any:
    """Without branches in a block: every place is written, and stays where the number lies outside."""
    part, width = numbers[begin:end], np.uint64(last - first)
    found = np.empty(count_outside(part, first, width) + 1, np.int64)
    at = 0
    for low in range(0, len(part), BLOCK):
        block = part[low : low + BLOCK]
        if count_outside(block, first, width):
            for i in range(len(block)):
                found[at] = begin + low + i
                at += int(np.uint64(block[i] - first) >= width)
    return found[:-1]


@compiled()
def _left_out(
    begin: int, end: int, entries: Any, columns: Any, values: Any, shift: int, out_columns: Any, out_values: Any
) -> None:
    number, at = np.searchsorted(entries, begin), begin
    while at < end:
        stop = min(end, entries[number]) if number < len(entries) else end
        left, into = columns[at:stop], out_columns[at - number : stop - number]
        for i in range(len(left)):
            into[i] = left[i] - shift
        out_values[at - number : stop - number] = values[at:stop]
        at, number = stop + 1, number + 1
