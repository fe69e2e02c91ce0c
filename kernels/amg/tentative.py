"""Tentative prolongation of aggregates, and its smoothing.

Vaněk, Mandel, Brezina, Computing 56, 1996. The near-null space B, restricted to an aggregate, is Q R. Q becomes the
aggregate's block of the tentative prolongation, and R its rows of the near-null space of the coarser level.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr

DEPENDENT: Final = 1e-10
"""Part of a column that is left beside those before it, up to which it counts as one of their sums."""


def orthonormal_blocks(start: Any, near: Any, team: Team) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Q and R of each block of rows, by modified Gram-Schmidt done twice, in the order of the rows.

    A column that the others leave nothing of, as where a block has fewer rows than columns, is zero in Q.

    Args:
        start: int64 (blocks + 1,), block i has the rows start[i] .. start[i + 1].
        near: float64 (rows, k).
        team: shares the blocks.

    Returns:
        Q, float64 (rows, k); R, float64 (blocks k, k).
    """
    q, r = near.copy(), np.zeros(((len(start) - 1) * near.shape[1], near.shape[1]))
    team.run(_orthonormalize, 0, len(start) - 1, start, q, r, DEPENDENT)
    return q, r


def prolongation_smoother(a: Csr, below: int, keep: Any, near: Any, damping: Any, team: Team) -> Csr:
    """I - ω D⁻¹ A_F for own rows.

    A_F is A without weak entries, which are added to the diagonal as they act on the near-null space: A_F n = A n.

    Args:
        a: own rows, with columns in the window.
        below: ghosts before the own rows.
        keep: bool (entries,), those of A_F; None for all.
        near: float64, n at every row of the window; read where `keep` is not None.
        damping: float64 (rows,), ω a_ii / d_i.
        team: shares the rows.
    """
    if keep is None:
        keep, near = np.ones(len(a.columns), dtype=np.bool_), np.empty(0)
    start = np.zeros(a.size + 1, dtype=np.int64)
    team.run(_count_kept, 0, a.size, a, keep, start[1:])
    np.cumsum(start, out=start)
    out = Csr(start, np.empty(start[-1], dtype=np.int32), np.empty(start[-1]))
    team.run(_smooth, 0, a.size, a, below, keep, near, damping, out)
    return out


def kept_entries(a: Csr, below: int, graph: Csr, team: Team) -> npt.NDArray[np.bool_]:
    """The entries of the diagonal and of a graph of the same rows and columns, bool (entries,).

    Args:
        a: own rows, with columns in the window.
        below: ghosts before the own rows.
        graph: some of its columns, ascending.
        team: shares the rows.
    """
    keep = np.empty(len(a.columns), dtype=np.bool_)
    team.run(_keep, 0, a.size, a, below, graph, keep)
    return keep


# -- loops -------------------------------------------------------------------------------------------------------------


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


@compiled()
def _keep(first: Any, last: Any, a: Any, below: Any, graph: Any, keep: Any) -> None:
    for i in range(first, last):
        m, end = graph.start[i], graph.start[i + 1]
        for k in range(a.start[i], a.start[i + 1]):
            while m < end and graph.columns[m] < a.columns[k]:
                m += 1
            keep[k] = a.columns[k] == below + i or (m < end and graph.columns[m] == a.columns[k])


@compiled()
def _count_kept(first: Any, last: Any, a: Any, keep: Any, counts: Any) -> None:
    for i in range(first, last):
        n = 0
        for k in range(a.start[i], a.start[i + 1]):
            n += keep[k]
        counts[i] = n


@compiled()
def _smooth(first: Any, last: Any, a: Any, below: Any, keep: Any, near: Any, damping: Any, out: Any) -> None:
    for i in range(first, last):
        center = weak = 0.0
        for k in range(a.start[i], a.start[i + 1]):
            if a.columns[k] == below + i:
                center = a.values[k]
            elif not keep[k] and near[below + i] != 0.0:
                weak += a.values[k] * (near[a.columns[k]] / near[below + i])
        n = out.start[i]
        for k in range(a.start[i], a.start[i + 1]):
            if keep[k]:
                own = a.columns[k] == below + i
                out.columns[n] = a.columns[k]
                out.values[n] = (
                    1.0 - damping[i] * (1.0 + weak / center) if own else -damping[i] * (a.values[k] / center)
                )
                n += 1
