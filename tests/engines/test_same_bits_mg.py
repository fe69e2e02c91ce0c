"""General multigrid: one partition, three engines, three and four workers: one list of residuals, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver import problems
from dsolver.cluster.runtime import EngineName, Runtime, connect
from dsolver.grid import coarse_grid
from dsolver.grid.partition import Cut
from dsolver.preconditioners import Algebraic, Multigrid, Preconditioner
from dsolver.problems import Problem
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from tests.support.clusters import cluster
from tests.support.programs import advance, start

STEPS = 2
GRID = (21, 16, 15)
EVEN = ((10, 11), (8, 8), (15,))

Result = tuple[list[tuple[float, float]], list[Any]]


@pytest.fixture
def _gathered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coarse levels live whole on every owner as soon as they are small, or only when chunks are thin."""
    if request.param == "gathered late":
        monkeypatch.setattr(coarse_grid, "SMALL_GRID", 0)


def run(
    runtime: Runtime,
    problem: Problem,
    dtype: str = "float64",
    cut: Cut = (2, 2, 2),
    m: Preconditioner | None = None,
    earlier: Problem | None = None,
) -> Result:
    """Residuals of some iterations on a rough b from a guess of full multigrid, and the blocks of x after them.

    With the interpolation of an earlier problem, if there is one.
    """
    spec = SolveSpec.plan(problem, cut, m=m, precond_dtype=dtype)
    partition = spec.partition
    with runtime.launch(Solve, spec, partition, problem.offsets) as job:
        if earlier is not None:
            job.call(Solve.update, SolveSpec.plan(earlier, cut, m=m, precond_dtype=dtype), True)
            assert job.call(Solve.reused) == "first"
            job.call(Solve.update, spec, True)
            assert job.call(Solve.reused) == "used"
        b = np.random.default_rng(3).standard_normal(GRID)
        job.load("b", {chunk.number: b[chunk.box.slices] for chunk in partition}, Solve.set_b)
        job.call(Solve.guess, "fmg")
        job.call(start)
        samples = job.call(advance, STEPS)
        blocks = job.unload(Solve.solution, host=True)
        found = [blocks[number] for number in range(len(partition))]
        return samples, [block.result() if hasattr(block, "key") else block for block in found]


def rough(x: Any, y: Any, z: Any) -> Any:
    """κ between 0.1 and 10."""
    return 10.0 ** (((x * 7 + y * 11 + z * 13) % 17 - 8.0) / 8.0)


@pytest.mark.usefixtures("_gathered")
@pytest.mark.parametrize(
    ("_gathered", "workers"),
    [("gathered at once", 4), ("gathered late", 3)],
    indirect=["_gathered"],
)
def test_every_engine_gives_the_same_bits_on_a_cluster(workers: int) -> None:
    problem = problems.diffusion(GRID, rough, bc={"x": "periodic", "z": "dirichlet"})
    serial = run(connect(engine="reference", device="cpu"), problem)
    with cluster(workers) as client:
        for engine in ("resident", "graph"):
            samples, blocks = run(connect(client, engine=engine, device="cpu"), problem)
            assert samples == serial[0], engine
            assert all(np.array_equal(a, b) for a, b in zip(blocks, serial[1], strict=True)), engine


def test_a_star_of_which_nothing_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """With coarse levels that are cut as well: their halos are two layers wide below a chunk and one above.

    And all of it stored, coarsened algebraically, with the interpolation of an earlier matrix, and in float32.
    """
    monkeypatch.setattr(coarse_grid, "SMALL_GRID", 0)
    problem = problems.diffusion(GRID, 2.0, bc={"x": "dirichlet", "y": "periodic", "z": "dirichlet"})
    with cluster(2) as client:
        earlier = problems.diffusion(GRID, 2.0, sigma=1.0, bc={"x": "dirichlet", "y": "periodic", "z": "dirichlet"})
        algebraic = Algebraic(coarse_rows=40, gathered_rows=200)
        runs: list[tuple[Preconditioner, Cut, Problem | None, str]] = [
            (Multigrid(), EVEN, None, "float64"),
            (algebraic, (2, 1, 1), earlier, "float64"),
            (algebraic, (2, 1, 1), None, "float32"),
        ]
        for m, cut, before, dtype in runs:
            serial = run(connect(engine="reference", device="cpu"), problem, dtype, cut=cut, m=m, earlier=before)
            engines: tuple[EngineName, ...] = ("resident",) if dtype == "float32" else ("resident", "graph")
            for engine in engines:
                here = connect(client, engine=engine, device="cpu")
                samples, blocks = run(here, problem, dtype, cut=cut, m=m, earlier=before)
                assert samples == serial[0], engine
                assert all(np.array_equal(a, b) for a, b in zip(blocks, serial[1], strict=True)), engine


def test_in_float32_too() -> None:
    problem = problems.poisson27(GRID)
    serial = run(connect(engine="reference", device="cpu"), problem, "float32")
    embedded = run(connect(device="cpu"), problem, "float32")
    double = run(connect(device="cpu"), problem)
    with cluster(2) as client:
        ranks, tasks = (run(connect(client, engine=e, device="cpu"), problem, "float32") for e in ("resident", "graph"))
    assert serial[0] == embedded[0] == ranks[0] == tasks[0]
    norms, expected = ([norm for norm, _ in samples] for samples in (serial[0], double[0]))
    np.testing.assert_allclose(norms, expected, rtol=1e-4)
    assert norms != expected


def test_the_text_book_kernels_agree_to_rounding() -> None:
    problem = problems.poisson27(GRID)
    samples, _ = run(connect(engine="reference", device="cpu"), problem)
    textbook, _ = run(connect(engine="reference", kernels="numpy"), problem)
    np.testing.assert_allclose([norm for norm, _ in textbook], [norm for norm, _ in samples], rtol=1e-8)
