"""Work that the tests' worker processes share, done before they are forked: see tests/support/clusters.py.

Each would otherwise spend a second of a core on the same modules, the same compiled loops and the same measurement.
"""

from __future__ import annotations

import threading
import warnings

import distributed.protocol.numpy  # noqa: F401
import numpy as np

import dsolver
import dsolver.engines.spmd.relay
import dsolver.engines.spmd.worker
from dsolver.cost import bandwidth

GRID = (16, 16, 16)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for m in ("mg", "amg"):
        problem = dsolver.problems.poisson7(GRID, chunks=(2, 1, 1))
        dsolver.solve(problem, np.ones(GRID), M=m, engine="reference", device="cpu", client=False, maxiter=2)
bandwidth.of_cpu()
assert threading.active_count() == 1, "a fork has no threads but one"
