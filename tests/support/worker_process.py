"""Work that the tests' worker processes share, done before they are forked: see tests/support/clusters.py.

Each would otherwise spend a second of a core on the same modules, the same compiled loops and the same measurement.
"""

from __future__ import annotations

import threading
import time
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
until = time.monotonic() + 30.0  # the thread that tells what is compiled looks once a second whether it is over
while threading.active_count() > 1 and time.monotonic() < until:
    time.sleep(0.05)
assert threading.active_count() == 1, "a fork has no threads but one"
