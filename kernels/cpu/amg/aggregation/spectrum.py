"""Steps of the power method on a level's rows, for the largest eigenvalue of D⁻¹A."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import ROWS_WORTH_A_THREAD, Team
from dsolver.kernels.formats.csr import Csr


def scaled_product(a: Csr, diagonal: Any, x: Any, team: Team) -> npt.NDArray[np.float64]:
    """D⁻¹ A x, float64 (rows,); diagonal: D, float64 (rows,).

    Every eighth term of a row is added up in the order of the row, and the eight sums by halves, as eight lanes of a
    GPU do.
    """
    out = np.empty(a.size)
    team.run(_multiply, 0, a.size, a, diagonal, x, out, worth=ROWS_WORTH_A_THREAD)
    return out


def terms(a: Csr, below: int, diagonal: Any, x: Any, team: Team) -> tuple[Any, tuple[float, float]]:
    """Terms of xᵀDx and of yᵀDy with y = D⁻¹ A x.

    Args:
        diagonal: D, float64 (rows,).
        x: float64, at every row of the window.

    Returns:
        float64 (2, rows); the largest of each, 0 where there are no rows.
    """
    own, y = x[below : below + a.size], scaled_product(a, diagonal, x, team)
    made = np.stack([diagonal * own**2, diagonal * y**2])
    first, second = made.max(axis=1, initial=0.0)
    return made, (float(first), float(second))


def scaled_sums(made: Any, shifts: tuple[int, int]) -> tuple[float, float]:
    """Sums of the integers next to `terms` times 2^shift: exact, if they are less than 2⁵²."""
    first, second = (float(np.rint(np.ldexp(one, shift)).sum()) for one, shift in zip(made, shifts, strict=True))
    return first, second


@compiled()
def _multiply(first: Any, last: Any, a: Any, diagonal: Any, x: Any, out: Any) -> None:
    sums = np.empty(8)
    for i in range(first, last):
        sums[:] = 0.0
        end = a.start[i + 1]
        for begin in range(a.start[i], end, 8):
            for lane in range(min(8, end - begin)):
                sums[lane] += a.values[begin + lane] * x[a.columns[begin + lane]]
        even, odd = (sums[0] + sums[4]) + (sums[2] + sums[6]), (sums[1] + sums[5]) + (sums[3] + sums[7])
        out[i] = (even + odd) / diagonal[i]
