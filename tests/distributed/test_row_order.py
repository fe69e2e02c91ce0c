"""Orders of the rows in chunks: inside they differ, outside nothing does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver import kernels
from dsolver.distributed.row_order import in_order, own_part
from dsolver.errors import InputError
from dsolver.matrices.chunks.row_block import RowBlock
from tests.matrices.test_matrix import graph_laplacian, lattice

BACKEND = kernels.load("numpy")


def shuffled(n: int) -> sp.csr_array:
    """A lattice whose rows are in random order."""
    a = lattice(n)
    place = np.random.default_rng(0).permutation(a.shape[0])
    return a[place][:, place].tocsr()


def blocks(a: sp.csr_array, chunks: int) -> list[RowBlock]:
    problem: Any = dsolver.matrix(a, chunks=chunks).planned(chunks)
    (cut,) = problem.coefficients.values()
    return [cut._block(number) for number in range(chunks)]


def bandwidth(block: RowBlock) -> int:
    a = own_part(np, block.csr, block.plan)
    return int(abs(np.repeat(np.arange(a.size), np.diff(a.start)) - a.columns).max())


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_block_has_its_entries_in_another_order_and_a_small_bandwidth(chunks: int) -> None:
    for block in blocks(shuffled(12), chunks):
        found = in_order(BACKEND, 0, block, name="rcm")
        order: Any = found.order
        rows, slots = len(order), int(block.columns.max()) + 1
        before = sp.csr_array((block.values, block.columns, block.start), shape=(rows, max(slots, rows))).toarray()
        after = sp.csr_array((found.values, found.columns, found.start), shape=before.shape).toarray()
        assert (after[:, :rows] == before[:, :rows][order][:, order]).all()
        assert (after[:, rows:] == before[:, rows:][order]).all()
        assert all((np.diff(found.columns[a:b]) > 0).all() for a, b in zip(found.start, found.start[1:], strict=False))
        assert bandwidth(found) < bandwidth(block) / 3


def test_entries_that_cancel_their_mirror_images_couple_rows_too() -> None:
    ones, place = np.ones(99), np.random.default_rng(0).permutation(100)
    line = sp.diags_array([-ones, 2.0 * np.ones(100), ones], offsets=[-1, 0, 1]).tocsr()[place][:, place].tocsr()
    (block,) = blocks(line, 1)
    assert bandwidth(in_order(BACKEND, 0, block, name="rcm")) == 1


@pytest.mark.parametrize("kinds", ["auto", "numpy"])
def test_x_and_b_keep_their_order(kinds: Any) -> None:
    a = graph_laplacian(150, 6.0, 3)
    b = np.random.default_rng(3).standard_normal((150, 2))
    x = np.linalg.solve(a.toarray(), b)
    problem = dsolver.matrix(a, chunks=4, order="rcm")
    with dsolver.Solver(problem, M="jacobi", device="cpu", kernels=kinds, engine="reference") as solver:
        found = solver.solve(b, rtol=1e-12)
        assert np.allclose(found.x, x, rtol=1e-9, atol=1e-12)
        assert solver.solve(b[:, 0], x0=x[:, 0]).iterations == 0
    inverse = sp.diags_array(1.0 / a.diagonal())  # sees vectors in A's order
    iterations = dsolver.solve(problem, b[:, 0], M=inverse, device="cpu").iterations
    assert iterations == dsolver.solve(problem, b[:, 0], M="jacobi", device="cpu").iterations


def test_orders_are_named() -> None:
    with pytest.raises(InputError, match="order must be None or 'rcm', not 'amd'"):
        dsolver.matrix(lattice(3), order="amd")  # type: ignore[arg-type]


@pytest.mark.gpu
def test_on_a_gpu_x_keeps_its_order() -> None:
    a = shuffled(40)
    b = np.random.default_rng(4).standard_normal(1600)
    for chunks in (1, 3):
        solution = dsolver.solve(dsolver.matrix(a, chunks=chunks, order="rcm"), b, rtol=1e-11, device="cuda")
        assert np.linalg.norm(a @ solution.x - b) <= 1e-10 * np.linalg.norm(b)
