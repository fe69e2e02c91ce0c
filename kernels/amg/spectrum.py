"""The largest eigenvalue of a level, for the polynomials that smooth it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.csr.rows import ALONE
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr

STEPS = 15
BLOCK = 1024
"""Rows whose terms of a sum are added one after another."""


def largest_eigenvalue(a: Csr, team: Team = ALONE) -> float:
    """The largest eigenvalue of D⁻¹A, from below: `STEPS` steps of the power method in the norm of D.

    All rows have the same part in the first vector in that norm. With the same values instead, rows with small entries
    were not seen where others have a million times larger ones: the result was too small by half.
    """
    x, y, diagonal = np.empty(a.size), np.empty(a.size), np.ones(a.size)
    team.run(_rough, 0, a.size, a, x, diagonal)
    blocks = -(-a.size // BLOCK)
    before, after = np.empty(blocks), np.empty(blocks)
    for _ in range(STEPS):
        team.run(_step, 0, blocks, BLOCK, a, diagonal, x, y, before, after, worth=1)
        x, y = y, x
    return float(np.sqrt(after.sum() / before.sum()))


def scaled_product(a: Csr, diagonal: Any, x: Any, team: Team) -> npt.NDArray[np.float64]:
    """D⁻¹ A x, float64 (rows,), terms added in the order of each row; diagonal: D, float64 (rows,)."""
    out = np.empty(a.size)
    team.run(_multiply, 0, a.size, a, diagonal, x, out)
    return out


# -- loops -------------------------------------------------------------------------------------------------------------


@compiled()
def _rough(first: Any, last: Any, a: Any, x: Any, diagonal: Any) -> None:
    """A vector that is rough, and everywhere the same, over the root of the diagonal; and the diagonal."""
    for i in range(first, last):
        for k in range(a.start[i], a.start[i + 1]):
            if a.columns[k] == i:
                diagonal[i] = a.values[k]
        x[i] = (((i + 1) * 2654435761 % 4294967296) / 2147483648.0 - 1.0) / np.sqrt(diagonal[i])


@compiled()
def _step(first: Any, last: Any, block: Any, a: Any, diagonal: Any, x: Any, y: Any, before: Any, after: Any) -> None:
    """y = D⁻¹ A x on blocks first .. last, and of each block the parts of xᵀDx and yᵀDy."""
    for number in range(first, last):
        of_x = of_y = 0.0
        for i in range(number * block, min((number + 1) * block, len(x))):
            product = 0.0
            for k in range(a.start[i], a.start[i + 1]):
                product += a.values[k] * x[a.columns[k]]
            y[i] = product / diagonal[i]
            of_x += diagonal[i] * x[i] * x[i]
            of_y += diagonal[i] * y[i] * y[i]
        before[number], after[number] = of_x, of_y


@compiled()
def _multiply(first: Any, last: Any, a: Any, diagonal: Any, x: Any, out: Any) -> None:
    for i in range(first, last):
        total = 0.0
        for k in range(a.start[i], a.start[i + 1]):
            total += a.values[k] * x[a.columns[k]]
        out[i] = total / diagonal[i]
