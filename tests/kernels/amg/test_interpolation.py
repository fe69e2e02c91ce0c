"""Interpolation and second couplings on a GPU, beside the host's: the same arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dsolver.kernels.amg import COARSE, FINE
from dsolver.kernels.cpu.amg import couplings as on_host
from dsolver.kernels.cpu.amg import extended_interpolation
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr
from tests.kernels.amg.test_loops import rows_of

TEAM = Team(1)
THETA = 0.25
MOST = 4


@dataclass(frozen=True, kw_only=True)
class Level:
    """Rows first .. first + a.size of a matrix, whose columns are all of it, with what interpolation needs."""

    a: Csr
    below: int
    bits: Any
    state: Any
    coarse: Any
    seen: Csr
    marked: Csr
    count: int


def hubs(rows: int, degree: int, seed: int, positive: float, decades: float = 2.0, *, crowd: float = 0.3) -> Any:
    """A graph in two parts, some of whose points have 40 times as many neighbors as others.

    Args:
        rows: number of points.
        degree: neighbors of a point, roughly.
        seed: of all numbers.
        positive: part of the couplings that are.
        decades: over which couplings are spread.
        crowd: part of the couplings that are those of a few points.
    """
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, rows, (2, degree * rows))
    i = np.where(rng.random(len(i)) < crowd, i % max(1, rows // 40), i)
    cut = rows // 3
    i, j = i[(i < cut) == (j < cut)], j[(i < cut) == (j < cut)]
    weights = 10.0 ** rng.uniform(-decades / 2, decades / 2, len(i)) * np.where(
        rng.random(len(i)) < positive, -0.1, 1.0
    )
    off = sp.coo_array((weights * (i != j), (i, j)), shape=(rows, rows)).tocsr()
    off = off + off.T
    return sp.diags_array(np.asarray(abs(off).sum(axis=1)).ravel() + rng.random(rows) * (np.arange(rows) % 2)) - off


def lattice(n: int, seed: int) -> Any:
    """A lattice with 7 points a row; equal weights if the seed is 0."""
    rng = np.random.default_rng(seed)

    def line(n: int) -> Any:
        return sp.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])

    whole = sp.kron(sp.kron(line(n), sp.eye_array(n)), sp.eye_array(n))
    whole = whole + sp.kron(sp.kron(sp.eye_array(n), line(n)), sp.eye_array(n))
    whole = whole + sp.kron(sp.eye_array(n * n), line(n))
    scale = sp.diags_array(10.0 ** rng.uniform(-0.5, 0.5, n**3) if seed else np.ones(n**3))
    return scale @ whole @ scale


def level(matrix: Any, first: int = 0, last: int | None = None, part: float = 0.35) -> Level:
    """Coarse points are chosen by chance: rows without any in sight, and coarse points side by side, are among them."""
    size = matrix.shape[0]
    whole, last = rows_of(matrix), size if last is None else last
    rng = np.random.default_rng(9)
    state = np.where(rng.random(size) < part, COARSE, FINE).astype(np.int8)
    coarse = np.where(state == COARSE, np.cumsum(state == COARSE) - 1, -1).astype(np.int32)
    largest = on_host.row_measures(whole, 0, TEAM)[0]
    of_all = on_host.couplings(whole, 0, largest, THETA, TEAM)[0]
    a = rows_of(matrix[first:last])
    return Level(
        a=a,
        below=first,
        bits=of_all[whole.start[first] : whole.start[last]],
        state=state,
        coarse=coarse,
        seen=extended_interpolation.coarse_couplings(whole, of_all, state, 0, coarse, TEAM),
        marked=extended_interpolation.coarse_couplings(whole, of_all, state, 0, coarse, TEAM, every=True),
        count=int((state == COARSE).sum()),
    )


LEVELS = {
    "lattice": lambda: level(lattice(8, 0)),
    "weights": lambda: level(lattice(7, 1), part=0.2),
    "graph": lambda: level(hubs(400, 3, 2, 0.1)),
    "window": lambda: level(hubs(500, 2, 3, 0.0), 120, 430),
    "long rows": lambda: level(hubs(600, 12, 4, 0.05), part=0.5),
    "all coarse": lambda: level(hubs(50, 3, 5, 0.0), part=1.1),
    "all fine": lambda: level(hubs(50, 3, 6, 0.0), part=0.0),
    "strong": lambda: level(hubs(500, 3, 7, 0.1, 0.5), part=0.6),
    "many strong": lambda: level(hubs(300, 8, 8, 0.05, 0.3), part=0.4),
    "dense": lambda: level(hubs(2400, 90, 7, 0.0, 0.2, crowd=0.0), 0, 24, part=0.4),
}


@pytest.fixture(scope="module", params=LEVELS)
def made(request: pytest.FixtureRequest) -> Level:
    return LEVELS[request.param]()


def on_gpu(*arrays: Any) -> Any:
    cupy = pytest.importorskip("cupy")
    return [Csr(*map(cupy.asarray, a)) if isinstance(a, Csr) else cupy.asarray(a) for a in arrays]


def same(found: Csr, expected: Csr) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine.get(), theirs)


@pytest.mark.gpu
@pytest.mark.parametrize("most", [1, MOST, 40, 1000])
def test_interpolation_has_the_bits_of_the_host(made: Level, most: int) -> None:
    from dsolver.kernels.cuda.amg.interpolation.extended_interpolation import interpolation

    points = np.arange(0, made.a.size, 3) if most == 1 else np.arange(made.a.size)
    expected = extended_interpolation.interpolation(
        made.a, points, made.bits, made.state, made.below, made.seen, made.coarse, made.count, most, TEAM
    )
    a, points, bits, state, seen, coarse = on_gpu(made.a, points, made.bits, made.state, made.seen, made.coarse)
    rest = (bits, state, made.below, seen, coarse, made.count, most)
    same(interpolation(a, points, *rest), expected)
    if most != 1:
        same(interpolation(a, None, *rest), expected)


@pytest.mark.gpu
def test_couplings_in_both_directions_interpolate_as_those_of_one(made: Level) -> None:
    from dsolver.kernels.cuda.amg.interpolation.extended_interpolation import interpolation, renamed

    points, rest = np.arange(made.a.size), (made.coarse, made.count, MOST)
    before = (made.a, points, made.bits, made.state, made.below)
    expected = extended_interpolation.interpolation(*before, made.seen, *rest, TEAM)
    found = extended_interpolation.interpolation(*before, made.marked, *rest, TEAM)
    for mine, theirs in zip(found, expected, strict=True):
        assert np.array_equal(mine, theirs)
    a, points, bits, state, marked, coarse = on_gpu(made.a, points, made.bits, made.state, made.marked, made.coarse)
    same(interpolation(a, points, bits, state, made.below, marked, coarse, *rest[1:]), expected)
    names = np.where(np.arange(made.count) % 3, -1, np.arange(made.count) // 3)
    (its_names,) = on_gpu(names)
    fewer = renamed(marked, its_names)
    kept = np.flatnonzero(fewer.values.get())  # others are zeros, which the host leaves out
    there = Csr(np.searchsorted(kept, made.marked.start), fewer.columns.get()[kept], fewer.values.get()[kept])
    for mine, theirs in zip(there, extended_interpolation.renamed(made.marked, names, TEAM), strict=True):
        assert np.array_equal(mine, theirs)


@pytest.mark.gpu
@pytest.mark.parametrize("least", [1, 2, 3])
def test_paths_are_those_of_the_host(made: Level, least: int) -> None:
    from dsolver.kernels.cuda.amg.interpolation.paths import paths

    own = np.flatnonzero(made.coarse[made.below : made.below + made.a.size] >= 0)
    expected = on_host.paths(made.a, own, made.below, made.bits, made.coarse, made.marked, made.count, least, TEAM)
    a, points, bits, coarse, marked = on_gpu(made.a, own, made.bits, made.coarse, made.marked)
    same(paths(a, points, made.below, bits, coarse, marked, made.count, least), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("density", [0.004, 0.02, 0.1])
def test_kept_products_have_the_bits_of_the_host(density: float) -> None:
    from dsolver.kernels.cuda.amg.interpolation.extended_interpolation import kept_product

    rng = np.random.default_rng(8)
    left, right = (
        rows_of(sp.random_array(shape, density=density, rng=rng, data_sampler=rng.standard_normal, format="csr"))
        for shape in ((80, 200), (200, 700))
    )
    right.values[::7] = 0.0  # a weight of zero is not kept
    right.values[::5] = 0.5  # equal ones are, those in smaller columns
    for most in (2, 16):
        expected = extended_interpolation.kept_product(left, right, 700, most, TEAM)
        a, b = on_gpu(left, right)
        same(kept_product(a, b, 700, most), expected)


@pytest.mark.gpu
def test_no_rows_make_no_rows() -> None:
    from dsolver.kernels.cuda.amg.interpolation.extended_interpolation import kept_product
    from dsolver.kernels.cuda.amg.interpolation.paths import paths

    none = level(hubs(50, 3, 6, 0.0), part=0.0)
    a, bits, coarse, marked = on_gpu(none.a, none.bits, none.coarse, none.marked)
    assert [len(part) for part in paths(a, a.start[:0], 0, bits, coarse, marked, 0, 2)] == [1, 0, 0]
    assert [len(part) for part in kept_product(Csr(a.start[:1], a.columns[:0], a.values[:0]), a, 50, 2)] == [1, 0, 0]
