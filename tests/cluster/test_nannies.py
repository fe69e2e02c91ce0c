"""Workers of a user's own cluster that are lost come back, however long they take."""

from __future__ import annotations

import copy
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

import dsolver
from dsolver.cluster import nannies
from dsolver.cluster.nannies import LOST_WORKER_TIMEOUT, NAME
from tests.support.clusters import forked
from tests.support.waiting import eventually

PROBLEM = dsolver.problems.poisson7((16, 8, 8), chunks=(2, 1, 1))


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """Dask's default is a second here, in which no worker starts."""
    config, defaults = copy.deepcopy(dask.config.config), copy.deepcopy(dask.config.defaults)
    dask.config.update_defaults({"distributed": {"deploy": {"lost-worker-timeout": "1s"}}})
    dask.config.set({NAME: "1s"})  # whatever others have left there
    try:
        yield
    finally:
        dask.config.config.clear()
        dask.config.config.update(config)
        dask.config.defaults[:] = defaults


def replaced(client: Client, killed: int) -> bool:
    """Whether another worker has taken the place of a process."""
    answering = set(client.run(os.getpid, on_error="ignore").values())
    return len(answering - {killed}) == 2


def test_workers_of_a_user_s_own_cluster_come_back_again_and_again() -> None:
    b = np.random.default_rng(3).standard_normal(PROBLEM.grid)
    with (
        forked(),
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=None, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        expected = dsolver.solve(PROBLEM, b, client=client, M=None)
        for _ in range(3):
            pids = set(client.run(os.getpid).values())
            killed = min(pids)
            os.kill(killed, signal.SIGKILL)
            eventually(partial(replaced, client, killed))
            time.sleep(1.2)  # the look of this loss may fall into the next one
        again = dsolver.solve(PROBLEM, b, client=client, M=None)
        assert len(cluster.workers) == 2
    assert again.residuals == expected.residuals


def test_what_a_user_has_set_stays() -> None:
    with dask.config.set({NAME: "7s"}):
        nannies.set_timeout()
        assert dask.config.get(NAME) == "7s"


def test_a_default_that_comes_back_is_no_wish_of_the_user_s() -> None:
    with dask.config.set({NAME: "7s"}):
        nannies.set_timeout()
    assert dask.config.get(NAME) == "1s"
    nannies.set_timeout()
    assert dask.config.get(NAME) == LOST_WORKER_TIMEOUT


@pytest.mark.parametrize("cluster", [None, SimpleNamespace(), SimpleNamespace(workers={0: object()})])
def test_clusters_without_nannies_are_left_as_they_are(cluster: object) -> None:
    nannies.bear_with_nannies(cluster)
    assert dask.config.get(NAME) == "1s"
