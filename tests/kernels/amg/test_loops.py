"""Kernels of algebraic set-up, beside plain loops that define them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from dsolver.kernels.amg import COARSE, FINE, Images
from dsolver.kernels.cpu.amg import pmis
from dsolver.kernels.cpu.amg.aggregation.roots import words
from dsolver.kernels.cpu.amg.aggregation.spectrum import scaled_product
from dsolver.kernels.cpu.amg.couplings import DEPENDS, LEADS, couplings, row_measures
from dsolver.kernels.cpu.amg.extended_interpolation import coarse_couplings, interpolation
from dsolver.kernels.cpu.amg.halves import Halves, completed
from dsolver.kernels.cpu.amg.pmis import begun, mixed, settle
from dsolver.kernels.cpu.amg.products import mirrored, product, symmetrize
from dsolver.kernels.cpu.amg.transposes import transposed
from dsolver.kernels.cpu.loops.sorting import sort_short
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr

F64 = npt.NDArray[np.float64]
TEAM = Team(2, worth=8)
THETA = 0.25


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points of tests are shared by threads, too."""
    monkeypatch.setattr(pmis, "POINTS_WORTH_A_THREAD", 8)


def graph(rows: int, seed: int, positive: float = 0.0) -> sp.csr_array:
    """A Laplacian with weights over three decades, some of them of the other sign, whose first rows sum to zero."""
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, rows, (2, 4 * rows))
    weights = 10.0 ** rng.uniform(-1.5, 1.5, len(i)) * np.where(rng.random(len(i)) < positive, -0.1, 1.0)
    off = sp.coo_array((weights * (i != j), (i, j)), shape=(rows, rows)).tocsr()
    off = off + off.T
    extra = np.where(np.arange(rows) < rows // 2, 0.0, rng.uniform(0.0, 1.0, rows))
    return sp.csr_array(sp.diags_array(np.asarray(off.sum(axis=1)).ravel() + extra) - off)


def rows_of(matrix: Any) -> Csr:
    found = sp.csr_array(matrix)
    found.sort_indices()
    return Csr(found.indptr.astype(np.int64), found.indices.astype(np.int32), found.data)


def strong(a: F64) -> npt.NDArray[np.bool_]:
    """Dependence by definition: [i, j] whether i depends on j."""
    off = -a + np.diag(np.diag(a))
    found: npt.NDArray[np.bool_] = (off > 0.0) & (off > THETA * off.max(axis=1, initial=0.0)[:, None])
    return found


def greedy(depends: npt.NDArray[np.bool_], order: list[int]) -> list[int]:
    """Points in descending order of their keys: one that depends on a coarse point is fine, any other coarse."""
    state = [0] * len(depends)
    for i in order:
        chosen = [j for j in range(len(depends)) if depends[i, j] and state[j] == COARSE]
        state[i] = FINE if chosen or not depends[:, i].any() else COARSE
    return state


def extended(a: F64, depends: npt.NDArray[np.bool_], state: list[int]) -> F64:
    """The weights of "extended+i" by its formula, before truncation."""
    coarse = [i for i, found in enumerate(state) if found == COARSE]
    p = np.zeros((len(a), len(a)))
    for i in range(len(a)):
        if state[i] == COARSE:
            p[i, i] = 1.0
            continue
        center = a[i, i] + sum(a[i, j] for j in range(len(a)) if j != i and not depends[i, j])
        for j in np.flatnonzero(depends[i]):
            if state[j] == COARSE:
                p[i, j] += a[i, j]
                continue
            ends = [k for k in coarse if depends[j, k]]
            total = a[j, i] + sum(a[j, k] for k in ends)
            center += a[i, j] * a[j, i] / total
            for k in ends:
                p[i, k] += a[i, j] * a[j, k] / total
        p[i] /= -center
    return p[:, coarse]


def coarsened(matrix: Any) -> tuple[Csr, Any, Any, list[int]]:
    a = rows_of(matrix)
    bits, counts = couplings(a, 0, row_measures(a, 0, TEAM)[0], THETA, TEAM)
    numbers = np.arange(a.size)
    key, state = begun(counts, numbers, 0, FINE)
    assert np.array_equal(state, np.where(counts > 0, 0, FINE))
    assert not len(settle(a, 0, bits, key, numbers, state, TEAM).points)
    order = sorted(range(a.size), key=lambda i: (int(key[i]), i), reverse=True)
    return a, bits, state, order


def test_lists_are_sorted() -> None:
    rng = np.random.default_rng(1)
    for size in (0, 1, 2, 5, 40, 500):
        values = rng.integers(0, 100, size).astype(np.int32)
        expected = np.sort(values)
        sort_short(values)
        assert np.array_equal(values, expected)


def test_hashes_are_those_of_splitmix64() -> None:
    # the first three numbers of the generator's published test with the seed 1234567
    state = 1234567 + np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert mixed(state).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("positive", [0.0, 0.2])
def test_couplings_are_strong_by_definition(positive: float) -> None:
    matrix = graph(150, 1, positive)
    dense, a = matrix.toarray(), rows_of(matrix)
    largest, diagonal, sizes = row_measures(a, 0, TEAM)
    bits, counts = couplings(a, 0, largest, THETA, TEAM)
    depends = strong(dense)
    found = np.zeros_like(dense, dtype=np.uint8)
    found[np.repeat(np.arange(150), np.diff(a.start)), a.columns] = bits
    assert np.array_equal(found & DEPENDS > 0, depends)
    assert np.array_equal(found & LEADS > 0, depends.T)
    assert np.array_equal(counts, depends.sum(axis=0))
    assert np.array_equal(diagonal, np.diag(dense))
    assert np.allclose(sizes, abs(dense).sum(axis=1), rtol=1e-15)


def test_coarse_points_are_those_of_a_pass_in_the_order_of_the_keys() -> None:
    matrix = graph(200, 2)
    _, _, state, order = coarsened(matrix)
    depends = strong(matrix.toarray())
    assert state.tolist() == greedy(depends, order)
    coarse = state == COARSE
    mutual = depends & depends.T
    assert not mutual[np.ix_(coarse, coarse)].any()  # independent
    fine = ~coarse & depends.any(axis=0)
    assert depends[fine][:, coarse].any(axis=1).all()  # maximal


@pytest.mark.parametrize("positive", [0.0, 0.1])
def test_interpolation_is_its_formula(positive: float) -> None:
    matrix = graph(120, 3, positive)
    a, bits, state, _ = coarsened(matrix)
    dense = matrix.toarray()
    places = np.where(state == COARSE, np.cumsum(state == COARSE) - 1, -1).astype(np.int32)
    count = int((state == COARSE).sum())
    seen = coarse_couplings(a, bits, state, 0, places, TEAM)
    whole = extended(dense, strong(dense), state.tolist())
    p = interpolation(a, np.arange(a.size), bits, state, 0, seen, places, count, count, TEAM)
    found = sp.csr_array((p.values, p.columns, p.start), shape=whole.shape).toarray()
    assert np.allclose(found, whole, rtol=1e-12, atol=1e-14)
    if not positive:
        zero = abs(dense.sum(axis=1)) <= 1e-13 * np.diag(dense)
        assert zero.sum() >= 50
        assert np.allclose(found[zero].sum(axis=1), 1.0, rtol=1e-12)
    p = interpolation(a, np.arange(a.size), bits, state, 0, seen, places, count, 3, TEAM)
    assert (np.diff(p.start) <= 3).all()
    for i in range(len(dense)):
        kept, values = p.columns[p.start[i] : p.start[i + 1]], p.values[p.start[i] : p.start[i + 1]]
        order = sorted(np.flatnonzero(whole[i]), key=lambda c: (-abs(whole[i, c]), c))
        assert kept.tolist() == sorted(order[:3])
        if not positive:
            assert np.isclose(values.sum(), whole[i].sum(), rtol=1e-12)
        assert np.allclose(values * whole[i, kept].sum(), whole[i, kept] * values.sum(), rtol=1e-12)


def test_products_and_transposes() -> None:
    rng = np.random.default_rng(4)
    left, right = (sp.random_array((90, 70), density=0.1, rng=rng, format="csr") for _ in range(2))
    a, b = rows_of(left), rows_of(right.T)
    found = product(a, b, 90, TEAM)
    assert all((np.diff(found.columns[i:j]) > 0).all() for i, j in zip(found.start, found.start[1:], strict=False))
    assert np.allclose(found.dense(), (left @ right.T).toarray(), rtol=1e-13)
    unsorted = product(a, b, 90, TEAM, ascending=False)
    assert np.array_equal(unsorted.dense(), found.dense())
    back = transposed(transposed(a, 70, TEAM), 90, TEAM)
    assert all(np.array_equal(x, y) for x, y in zip(back, a, strict=True))


def test_mirrored_entries_become_the_same() -> None:
    matrix = graph(60, 5).toarray()
    matrix *= 1.0 + 1e-13 * np.random.default_rng(6).random(matrix.shape)
    a = rows_of(matrix[20:50])
    symmetrize(a, 20)
    found = sp.csr_array((a.values, a.columns, a.start), shape=(30, 60)).toarray()
    assert np.array_equal(np.triu(found[:, 20:50]), np.triu(matrix[20:50, 20:50]))
    assert np.array_equal(found[:, 20:50], found[:, 20:50].T)
    assert np.array_equal(found[:, :20], matrix[20:50, :20])
    assert np.allclose(found, matrix[20:50], rtol=1e-12)


def test_mirror_images_need_no_sorted_rows_and_tell_of_missing_entries() -> None:
    rng = np.random.default_rng(7)
    matrix = graph(60, 5).toarray()
    matrix *= 1.0 + 1e-13 * rng.random(matrix.shape)
    a = rows_of(matrix)
    symmetrize(a, 0)
    shuffled = rows_of(matrix)
    for i, j in pairwise(shuffled.start):
        order = rng.permutation(j - i)
        shuffled.columns[i:j], shuffled.values[i:j] = shuffled.columns[i:j][order], shuffled.values[i:j][order]
    found, wrong = mirrored(shuffled, TEAM)
    assert wrong == 0
    assert all(np.array_equal(x, y) for x, y in zip(found, a, strict=True))
    row, column = np.argwhere(np.triu(matrix, 1))[0]
    matrix[row, column] = 0.0
    assert mirrored(rows_of(matrix), TEAM)[1] > 0


def test_halves_are_completed_by_images_of_this_chunk_and_of_earlier_ones() -> None:
    """Rows 20 to 100 of a symmetric matrix, some of which have no diagonal, and columns behind without entries."""
    rng = np.random.default_rng(2)
    pattern = rng.random((120, 120)) < 0.1
    pattern[30:, 30:] |= np.eye(90, dtype=bool)
    pattern[:, 110] = pattern[110] = False
    values = np.where(pattern | pattern.T, rng.random((120, 120)), 0.0)
    whole = rows_of(np.tril(values) + np.tril(values, -1).T).selected(np.arange(20, 100))
    rows = np.repeat(np.arange(80), np.diff(whole.start))
    later, before = whole.columns >= rows + 20, np.flatnonzero(whole.columns < 20)
    start = np.append(0, np.cumsum(np.bincount(rows[later], minlength=80)))
    half = Halves(Csr(start, whole.columns[later] - np.int32(20), whole.values[later]), TEAM)
    used = half.tight()
    assert 0 < len(used) < 20
    np.testing.assert_array_equal(np.append(np.arange(80), 80 + used)[half.upper.columns] + 20, whole.columns[later])
    images = Images(rows[before], whole.columns[before], whole.values[before])
    found = completed(half, images, 20, team=TEAM)
    np.testing.assert_array_equal(found.start, whole.start)
    np.testing.assert_array_equal(np.append(np.arange(100), 100 + used)[found.columns], whole.columns)
    np.testing.assert_array_equal(found.values, whole.values)


def test_a_step_of_the_power_method_is_a_product() -> None:
    a, rng = graph(60, 1), np.random.default_rng(0)
    x, diagonal = rng.standard_normal(60), rng.uniform(1.0, 2.0, 60)
    expected = a @ x / diagonal
    found = scaled_product(rows_of(a.toarray()), diagonal, x, TEAM)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-13 * abs(expected).max())


def test_words_of_roots_are_all_different_and_have_their_bits() -> None:
    found = words(np.arange(5000), 2)
    assert len(np.unique(found)) == len(found)
    assert 1.0 <= found.min() <= found.max() <= 2.0**52
