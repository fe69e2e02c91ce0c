"""Matrices for tests of algebraic multigrid: diffusion in cubes, and what is unusual."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def cells(kappa: Any) -> sp.csr_array:
    """A finite-volume matrix of −∇·(κ∇u) on cubes, with u = 0 at the first face along x alone."""
    number = np.arange(kappa.size).reshape(kappa.shape)
    where, columns, values = [number.ravel()], [number.ravel()], []
    diagonal = np.zeros(kappa.shape)
    diagonal[0] = 2.0 * kappa[0]
    for axis in range(3):
        low, high = [slice(None)] * 3, [slice(None)] * 3
        low[axis], high[axis] = slice(0, -1), slice(1, None)
        a, b = tuple(low), tuple(high)
        link = 2.0 / (1.0 / kappa[a] + 1.0 / kappa[b])
        diagonal[a] += link
        diagonal[b] += link
        where += [number[a].ravel(), number[b].ravel()]
        columns += [number[b].ravel(), number[a].ravel()]
        values += [-link.ravel(), -link.ravel()]
    entries = np.concatenate([diagonal.ravel(), *values])
    return sp.csr_array((entries, (np.concatenate(where), np.concatenate(columns))))


def poisson(n: int) -> sp.csr_array:
    return cells(np.ones((n, n, n)))


def channels(n: int) -> sp.csr_array:
    """Lines of one cell that conduct 10⁵ times better, along every axis."""
    rng, kappa = np.random.default_rng(0), np.ones((n, n, n))
    for _ in range(n * n // 20):
        line: list[Any] = rng.integers(0, n, 2).tolist()
        line.insert(int(rng.integers(3)), slice(None))
        kappa[tuple(line)] = 1e5
    return cells(kappa)


def blocks(n: int) -> sp.csr_array:
    """Cubes of four cells over six decades."""
    return cells(np.kron(10.0 ** np.random.default_rng(1).uniform(-3, 3, (n // 4,) * 3), np.ones((4, 4, 4))))


def closed(matrix: Any) -> sp.csr_array:
    """Couplings of a matrix with rows that sum to zero."""
    off = sp.csr_array(matrix - sp.diags_array(matrix.diagonal()))
    off.eliminate_zeros()
    return sp.csr_array(sp.diags_array(-np.asarray(off.sum(axis=1)).ravel()) + off)


def bordered() -> sp.csr_array:
    """A line with a row of 1000 entries, rows that are coupled with nothing, and a second part of its own."""
    line = sp.diags_array([-np.ones(1499), np.full(1500, 2.1), -np.ones(1499)], offsets=[-1, 0, 1]).tolil()
    line[0, 1:1000] = line[1:1000, 0] = -0.01
    line[0, 0] = 20.0
    line[700, :] = line[:, 700] = 0.0
    line[700, 700] = 3.0
    return sp.csr_array(sp.block_diag([line, poisson(6), sp.eye_array(5)]))
