"""Eigenvalues on clusters and GPUs: the bits of one process, and the values of a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver import problems
from dsolver.kernels.cpu.loops import copying
from tests.support.clusters import cluster


def pencil(n: int) -> tuple[Any, Any]:
    """A graph's Laplacian, whose constants are known, and a mass matrix."""
    rng = np.random.default_rng(n)
    graph = sp.random_array((n, n), density=6 / n, rng=rng).tocsr()
    graph = graph + graph.T + sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(n, n))
    coupled = sp.random_array((n, n), density=2 / n, rng=rng).tocsr()
    return sp.csr_array(sp.diags_array(graph.sum(axis=1)) - graph), sp.csr_array(coupled @ coupled.T + sp.eye_array(n))


def equal(found: dsolver.Eigenpairs, expected: dsolver.Eigenpairs) -> bool:
    same = np.array_equal(found.values, expected.values) and np.array_equal(found.vectors, expected.vectors)
    return same and found.iterations == expected.iterations


def test_on_clusters() -> None:
    a, b = pencil(90)
    cut = dsolver.matrix(a, chunks=3)
    density = np.random.default_rng(1).uniform(1.0, 2.0, (6, 6, 6))
    grid = problems.diffusion(density.shape, density, chunks=(2, 1, 2))
    on_grid: dict[str, Any] = {"k": 3, "B": density, "M": "jacobi"}
    of_matrix: dict[str, Any] = {"k": 3, "B": b, "M": "jacobi"}
    few: dict[str, Any] = {"k": 1, "M": "jacobi", "maxiter": 2}
    with cluster(2) as client:
        for A, more in ((cut, of_matrix), (grid, on_grid), (cut, {"k": 2, "which": "LA"})):
            here = dsolver.eigsh(A, client=False, **more)
            assert here.converged
            assert equal(dsolver.eigsh(A, client=client, **more), here)
        two = dsolver.matrix(a, chunks=2)
        assert equal(dsolver.eigsh(two, client=client, engine="graph", **few), dsolver.eigsh(two, client=False, **few))
        guess = np.random.default_rng(2).standard_normal((90, 2))
        again = dsolver.eigsh(a, client=client, v0=guess, B=np.full(90, 2.0), k=2)
        assert again.converged


@pytest.mark.gpu
@pytest.mark.parametrize("chunks", [1, 3])
def test_on_a_gpu(chunks: int) -> None:
    import cupy

    a, b = pencil(150)
    cut = dsolver.matrix(a, chunks=chunks)
    for more in ({"B": b}, {"B": np.linspace(1.0, 2.0, 150)}, {"which": "LA"}):
        arguments: dict[str, Any] = {"k": 3, **more}
        expected = dsolver.eigsh(cut, device="cpu", **arguments)
        found = dsolver.eigsh(cut, device="cuda", **arguments)
        assert found.converged
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-10, atol=1e-13)
        assert equal(dsolver.eigsh(cut, device="cuda", engine="reference", **arguments), found)
    guess = cupy.asarray(np.random.default_rng(1).standard_normal(150))
    assert isinstance(dsolver.eigsh(cut, 2, device="cuda", v0=guess).vectors, cupy.ndarray)


@pytest.mark.gpu
def test_modes_of_a_grid_on_a_gpu() -> None:
    kappa = 10.0 ** np.random.default_rng(1).uniform(-2, 2, (9, 8, 7))
    for chunks in (None, (2, 1, 1)):
        grid = problems.diffusion(kappa.shape, kappa, bc="neumann", chunks=chunks)
        expected, found = (dsolver.eigsh(grid, 4, device=device) for device in ("cpu", "cuda"))
        assert found.converged
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-9, atol=1e-12)


@pytest.mark.gpu
def test_of_a_matrix_on_a_gpu() -> None:
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    cupy = pytest.importorskip("cupy")
    a, b = pencil(150)
    there, mass = (sparse.csr_matrix(sp.csr_matrix(each)) for each in (a, b))
    found = dsolver.eigsh(there, 3, B=mass)
    assert isinstance(found.vectors, cupy.ndarray)
    np.testing.assert_allclose(found.values, dsolver.eigsh(a, 3, B=b, device="cpu").values, rtol=1e-9, atol=1e-12)
    inside = dsolver.eigsh(there, 2, sigma=float(found.values[1:].mean()))
    assert isinstance(inside.vectors, cupy.ndarray)


@pytest.mark.gpu
def test_vectors_come_from_a_gpu_to_the_array_that_they_stay_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.kernels.cuda import host_arrays

    a, expected = pencil(150)[0], dsolver.eigsh(pencil(150)[0], 3, device="cuda").vectors
    monkeypatch.setattr(host_arrays, "STAGED", 1)
    monkeypatch.setattr(copying, "ROOMY", 1)
    rooms, parts = [], copying.HostRoom.parts

    def kept(room: copying.HostRoom) -> Any:
        rooms.append(room._array)
        return parts(room)

    monkeypatch.setattr(copying.HostRoom, "parts", kept)
    found = dsolver.eigsh(a, 3, device="cuda").vectors
    assert np.shares_memory(found, rooms[0])
    np.testing.assert_array_equal(found, expected)
