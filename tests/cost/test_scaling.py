"""Curves of scaling: iterations and set-ups by the model against measured ones (docs/performance.md), and curves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dsolver import problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.cost import scaling, traffic
from dsolver.cost.estimate import H200, REACHED, estimate
from dsolver.cost.links import HOP, NCCL, Fabric
from dsolver.cost.setup import of_setup
from dsolver.errors import InputError
from dsolver.grid.box import Triple
from dsolver.grid.cut import chunks_for
from dsolver.multigrid import forecast
from dsolver.preconditioners import Algebraic, Jacobi, Multigrid, Preconditioner
from dsolver.problems import Problem
from dsolver.program.spec import SolveSpec
from tests.support.commands import good

HOST = Fabric(per_host=8)
EVENTS = 0.17
"""Milliseconds that the events of a measured iteration add on several GPUs."""


def smooth(grid: int | Triple) -> Problem:
    """Diffusion whose κ varies, on a grid or a cube."""
    shape = (grid,) * 3 if isinstance(grid, int) else grid
    return problems.diffusion(shape, kappa=lambda x, y, z: 1.0 + x + y + z)


def star(n: int) -> Problem:
    """7 points."""
    return problems.poisson7((n, n, n))


MEASURED = [  # of docs/performance.md: system, its cut, milliseconds of an iteration without events
    (problems.hpcg((256, 256, 512)), (1, 1, 2), Hpcg(), 4.731),
    (problems.hpcg((512, 512, 512)), (1, 1, 2), Hpcg(), 18.43),
    (star(512), (1, 1, 2), Multigrid(), 6.315 - EVENTS),
    (star(1024), (1, 1, 2), Multigrid(), 42.5 - EVENTS),
    (smooth(512), (1, 1, 2), Multigrid(), 10.7 - EVENTS),
    (smooth(256), (1, 1, 2), Multigrid(), 1.53),
    (smooth(64), (1, 1, 2), Multigrid(), 0.20),
    (problems.hpcg((256, 512, 512)), (1, 2, 2), Hpcg(), 4.753),
    (problems.hpcg((512, 512, 512)), (1, 2, 2), Hpcg(), 9.42),
    (smooth(512), (1, 2, 2), Multigrid(), 5.87 - EVENTS),
]


@pytest.mark.parametrize(("problem", "cut", "m", "ms"), MEASURED)
def test_two_and_four_gpus_are_forecast_to_five_percent(
    monkeypatch: pytest.MonkeyPatch, problem: Problem, cut: Triple, m: Preconditioner, ms: float
) -> None:
    monkeypatch.setattr(forecast, "has_faces", lambda _: False)  # what varies was measured in slices
    spec = SolveSpec.plan(problem, cut, "color8", m)
    found = scaling.iteration(spec, cut[0] * cut[1] * cut[2], HOST, REACHED * H200)
    assert found.total - found.control == pytest.approx(1e-3 * ms, rel=0.05)


SETUPS = [  # means of bench/distributed_setup.py: system, M, seconds of set-up on one and two GPUs
    (smooth((256, 256, 512)), Algebraic(), (0.120, 0.101)),
    (smooth((256, 256, 512)), Multigrid(sweeps=1), (0.0265, 0.031)),
    (smooth(512), Multigrid(sweeps=1), (0.077, 0.073)),
    (smooth(256), Algebraic(), (0.068,)),
    (star(160), Algebraic(), (0.0295, 0.044)),  # as compressed rows
]


@pytest.mark.parametrize(("problem", "m", "measured"), SETUPS)
def test_set_ups_are_forecast_to_a_fifth(problem: Problem, m: Preconditioner, measured: Sequence[float]) -> None:
    for power, seconds in enumerate(measured):
        gpus = 2**power
        cut = chunks_for(problem.grid, gpus, slabs=m.slabs)
        spec = SolveSpec.plan(problem, cut, "color8", m, precond_dtype="float32")
        assert of_setup(spec, gpus, HOST, REACHED * H200).total == pytest.approx(seconds, rel=0.2)


@pytest.mark.parametrize("m", [Algebraic(), Multigrid(sweeps=1)])
def test_whatever_comes_from_all_ranks_is_most_of_a_set_up_on_thousands(m: Preconditioner) -> None:
    found = estimate(smooth(4096), workers=4096, device="cuda", per_host=8, bandwidth=4e12, M=m).scaling
    assert found is not None
    one, *few, many = found.weak
    assert one.setup.halo == one.setup.sums == one.setup.small == 0.0
    assert [each.setup.total for each in found.weak] == sorted(each.setup.total for each in found.weak)
    assert many.setup.total == found.strong[-1].setup.total > 4.0 * few[0].setup.total
    assert many.setup.work < 1.5 * one.setup.work


def test_levels_that_are_stored_at_once_are_worth_some_iterations() -> None:
    spec = SolveSpec.plan(star(64), (1, 1, 1), "color8", Jacobi())
    found = of_setup(spec, 1, HOST, REACHED * H200)
    assert found.work == pytest.approx(Jacobi.setup_iterations * traffic.of_chunk(spec, 0) / (REACHED * H200))


def test_eight_gpus_are_forecast_from_two_by_nccl_alone() -> None:
    """Exchanges of 8 KiB, 512 KiB and 2 MiB and a sum of 16 bytes in a CUDA graph, by themselves."""
    bare = replace(NCCL, latency=7e-6, launch=6e-6 - HOP)
    for gpus, small, middle, large, total in ((2, 7e-6, 12e-6, 19e-6, 6e-6), (8, 21e-6, 30e-6, 36e-6, 12e-6)):
        assert bare.exchange(8 << 10, gpus) == pytest.approx(small, rel=0.05)
        assert bare.exchange(512 << 10, gpus) == pytest.approx(middle, rel=0.25)
        assert bare.exchange(2 << 20, gpus) == pytest.approx(large, rel=0.1)
        assert bare.sum(gpus) == pytest.approx(total, rel=0.15)


def test_curves_of_four_thousand_gpus() -> None:
    found = estimate(star(4096), workers=4096, device="cuda", per_host=8, bandwidth=4e12).scaling
    assert found is not None
    assert [point.gpus for point in found.weak] == [1, 2, 4, 8, 16, 64, 256, 512, 1024, 4096]
    assert found.weak[0].grid == (256, 256, 256)
    assert found.weak[-1].grid == found.strong[0].grid == (4096, 4096, 4096)
    assert found.weak[-1].seconds == found.strong[-1].seconds
    for curve in (found.weak, found.strong):
        efficiencies = [point.efficiency for point in curve]
        assert efficiencies == sorted(efficiencies, reverse=True)
        assert efficiencies[0] == 1.0
        assert curve[0].seconds.halo == curve[0].seconds.sums == curve[0].seconds.small == 0.0
    assert found.weak[-1].stopped_by in ("halo", "small", "control")
    assert "4096x4096x4096" in str(found)


def test_a_host_of_its_own_needs_no_network() -> None:
    one, many = Fabric(per_host=8), Fabric(per_host=1)
    assert one.exchange(1e6, 8) < many.exchange(1e6, 8)
    assert one.sum(8) < many.sum(8)
    assert one.gather(1e6, 8) < many.gather(1e6, 8)


def test_what_has_no_curves_is_refused() -> None:
    with pytest.raises(InputError, match="per_host is for plans of GPUs"):
        estimate(star(64), workers=4, per_host=2, device="cpu")
    with pytest.raises(InputError, match="per_host must be an integer"):
        estimate(star(64), workers=4, per_host=0, device="cuda")


def test_the_command_prints_the_curves_or_writes_them() -> None:
    asked = ["estimate", "--problem", "poisson7", "--grid", "256", "256", "256", "--workers", "16", "--per-host", "8"]
    assert "set-up, s" in good(*asked)
    found = json.loads(good(*asked, "--json", "-"))
    assert found["device"] == "cuda"
    assert len(found["workers"]) == 16
    assert [point["gpus"] for point in found["scaling"]["strong"]] == [1, 2, 4, 8, 16]
    assert found["scaling"]["weak"][-1]["seconds"]["halo"] > 0.0
    assert found["scaling"]["weak"][-1]["setup"]["control"] > 0.0
