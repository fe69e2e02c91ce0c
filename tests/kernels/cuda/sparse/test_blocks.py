"""Products, transposes and coarse rows of matrices of full blocks on a GPU: the host's arrays, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dsolver.kernels.amg import BlockSizes
from dsolver.kernels.cpu.amg import products as hosts
from dsolver.kernels.cpu.amg import transposes
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr

pytestmark = pytest.mark.gpu
TEAM = Team(2, worth=8)


@pytest.fixture(scope="module")
def cupy() -> Any:
    return pytest.importorskip("cupy")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cupy")
    from dsolver.kernels.cuda.sparse.blocks import products

    monkeypatch.setattr(products, "LEAST", 0)


def graph(rows: int, columns: int, mean: float, seed: int) -> Any:
    """Nodes in any order in each row: most rows short, some empty, one with three quarters of all columns."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.geometric(1.0 / (mean + 1.0), rows) - 1, columns)
    lengths[rows // 2], lengths[0] = 3 * columns // 4, 0
    found = np.concatenate([rng.choice(columns, length, replace=False) for length in lengths])
    start = np.concatenate([[0], np.cumsum(lengths)])
    return sp.csr_array((np.ones(len(found)), found, start), shape=(rows, columns))


def in_blocks_of(nodes: Any, rows: int, columns: int, seed: int = 0) -> Csr:
    """A matrix of full blocks, with values over six decades of both signs."""
    rng, count = np.random.default_rng(seed), np.diff(nodes.indptr)
    start = np.concatenate([[0], np.cumsum(np.repeat(columns * count, rows))])
    by_node = (columns * nodes.indices[:, None] + np.arange(columns)).ravel()
    parts = [by_node[columns * a : columns * b] for a, b in zip(nodes.indptr[:-1], nodes.indptr[1:], strict=True)]
    found = np.concatenate([part for part in parts for _ in range(rows)])
    values = rng.choice([-1.0, 1.0], len(found)) * 10.0 ** rng.uniform(-3.0, 3.0, len(found))
    return Csr(start.astype(np.int64), found.astype(np.int32), values)


def on(cupy: Any, matrix: Csr) -> Csr:
    return Csr(*(cupy.asarray(part) for part in matrix))


def same(found: Csr, expected: Csr) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one.get(), other)
    np.testing.assert_array_equal(np.signbit(found.values.get()), np.signbit(expected.values))


def pair(blocks: BlockSizes, mean: float = 2.0) -> tuple[Csr, Csr, int]:
    """A, B and its columns; mean: blocks in a row of B."""
    rows, inner, columns = blocks
    a, b = in_blocks_of(graph(23, 40, 3.0, 1), rows, inner), in_blocks_of(graph(40, 30, mean, 2), inner, columns, 3)
    a.values[::5], b.values[::7] = -0.0, 0.0
    return a, b, 30 * columns


CASES = [
    (BlockSizes(3, 3, 6), 0.5, 0),
    (BlockSizes(3, 3, 6), 2.0, 0),
    (BlockSizes(3, 3, 6), 2.0, 1),
    (BlockSizes(6, 3, 6), 9.0, 0),
    (BlockSizes(6, 6, 6), 4.0, 0),
    (BlockSizes(3, 3, 3), 8.0, 0),
    (BlockSizes(2, 2, 3), 2.0, 0),
    (BlockSizes(3, 2, 3), 2.0, 0),
]
"""Blocks, how many a row of B has in the mean, and numbers in front of B's values."""


@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize(("blocks", "mean", "offset"), CASES)
def test_products(cupy: Any, blocks: BlockSizes, mean: float, offset: int, ascending: bool) -> None:
    from dsolver.kernels.cuda.sparse.blocks.products import factors, numeric, product

    a, b, columns = pair(blocks, mean)
    left, right = on(cupy, a), on(cupy, b)
    right = right._replace(values=cupy.asarray(np.append(np.zeros(offset), b.values))[offset:])
    assert None not in factors(left, right, columns, blocks)
    found = product(left, right, columns, blocks, ascending=ascending)
    same(found, hosts.product(a, b, columns, TEAM, ascending=ascending))
    other = a._replace(values=-3.7 * a.values)
    again = numeric(found, on(cupy, other), right, columns, blocks, ascending=ascending)
    assert again is not None
    same(again, hosts.product(other, b, columns, TEAM, ascending=ascending))


@pytest.mark.parametrize("most", [8, 4])
def test_rows_of_many_blocks(cupy: Any, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    from dsolver.kernels.cuda.sparse.blocks import products

    blocks = BlockSizes(6, 3, 6)
    a, b, columns = pair(blocks)
    monkeypatch.setattr(products, "ROOMS", (0.3, 0.6))
    monkeypatch.setattr(products, "SHARED", products._shared(3, 6, 2 * most) - 1)  # some rows, or most, are longer
    for ascending in (False, True):
        found = products.product(on(cupy, a), on(cupy, b), columns, blocks, ascending=ascending)
        same(found, hosts.product(a, b, columns, TEAM, ascending=ascending))


def broken(matrix: Csr, how: str, rows: int, columns: int) -> Csr:
    """A matrix of which one block is not full, or not in its place."""
    start, found, values = (part.copy() for part in matrix)
    at = len(found) // 2
    row = int(np.searchsorted(start, at, side="right")) - 1
    if how == "an entry less":
        start[row + 1 :] -= 1
        return Csr(start, np.delete(found, at), np.delete(values, at))
    if how == "a block with fewer rows":
        begin = start[row + 1] - columns
        start[row + 1 :] -= columns
        gone = slice(begin, begin + columns)
        return Csr(start, np.delete(found, gone), np.delete(values, gone))
    first = start[row // rows * rows] if how == "beside its place" else start[row]
    if how == "beside its place":  # the columns of a whole row of blocks begin one later
        last = start[(row // rows + 1) * rows]
        found[first:last] += 1
        return Csr(start, found, values)
    found[first : first + 2] = found[first : first + 2][::-1].copy()
    return Csr(start, found, values)


@pytest.mark.parametrize("how", ["an entry less", "a block with fewer rows", "beside its place", "out of order"])
def test_blocks_that_are_not_full(cupy: Any, how: str) -> None:
    from dsolver.kernels.cuda.sparse.blocks.products import factors, product
    from dsolver.kernels.cuda.sparse.blocks.rows import in_blocks

    blocks = BlockSizes(3, 3, 6)
    a, b, columns = pair(blocks)
    a = in_blocks_of(graph(23, 39, 3.0, 1), 3, 3)
    for left, right in ((broken(a, how, 3, 3), b), (a, broken(b, how, 3, 6))):
        wide = columns + 6
        there = on(cupy, left), on(cupy, right)
        assert None in factors(*there, wide, blocks)
        same(product(*there, wide, blocks), hosts.product(left, right, wide, TEAM))
    (whole,) = in_blocks((on(cupy, a), 3, 3))
    assert whole is not None
    same(whole.plain, a)


@pytest.mark.parametrize(("rows", "columns"), [(3, 6), (6, 6), (2, 3)])
def test_transposes(cupy: Any, rows: int, columns: int) -> None:
    from dsolver.kernels.cuda.sparse.blocks.mirrors import transposed
    from dsolver.kernels.cuda.sparse.blocks.rows import in_blocks

    a = in_blocks_of(graph(40, 30, 3.0, 4), rows, columns, 5)
    (whole,) = in_blocks((on(cupy, a), rows, columns))
    assert whole is not None
    same(transposed(whole, 30 * columns).plain, transposes.transposed(a, 30 * columns, TEAM))


def without(matrix: Csr, gone: Any) -> Csr:
    """A matrix without some of its entries, bool."""
    start = np.concatenate([[0], np.cumsum(~gone)])[matrix.start]
    return Csr(start, matrix.columns[~gone], matrix.values[~gone])


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("case", ["full", "long rows", "a node is held", "an unknown is held"])
def test_coarse_rows(cupy: Any, monkeypatch: pytest.MonkeyPatch, symmetric: bool, case: str) -> None:
    from dsolver.kernels.cuda.sparse.blocks import products
    from dsolver.kernels.cuda.sparse.blocks.galerkin import galerkin

    if case == "long rows":  # some coarse rows are too long to be made by blocks
        monkeypatch.setattr(products, "ROOMS", (0.2,))
        monkeypatch.setattr(products, "SHARED", products._shared(3, 6, 16) - 1)
    pattern = graph(60, 60, 1.0, 6)
    nodes = sp.csr_array(pattern + pattern.T + sp.eye_array(60))
    a = in_blocks_of(nodes, 3, 3, 7)
    if case in ("a node is held", "an unknown is held"):
        rows = np.repeat(np.arange(180), np.diff(a.start))
        held = [90, 91, 92] if case == "a node is held" else [91]
        a = without(a, (np.isin(rows, held) | np.isin(a.columns, held)) & (rows != a.columns))
    p = in_blocks_of(sp.csr_array((np.ones(120), np.arange(120) * 7 % 20, np.arange(61) * 2), shape=(60, 20)), 3, 6, 8)
    p.values[p.columns == 30] = 0.0  # a coarse row of which nothing is left
    diagonal = np.random.default_rng(9).random(180)
    there = on(cupy, a), on(cupy, p), 120, cupy.asarray(diagonal)
    found = galerkin(*there, BlockSizes(3, 3, 6), symmetric=symmetric)
    expected = AmgKernels(TEAM).galerkin(a, p, 120, diagonal, symmetric=symmetric)
    for one, other in zip(found, expected, strict=True):
        same(one, other)


def test_set_up_makes_products_by_blocks(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.kernels.cuda.amg import setup
    from dsolver.kernels.cuda.sparse.blocks import products

    made: list[int] = []
    values = products.values

    def counted(*arguments: Any, **options: Any) -> Any:
        made.append(1)
        return values(*arguments, **options)

    monkeypatch.setattr(products, "values", counted)
    blocks = BlockSizes(3, 3, 6)
    a, b, columns = pair(blocks)
    device, host = setup.CudaAlgebra(TEAM), AmgKernels(TEAM)
    expected = host.product(a, b, columns)
    same(device.product(on(cupy, a), on(cupy, b), columns, blocks=blocks), expected)
    same(device.numeric(on(cupy, expected), on(cupy, a), on(cupy, b), columns, blocks=blocks), expected)
    p = in_blocks_of(graph(20, 5, 2.0, 4), 3, 6)
    a, diagonal = in_blocks_of(graph(20, 20, 2.0, 5), 3, 3), np.ones(60)
    found = device.galerkin(on(cupy, a), on(cupy, p), 30, cupy.asarray(diagonal), blocks=blocks)[1]
    np.testing.assert_array_equal(found.values.get(), host.galerkin(a, p, 30, diagonal, blocks=blocks)[1].values)
    assert len(made) == 4
