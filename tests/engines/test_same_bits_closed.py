"""Closed regions that go on in other chunks: one partition, three engines, three workers: the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from dsolver.cluster.runtime import Runtime, connect
from dsolver.distributed.nullspace import Inconsistency
from dsolver.problems import Problem, diffusion
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from tests.support.clusters import cluster
from tests.support.programs import advance, start

GRID = (17, 16, 15)
STEPS = 2

Result = tuple[int, Inconsistency, list[tuple[float, float]], list[Any]]


def run(runtime: Runtime, problem: Problem) -> Result:
    """Findings of a program on its regions and on a b that does not balance, some residuals, and the blocks of x."""
    spec = SolveSpec.plan(problem, (2, 2, 2))
    partition = spec.partition
    with runtime.launch(Solve, spec, partition, problem.offsets) as job:
        b = np.random.default_rng(3).standard_normal(GRID)
        given = {name: np.asarray(values, dtype=np.float64) for name, values in problem.coefficients.items()}
        for name, values in given.items():
            parts = {chunk.number: values[chunk.box.slices] for chunk in partition}
            job.load(name, parts, Solve.load_coefficient, name)
        job.call(Solve.set_up)
        excess = job.load("b", {chunk.number: b[chunk.box.slices] for chunk in partition}, Solve.set_b)
        job.call(start)
        samples = job.call(advance, STEPS)
        blocks = job.unload(Solve.solution, host=True)
        found = [blocks[number] for number in range(len(partition))]
        x = [block.result() if hasattr(block, "key") else block for block in found]
        return job.call(Solve.closed_regions), excess, samples, x


def test_every_engine_gives_the_same_bits_on_a_cluster() -> None:
    mask = np.random.default_rng(1).uniform(size=GRID) < 0.65
    problem = diffusion(GRID, mask=mask, bc={"x": "dirichlet", "y": "periodic", "z": "neumann"})
    count, excess, samples, x = run(connect(engine="reference", device="cpu"), problem)
    assert count > 50
    assert excess.regions > 10
    with cluster(3) as client:
        for engine in ("resident", "graph"):
            *told, blocks = run(connect(client, engine=engine, device="cpu"), problem)
            assert told == [count, excess, samples], engine
            assert all(np.array_equal(a, b) for a, b in zip(blocks, x, strict=True)), engine
