"""Steps of the power method on a level's rows, for the largest eigenvalue of D⁻¹A."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr


def scaled_product(a: Csr, diagonal: Any, x: Any, team: Team) -> npt.NDArray[np.float64]:
    """D⁻¹ A x, float64 (rows,), terms added in the order of each row; diagonal: D, float64 (rows,)."""
    out = np.empty(a.size)
    team.run(_multiply, 0, a.size, a, diagonal, x, out)
    return out


# -- loops -------------------------------------------------------------------------------------------------------------


@compiled()
def _multiply(first: Any, last: Any, a: Any, diagonal: Any, x: Any, out: Any) -> None:
    for i in range(first, last):
        total = 0.0
        for k in range(a.start[i], a.start[i + 1]):
            total += a.values[k] * x[a.columns[k]]
        out[i] = total / diagonal[i]
