"""Colorings of general matrices, and factors in their orders."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from dsolver.kernels.colorings import BLOCK, COLORINGS, colored, keys_of
from dsolver.kernels.colorings.factors import BreakdownError
from dsolver.kernels.colorings.graph import Graph
from dsolver.kernels.cpu.colorings.factors import incomplete_factors, sweep_factors
from dsolver.kernels.cpu.colorings.setup import HostSweeps
from dsolver.kernels.formats.csr import Csr

F64 = npt.NDArray[np.float64]
HOST = HostSweeps()


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
    color = colored(HOST, HOST.graph_of(a), name, 1000)
    rows = np.repeat(np.arange(a.size), np.diff(a.start))
    off = rows != a.columns
    assert (color[rows[off]] != color[a.columns[off]]).all()
    assert (np.unique(color) == np.arange(color.max() + 1)).all()
    assert color.dtype == np.int32
    assert (color == colored(HOST, HOST.graph_of(a), name, 1000)).all()


def test_first_fit_finds_the_parity_classes_of_a_lattice() -> None:
    i, j, k = np.meshgrid(np.arange(6), np.arange(4), np.arange(8), indexing="ij")
    color = colored(HOST, HOST.graph_of(csr(lattice(6, 4, 8))), "greedy", 0)
    assert (color == (i % 2 + 2 * (j % 2) + 4 * (k % 2)).ravel(order="F")).all()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", MATRICES)
def test_colors_and_factors_are_the_same_on_a_gpu(kind: str) -> None:
    import cupy

    from dsolver.kernels.cuda.colorings.setup import CudaSweeps

    setup, here = CudaSweeps(), csr(MATRICES[kind])
    there = Csr(*map(cupy.asarray, here))
    for name in COLORINGS:
        color = colored(HOST, HOST.graph_of(here), name, 7)
        found: Any = colored(setup, setup.graph_of(there), name, 7)
        assert isinstance(found, cupy.ndarray)
        assert (found.get() == color).all()
        makers: list[tuple[Any, Any]] = [
            (setup.sweep_factors, sweep_factors),
            (setup.incomplete_factors, incomplete_factors),
        ]
        for on_device, on_host in makers if name in ("greedy", "levels") else ():
            made, expected = on_device(there, found), on_host(here, color)
            assert (made.rows.values.get() == expected.rows.values).all()
            assert (made.diagonal.get() == expected.diagonal).all()


@pytest.mark.gpu
def test_long_chains_are_colored_by_the_host_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    from dsolver.kernels.cuda.colorings import colors
    from dsolver.kernels.cuda.colorings.setup import CudaSweeps

    monkeypatch.setattr(colors, "MOST_VISITS", colors.VISITS)
    here = csr(lattice(1, 1, colors.VISITS + 20))
    there = CudaSweeps().graph_of(Csr(*map(cupy.asarray, here)))
    for name in ("greedy", "levels"):
        assert (colored(CudaSweeps(), there, name, 0).get() == colored(HOST, HOST.graph_of(here), name, 0)).all()


@pytest.mark.gpu
def test_the_first_pivot_that_is_no_good_is_named_on_a_gpu() -> None:
    import cupy

    from dsolver.kernels.cuda.colorings.setup import CudaSweeps

    a = MATRICES["power law"].copy()
    a.setdiag(np.where(np.arange(60) % 7 == 3, 0.0, a.diagonal()))
    here = csr(a)
    color = colored(HOST, HOST.graph_of(here), "levels", 0)
    there, setup = Csr(*map(cupy.asarray, here)), CudaSweeps()
    cases: list[tuple[Any, Any]] = [
        (setup.sweep_factors, sweep_factors),
        (partial(setup.incomplete_factors, positive=True), partial(incomplete_factors, positive=True)),
    ]
    for on_device, on_host in cases:
        with pytest.raises(BreakdownError) as expected:
            on_host(here, color)
        with pytest.raises(BreakdownError) as found:
            on_device(there, cupy.asarray(color))
        assert found.value.args == expected.value.args


def test_random_numbers_follow_rows_of_the_whole_matrix() -> None:
    whole, part = keys_of(0, 1000, 2, np), keys_of(400, 100, 2, np)
    assert (whole[:, 400:500] >> np.uint64(32) == part >> np.uint64(32)).all()
    assert len(np.unique(whole)) == whole.size
    assert abs((whole / 2.0**64).mean() - 0.5) < 0.05


def test_levels_keep_the_order_of_the_rows() -> None:
    a = csr(MATRICES["power law"])
    level = colored(HOST, HOST.graph_of(a), "levels", 0)
    rows = np.repeat(np.arange(a.size), np.diff(a.start))
    earlier = a.columns < rows
    assert (level[a.columns[earlier]] < level[rows[earlier]]).all()


def test_blocks_are_swept_in_the_order_of_their_rows() -> None:
    graph = HOST.graph_of(csr(lattice(20, 5, 3)))
    color = colored(HOST, graph, "block-greedy", 0)
    rows = HOST.rows_of(graph)
    inside = (rows // BLOCK == graph.columns // BLOCK) & (graph.columns < rows)
    assert (color[graph.columns[inside]] < color[rows[inside]]).all()
    assert color.max() + 1 <= 8 * BLOCK


def test_one_of_two_mirrored_entries_couples_both_rows() -> None:
    graph = HOST.graph_of(csr(sp.csr_array(np.array([[1.0, 5.0, 0.0], [0.0, 1.0, 0.0], [2.0, 0.0, 1.0]]))))
    assert isinstance(graph, Graph)
    assert graph.start.tolist() == [0, 3, 5, 7]
    assert graph.columns.tolist() == [0, 1, 2, 0, 1, 0, 2]


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
    """Definition of ILU(0): Saad, proposition 10.4."""
    a = csr(MATRICES[kind])
    color = colored(HOST, HOST.graph_of(a), name, 0)
    whole = a.dense()
    found = dense(incomplete_factors(a, color), color)
    assert np.abs(np.where(whole != 0.0, found - whole, 0.0)).max() <= 1e-14 * np.abs(whole).max()
    shifted = dense(incomplete_factors(a, color, shift=0.5), color)
    expected = whole + 0.5 * np.diag(whole.diagonal())
    assert np.abs(np.where(whole != 0.0, shifted - expected, 0.0)).max() <= 1e-14 * np.abs(expected).max()


def test_factors_of_a_sweep() -> None:
    a = csr(MATRICES["unsymmetric"])
    color = colored(HOST, HOST.graph_of(a), "cc", 0)
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
