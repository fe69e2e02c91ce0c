from __future__ import annotations

import time

import numpy as np
from distributed import Client, LocalCluster

from dsolver.cost import bandwidth


def test_a_copy_is_as_fast_as_numpy_makes_it() -> None:
    found = bandwidth.of_cpu(1)
    source = np.ones(bandwidth.COPIED // 8)
    target = np.zeros_like(source)
    best = 0.0
    for _ in range(5):
        began = time.perf_counter()
        target[:] = source
        best = max(best, 2 * source.nbytes / (time.perf_counter() - began))
    assert best / 5 < found < best * 5
    assert bandwidth.of_cpu(1) == found, "measured once"


def test_workers_are_asked_once_for_all_of_them() -> None:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        workers = sorted(client.nthreads())
        both = bandwidth.of_workers(client, workers, "cpu")
        assert both == bandwidth.of_workers(client, workers, "cpu")
        assert both == 2 * bandwidth.of_cpu(1), "two workers of one process"
        assert bandwidth.of_workers(client, workers[:1], "cpu") == bandwidth.of_cpu(1)
