"""Connected cells of a box on a CPU, in time that does not depend on how their paths wind.

Sets that are joined face by face (Tarjan, J. ACM 22, 1975): of each, the first cell in lattice order is the root.
"""

from typing import Any

import numpy as np

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.lattice.components import SOLID


def least_of_connected(labels: Any) -> Any:
    """As in `dsolver.kernels.lattice.components`."""
    out = np.array(labels, order="C")
    root = np.empty(out.size, dtype=np.int32 if out.size < 1 << 31 else np.int64)
    _join_all(out, root)
    _take_least(root, out.reshape(-1))
    return out


@compiled()
def _root(root: Any, i: Any) -> Any:
    while root[i] != i:
        root[i] = root[root[i]]  # so that the next way is shorter
        i = root[i]
    return i


@compiled()
def _join(root: Any, a: Any, b: Any) -> None:
    a, b = _root(root, a), _root(root, b)
    root[max(a, b)] = min(a, b)


@compiled()
def _join_all(labels: Any, root: Any) -> None:
    nz, ny, nx = labels.shape
    here = 0
    for k in range(nz):
        for j in range(ny):
            for i in range(nx):
                root[here] = here
                if labels[k, j, i] < SOLID:
                    if i > 0 and labels[k, j, i - 1] < SOLID:
                        _join(root, here, here - 1)
                    if j > 0 and labels[k, j - 1, i] < SOLID:
                        _join(root, here, here - nx)
                    if k > 0 and labels[k - 1, j, i] < SOLID:
                        _join(root, here, here - nx * ny)
                here += 1


@compiled()
def _take_least(root: Any, labels: Any) -> None:
    """A root comes before all others of its set, so that it has the least label once all of them were looked at."""
    for i in range(len(root)):
        root[i] = _root(root, i)
        labels[root[i]] = min(labels[root[i]], labels[i])
    for i in range(len(root)):
        labels[i] = labels[root[i]]
