"""Columns in a range and outside of it, where nearly all are in it: whole blocks are looked at before single ones."""

from typing import Any, Final

import numpy as np

from dsolver.kernels.cpu.loops.compiled import compiled, inlined
from dsolver.kernels.cpu.loops.scratch import scratch
from dsolver.kernels.cpu.loops.team import Team

WORTH: Final = 1 << 16  # numbers that are worth a thread
BLOCK: Final = 256  # numbers that are looked at together


def outside(numbers: Any, first: int, last: int, team: Team) -> Any:
    """Places of the numbers that are not first .. last: int64, ascending."""
    found = team.run(_outside, 0, len(numbers), numbers, first, last, worth=WORTH)
    return found[0] if len(found) == 1 else np.concatenate(found)


@inlined()
def count_outside(numbers: Any, first: Any, width: Any) -> Any:
    """Count of numbers that are not first .. first + width (uint64).

    One comparison tells: a number below the first one, less that, is a large one without its sign. Items go by index:
    LLVM makes no vectors of a loop over the array itself, which takes four times as long.
    """
    count = 0
    for i in range(len(numbers)):
        count += int(np.uint64(numbers[i] - first) >= width)
    return count


@compiled()
def _outside(begin: int, end: int, numbers: Any, first: int, last: int) -> Any:
    """Without branches in a block: every place is written, and stays where the number lies outside."""
    part, width = numbers[begin:end], np.uint64(last - first)
    found = scratch(len(part) + 1, np.int64)  # room that is not written costs nothing
    at = 0
    for low in range(0, len(part), BLOCK):
        block = part[low : low + BLOCK]
        if count_outside(block, first, width):
            for i in range(len(block)):
                found[at] = begin + low + i
                at += int(np.uint64(block[i] - first) >= width)
    return found[:at].copy()
