from __future__ import annotations

import json
import time
from contextlib import nullcontext
from math import prod
from typing import Any

import numpy as np
import pytest

from dsolver import problems
from dsolver.benchmarks import hpcg
from dsolver.benchmarks.hpcg import HpcgOptions, HpcgResult, counts, procedure, watched_runs
from dsolver.benchmarks.hpcg.result import CgTest, Checks, IterationsTest, SymmetryTest, VarianceTest
from dsolver.cluster.runtime import connect
from dsolver.errors import InputError
from dsolver.grid.box import Triple
from dsolver.grid.coloring import Order
from dsolver.kernels.reference.hpcg import TextbookHpcgMatrix
from dsolver.kernels.reference.sell import TextbookMatrix
from dsolver.monitor import events
from dsolver.monitor.spans import from_columns
from tests.support.clusters import cluster

ORDER_A = "7 5 2 6 1 4 3 0"
KEYS = {
    "grid",
    "chunks",
    "engine",
    "kernels",
    "order",
    "precond_dtype",
    "device",
    "iterations",
    "residuals",
    "scaled_residual",
    "gflops",
    "seconds",
    "tests",
    "valid",
    "versions",
    "exposed_ms",
    "exposed_percent",
    "exposed",
}


def run(grid: Triple, chunks: Triple = (1, 1, 1), order: str = "color8", **options: Any) -> HpcgResult:
    """On this machine's CPU, whatever else it has."""
    return hpcg.run(connect(device="cpu"), HpcgOptions(grid=grid, chunks=chunks, order=Order.parse(order), **options))


def run_textbook(**options: Any) -> HpcgResult:
    return hpcg.run(
        connect(engine="reference", kernels="numpy"), HpcgOptions(grid=(16, 16, 16), seconds=0.0, **options)
    )


@pytest.fixture(scope="module")
def full() -> HpcgResult:
    return run((32, 16, 16), (2, 1, 1), seconds=0.0)


# --- residuals -------------------------------------------------------------------------------------------------------

slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("side", "chunks", "order", "k", "residual"),
    [
        (16, (1, 1, 1), "natural", 25, 8.826972055689e-20),
        (32, (1, 1, 1), "natural", 25, 1.474366853611e-10),
        (32, (1, 1, 1), ORDER_A, 25, 6.581745724400e-11),
        (32, (1, 1, 1), "0 1 2 3 4 5 6 7", 25, 1.949068863183e-09),
        (32, (2, 1, 1), "natural", 25, 5.043534665824e-08),
        pytest.param(32, (2, 2, 2), "natural", 25, 6.710867313124e-06, marks=slow),
        (32, (2, 2, 2), ORDER_A, 25, 1.619934170962e-05),
        pytest.param(64, (1, 1, 1), "natural", 50, 1.135890251e-11, marks=slow),
        (64, (1, 1, 1), ORDER_A, 50, 6.808478586e-12),
        pytest.param(104, (1, 1, 1), "natural", 50, 4.999634892e-08, marks=slow),
        pytest.param(128, (1, 1, 1), "natural", 50, 3.945305195e-07, marks=slow),
        pytest.param(128, (2, 1, 1), "natural", 50, 5.872544335e-05, marks=slow),
    ],
)
def test_residuals_are_those_of_the_reference_benchmark(
    side: int, chunks: Triple, order: str, k: int, residual: float
) -> None:
    x, y, z = (side * p for p in chunks)
    result = run((x, y, z), chunks, order, iterations=k)
    assert result.iterations == k
    assert len(result.residuals) == k + 1
    assert result.residuals[0] == 1.0
    assert result.scaled_residual == pytest.approx(residual, rel=1e-3)


# --- the whole procedure ---------------------------------------------------------------------------------------------


def test_a_full_run_is_valid(full: HpcgResult) -> None:
    assert full.valid is True
    assert full.tests.problems == []
    assert full.iterations >= counts.REFERENCE_ITERATIONS
    assert full.tests.cg is not None
    assert (full.tests.cg.plain or 99) <= 12
    assert (full.tests.cg.preconditioned or 99) <= 2
    assert all(getattr(full.gflops, name) > 0.0 for name in ("raw", "rating", "ddot", "waxpby", "spmv", "mg"))
    assert full.gflops.rating is not None
    assert full.gflops.raw is not None
    assert full.gflops.rating <= full.gflops.raw


def test_the_textbook_kernels_pass_too() -> None:
    assert run_textbook().valid is True


def test_at_least_one_set_and_as_many_as_the_time_allows(full: HpcgResult, monkeypatch: pytest.MonkeyPatch) -> None:
    assert full.tests.variance is not None
    assert full.tests.variance.sets == 1
    monkeypatch.setattr(procedure._Bench, "_took", lambda *_: 0.1)  # a set, here
    longer = run((16, 16, 16), seconds=0.25)
    assert longer.tests.variance is not None
    assert longer.tests.variance.sets == 3
    assert longer.tests.variance.variance == 0.0


def test_what_the_optimized_iterations_must_reach_is_left_by_fifty_in_natural_order(full: HpcgResult) -> None:
    assert full.tests.iterations is not None
    reference = run((32, 16, 16), (2, 1, 1), "natural", iterations=50)
    assert full.tests.iterations.tolerance == reference.scaled_residual


def test_all_of_the_set_up_in_the_wanted_order_counts_as_optimizing(full: HpcgResult) -> None:
    seconds = json.loads(full.to_json())["seconds"]
    assert seconds["optimize"] == seconds["setup_optimized"] > 0.0


def test_json_has_the_promised_keys_and_plain_numbers(full: HpcgResult) -> None:
    data = json.loads(full.to_json())
    assert set(data) == KEYS
    assert set(data["gflops"]) == {"raw", "rating", "ddot", "waxpby", "spmv", "mg"}
    assert {"setup", "optimize", "total"} <= set(data["seconds"])
    assert all(isinstance(value, float) for value in [*data["gflops"].values(), *data["seconds"].values()])
    assert set(data["tests"]) == {"cg", "symmetry", "iterations", "variance"}
    assert all(test["passed"] for test in data["tests"].values())
    assert data["grid"] == [32, 16, 16]
    assert data["chunks"] == [2, 1, 1]
    assert len(data["residuals"]) == data["iterations"] + 1
    assert data["residuals"][-1] == data["scaled_residual"] == full.scaled_residual


def test_json_of_iterations_alone_has_the_same_keys_and_null_for_the_rest() -> None:
    data = json.loads(run((16, 16, 16), iterations=3).to_json())
    assert set(data) == KEYS
    assert data["iterations"] == 3
    assert data["valid"] is None
    assert data["gflops"]["raw"] > 0.0
    assert data["gflops"]["rating"] is None
    assert data["gflops"]["mg"] is None
    assert set(data["tests"].values()) == {None}


def test_json_says_null_for_what_is_not_finite() -> None:
    result = run((16, 16, 16), iterations=1)
    broken = HpcgResult(**{**vars(result), "residuals": [1.0, float("nan")]})
    assert json.loads(broken.to_json())["residuals"] == [1.0, None]


def test_iterations_go_on_where_squares_of_residuals_underflow() -> None:
    result = run((8, 8, 8), iterations=400)
    assert result.iterations == 400
    assert result.scaled_residual < 1e-100


@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_iterations_are_shown_before_and_between_the_timed_sets_and_in_the_time_of_none(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's lanes and Dask's task stream were empty until the end."""
    heard: list[events.Message] = []
    shows: list[float] = []
    show = watched_runs.WatchedRuns.show

    def slow(runs: Any, program: Any) -> None:
        show(runs, program)
        shows.append(time.perf_counter())
        time.sleep(1.0)

    monkeypatch.setattr(watched_runs, "SHOWN", 0.0)
    monkeypatch.setattr(watched_runs.WatchedRuns, "show", slow)
    unsubscribe = events.subscribe(heard.append)
    try:
        with cluster(2) if engine == "graph" else nullcontext() as client:
            runtime = connect(client, engine=engine, device="cpu")
            options = HpcgOptions(grid=(32, 16, 16), chunks=(2, 1, 1), iterations=3)
            began = time.perf_counter()
            result = procedure.run(runtime, options)
            took = time.perf_counter() - began
    finally:
        unsubscribe()
    assert len(shows) == 1
    sets = result.seconds["sets"]
    assert sets is not None
    assert sets < took - 1.0
    told = [m["event"] if m["event"] != "state" else m["phase"] for m in heard]
    assert told.index("spans") < told.index("iterations"), told
    assert result.exposure is not None
    assert result.exposure.iterations == watched_runs.SAMPLES, "what is shown is no sample of the result"


def test_every_set_may_be_shown_and_none_is_changed_by_that(full: HpcgResult, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[events.Message] = []
    monkeypatch.setattr(watched_runs, "SHOWN", 0.0)
    unsubscribe = events.subscribe(heard.append)
    try:
        result = run((32, 16, 16), chunks=(2, 1, 1), seconds=0.0)
    finally:
        unsubscribe()
    assert result.residuals == full.residuals
    told = [m["event"] if m["event"] != "state" else m["phase"] for m in heard]
    first = [told.index(phase) for phase in ("reference CG", "optimized CG", "set 1 of 1")]
    shown = [at for at, what in enumerate(told) if what == "spans"]
    assert shown[0] < first[0] < shown[1] < first[1] < shown[2] < first[2]
    assert {span.level for span in from_columns(heard[shown[2]]["spans"])} >= {0, 1, 2}


def test_exposed_communication_is_measured_after_the_sets(full: HpcgResult) -> None:
    """Two chunks of one process: what is packed and copied between them is exposed, and nothing is waited for."""
    assert full.exposure is not None
    data = full.to_dict()
    assert data["exposed_ms"] == full.exposure.total.ms > 0.0
    assert 0.0 < data["exposed_percent"] < 100.0
    assert set(data["exposed"]["levels"]) == {"0", "1", "2"}
    assert full.exposure.iterations == 5
    assert {span.kind for span in full.spans} == {"inner", "boundary", "coarse", "pack", "exchange"}
    seconds = full.seconds["measured"]
    assert seconds is not None
    assert seconds > 0.0


def test_a_run_tells_who_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_runs, "SHOWN", 1e9)  # a busy machine would show one more on the way
    heard: list[events.Message] = []
    unsubscribe = events.subscribe(heard.append)
    try:
        run((16, 16, 16), iterations=4)
    finally:
        unsubscribe()
    assert (heard[0]["event"], heard[0]["what"]) == ("start", "hpcg")
    assert (heard[-1]["event"], heard[-1]["status"], heard[-1]["iteration"]) == ("end", "done", 4)
    assert {m["phase"] for m in heard if m["event"] == "state"} == {"first iteration", "iterations"}
    assert sum(m["event"] == "spans" for m in heard) == 1 + watched_runs.SAMPLES, "one before the set is for them alone"


def test_progress_tells_phases_and_iterations() -> None:
    seen: list[tuple[str, int, int]] = []
    options = HpcgOptions(grid=(16, 16, 16), iterations=4)
    hpcg.run(connect(device="cpu"), options, lambda *state: seen.append(state))
    assert ("iterations", 0, 4) in seen
    assert all(0 <= done <= most for _, done, most in seen)


# --- the checks can fail ---------------------------------------------------------------------------------------------


def test_an_unsymmetric_preconditioner_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward_only(a: TextbookHpcgMatrix, r: Any, _c: Any, _e: Any, x: Any, _w: Any) -> None:
        for rows in a.members:
            others = (a.values[:, rows] * x[a.columns[:, rows]]).sum(axis=0)
            x[rows] = (r[rows] - others) / a.diagonal[rows]

    monkeypatch.setattr(TextbookHpcgMatrix, "postsmooth", forward_only)
    result = run_textbook()
    assert result.valid is False
    assert result.tests.symmetry is not None
    assert result.tests.symmetry.mg > 1.0
    assert result.tests.symmetry.spmv <= 1.0
    assert any("preconditioner" in problem for problem in result.tests.problems)


def test_a_preconditioner_in_float32_is_used_and_never_valid() -> None:
    exact, lowered = (run((16, 16, 16), seconds=0.0, precond_dtype=dtype) for dtype in ("float64", "float32"))
    assert exact.valid
    assert lowered.valid is False
    assert "float32" in lowered.problems[0]
    assert lowered.to_dict()["precond_dtype"] == "float32"
    assert lowered.residuals != exact.residuals
    np.testing.assert_allclose(lowered.residuals[:10], exact.residuals[:10], rtol=1e-3)
    assert lowered.tests.symmetry is not None
    assert lowered.tests.symmetry.mg > 1.0, "M is symmetric to rounding in float32 alone"
    assert lowered.tests.symmetry.spmv <= 1.0
    assert lowered.tests.iterations is not None
    assert lowered.tests.iterations.problem is None


def test_an_unsymmetric_matrix_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = TextbookMatrix.spmv

    def wrong(self: TextbookMatrix, x: Any, y: Any) -> None:
        right(self, x, y)
        y[0] += 1e-3 * x[-1]

    monkeypatch.setattr(TextbookMatrix, "spmv", wrong)
    result = run_textbook()
    assert result.valid is False
    assert result.tests.symmetry is not None
    assert result.tests.symmetry.spmv > 1.0


def test_a_matrix_whose_diagonal_is_not_what_was_asked_for_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextbookMatrix, "scaled", lambda matrix, _factors: matrix)
    cg = run_textbook().tests.cg
    assert cg is not None
    assert cg.plain is None or cg.plain > 12
    assert cg.preconditioned is None or cg.preconditioned > 2
    assert cg.problem is not None


@pytest.mark.parametrize(
    "test",
    [
        CgTest(plain=13, preconditioned=2),
        CgTest(plain=12, preconditioned=3),
        CgTest(plain=None, preconditioned=2),
        SymmetryTest(spmv=1.1, mg=0.0),
        SymmetryTest(spmv=0.0, mg=float("nan")),
        IterationsTest(tolerance=1e-9, needed=None),
        VarianceTest(sets=2, mean=1e-3, variance=1e-6),
        VarianceTest(sets=2, mean=float("nan"), variance=float("nan")),
    ],
)
def test_each_failed_check_has_a_reason_and_makes_the_run_invalid(
    test: CgTest | SymmetryTest | IterationsTest | VarianceTest,
) -> None:
    name = {CgTest: "cg", SymmetryTest: "symmetry", IterationsTest: "iterations", VarianceTest: "variance"}[type(test)]
    made: dict[str, Any] = {name: test}
    tests = Checks(**made)
    assert tests.valid is False
    assert tests.problems == [test.problem]
    assert tests.to_dict()[name]["passed"] is False


def test_each_passed_check_has_none() -> None:
    tests = Checks(
        cg=CgTest(plain=12, preconditioned=2),
        symmetry=SymmetryTest(spmv=1.0, mg=0.0),
        iterations=IterationsTest(tolerance=1e-9, needed=500),
        variance=VarianceTest(sets=1, mean=1e-9, variance=0.0),
    )
    assert tests.valid is True
    assert tests.problems == []


# --- counting --------------------------------------------------------------------------------------------------------


def test_entries_of_a_tiny_matrix_counted_by_hand() -> None:
    # 2 x 2 x 2: every point sees all 8. 3 x 1 x 1: 2 + 3 + 2.
    assert counts.nonzeros((2, 2, 2)) == 64
    assert counts.nonzeros((3, 1, 1)) == 7


def test_entries_are_those_of_the_matrix() -> None:
    grid = (8, 16, 24)
    points = np.ones(grid)
    entries = 0
    for offset in problems.BOX_OFFSETS:
        inside = [slice(max(0, -d), n - max(0, d)) for d, n in zip(offset, grid, strict=True)]
        entries += int(points[tuple(inside)].sum())
    assert counts.nonzeros(grid) == entries


def test_flops_of_one_iteration_counted_by_hand() -> None:
    # 8 x 8 x 8 with levels of 22^3, 10^3, 4^3 and 1 entries, 512 rows; one set of one iteration:
    # 4 dots and 4 updates of 1024, 2 SpMV of 2 * 10648, one V-cycle.
    found = counts.of_sets((8, 8, 8), iterations=1)
    assert found.ddot == 4 * 1024
    assert found.waxpby == 4 * 1024
    assert found.spmv == 2 * 2 * 10648
    assert found.mg == 10 * (10648 + 1000 + 64) + 4
    assert found.total == 8192 + 42592 + 117124


def test_flops_of_sets_are_proportional() -> None:
    one, three = (counts.of_sets((16, 16, 16), iterations=52, sets=s) for s in (1, 3))
    assert three.total == 3 * one.total


def test_the_rating_takes_off_what_the_rules_say() -> None:
    grid = (8, 8, 8)
    flops = counts.of_sets(grid, 50, 2).total
    assert counts.rating(grid, 50, 2, 1.0, 0.0, 0.0) == pytest.approx(flops / 1e9)
    assert counts.rating(grid, 50, 2, 1.0, 2.0, 3.0) == pytest.approx(flops / (1.0 + 2 * 0.5) / 1e9)
    more = counts.of_sets(grid, 100, 1).total
    assert counts.rating(grid, 100, 1, 1.0, 0.0, 0.0) == pytest.approx(more * 0.5 / 1e9)


def test_raw_speed_is_flops_by_time() -> None:
    assert counts.raw_gflops(3_000_000_000, 2.0) == 1.5


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": (20, 16, 16)}, "divisible by 8"),
        ({"grid": (0, 16, 16)}, "at least 1"),
        ({"grid": (16, 16, 16), "chunks": (4, 1, 1)}, "divisible by 8"),
        ({"grid": (16, 16, 16), "chunks": (32, 1, 1)}, "fewer chunks"),
        ({"grid": (16, 16, 16), "chunks": (0, 1, 1)}, "at least 1"),
        ({"seconds": -1.0}, "0 or more"),
        ({"seconds": float("nan")}, "0 or more"),
        ({"iterations": 0}, "at least 1"),
    ],
)
def test_options_that_cannot_be_right_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        HpcgOptions(**options)


def test_flat_chunks_get_no_rating_but_iterations() -> None:
    with pytest.raises(InputError, match="shortest side"):
        run((8, 8, 128), seconds=0.0)
    assert run((8, 8, 128), iterations=1).iterations == 1


def test_the_default_cut_has_one_chunk_in_one_process() -> None:
    result = hpcg.run(connect(device="cpu"), HpcgOptions(grid=(16, 16, 16), iterations=1))
    assert result.chunks == (1, 1, 1)
    assert prod(result.grid) == 4096
