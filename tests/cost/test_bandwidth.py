from __future__ import annotations

from types import SimpleNamespace

import pytest
from distributed import Client, LocalCluster

from dsolver.cost import bandwidth


def test_the_fastest_copy_counts_with_what_it_reads_and_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of the test's: three copies take 4, 2 and 3 s."""
    clock = iter([0.0, 4.0, 10.0, 12.0, 20.0, 23.0])
    monkeypatch.setattr(bandwidth, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert bandwidth.measured(2, 1 << 10, 3) == 2 * (1 << 10) / 2.0
    assert not list(clock)


def test_a_cpu_is_measured_once() -> None:
    found = bandwidth.of_cpu(1)
    assert found > 0.0
    assert bandwidth.of_cpu(1) == found


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
