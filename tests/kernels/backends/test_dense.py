"""The last level: its dense matrix, and an inverse of it that may be singular."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver.kernels import load
from dsolver.kernels.cpu.dense import eliminate
from dsolver.kernels.formats.dense import semidefinite_inverse
from tests.kernels.backends.boxes import BACKENDS, TOLERANCE, Case, box, close


@pytest.mark.parametrize("name", BACKENDS)
def test_a_dense_matrix_is_the_rows_of_the_stencil(name: str) -> None:
    b = box(Case(shape=(7, 5, 3), points=27, order="parity"), name)
    dense = b.backend.to_host(b.backend.dense.matrix(b.stencil))

    def times(x: Any) -> Any:
        vector, y = b.zeros(), b.zeros()
        b.kernel("load")(b.layout, x.reshape(b.case.shape, order="F"), vector)
        b.kernel("spmv")(b.matrix, vector, y)
        return b.backend.to_host(b.block(y)).reshape(-1, order="F")

    u, v = np.random.default_rng(0).standard_normal((2, 105))
    assert (dense == dense.T).all()
    expected = (u @ times(v) + v @ times(u)) / 2  # its symmetric part
    assert u @ dense @ v == pytest.approx(expected, rel=1e3 * TOLERANCE[b.backend.dtype.name])


@pytest.mark.parametrize("backend", ["numpy", *BACKENDS])
@pytest.mark.parametrize("singular", [False, True])
def test_dense_solve(backend: str, *, singular: bool) -> None:
    b = box(Case(shape=(7, 5, 3), points=27, order="parity"), backend)
    rng = np.random.default_rng(4)
    a = -rng.uniform(0.1, 1.0, (105, 105))
    a += a.T
    np.fill_diagonal(a, 0.0)
    np.fill_diagonal(a, -a.sum(axis=1) + (0.0 if singular else 1.0))
    r = rng.standard_normal(105)
    r -= r.mean() if singular else 0.0
    inverse = b.backend.dense.inverse(b.layout, a)
    right, x = b.zeros(), b.zeros()
    b.kernel("load")(b.layout, r.reshape(b.case.shape, order="F"), right)
    b.kernel("dense_solve")(inverse, right, x)
    close(a @ b.block(x).reshape(-1, order="F"), r, 100 * TOLERANCE[b.backend.dtype.name])


@pytest.mark.parametrize("backend", ["numpy", *BACKENDS])
def test_dense_solve_without_symmetry(backend: str) -> None:
    """Half of what a symmetric inverse would be made of is another one."""
    b = box(Case(shape=(7, 5, 3), points=27, order="parity"), backend)
    rng = np.random.default_rng(4)
    a = -rng.uniform(0.0, 1.0, (105, 105)) * (rng.random((105, 105)) < 0.2)
    np.fill_diagonal(a, 0.0)
    np.fill_diagonal(a, 1.0 - a.sum(axis=1))
    r, right, x = rng.standard_normal(105), b.zeros(), b.zeros()
    b.kernel("load")(b.layout, r.reshape(b.case.shape, order="F"), right)
    b.kernel("dense_solve")(b.backend.dense.inverse(b.layout, a, symmetric=False), right, x)
    close(a @ b.block(x).reshape(-1, order="F"), r, 100 * TOLERANCE[b.backend.dtype.name])


def test_semidefinite_inverse() -> None:
    rng = np.random.default_rng(5)
    factor = rng.standard_normal((30, 30))
    full = factor @ factor.T
    close(semidefinite_inverse(full) @ full, np.eye(30), 1e-8)
    thin = factor[:, :11] @ factor[:, :11].T
    found = semidefinite_inverse(thin)
    assert (found == found.T).all()
    close(thin @ found @ thin, thin, 1e-8)
    assert np.linalg.eigvalsh(found).min() > -1e-9 * np.abs(found).max()
    blocks = np.kron(np.eye(3), np.array([[1.0, -1.0], [-1.0, 1.0]]))  # three constants in the null space
    assert np.linalg.matrix_rank(semidefinite_inverse(blocks)) == 3


@pytest.mark.parametrize("rank", [1, 40, 65])
def test_the_compiled_elimination_has_the_bits_of_the_text(rank: int) -> None:
    factor = np.random.default_rng(rank).standard_normal((65, rank))
    a = factor @ factor.T
    a[7], a[:, 7] = 0.0, 0.0  # a row of zeros
    assert semidefinite_inverse(a, eliminate).tobytes() == semidefinite_inverse(a).tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 31, 32, 70, 300])
@pytest.mark.parametrize("kind", ["full", "thin"])
def test_a_device_finds_the_inverse_of_the_text(rows: int, kind: str) -> None:
    backend, rng = load("cuda"), np.random.default_rng(rows)
    factor = rng.standard_normal((rows, rows if kind == "full" else max(1, rows // 2)))
    a = factor @ factor.T + (rows * np.eye(rows) if kind == "full" else 0.0)
    layout = backend.layouts.colored(backend.xp.zeros(rows, dtype=np.int32), 1, (rows, 1, 1))
    found = backend.to_host(backend.dense.inverse(layout, a).values)
    expected = semidefinite_inverse(a)
    assert (found == found.T).all()
    close(found, expected, 1e-6 * max(1.0, np.abs(expected).max()))
