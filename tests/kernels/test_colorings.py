"""Colorings of general matrices, and factors in their orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from dsolver.kernels.colorings import COLORINGS
from dsolver.kernels.colorings.blocks import BLOCK
from dsolver.kernels.colorings.graph import Graph, graph_of
from dsolver.kernels.colorings.independent_sets import by_arrays, by_loops, keys_of
from dsolver.kernels.cpu.csr.incomplete import BreakdownError, incomplete_factors, sweep_factors
from dsolver.kernels.formats.csr import Csr

F64 = npt.NDArray[np.float64]


def csr(a: Any) -> Csr:
    a = sp.csr_array(a)
    a.sort_indices()
    return Csr(a.indptr.astype(np.int64), a.indices.astype(np.int32), a.data.astype(np.float64))


def lattice(*shape: int) -> sp.csr_array:
    """27 points: 26 on the diagonal, -1 elsewhere."""
    lines = [sp.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1]) for n in shape]
    a = -sp.kron(sp.kron(lines[2], lines[1]), lines[0]).tocsr()
    return (a + 27.0 * sp.eye_array(a.shape[0])).tocsr()


def scattered(rows: int, entries: int, *, symmetric: bool) -> sp.csr_array:
    rng = np.random.default_rng(rows)
    i, j = rng.integers(0, rows, (2, entries))
    a = sp.coo_array((rng.uniform(-1.0, 1.0, entries), (i, j)), shape=(rows, rows)).tocsr()
    a = a + a.T if symmetric else a
    return (a + sp.diags_array(1.0 + abs(a).sum(axis=1))).tocsr()


MATRICES = {
    "lattice": lattice(9, 7, 5),
    "unsymmetric": scattered(200, 900, symmetric=False),
    "power law": scattered(60, 900, symmetric=True),
    "alone": sp.eye_array(40).tocsr(),
    "one": sp.eye_array(1).tocsr(),
}


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("name", COLORINGS)
def test_neighbors_have_different_colors_and_no_color_is_empty(kind: str, name: str) -> None:
    a = csr(MATRICES[kind])
    color = COLORINGS[name](graph_of(a), 1000, np)
    rows = np.repeat(np.arange(a.size), np.diff(a.start))
    off = rows != a.columns
    assert (color[rows[off]] != color[a.columns[off]]).all()
    assert (np.unique(color) == np.arange(color.max() + 1)).all()
    assert color.dtype == np.int32
    assert (color == COLORINGS[name](graph_of(a), 1000, np)).all()


def test_first_fit_finds_the_parity_classes_of_a_lattice() -> None:
    i, j, k = np.meshgrid(np.arange(6), np.arange(4), np.arange(8), indexing="ij")
    color = COLORINGS["greedy"](graph_of(csr(lattice(6, 4, 8))), 0, np)
    assert (color == (i % 2 + 2 * (j % 2) + 4 * (k % 2)).ravel(order="F")).all()


@pytest.mark.parametrize("smallest", [True, False])
def test_independent_sets_by_loops_are_those_by_arrays(smallest: bool) -> None:
    for a in MATRICES.values():
        graph = graph_of(csr(a))
        keys = keys_of(5, graph.size, 3, np)
        assert (by_loops(graph, keys, smallest=smallest) == by_arrays(graph, keys, np, smallest=smallest)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", COLORINGS)
def test_colorings_are_the_same_on_a_gpu(name: str) -> None:
    import cupy

    for a in MATRICES.values():
        graph = graph_of(csr(a))
        found = COLORINGS[name](graph, 7, cupy)
        assert isinstance(found, cupy.ndarray)
        assert (found.get() == COLORINGS[name](graph, 7, np)).all()


def test_random_numbers_follow_rows_of_the_whole_matrix() -> None:
    whole, part = keys_of(0, 1000, 2, np), keys_of(400, 100, 2, np)
    assert (whole[:, 400:500] >> np.uint64(32) == part >> np.uint64(32)).all()
    assert len(np.unique(whole)) == whole.size
    assert abs((whole / 2.0**64).mean() - 0.5) < 0.05


def test_levels_keep_the_order_of_the_rows() -> None:
    a = csr(MATRICES["power law"])
    level = COLORINGS["levels"](graph_of(a), 0, np)
    rows = np.repeat(np.arange(a.size), np.diff(a.start))
    earlier = a.columns < rows
    assert (level[a.columns[earlier]] < level[rows[earlier]]).all()


def test_blocks_are_swept_in_the_order_of_their_rows() -> None:
    graph = graph_of(csr(lattice(20, 5, 3)))
    color = COLORINGS["block-greedy"](graph, 0, np)
    rows = graph.rows
    inside = (rows // BLOCK == graph.columns // BLOCK) & (graph.columns < rows)
    assert (color[graph.columns[inside]] < color[rows[inside]]).all()
    assert color.max() + 1 <= 8 * BLOCK


def test_one_of_two_mirrored_entries_couples_both_rows() -> None:
    graph = graph_of(csr(sp.csr_array(np.array([[1.0, 5.0, 0.0], [0.0, 1.0, 0.0], [2.0, 0.0, 1.0]]))))
    assert isinstance(graph, Graph)
    assert graph.start.tolist() == [0, 2, 3, 4]
    assert graph.columns.tolist() == [1, 2, 0, 0]


# -- factors -----------------------------------------------------------------------------------------------------------


def dense(factors: Any, color: Any) -> F64:
    """(I + L) (D + U)."""
    rows, diagonal = factors
    both, earlier = rows.dense() - np.eye(rows.size), color[None, :] < color[:, None]
    product: F64 = (np.eye(rows.size) + both * earlier) @ (np.diag(diagonal) + both * ~earlier)
    return product


@pytest.mark.parametrize("name", ["greedy", "jpl", "levels"])
@pytest.mark.parametrize("kind", ["lattice", "unsymmetric", "power law"])
def test_incomplete_factors_are_a_where_a_has_entries(kind: str, name: str) -> None:
    """What defines ILU(0): Saad, proposition 10.4."""
    a = csr(MATRICES[kind])
    color = COLORINGS[name](graph_of(a), 0, np)
    whole = a.dense()
    found = dense(incomplete_factors(a, color), color)
    assert np.abs(np.where(whole != 0.0, found - whole, 0.0)).max() <= 1e-14 * np.abs(whole).max()
    shifted = dense(incomplete_factors(a, color, shift=0.5), color)
    expected = whole + 0.5 * np.diag(whole.diagonal())
    assert np.abs(np.where(whole != 0.0, shifted - expected, 0.0)).max() <= 1e-14 * np.abs(expected).max()


def test_factors_of_a_sweep() -> None:
    a = csr(MATRICES["unsymmetric"])
    color = COLORINGS["cc"](graph_of(a), 0, np)
    whole, earlier = a.dense(), color[None, :] < color[:, None]
    d = np.diag(whole.diagonal())
    off = whole - d
    expected = (d + off * earlier) @ np.linalg.inv(d) @ (d + off * ~earlier)
    assert np.abs(dense(sweep_factors(a, color), color) - expected).max() <= 1e-14 * np.abs(whole).max()


def test_pivots_that_vanish_are_told() -> None:
    singular = csr(np.array([[1.0, 1.0], [1.0, 1.0]]))
    with pytest.raises(BreakdownError) as failure:
        incomplete_factors(singular, np.array([0, 1], dtype=np.int32))
    assert (failure.value.row, failure.value.pivot) == (1, 0.0)
    with pytest.raises(BreakdownError):
        incomplete_factors(csr(np.diag([1.0, -1.0])), np.zeros(2, dtype=np.int32), positive=True)
    with pytest.raises(BreakdownError):
        sweep_factors(csr(sp.csr_array(np.array([[0.0, 1.0], [1.0, 2.0]]))), np.array([0, 1], dtype=np.int32))
