"""Sorting of short arrays inside compiled loops."""

from typing import Any

from dsolver.kernels.cpu.loops.compiled import compiled


@compiled()
def sort_short(values: Any) -> None:
    """Sort values in place, by Shell's method: a fraction of the code, and of its compilation, of `ndarray.sort`.

    Rows have 5 to 100 columns, a few of them thousands.
    """
    gap = 1
    while 3 * gap < len(values):
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, len(values)):
            value, k = values[i], i
            while k >= gap and values[k - gap] > value:
                values[k] = values[k - gap]
                k -= gap
            values[k] = value
        gap //= 3
