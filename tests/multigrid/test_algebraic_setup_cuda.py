"""Algebraic hierarchies made on GPUs: those of the host to the bit, of matrices and grids, however they are cut."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver import kernels
from dsolver.cost import memory
from dsolver.discretize.system import System
from dsolver.engines.eager.engine import EagerEngine
from dsolver.errors import InputError
from dsolver.matrices.checked import matrix_of
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners import Algebraic
from dsolver.program.spec import SolveSpec
from tests.multigrid.hierarchies import hierarchy
from tests.multigrid.test_aggregation import elastic, sheet
from tests.multigrid.test_symmetric_part import convection

pytestmark = pytest.mark.gpu
KAPPA = 10.0 ** np.random.default_rng(0).uniform(-3.0, 3.0, (9, 8, 7))
SMALL = Algebraic(coarse_rows=20, gathered_rows=60)


def line() -> sp.csr_array:
    """A line with a row of 400 entries, rows that are coupled with nothing, and couplings of the other sign."""
    a = sp.diags_array([-np.ones(599), np.full(600, 2.1), -np.ones(599)], offsets=[-1, 0, 1]).tolil()
    a[0, 1:400] = a[1:400, 0] = -0.01
    a[0, 0] = 20.0
    a[500, :] = a[:, 500] = 0.0
    a[500, 500] = 3.0
    a[510, 512] = a[512, 510] = 0.1
    return sp.csr_array(a)


def matrix(chunks: int) -> Any:
    return dsolver.matrix(line(), chunks=chunks).planned(chunks)


def slanted(chunks: int) -> Any:
    """Rows without symmetry."""
    a = sp.csr_array(line() + sp.diags_array(np.full(599, 0.2), offsets=1, shape=(600, 600)))
    return dsolver.matrix(a, chunks=chunks).planned(chunks)


def flow(chunks: int) -> Any:
    """Diffusion with convection."""
    return dsolver.matrix(convection(20, 3.0), chunks=chunks).planned(chunks)


def nodes(chunks: int) -> Any:
    """Nodes of two unknowns, with three near-null vectors."""
    a, told = elastic(12)
    return dsolver.matrix(a, chunks=chunks, **told).planned(chunks)


def grid(chunks: int, **more: Any) -> Any:
    return dsolver.problems.diffusion(KAPPA.shape, KAPPA, chunks=(1, 1, chunks), **more)


def periodic(chunks: int) -> Any:
    return grid(chunks, bc={"x": "periodic", "y": "dirichlet", "z": "dirichlet"})


def earlier_matrix(chunks: int) -> Any:
    return dsolver.matrix(line() + 0.5 * sp.eye_array(600, format="csr"), chunks=chunks).planned(chunks)


def earlier_grid(chunks: int) -> Any:
    return dsolver.problems.diffusion(KAPPA.shape, 1.0 + KAPPA, chunks=(1, 1, chunks))


def earlier_slanted(chunks: int) -> Any:
    a = sp.csr_array(line() + sp.diags_array(np.full(599, 0.3), offsets=1, shape=(600, 600)))
    return dsolver.matrix(a, chunks=chunks).planned(chunks)


def earlier_nodes(chunks: int) -> Any:
    a, told = elastic(12)
    a.data *= 1.5
    return dsolver.matrix(a, chunks=chunks, **told).planned(chunks)


PROBLEMS = {"matrix": matrix, "grid": grid, "periodic": periodic, "slanted": slanted, "nodes": nodes, "flow": flow}
EARLIER = {"matrix": earlier_matrix, "grid": earlier_grid, "slanted": earlier_slanted, "nodes": earlier_nodes}


@cache
def digests_of(
    backend: str, name: str, chunks: int, aggressive: int = 1, *, again: bool = False, coarsening: str = "pmis"
) -> list[str]:
    """Digests of the rows of every level; again: with the interpolation of an earlier matrix."""
    m = Algebraic(coarse_rows=20, gathered_rows=60, aggressive_levels=aggressive, coarsening=coarsening)
    earlier = EARLIER[name](chunks) if again else None
    return hierarchy(PROBLEMS[name](chunks), m, backend, earlier).digests


@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("name", ["matrix", "grid", "periodic", "slanted"])
def test_levels_have_the_hosts_bits(name: str, chunks: int) -> None:
    expected = digests_of("cpu", name, chunks)
    assert len(expected) >= 3
    assert digests_of("cuda", name, chunks) == expected


def test_levels_without_aggressive_coarsening_have_the_hosts_bits() -> None:
    assert digests_of("cuda", "grid", 2, 0) == digests_of("cpu", "grid", 2, 0)


@pytest.mark.parametrize("name", ["matrix", "grid"])
def test_levels_with_the_interpolation_of_an_earlier_matrix_have_the_hosts_bits(name: str) -> None:
    for chunks in (1, 2):
        expected = digests_of("cpu", name, chunks, again=True)
        assert expected != digests_of("cpu", name, chunks)
        assert digests_of("cuda", name, chunks, again=True) == expected


@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("name", ["matrix", "nodes"])
def test_levels_of_aggregates_have_the_hosts_bits(name: str, chunks: int) -> None:
    expected = digests_of("cpu", name, chunks, coarsening="aggregation")
    assert len(expected) >= 3
    assert digests_of("cuda", name, chunks, coarsening="aggregation") == expected


@pytest.mark.parametrize("name", ["nodes", "slanted"])
def test_levels_with_the_aggregates_of_an_earlier_matrix_have_the_hosts_bits(name: str) -> None:
    for chunks in (1, 2):
        expected = digests_of("cpu", name, chunks, again=True, coarsening="aggregation")
        assert digests_of("cuda", name, chunks, again=True, coarsening="aggregation") == expected


@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("name", ["slanted", "flow"])
def test_levels_of_ideal_restriction_have_the_hosts_bits(name: str, chunks: int) -> None:
    expected = digests_of("cpu", name, chunks, coarsening="air")
    assert len(expected) >= 3
    assert digests_of("cuda", name, chunks, coarsening="air") == expected


def test_large_levels_are_stored_late_with_the_same_bits_and_in_less_memory_as_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import cupy

    star = sp.diags_array([-np.ones(11), np.full(12, 2.0), -np.ones(11)], offsets=[-1, 0, 1])
    one = sp.eye_array(12)
    a = sum(sp.kron(sp.kron(x, y), z) for x, y, z in ((star, one, one), (one, star, one), (one, one, star))).tocoo()
    row, column, values = map(cupy.asarray, (a.row, a.col, a.data))
    problem: Any = dsolver.matrix(matrix_of(row, column, values, a.shape[0])).planned(1)
    pool, empty = cupy.get_default_memory_pool(), cupy.empty
    spec = SolveSpec.plan(problem, problem.chunks, m=SMALL, precond_dtype="float32")
    used: list[int] = []

    def sampled(*shape: Any, **more: Any) -> Any:
        made = empty(*shape, **more)
        used.append(pool.used_bytes())
        return made

    sparse = "sparse.products"
    for name in (
        f"{sparse}.expected_columns.LARGE",
        f"{sparse}.product.FEW",
        "amg.couplings.LOOSE",
    ):  # as of large ones
        monkeypatch.setattr(f"dsolver.kernels.cuda.{name}", 0)
    digests, most, counted = [], [], []
    for late, room in ((1 << 25, 1 << 28), (1000, 1000)):
        monkeypatch.setattr("dsolver.kernels.cuda.sparse.products.product.MOST_ROOM", room)
        for module in (
            "preconditioners.algebraic.finest",
            "preconditioners.algebraic.memory",
            "multigrid.algebraic.setup",
        ):
            monkeypatch.setattr(f"dsolver.{module}.LATE", late)
        forecast = memory.of_chunk(spec, 0, cuda=True)
        counted.append(forecast.finest + forecast.temporary)
        engine = EagerEngine(spec.partition, kernels.load("cuda"))
        system = System(engine, spec.problem, spec.partition)
        system.load("rows", problem.coefficients["rows"].blocks(spec.partition, host=False))
        builder, before = spec.builder(engine, system), pool.used_bytes()
        with monkeypatch.context() as context:
            context.setattr(cupy, "empty", sampled)
            used.clear()
            _, levels = SMALL.build(builder)
        most.append(max(used) - before)
        of_coarse = levels[1].chunks.items[0].local.product.entries
        digests.append([engine.backend.to_host(part).tobytes() for part in of_coarse])
        del engine, system, builder, levels, of_coarse
    assert digests[0] == digests[1]
    assert most[1] < 0.9 * most[0]
    assert all(0.55 * wanted <= found <= wanted for found, wanted in zip(most, counted, strict=True))


@pytest.mark.parametrize("name", ["matrix", "grid"])
def test_a_solve_takes_the_hosts_iterations(name: str) -> None:
    problem = PROBLEMS[name](2)
    b = np.random.default_rng(1).standard_normal(problem.shape)
    found = [
        dsolver.solve(problem, b, M=SMALL, rtol=1e-8, engine="reference", device=device) for device in ("cpu", "cuda")
    ]
    assert all(solution.converged for solution in found)
    assert abs(found[0].iterations - found[1].iterations) <= 1


def test_near_null_spaces_stay_on_the_gpu_where_the_matrix_is() -> None:
    import cupy

    a, points = sheet(16)
    entries = a.tocoo()
    row, column, values = map(cupy.asarray, (entries.row, entries.col, entries.data))
    there = matrix_of(row, column, values, a.shape[0])
    modes = dsolver.rigid_body_modes(cupy.asarray(points))
    assert np.allclose(modes.get(), dsolver.rigid_body_modes(points), atol=1e-12)
    b, found = np.random.default_rng(1).standard_normal(a.shape[0]), []
    cases: tuple[tuple[Any, Any, Any], ...] = ((a, modes.get(), "cpu"), (there, modes, "cuda"), (a, modes, "cuda"))
    for matrix, near, device in cases:
        problem = dsolver.matrix(matrix, near_nullspace=near, block_size=2, chunks=1)
        assert isinstance(problem, MatrixProblem)
        assert isinstance(problem.near, cupy.ndarray if matrix is there else np.ndarray)
        solution = dsolver.solve(problem, b, M="amg", rtol=1e-8, engine="reference", device=device)
        assert solution.converged
        found.append(solution.iterations)
    assert max(found) - min(found) <= 1
    with pytest.raises(InputError, match="vector 3 of near_nullspace"):
        dsolver.matrix(there, near_nullspace=cupy.concatenate([modes, modes[:, :1]], axis=1), block_size=2)


def test_matrices_without_symmetry_and_aggregates_are_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.kernels.cuda.host_arrays.STAGED", 1)  # arrays count as large
    symmetric, b = line(), np.ones(600)
    without = sp.csr_array(symmetric + sp.diags_array(np.full(599, 0.2), offsets=1, shape=(600, 600)))
    aggregation, points = (
        Algebraic(coarsening="aggregation", coarse_rows=20),
        Algebraic(coarsening="pmis", coarse_rows=20),
    )
    method: Any
    for a, m, method, chunks in (
        (symmetric, aggregation, "cg", 1),
        (symmetric, aggregation, "cg", 2),
        (without, points, "bicgstab", 2),
    ):
        problem = dsolver.matrix(a, chunks=chunks)
        found = [
            dsolver.solve(problem, b, M=m, method=method, rtol=1e-8, engine="reference", device=device)
            for device in ("cpu", "cuda")
        ]
        assert all(solution.converged for solution in found)
        assert abs(found[0].iterations - found[1].iterations) <= 1
