"""Tentative prolongation of aggregates: blocks with orthonormal columns.

Vaněk, Mandel, Brezina, Computing 56, 1996. The near-null space B, restricted to an aggregate, is Q R. Q becomes the
aggregate's block of the tentative prolongation, and R its rows of the near-null space of the coarser level.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team

F64 = npt.NDArray[np.float64]
BLOCKS_WORTH_A_THREAD: Final = 256
DEPENDENT: Final = 1e-10
"""Part of a column that is left beside those before it, up to which it counts as one of their sums."""


def blocks_of_nodes(start: Any, order: Any, near: Any, vectors: int, team: Team) -> tuple[F64, F64]:
    """Q and R of aggregates, as `orthonormal_blocks` makes them.

    Args:
        start: int64 (aggregates + 1,), aggregate i has the nodes order[start[i]] .. order[start[i + 1] - 1].
        order: int32 or int64 (nodes,), numbers of nodes.
        near: float64 (nodes, unknowns vectors), rows of the near-null space of each node, one after the other.

    Returns:
        Q in the order of `near`; R, float64 (aggregates vectors, vectors).
    """
    size = near.shape[1] // vectors
    q, r = orthonormal_blocks(size * start, near[order].reshape(-1, vectors), team)
    made = np.empty_like(near)
    made[order] = q.reshape(near.shape)
    return made, r


def orthonormal_blocks(start: Any, near: Any, team: Team) -> tuple[F64, F64]:
    """Q and R of each block of rows, by modified Gram-Schmidt done twice, in the order of the rows.

    A column that the others leave nothing of, as where a block has fewer rows than columns, is zero in Q.

    Args:
        start: int64 (blocks + 1,), block i has the rows start[i] .. start[i + 1].
        near: float64 (rows, k).

    Returns:
        Q, float64 (rows, k); R, float64 (blocks k, k).
    """
    q, r = near.copy(), np.zeros(((len(start) - 1) * near.shape[1], near.shape[1]))
    team.run(_orthonormalize, 0, len(start) - 1, start, q, r, DEPENDENT, worth=BLOCKS_WORTH_A_THREAD)
    return q, r


@compiled()
def _orthonormalize(first: Any, last: Any, start: Any, q: Any, r: Any, dependent: Any) -> None:
    columns = q.shape[1]
    for block in range(first, last):
        begin, end = start[block], start[block + 1]
        for j in range(columns):
            size = _norm(q, begin, end, j)
            for _ in range(2):
                for c in range(j):
                    part = 0.0
                    for i in range(begin, end):
                        part += q[i, c] * q[i, j]
                    for i in range(begin, end):
                        q[i, j] -= part * q[i, c]
                    r[block * columns + c, j] += part
            left = _norm(q, begin, end, j)
            if left > dependent * size:
                r[block * columns + j, j] = left
                for i in range(begin, end):
                    q[i, j] /= left
            else:
                q[begin:end, j] = 0.0


@compiled()
def _norm(q: Any, begin: Any, end: Any, j: Any) -> Any:
    """The length of a column's part; no square of it overflows or underflows."""
    most = 0.0
    for i in range(begin, end):
        most = max(most, abs(q[i, j]))
    total = 0.0
    if most > 0.0:
        for i in range(begin, end):
            total += (q[i, j] / most) ** 2
    return most * np.sqrt(total)
