"""Memory of CPUs: what the machine, cgroups and Dask leave, and the refusal of what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import scipy.sparse
from distributed import Client, LocalCluster

import dsolver
from dsolver import problems
from dsolver.cluster import host_memory
from dsolver.cluster.host_memory import Supply, shares, supplies
from dsolver.cluster.runtime import connect
from dsolver.cost.room import check_memory
from dsolver.errors import DeviceMemoryError
from dsolver.preconditioners import Jacobi
from dsolver.program.spec import SolveSpec
from tests.support.clusters import forked
from tests.support.commands import refused

GIB = 1 << 30


def cgroup(folder: Path, **values: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / name.replace("_dot_", ".")).write_text(f"{value}\n")


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder in which cgroups are mounted; `process` beside it says in which of them this process is."""
    monkeypatch.setattr(host_memory, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(host_memory, "PROCESS", tmp_path / "process")
    return tmp_path


def of_cgroups() -> list[int]:
    return [supply.free for supply in supplies() if "cgroup" in supply.what]


@pytest.mark.usefixtures("there")
def test_the_machine_has_what_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    now = psutil.virtual_memory()
    assert 0 < now.available <= now.total
    monkeypatch.setattr(psutil, "virtual_memory", lambda: now)
    (found,) = supplies()
    assert (found.what, found.free) == ("free on the machine", now.available)


def test_limits_of_version_2_hold_all_the_way_up(there: Path) -> None:
    (there / "process").write_text("0::/batch/job/step\n")
    top = there / "cgroup"
    cgroup(top / "batch", memory_dot_max=10 * GIB, memory_dot_current=4 * GIB, memory_dot_stat=f"inactive_file {GIB}")
    cgroup(top / "batch/job", memory_dot_max=6 * GIB, memory_dot_current=4 * GIB, memory_dot_stat="inactive_file 0")
    cgroup(top / "batch/job/step", memory_dot_max="max", memory_dot_current=GIB, memory_dot_stat="inactive_file 0")
    assert of_cgroups() == [2 * GIB, 7 * GIB]


def test_limits_of_version_1(there: Path) -> None:
    (there / "process").write_text("7:cpu,cpuacct:/job\n4:memory:/job\n0::/\n")
    files = {"memory_dot_usage_in_bytes": 3 * GIB, "memory_dot_stat": f"inactive_file 7\ntotal_inactive_file {GIB}"}
    cgroup(there / "cgroup/memory/job", memory_dot_limit_in_bytes=5 * GIB, **files)
    cgroup(there / "cgroup/memory", memory_dot_limit_in_bytes=9223372036854771712, **files)
    assert of_cgroups() == [3 * GIB]


def test_a_container_s_own_limit_is_at_the_top_of_what_it_sees(there: Path) -> None:
    (there / "process").write_text("0::/../../kubepods/pod1\n")
    files = {"memory_dot_max": 8 * GIB, "memory_dot_current": 2 * GIB, "memory_dot_stat": "inactive_file 0"}
    cgroup(there / "cgroup", **files)
    assert 6 * GIB in of_cgroups()


def test_those_that_share_a_supply_divide_it_by_their_needs() -> None:
    def machine(name: str, free: int) -> Supply:
        return Supply(what="free on the machine", identity=name, free=free)

    own = Supply(what="left to its cgroup", identity="pod", free=10)
    found = shares([[machine("a", 90)], [machine("a", 90)], [machine("b", 90), own]], [20, 40, 20])
    assert [share.free for share in found] == [30, 60, 10]
    assert found[2].what == "left to its cgroup"
    again = shares([[machine("a", 10)], [machine("a", 10)]], [20, 20], held=[15, 15])
    assert [share.free for share in again] == [20, 20]
    assert [share.free for share in shares([[machine("a", 5)]], [20], held=[15])] == [20]
    assert [share.free for share in shares([[machine("a", 4)]], [20], held=[15])] == [19]


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 400 MiB left, on which nothing may be started."""

    def launch(*_: Any) -> Any:
        raise AssertionError("it was started")

    found = [[Supply(what="left to its cgroup", identity="here", free=400 << 20)]]
    monkeypatch.setattr(host_memory, "supplies_of", lambda *_: found)
    monkeypatch.setattr("dsolver.cluster.runtime.Runtime.launch", launch)


@pytest.mark.usefixtures("little")
def test_a_system_that_memory_does_not_hold_is_refused_with_the_numbers() -> None:
    problem = problems.poisson7((256, 256, 256))
    plan = dsolver.estimate(problem, device="cpu")
    assert plan.fits is False
    assert plan.available == (400 << 20,)
    assert "which is not enough" in str(plan)
    b = np.broadcast_to(np.float64(1.0), problem.grid)  # takes no memory
    with pytest.raises(
        DeviceMemoryError, match=r"0.391 GiB are left to its cgroup, but the system needs .* GiB \(matr"
    ):
        dsolver.solve(problem, b, device="cpu")
    assert dsolver.estimate(problems.poisson7((64, 64, 64)), device="cpu").fits


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("command", ["hpcg", "solve"])
def test_a_command_refuses_before_it_makes_anything(command: str) -> None:
    """Else NumPy fails, or the machine kills the process: b alone takes 64 TiB."""
    grid = ("--grid", "2048", "2048", "2048")
    assert "left to its cgroup, but the system needs" in refused(command, *grid, "--device", "cpu")


def test_nobody_is_asked_for_the_sake_of_a_small_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "supplies_of", lambda *_: pytest.fail("a worker was asked"))
    row = scipy.sparse.diags([[-1.0] * 99, [2.0] * 100, [-1.0] * 99], [-1, 0, 1])
    for system in (problems.hpcg((8, 8, 8)), dsolver.matrix(row).planned(1)):
        check_memory(SolveSpec.plan(system, system.chunks or (1, 1, 1), m=Jacobi()), connect(device="cpu"))


def test_an_update_takes_what_the_old_system_has(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = (128, 64, 64)
    free = 2 * GIB
    monkeypatch.setattr("dsolver.cost.room.SMALL", 0)
    monkeypatch.setattr(
        host_memory, "supplies_of", lambda *_: [[Supply(what="free on the machine", identity="here", free=free)]]
    )
    with dsolver.Solver(problems.diffusion(grid), device="cpu") as solver:
        small, large = (
            dsolver.estimate(problems.diffusion(grid, kappa), device="cpu").bytes for kappa in (1.0, np.ones(grid))
        )
        free = (large - small) // 4
        with pytest.raises(DeviceMemoryError, match=r"are free on the machine, but the system needs"):
            solver.update(kappa=np.full(grid, 2.0))
        free = large - small + (large >> 1)
        solver.update(kappa=np.full(grid, 2.0))
        free = 0
        solver.update(kappa=np.full(grid, 3.0))  # takes the place of one that was as large


def test_dask_s_own_limit_counts() -> None:
    """A worker that goes beyond it is ended by its nanny, again and again."""
    with (
        forked(),
        LocalCluster(n_workers=1, threads_per_worker=1, memory_limit="600 MiB", dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        plan = dsolver.estimate(problems.poisson7((256, 256, 256)), client=client, device="cpu", bandwidth=1e9)
        assert plan.limits == ("left below Dask's memory_limit",)
        assert 200 << 20 < plan.available[0] < 560 << 20
        with pytest.raises(DeviceMemoryError, match="left below Dask's memory_limit"):
            dsolver.Solver(problems.poisson7((256, 256, 256)), client=client, device="cpu")
