"""One partition, three engines, one to four workers: one list of residuals, to the last bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
import pytest
from distributed import Client

import dsolver
from dsolver import problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.cluster.runtime import Runtime, connect
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from tests.support.clusters import cluster
from tests.support.programs import advance, start

STEPS = 3
SPEC = SolveSpec.plan(problems.hpcg((32, 16, 16)), (2, 2, 2), m=Hpcg())

Result = tuple[list[tuple[float, float]], list[Any]]


def run(runtime: Runtime, dtype: str) -> Result:
    """Residuals of some iterations on b = A 1, and the blocks of x after them."""
    with runtime.launch(Solve, replace(SPEC, precond_dtype=dtype), SPEC.partition) as job:
        job.call(Solve.fill, "x", 1.0)
        job.call(Solve.b_from_x)
        job.call(Solve.fill, "x", 0.0)
        job.call(start)
        samples = job.call(advance, STEPS)
        blocks = job.unload(Solve.solution, host=True)
        found = [blocks[number] for number in range(len(SPEC.partition))]
        return samples, [block.result() if hasattr(block, "key") else block for block in found]


@pytest.fixture(scope="module", params=["float64", "float32"])
def dtype(request: pytest.FixtureRequest) -> str:
    """Value type of the preconditioner."""
    return str(request.param)


@pytest.fixture(scope="module")
def serial(dtype: str) -> Result:
    return run(connect(engine="reference", device="cpu"), dtype)


@pytest.mark.parametrize(
    ("dtype", "workers", "engines"),
    [
        ("float64", 1, ["resident"]),
        ("float64", 2, ["resident", "graph"]),
        ("float64", 4, ["resident"]),
        ("float32", 4, ["resident", "graph"]),
    ],
    indirect=["dtype"],
)
def test_every_engine_gives_the_same_bits_on_a_cluster(
    workers: int, engines: list[Any], serial: Result, dtype: str
) -> None:
    with cluster(workers) as client:
        for engine in engines:
            samples, blocks = run(connect(client, engine=engine, device="cpu"), dtype)
            assert samples == serial[0], engine
            assert all(np.array_equal(a, b) for a, b in zip(blocks, serial[1], strict=True)), engine


def test_the_embedded_engine_gives_the_same_bits(serial: Result, dtype: str) -> None:
    samples, blocks = run(connect(device="cpu"), dtype)
    assert samples == serial[0]
    assert all(np.array_equal(a, b) for a, b in zip(blocks, serial[1], strict=True))


def test_the_text_book_kernels_agree_to_rounding(serial: Result, dtype: str) -> None:
    samples, _ = run(connect(engine="reference", kernels="numpy"), dtype)
    rtol = {"float64": 1e-10, "float32": 1e-4}[dtype]
    np.testing.assert_allclose([norm for norm, _ in samples], [norm for norm, _ in serial[0]], rtol=rtol)


def bumps(x: Any, y: Any, z: Any) -> Any:
    """A coefficient that workers evaluate."""
    return 1.0 + 0.5 * np.sin(x) * np.cos(y) + 0.1 * z


def varying(client: Client | None) -> Any:
    """A problem with every kind of coefficient, which on a cluster come as Dask arrays, and its right-hand side."""
    grid = (13, 9, 11)
    rng = np.random.default_rng(12)
    kappa, f, mask = rng.uniform(0.1, 10.0, grid), rng.standard_normal(grid), rng.uniform(size=grid) < 0.03
    mask[6] = True  # a wall: behind it nothing fixes the constant
    mask[7:, 1:, 1:] = False
    arrays: list[Any] = [kappa, f, mask]
    if client is not None:
        arrays = [da.from_array(values, chunks=(5, 4, 6)) for values in arrays]
    kappa, f, mask = arrays
    bc = {"x-": problems.Dirichlet(1.0), "x+": "neumann", "y": "periodic", "z": "neumann"}
    problem = problems.diffusion(
        grid,
        (kappa, bumps, 2.0),
        spacing=(1.0, np.linspace(1, 2, 9), 0.5),
        bc=bc,
        mask=mask,
        chunks=((6, 7), (9,), (3, 8)),
    )
    return problem, f


def solved(client: Client | None, engine: Any, M: Any) -> Any:
    problem, f = varying(client)
    with pytest.warns(dsolver.InconsistentWarning):
        solution = dsolver.solve(problem, f, client=client, engine=engine, M=M, maxiter=3, device="cpu")
    return solution.residuals, np.asarray(solution.x)


def test_problems_with_coefficients_give_the_same_bits_too() -> None:
    serial = {M: solved(None, "reference", M) for M in (None, "mg")}
    assert all(len(residuals) == 4 for residuals, _ in serial.values())
    assert serial["mg"][0][-1] < 0.3 * serial[None][0][-1]
    with cluster(2) as client:
        for engine in ("resident", "graph"):
            for M, (residuals, x) in serial.items():
                found = solved(client, engine, M)
                assert found[0] == residuals, (engine, M)
                assert np.array_equal(found[1], x), (engine, M)
