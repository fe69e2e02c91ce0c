"""Smoother of a tentative prolongation.

Vaněk, Mandel, Brezina, Computing 56, 1996.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import ROWS_WORTH_A_THREAD, Team
from dsolver.kernels.formats.csr import Csr


def prolongation_smoother(a: Csr, below: int, keep: Any, near: Any, damping: Any, diagonal: Any, team: Team) -> Csr:
    """I - ω D⁻¹ A_F for own rows.

    A_F is A without weak entries, which are added to the diagonal as they act on the near-null space: A_F n = A n.
    Where it is all of A, places of entries are those of A, and shared.

    Args:
        keep: bool (entries,), those of A_F; None for all.
        near: float64, n at every row of the window; read where `keep` is not None.
        damping: float64 (rows,), ω a_ii / d_i.
    """
    if keep is None:
        whole = a._replace(values=np.empty(len(a.columns)))
        team.run(_smooth_all, 0, a.size, a, below, damping, diagonal, whole.values, worth=ROWS_WORTH_A_THREAD)
        return whole
    start = np.zeros(a.size + 1, dtype=np.int64)
    team.run(_count_kept, 0, a.size, a, keep, start[1:], worth=ROWS_WORTH_A_THREAD)
    np.cumsum(start, out=start)
    out = Csr(start, np.empty(start[-1], dtype=np.int32), np.empty(start[-1]))
    team.run(_smooth, 0, a.size, a, below, keep, near, damping, diagonal, out, worth=ROWS_WORTH_A_THREAD)
    return out


def kept_entries(a: Csr, below: int, graph: Csr, team: Team) -> npt.NDArray[np.bool_]:
    """The entries of the diagonal and of a graph of the same rows, columns ascending, bool (entries,)."""
    keep = np.empty(len(a.columns), dtype=np.bool_)
    team.run(_keep, 0, a.size, a, below, graph, keep, worth=ROWS_WORTH_A_THREAD)
    return keep


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
def _smooth_all(first: Any, last: Any, a: Any, below: Any, damping: Any, diagonal: Any, values: Any) -> None:
    for i in range(first, last):
        for k in range(a.start[i], a.start[i + 1]):
            own = a.columns[k] == below + i
            values[k] = 1.0 - damping[i] if own else -damping[i] * (a.values[k] / diagonal[i])


@compiled()
def _smooth(
    first: Any, last: Any, a: Any, below: Any, keep: Any, near: Any, damping: Any, diagonal: Any, out: Any
) -> None:
    for i in range(first, last):
        weak, n = 0.0, out.start[i]
        for k in range(a.start[i], a.start[i + 1]):
            if not keep[k] and near[below + i] != 0.0:
                weak += a.values[k] * (near[a.columns[k]] / near[below + i])
        for k in range(a.start[i], a.start[i + 1]):
            if keep[k]:
                own = a.columns[k] == below + i
                out.columns[n] = a.columns[k]
                out.values[n] = (
                    1.0 - damping[i] * (1.0 + weak / diagonal[i]) if own else -damping[i] * (a.values[k] / diagonal[i])
                )
                n += 1
