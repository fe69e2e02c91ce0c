"""Algebraic hierarchies that are made across chunks: the same to the bit however many there are."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.engines.eager.engine import EagerEngine
from dsolver.errors import InputError
from dsolver.multigrid.algebraic import setup
from dsolver.multigrid.algebraic.classical import aggressive, coarse_points
from dsolver.preconditioners import Algebraic
from tests.multigrid.hierarchies import SMALL, hierarchy, hierarchy_of_matrix, transfers
from tests.multigrid.matrices import blocks, bordered, channels, closed, poisson

CUDA = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.mark.parametrize("matrix", [poisson(13), channels(12), bordered()], ids=["poisson", "channels", "bordered"])
def test_levels_are_the_same_bits_for_any_number_of_chunks(matrix: Any) -> None:
    hashes, matrices, levels = hierarchy_of_matrix(matrix, 1)
    assert len(levels) >= 3
    assert levels[-1].partition.grid[0] <= 20
    for chunks in (2, 3, 8):
        assert hierarchy_of_matrix(matrix, chunks).digests == hashes
    for a in matrices[1:]:
        assert not (a != a.T).nnz


def test_chunks_that_ask_whom_they_read_have_the_same_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """One level after the other, as many chunks do, so that none expects messages of all."""
    m, matrix, sent = replace(SMALL, gathered_rows=20), channels(16), []
    expected = hierarchy_of_matrix(matrix, 8, m).digests
    deliver = EagerEngine.deliver

    def counted(self: EagerEngine, messages: Any, senders: Any, *how: Any) -> Any:
        sent.append(sum(map(len, senders)))
        return deliver(self, messages, senders, *how)

    monkeypatch.setattr(EagerEngine, "deliver", counted)
    assert hierarchy_of_matrix(matrix, 8, m).digests == expected
    all_heard, sent[:] = sum(sent), []
    monkeypatch.setattr(setup, "MANY", 1)
    assert hierarchy_of_matrix(matrix, 8, m).digests == expected
    assert sum(sent) < all_heard


@pytest.mark.parametrize(
    ("chunks", "steps"), [(1, ["_begun", "_counted", "_begun"]), (2, ["_begun", "_continued", "_counted"])]
)
def test_points_are_counted_once_neighbors_have_told_theirs(
    monkeypatch: pytest.MonkeyPatch, chunks: int, steps: list[str]
) -> None:
    """A look at what is left is a wait of all ranks; a chunk alone has nothing to hear, and decides all at once."""
    done: list[str] = []

    def noted(name: str, run: Any) -> Any:
        def call(*given: Any, **options: Any) -> Any:
            done.append(name)
            return run(*given, **options)

        return call

    for name in ("_begun", "_continued", "_counted"):
        monkeypatch.setattr(coarse_points, name, noted(name, getattr(coarse_points, name)))
    hierarchy_of_matrix(channels(12), chunks)
    assert done[: 3 * chunks : chunks] == steps


@pytest.mark.parametrize(("coarsening", "cuts"), [("pmis", (2, 3, 8)), ("aggregation", (3,))])
def test_levels_with_the_interpolation_of_an_earlier_matrix(coarsening: str, cuts: tuple[int, ...]) -> None:
    m, earlier, matrix = replace(SMALL, coarsening=coarsening), channels(12), blocks(12)
    hashes, matrices, levels = hierarchy_of_matrix(matrix, 1, m, earlier=earlier)
    for chunks in cuts:
        assert hierarchy_of_matrix(matrix, chunks, m, earlier=earlier).digests == hashes
    anew, scaled = hierarchy_of_matrix(earlier, 1, m), hierarchy_of_matrix(0.25 * earlier, 1, m)
    assert hierarchy_of_matrix(earlier, 2, m, earlier=earlier).digests == anew.digests != hashes
    assert hierarchy_of_matrix(0.25 * earlier, 1, m, earlier=earlier).digests == scaled.digests
    p, r = transfers(levels[1], levels[2])
    assert np.array_equal(r, p.T)
    expected = p.T @ matrices[1].toarray() @ p
    assert abs(matrices[2].toarray() - expected).max() <= 1e-13 * abs(expected).max()


@pytest.mark.parametrize(
    ("matrix", "gathered", "twice"),
    [(blocks(8), 20, 0), (closed(blocks(8)), 10000, 0), (closed(blocks(8)), 20, 1)],
)
def test_coarse_levels_are_galerkin_products(matrix: Any, gathered: int, twice: int) -> None:
    m = Algebraic(coarse_rows=20, gathered_rows=gathered, aggressive_levels=twice)
    _, matrices, levels = hierarchy_of_matrix(matrix, 3, m)
    assert len(levels[1].partition) == (3 if gathered == 20 else 1)
    for (fine, coarse), (a, found) in zip(pairwise(levels), pairwise(matrices), strict=True):
        p, r = transfers(fine, coarse)
        assert np.array_equal(r, p.T)
        assert (np.count_nonzero(p, axis=1) <= 4).all()
        expected = p.T @ a.toarray() @ p
        assert abs(found.toarray() - expected).max() <= 1e-13 * abs(expected).max()
        inner = abs(a.sum(axis=1)) <= 1e-14 * a.diagonal()
        assert np.allclose(p.sum(axis=1)[inner], 1.0, rtol=1e-12)


def test_hierarchies_are_printed() -> None:
    with dsolver.Solver(dsolver.matrix(poisson(20), chunks=2), M=Algebraic(gathered_rows=500), device="cpu") as solver:
        found = solver.hierarchy
        lines = str(found).splitlines()
    assert [level.chunks for level in found.levels][:2] == [2, 2]
    assert found.levels[0].rows == 8000
    assert found.levels[0].entries == 7 * 8000 - 6 * 400
    assert found.levels[-1].rows <= 300
    assert len(lines) == len(found.levels) + 2
    assert lines[1].split()[:3] == ["0", "8,000", "53,600"]
    assert (found.levels[0].format, found.levels[0].values) == ("slices", "float64")
    assert 1.3 < found.operator_complexity < 2.0
    with (
        dsolver.Solver(poisson(4), M="jacobi", device="cpu") as solver,
        pytest.raises(InputError, match="no levels to show"),
    ):
        _ = solver.hierarchy


def solved(matrix: Any, m: Any = "amg", chunks: int = 3, **options: Any) -> Any:
    """The solution for a right-hand side that the matrix reaches."""
    b = matrix @ np.random.default_rng(7).standard_normal(matrix.shape[0])
    options = {"engine": "reference", "device": "cpu", "rtol": 1e-8, **options}
    return dsolver.solve(dsolver.matrix(matrix, chunks=chunks), b, M=m, **options)


@pytest.mark.parametrize(
    ("matrix", "mild", "most"),
    [(poisson(24), 11, 15), (channels(24), 17, 17), (blocks(24), 14, 17)],
    ids=["poisson", "channels", "blocks"],
)
def test_iterations(matrix: Any, mild: int, most: int) -> None:
    for twice, allowed in enumerate((mild, most)):
        solution = solved(matrix, Algebraic(aggressive_levels=twice), chunks=2)
        assert solution.converged
        assert solution.iterations <= allowed


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_devices_and_engines_agree(device: str) -> None:
    matrix = channels(12)
    assert hierarchy_of_matrix(matrix, 3, backend=device).digests == hierarchy_of_matrix(matrix, 1).digests
    serial = solved(matrix, SMALL, device=device)
    here = solved(matrix, SMALL, device=device, engine="resident")
    assert here.residuals == serial.residuals
    assert serial.converged
    alone = solved(matrix, SMALL, chunks=1)
    assert abs(serial.iterations - alone.iterations) <= 1
    rounding = 1e-9 if device == "cpu" else 1e-5  # in float32
    np.testing.assert_allclose(serial.residuals[:6], alone.residuals[:6], rtol=rounding)  # M is the same for any cut
    lowered = solved(matrix, SMALL, device=device, engine="resident", precond_dtype="float32")
    assert abs(lowered.iterations - serial.iterations) <= 1


def test_an_order_of_the_rows_in_their_chunks_changes_no_iteration() -> None:
    """Rows in units of their own, whose sums over their diagonals differ: smoothers have a factor for each."""
    matrix, rng = channels(12), np.random.default_rng(0)
    shuffled, units = rng.permutation(matrix.shape[0]), sp.diags_array(np.exp(0.3 * rng.standard_normal(12**3)))
    matrix = sp.csr_array(units @ matrix[shuffled][:, shuffled] @ units)
    b = np.ones(matrix.shape[0])
    found, other = (
        dsolver.solve(dsolver.matrix(matrix, chunks=2, order=order), b, M="amg", rtol=1e-8, device="cpu")
        for order in (None, "rcm")
    )
    assert found.iterations == other.iterations <= 40
    np.testing.assert_allclose(found.residuals[:6], other.residuals[:6], rtol=1e-9)


@pytest.mark.parametrize("chunks", [1, 4])
def test_float32_and_chebyshev(chunks: int) -> None:
    matrix = channels(16)
    expected = solved(matrix, chunks=chunks).iterations
    lowered = solved(matrix, chunks=chunks, precond_dtype="float32")
    assert lowered.converged
    assert abs(lowered.iterations - expected) <= 1
    assert solved(matrix, Algebraic(smoother="chebyshev", sweeps=2), chunks=chunks).iterations < expected
    assert expected <= solved(matrix, Algebraic(smoother="l1-jacobi"), chunks=chunks).iterations <= expected + 4
    assert solved(matrix, Algebraic(coarsening="aggregation", smoother="l1-jacobi"), chunks=chunks).converged


def test_elements_of_stretched_cells_are_coarsened_along_them() -> None:
    """Couplings across that are just above a quarter of those along."""
    n = 24
    ends = [-1, 0, 1]
    stiff = line(n)
    mass = sp.diags_array([np.full(n - 1, 1.0), np.full(n, 4.0), np.full(n - 1, 1.0)], offsets=ends) / 6.0
    matrix = sp.csr_array(100.0 * sp.kron(stiff, mass) + sp.kron(mass, stiff))
    assert solved(matrix, replace(SMALL, theta=0.25), chunks=2).iterations > 40
    assert solved(matrix, SMALL, chunks=2).iterations <= 20


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("chunks", [1, 3])
def test_couplings_along_lines_need_no_second_pass(monkeypatch: pytest.MonkeyPatch, chunks: int, device: str) -> None:
    """A second pass that would leave nearly all points, and be dropped."""
    matrix = sp.csr_array(sp.kron(100.0 * line(16), sp.eye_array(16)) + sp.kron(sp.eye_array(16), line(16)))
    passes = watched(monkeypatch)
    foreseen = solved(matrix, chunks=chunks, device=device)
    assert passes == []
    monkeypatch.setattr(aggressive, "LINES", 0.0)
    np.testing.assert_array_equal(solved(matrix, chunks=chunks, device=device).x, foreseen.x)
    assert passes == [None]


@pytest.mark.parametrize("width", [2, 3])
def test_strips_have_a_second_pass(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Though the first one leaves as many points of them as of lines."""
    matrix = sp.csr_array(sp.kron(line(300), sp.eye_array(width)) + sp.kron(sp.eye_array(300), line(width)))
    passes = watched(monkeypatch)
    assert solved(matrix).converged
    assert passes
    assert passes[0] is not None


def line(n: int) -> Any:
    """Second differences on a line: (n, n)."""
    return sp.diags_array([np.full(n - 1, -1.0), np.full(n, 2.0), np.full(n - 1, -1.0)], offsets=[-1, 0, 1])


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Results of second passes from now on, a list that grows; None for one that was dropped."""
    passes: list[Any] = []

    def counted(*given: Any) -> Any:
        passes.append(made := second_pass(*given))
        return made

    second_pass = aggressive._second_pass
    monkeypatch.setattr(aggressive, "_second_pass", counted)
    return passes


def test_singular_matrix() -> None:
    solution = solved(closed(poisson(12)), chunks=3)
    assert solution.converged
    assert solution.iterations <= 15
    assert solution.closed_regions == 1


@pytest.mark.parametrize(
    "matrix",
    [
        sp.csr_array([[3.0]]),
        sp.diags_array(np.linspace(1.0, 1e6, 2000)).tocsr(),
        sp.csr_array(sp.block_diag([sp.eye_array(700), poisson(8), 1e-6 * poisson(5), [[7.0]]])),
        bordered(),
        sp.csr_array(sp.block_diag([poisson(8), closed(poisson(2)), closed(poisson(5)), [[1.0, -1.0], [-1.0, 1.0]]])),
        sp.csr_array(np.full((40, 40), 0.5) + np.eye(40)),  # couplings of the other sign alone
    ],
    ids=["1x1", "diagonal", "parts", "bordered", "islands", "positive"],
)
def test_unusual_matrices(matrix: Any) -> None:
    for chunks in {1, min(3, matrix.shape[0])}:
        solution = solved(matrix, chunks=chunks)
        assert solution.converged
        assert solution.iterations <= 20


def test_precision_is_that_of_the_levels_alone() -> None:
    matrix = channels(10)
    b = matrix @ np.random.default_rng(0).standard_normal(matrix.shape[0])
    found = {}
    for precision in ("float64", "float32"):
        with dsolver.Solver(dsolver.matrix(matrix, chunks=1), M=replace(SMALL, precision=precision)) as solver:
            found[precision] = solver.solve(b, rtol=1e-10), solver.hierarchy.levels[1].matrix_bytes
    (exact, whole), (solution, narrow) = found["float64"], found["float32"]
    assert narrow < whole
    assert solution.converged
    assert abs(solution.iterations - exact.iterations) <= 1


def test_refusals() -> None:
    negative = poisson(6).tolil()
    negative[5, 5] = -1.0
    with pytest.raises(InputError, match="1 diagonal entries that are not positive"):
        solved(sp.csr_array(negative))
    lopsided = poisson(6).tolil()
    lopsided[0, 200] = 1e-14
    with pytest.raises(InputError, match=r"needs A\[j, i\] stored wherever"):
        solved(sp.csr_array(lopsided))
    wrong: list[dict[str, Any]] = [{"theta": 1.0}, {"max_elements": 0}, {"sweeps": 3}, {"smoother": "ilu"}]
    wrong += [{"precision": "float16"}]
    for options in wrong:
        with pytest.raises(InputError, match=f"{next(iter(options))} must be"):
            Algebraic(**options)


def test_a_level_of_which_one_chunk_has_no_rows_is_gathered() -> None:
    """However many rows it has: rows without couplings have no coarse points."""
    a = sp.block_diag([poisson(6), sp.eye_array(60)], format="csr")
    m = replace(SMALL, coarse_rows=2, gathered_rows=1)
    levels = hierarchy(dsolver.matrix(a, chunks=(216, 60)).planned(2), m).levels
    assert [len(level.partition) for level in levels[:2]] == [2, 1]
