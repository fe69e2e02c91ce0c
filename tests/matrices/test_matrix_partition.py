"""Rows of a matrix by parts of its graph, by given parts, and as points of a lattice: vectors keep A's order."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

import dsolver
from dsolver import problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.errors import InputError
from dsolver.matrices.problem import MatrixProblem
from tests.support.clusters import cluster


def lattice(*shape: int) -> sp.csr_array:
    """The 5- or 7-point Laplacian, rows in the order of numpy.ravel."""
    out = sp.csr_array((math.prod(shape),) * 2)
    for axis, n in enumerate(shape):
        line = sp.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
        before, after = sp.eye_array(math.prod(shape[:axis])), sp.eye_array(math.prod(shape[axis + 1 :]))
        out = out + sp.kron(before, sp.kron(line, after))
    return sp.csr_array(out)


def shuffled(a: sp.csr_array) -> sp.csr_array:
    order = np.random.default_rng(1).permutation(a.shape[0])
    return a[order][:, order].tocsr()


A = shuffled(lattice(12, 11))
B = np.random.default_rng(0).standard_normal(132)
X = spsolve(A.tocsc(), B)
PARTS = np.random.default_rng(2).integers(0, 4, 132)


def close(x: Any) -> bool:
    return bool(np.linalg.norm(np.asarray(x) - X) <= 1e-8 * np.linalg.norm(X))


def test_given_parts_are_the_chunks_and_vectors_keep_their_order() -> None:
    problem = dsolver.matrix(A, partition=PARTS)
    assert isinstance(problem, MatrixProblem)
    assert problem.chunks == (tuple(np.bincount(PARTS).tolist()), (1,), (1,))
    with dsolver.Solver(problem, device="cpu", M="jacobi") as solver:
        seen: list[Any] = []
        solution = solver.solve(B, rtol=1e-12, callback=lambda _: seen.append(solver.iterate()))
        assert close(solution.x)
        assert (seen[-1] == solution.x).all()
        assert solver.solve(B, x0=X).iterations == 0
        several = solver.solve(np.stack([B, 2 * B], axis=1), rtol=1e-12)
        assert close(several.x[:, 0])
        assert close(0.5 * several.x[:, 1])
        lazy = solver.solve(da.from_array(B, chunks=50), rtol=1e-12).x
        assert isinstance(lazy, da.Array)
        assert (lazy.compute() == solution.x).all()
    assert close(dsolver.cg(problem, B, rtol=1e-12)[0])


def test_a_function_that_preconditions_sees_the_order_of_the_rows() -> None:
    scale = np.linspace(1.0, 2.0, 132)
    a = sp.csr_array(sp.diags_array(scale) @ A @ sp.diags_array(scale))
    jacobi = dsolver.solve(dsolver.matrix(a, partition=PARTS), B, M="jacobi", device="cpu")
    for m in (lambda r: r / a.diagonal(), sp.diags_array(1.0 / a.diagonal())):
        assert dsolver.solve(dsolver.matrix(a, partition=PARTS), B, M=m, device="cpu").iterations == jacobi.iterations


def test_the_same_bits_on_a_cluster_and_a_dask_array_stays_there() -> None:
    problem = dsolver.matrix(A, partition=PARTS)
    here = dsolver.solve(problem, B, device="cpu")
    with cluster(2) as client:
        assert (dsolver.solve(problem, B, client=client, device="cpu").x == here.x).all()
        lazy = dsolver.solve(problem, da.from_array(B, chunks=50), client=client, device="cpu").x
        assert isinstance(lazy, da.Array)
        assert (client.compute(lazy).result() == here.x).all()


def test_a_checkpoint_does_not_depend_on_the_parts(tmp_path: Path) -> None:
    store = dsolver.Checkpoint(tmp_path / "saves", every=0.0)
    first = dsolver.solve(dsolver.matrix(A, partition=PARTS), B, device="cpu", M="jacobi", checkpoint=store, rtol=1e-12)
    for partition in ("rows", PARTS[::-1]):
        problem = dsolver.matrix(A, partition=partition)
        resumed = dsolver.solve(problem, B, device="cpu", M="jacobi", resume=tmp_path / "saves", rtol=1e-8)
        assert resumed.iterations < first.iterations // 2
        assert resumed.residuals[0] < 1e-6 * np.linalg.norm(B)


def test_metis_puts_neighbors_together() -> None:
    pytest.importorskip("pymetis")
    a = shuffled(lattice(30, 30))
    b = np.ones(900)
    by_rows, by_graph = dsolver.matrix(a, chunks=4), dsolver.matrix(a, chunks=4, partition="graph")
    ghosts = []
    for problem in (by_rows, by_graph):
        assert isinstance(problem, MatrixProblem)
        ghosts.append(sum(count.ghosts for count in problem.planned(4).counts))
    assert ghosts[1] < ghosts[0] / 8
    assert np.allclose(dsolver.solve(by_graph, b, rtol=1e-11, device="cpu").x, spsolve(a.tocsc(), b))
    with cluster(3) as client, dsolver.Solver(dsolver.matrix(a, partition="graph"), client=client) as solver:
        assert solver.problem.chunks is not None
        assert np.shape(solver.problem.chunks[0]) == (3,)
        assert np.allclose(solver.solve(b, rtol=1e-11).x, spsolve(a.tocsc(), b))


def test_without_metis_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pymetis", None)
    with pytest.raises(InputError, match=r"pip install 'dsolver-hpc\[partition\]'"):
        dsolver.matrix(A, chunks=4, partition="graph")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"partition": "columns"}, "must be 'rows', 'graph' or a part number for each row, not 'columns'"),
        ({"partition": PARTS[:-1]}, r"a part number for each of the 132 rows, integers \(132,\), not int64 \(131,\)"),
        ({"partition": PARTS * 1.0}, "not float64"),
        ({"partition": PARTS - 1}, "has the part number -1"),
        ({"partition": PARTS, "chunks": 4}, "leave chunks= out"),
        ({"partition": "graph", "chunks": [100, 32]}, "give chunks= as a number"),
        ({"partition": "graph", "chunks": 133}, "cannot be cut into 133 chunks: use 1 to 132"),
        ({"partition": PARTS, "grid": (12, 11, 1)}, "leave partition= and order= out"),
        ({"order": "rcm", "grid": (12, 11, 1)}, "leave partition= and order= out"),
        ({"grid": (12, 11, 1), "chunks": 2}, "give three"),
    ],
)
def test_bad_partitions_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        dsolver.matrix(A, **options)


# -- rows of a lattice -------------------------------------------------------------------------------------------------


def test_a_constant_matrix_on_a_lattice_is_solved_as_its_stencil() -> None:
    a, grid = lattice(12, 8, 10), (12, 8, 10)
    b = np.random.default_rng(3).standard_normal(960)
    problem = dsolver.matrix(a, grid=grid)
    assert problem.raveled
    assert problem.constant
    expected = dsolver.solve(problems.poisson7(grid), b.reshape(grid), device="cpu")
    found = dsolver.solve(problem, b, device="cpu")
    assert found.residuals == expected.residuals
    assert found.x.tobytes() == expected.x.tobytes()
    assert found.x.shape == (960,)
    x, info = dsolver.cg(problem, b, M=lambda r: r)
    assert info == 0
    assert x.shape == (960,)


def test_the_benchmark_s_matrix_in_compressed_rows_has_the_residuals_of_its_grid() -> None:
    """Residuals of tests/benchmarks/test_hpcg.py, where the reference benchmark's are written down, to the bit."""
    grid = (16, 16, 16)
    line = sp.diags_array([np.ones(15), np.ones(16), np.ones(15)], offsets=[-1, 0, 1])
    box = sp.kron(line, sp.kron(line, line))
    a = sp.csr_array(27.0 * sp.eye_array(16**3) - box)
    given = dsolver.solve(dsolver.matrix(a, grid=grid), a @ np.ones(16**3), M=Hpcg(), rtol=0.0, maxiter=25)
    made = problems.hpcg(grid)
    expected = dsolver.solve(made, (a @ np.ones(16**3)).reshape(grid), M=Hpcg(), rtol=0.0, maxiter=25)
    assert len(given.residuals) > 20
    assert given.residuals == expected.residuals
    assert np.array_equal(given.x, np.ravel(expected.x))


def test_rows_that_differ_on_a_lattice_have_multigrid(tmp_path: Path) -> None:
    n, grid = 512, (8, 8, 8)
    scale = np.random.default_rng(4).uniform(0.5, 2.0, n)
    a = sp.csr_array(sp.diags_array(scale) @ lattice(*grid) @ sp.diags_array(scale))
    a.setdiag(a.diagonal() * 1.01)
    b = np.ones((n, 2))
    with dsolver.Solver(dsolver.matrix(a, grid=grid, chunks=(2, 1, 1)), device="cpu") as solver:
        assert not solver.problem.constant
        several: Any = solver.solve(b, rtol=1e-11)
        assert several.x.shape == (n, 2)
        assert np.allclose(several.x[:, 1], spsolve(a.tocsc(), b[:, 0]))
        assert several[0].iterations <= 25
        store = dsolver.Checkpoint(tmp_path / "saves", every=0.0)
        solver.solve(b[:, 0], rtol=1e-11, checkpoint=store)
        assert solver.solve(b[:, 0], resume=store).residuals[0] < 1e-6


def test_a_lattice_in_a_plane_and_its_diagonals() -> None:
    grid = (9, 7, 1)
    a = lattice(9, 7)
    corners = sp.kron(
        sp.diags_array([np.ones(8)] * 2, offsets=[-1, 1]), sp.diags_array([np.ones(6)] * 2, offsets=[-1, 1])
    )
    a = sp.csr_array(a + 6.0 * sp.eye_array(63) - corners)
    x = dsolver.solve(dsolver.matrix(a, grid=grid), np.ones(63), rtol=1e-11, device="cpu").x
    assert np.allclose(x, spsolve(a.tocsc(), np.ones(63)))


@pytest.mark.parametrize(
    ("grid", "reason"),
    [
        ((12, 8, 9), "has 864 points, A 960 rows"),
        ((10, 8, 12), r"entry A\[0, 10\] = -1 couples point \(0, 0, 0\) with \(0, 0, 10\), which is none of its 26"),
    ],
)
def test_a_matrix_that_does_not_fit_its_grid(grid: tuple[int, int, int], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        dsolver.matrix(lattice(12, 8, 10), grid=grid)


def test_an_entry_far_away_is_found_in_any_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.matrices.lattice_matrix.ROWS_AT_ONCE", 100)
    a = lattice(12, 8, 10).tolil()
    assert dsolver.matrix(a.tocsr(), grid=(12, 8, 10)).constant
    a[700, 103] = a[103, 700] = -0.5
    with pytest.raises(InputError, match=r"entry A\[103, 700\] = -0.5 couples point \(1, 2, 3\) with \(8, 6, 0\)"):
        dsolver.matrix(a.tocsr(), grid=(12, 8, 10))


@pytest.mark.gpu
def test_on_a_gpu_vectors_of_parts_and_of_lattices_stay_there() -> None:
    import cupy

    grouped = dsolver.solve(dsolver.matrix(A, partition=PARTS), cupy.asarray(B), M="jacobi", rtol=1e-12).x
    assert isinstance(grouped, cupy.ndarray)
    assert close(grouped.get())
    a, b = lattice(12, 8, 10), np.random.default_rng(3).standard_normal(960)
    found = dsolver.solve(dsolver.matrix(a, grid=(12, 8, 10)), cupy.asarray(b), rtol=1e-12).x
    assert isinstance(found, cupy.ndarray)
    assert np.allclose(found.get(), spsolve(a.tocsc(), b))
