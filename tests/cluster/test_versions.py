from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

import dsolver
from dsolver.cluster import versions
from dsolver.errors import ClusterError

SAME = {"dsolver": "1", "dask": "2", "distributed": "2", "cupy": "14", "nccl": "2.28", "numpy": "2"}


def test_versions_of_this_process() -> None:
    found = versions.installed()
    assert found["dsolver"] == dsolver.__version__
    assert found["numpy"] == np.__version__
    assert set(versions.MUST_AGREE + versions.MUST_AGREE_ON_GPUS) <= set(found)


def test_equal_versions_agree() -> None:
    assert versions.disagreement(SAME, {"tcp://a:1": SAME, "tcp://b:1": SAME}, gpus=True) is None
    assert versions.disagreement(SAME, {"tcp://a:1": SAME | {"numpy": "1"}}, gpus=True) is None


@pytest.mark.parametrize("name", versions.MUST_AGREE)
@pytest.mark.parametrize("other", ["0", None])
def test_a_worker_that_differs_is_named(name: str, other: str | None) -> None:
    reason = versions.disagreement(SAME, {"tcp://a:1": SAME, "tcp://b:1": SAME | {name: other}}, gpus=False)
    assert reason is not None
    assert f"this process has {name} {SAME[name]} and worker tcp://b:1 {other or '(none)'}" in reason


@pytest.mark.parametrize("name", versions.MUST_AGREE_ON_GPUS)
def test_gpu_packages_matter_on_gpus_and_among_workers(name: str) -> None:
    here: dict[str, str | None] = SAME | {name: None}
    there: dict[str, Any] = {"tcp://a:1": SAME, "tcp://b:1": SAME | {name: "9"}}
    assert versions.disagreement(here, there, gpus=False) is None
    reason = versions.disagreement(here, there, gpus=True)
    assert reason is not None
    assert f"worker tcp://a:1 has {name} {SAME[name]} and worker tcp://b:1 9" in reason
    assert versions.disagreement(here, {"tcp://a:1": SAME, "tcp://b:1": SAME}, gpus=True) is None


def test_a_cluster_with_another_version_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = dsolver.problems.hpcg((8, 8, 8))
    real = versions.installed
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        monkeypatch.setattr(versions, "disagreement", lambda *_, **__: "they differ")
        with pytest.raises(ClusterError, match="they differ"):
            dsolver.solve(problem, np.ones(problem.grid), client=client)
        assert client.run(real) == {address: real() for address in client.nthreads()}
