"""Interpolation and Galerkin operators: P^T A P by SciPy, what P reproduces, the same from every backend and chunk."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from dsolver.grid.box import three
from dsolver.kernels import Backend, load
from dsolver.kernels.cpu.lattice import galerkin
from dsolver.kernels.cpu.lattice import setup as cpu_lattice
from dsolver.kernels.lattice.coarsening import CORNERS, GHOST, NEGLIGIBLE, Coarsening, offsets_below
from dsolver.kernels.lattice.statistics import couplings

F64 = npt.NDArray[np.float64]
Triple = tuple[int, int, int]
Flags = tuple[bool, bool, bool]

BOX = tuple((i, j, k) for k, j, i in itertools.product((-1, 0, 1), repeat=3))
STAR = tuple(o for o in BOX if sum(map(abs, o)) <= 1)
SEMICOARSENED: list[Triple] = [(2, 1, 1), (1, 2, 1), (1, 1, 2)]
NONE: Flags = (False, False, False)
ALL: Flags = (True, True, True)

BACKENDS = ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]

LEVELS: list[tuple[Triple, Flags, Triple]] = [
    ((8, 6, 4), NONE, (2, 2, 2)),
    ((7, 5, 9), NONE, (2, 2, 2)),
    ((7, 5, 9), ALL, (2, 2, 2)),
    ((6, 8, 4), (True, False, True), (2, 2, 2)),
    ((5, 6, 7), NONE, (2, 1, 1)),
    ((5, 6, 7), (True, True, False), (2, 2, 1)),
    ((5, 6, 7), ALL, (1, 1, 2)),
    ((1, 9, 4), NONE, (1, 2, 2)),
    ((11, 1, 1), NONE, (2, 1, 1)),
    ((2, 3, 2), ALL, (2, 2, 2)),
    ((2, 2, 3), NONE, (2, 2, 2)),
    ((1, 2, 1), ALL, (1, 2, 1)),
]


def numbers(grid: Triple) -> npt.NDArray[np.int64]:
    return np.arange(int(np.prod(grid))).reshape(grid[::-1])


def links(grid: Triple, periodic: Flags, offset: Triple) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Whether each point has a neighbor there, and its number; shape (z, y, x)."""
    there, wrapped = [], []
    for n, wraps, o in zip(grid, periodic, offset, strict=True):
        place = np.arange(n) + o
        there.append((place >= 0) & (place < n) | wraps)
        wrapped.append(place % n)
    x, y, z = wrapped
    inside = there[2][:, None, None] & there[1][:, None] & there[0]
    return inside, numbers(grid)[z[:, None, None], y[:, None], x]


def random_rows(
    grid: Triple, periodic: Flags, offsets: tuple[Triple, ...], *, seed: int = 3, shift: float = 0.0
) -> F64:
    """Weights (K, z, y, x) of a symmetric matrix with row sums `shift` and links from 0.01 to 100."""
    rng = np.random.default_rng(seed)
    w = np.zeros((len(offsets), *grid[::-1]))
    center = offsets.index((0, 0, 0))
    for k, offset in enumerate(offsets):
        opposite = offsets.index(tuple(-o for o in offset))
        if opposite <= k:
            continue
        inside, neighbor = links(grid, periodic, offset)
        link = np.where(inside, 10.0 ** rng.uniform(-2, 2, inside.shape), 0.0)
        w[k] -= link
        w[center] += link
        np.add.at(w[opposite].reshape(-1), neighbor[inside], -link[inside])
        np.add.at(w[center].reshape(-1), neighbor[inside], link[inside])
    w[center] += shift
    return w


def matrix_of(w: F64, grid: Triple, periodic: Flags, offsets: tuple[Triple, ...]) -> Any:
    """The matrix (CSR) of lattice weights; entries that leave the domain are not in it."""
    size = int(np.prod(grid))
    total = sp.csr_matrix((size, size))
    for values, offset in zip(w.reshape(len(offsets), *grid[::-1]), offsets, strict=True):
        inside, neighbor = links(grid, periodic, offset)
        entries = (values[inside], (numbers(grid)[inside], neighbor[inside]))
        total += sp.csr_matrix(entries, shape=(size, size))
    return total


def with_ghosts(w: F64, c: Coarsening) -> F64:
    """The rows of a chunk and its ghost layers, zero outside the domain."""
    out = w
    for axis in range(3):
        place = np.arange(c.lo[axis] - GHOST, c.lo[axis] + c.shape[axis] + GHOST)
        n = c.grid[axis]
        inside = (place >= 0) & (place < n) | c.periodic[axis]
        out = np.take(out, place % n, axis=3 - axis) * inside.reshape([-1 if a == 3 - axis else 1 for a in range(4)])
    return out


def interpolation_matrix(p: F64, c: Coarsening) -> Any:
    """P (CSR) of a whole level from its corners."""
    shape = tuple(reversed(c.coarse_grid))
    own = np.indices(c.grid[::-1])
    total = sp.csr_matrix((int(np.prod(c.grid)), int(np.prod(shape))))
    inner = slice(GHOST, -GHOST)
    for values, corner in zip(p[:, inner, inner, inner], CORNERS, strict=True):
        columns = []
        for axis in (2, 1, 0):
            i = own[2 - axis]
            base = i if c.factors[axis] == 1 else (i - 1) // 2
            columns.append((base + corner[axis]) % c.coarse_grid[axis])
        number = np.ravel_multi_index(tuple(columns), shape)
        used = values != 0.0
        total += sp.csr_matrix((values[used], (numbers(c.grid)[used], number[used])), shape=total.shape)
    return total


def whole(grid: Triple, periodic: Flags, factors: Triple) -> Coarsening:
    return Coarsening(lo=(0, 0, 0), shape=grid, grid=grid, periodic=periodic, factors=factors)


def backend(name: str) -> Backend:
    return load(name, 2 if name == "cpu" else 1)


def coarsened(b: Backend, c: Coarsening, offsets: tuple[Triple, ...], w: F64) -> tuple[F64, F64]:
    weights = b.asarray(np.ascontiguousarray(w))
    p = b.lattice.interpolation(c, offsets, weights)
    assert p.shape == (8, *c.ghosted)
    found = b.to_host(b.lattice.galerkin(c, offsets, weights, p))
    p = b.to_host(p)
    p[[any(bit and factor == 1 for bit, factor in zip(bits, c.factors, strict=True)) for bits in CORNERS]] = (
        0.0  # unread
    )
    coarse = np.zeros((len(BOX), found.shape[1]))
    coarse[[BOX.index(o) for o in offsets_below(c.factors, offsets)]] = found
    return p, coarse


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(("grid", "periodic", "factors"), LEVELS)
@pytest.mark.parametrize("offsets", [STAR, BOX], ids=["star", "box"])
def test_is_p_transposed_a_p(
    name: str, grid: Triple, periodic: Flags, factors: Triple, offsets: tuple[Triple, ...]
) -> None:
    c = whole(grid, periodic, factors)
    w = random_rows(grid, periodic, offsets, shift=0.1)
    p, coarse = coarsened(backend(name), c, offsets, with_ghosts(w, c))
    a, interpolate = matrix_of(w, grid, periodic, offsets), interpolation_matrix(p, c)
    found = matrix_of(coarse, c.coarse_grid, periodic, BOX)
    wanted = interpolate.T @ a @ interpolate
    assert abs(a - a.T).max() < 1e-12
    assert abs(found - wanted).max() <= 1e-12 * abs(wanted).max()
    assert abs(found - found.T).max() <= 1e-12 * abs(wanted).max()
    assert np.linalg.eigvalsh(found.toarray()).min() > 0.0


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(("grid", "periodic", "factors"), LEVELS)
@pytest.mark.parametrize("offsets", [STAR, BOX], ids=["star", "box"])
def test_reproduces_constants_where_rows_sum_to_zero(
    name: str, grid: Triple, periodic: Flags, factors: Triple, offsets: tuple[Triple, ...]
) -> None:
    c = whole(grid, periodic, factors)
    w = random_rows(grid, periodic, offsets)
    p, coarse = coarsened(backend(name), c, offsets, with_ghosts(w, c))
    ones = interpolation_matrix(p, c) @ np.ones(int(np.prod(c.coarse_grid)))
    np.testing.assert_allclose(ones, 1.0, atol=1e-11)
    if np.prod(c.coarse_grid) > 1:  # of a single point the diagonal is what keeps it from dividing by zero
        np.testing.assert_allclose(coarse.sum(axis=0), 0.0, atol=1e-11 * abs(coarse).max())


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("factors", [(2, 2, 2), (1, 2, 2)])
def test_is_trilinear_for_the_laplacian(name: str, factors: Triple) -> None:
    c = whole((7, 7, 7), NONE, factors)
    w = np.array([6.0 if o == (0, 0, 0) else -1.0 for o in STAR])
    p, _ = coarsened(backend(name), c, STAR, w)
    center = p[:, GHOST + 2, GHOST + 2, GHOST + 2]
    wanted = np.zeros(8)
    wanted[:: 3 - factors[0]] = 1.0 / (4 * factors[0])
    np.testing.assert_allclose(center[center != 0.0], wanted[wanted != 0.0])


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("offsets", [STAR, BOX], ids=["star", "box"])
def test_a_constant_stencil_is_rows_that_are_all_the_same(name: str, offsets: tuple[Triple, ...]) -> None:
    grid, periodic = (9, 6, 5), (False, True, False)
    weights = np.array([float(len(offsets)) if o == (0, 0, 0) else -1.0 - 0.1 * sum(map(abs, o)) for o in offsets])
    c = whole(grid, periodic, (2, 2, 2))
    rows = np.broadcast_to(weights[:, None, None, None], (len(offsets), *grid[::-1]))
    one = coarsened(backend(name), c, offsets, weights)
    other = coarsened(backend(name), c, offsets, with_ghosts(rows, c))
    for constant, stored in zip(one, other, strict=True):
        np.testing.assert_array_equal(constant, stored)


@pytest.mark.parametrize(("periodic", "others"), [(NONE, False), (ALL, True)])
def test_only_seams_take_the_loop_for_any_point(
    monkeypatch: pytest.MonkeyPatch, *, periodic: Flags, others: bool
) -> None:
    """A second loop that the first solve on most grids need not compile."""
    took = []

    def spy(*args: Any) -> None:
        took.append(args)
        loop(*args)

    loop = galerkin.other_weights
    monkeypatch.setattr(cpu_lattice, "other_weights", spy)
    c = whole((7, 5, 9), periodic, (2, 2, 2))
    coarsened(backend("cpu"), c, STAR, with_ghosts(random_rows(c.grid, periodic, STAR, shift=0.1), c))
    assert bool(took) == others


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(("grid", "periodic", "factors"), [LEVELS[2], LEVELS[3], LEVELS[5]])
@pytest.mark.parametrize("cut", [2, 3])
def test_chunks_get_the_bits_of_the_whole(name: str, grid: Triple, periodic: Flags, factors: Triple, cut: int) -> None:
    w = random_rows(grid, periodic, BOX, shift=0.01)
    c = whole(grid, periodic, factors)
    p, coarse = coarsened(backend(name), c, BOX, with_ghosts(w, c))
    coarse = coarse.reshape(27, *c.coarse_grid[::-1])
    inner = slice(GHOST, -GHOST)
    corners = list(itertools.product((False, True), repeat=3))
    for corner in corners[::3] if name == "numpy" else corners:  # the text-book kernels take seconds for each
        lo = three("lo", (cut if upper else 0 for upper in corner))
        hi = tuple(n if upper else cut for n, upper in zip(grid, corner, strict=True))
        shape = three("shape", (h - low for h, low in zip(hi, lo, strict=True)))
        part = Coarsening(lo=lo, shape=shape, grid=grid, periodic=periodic, factors=factors)
        own_p, own = coarsened(backend(name), part, BOX, with_ghosts(w, part))
        x, y, z = (slice(low, h) for low, h in zip(lo, hi, strict=True))
        np.testing.assert_array_equal(own_p[:, inner, inner, inner], p[:, inner, inner, inner][:, z, y, x])
        x, y, z = (slice(low, low + n) for low, n in zip(part.coarse_lo, part.coarse_shape, strict=True))
        np.testing.assert_array_equal(own.reshape(27, *part.coarse_shape[::-1]), coarse[:, z, y, x])


@pytest.mark.parametrize("name", BACKENDS[1:])
@pytest.mark.parametrize("offsets", [STAR, BOX], ids=["star", "box"])
def test_is_the_textbook(name: str, offsets: tuple[Triple, ...]) -> None:
    grid = (21, 34, 12)
    c = whole(grid, (True, False, False), (2, 2, 2))
    w = with_ghosts(random_rows(grid, c.periodic, offsets, shift=0.01), c)
    both = (coarsened(backend(which), c, offsets, w) for which in (name, "numpy"))
    for found, wanted in zip(*both, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13 * abs(wanted).max())


@pytest.mark.gpu
@pytest.mark.parametrize("periodic", [NONE, ALL], ids=["bounded", "periodic"])
@pytest.mark.parametrize("factors", SEMICOARSENED)
@pytest.mark.parametrize("below", [False, True], ids=["star", "slab"])
def test_one_axis_has_the_bits_of_the_kernels_for_all(
    monkeypatch: pytest.MonkeyPatch, periodic: Flags, factors: Triple, *, below: bool
) -> None:
    """Long enough for a thread to walk on, and a chunk that begins in the middle; without ghost layers, too."""
    from dsolver.kernels.cuda.lattice import semicoarsening

    grid: Triple = (20, 21 + any(periodic), 6) if factors[1] == 2 else (38, 6, 20)
    offsets = offsets_below(factors, STAR) if below else STAR
    w = random_rows(grid, periodic, offsets, shift=0.01)
    w[:, 0, 0, :3] = 0.0  # rows without entries
    b = backend("cuda")
    for lo in ((0, 0, 0), (3, 2, 5)):
        shape = three("shape", (n - low for n, low in zip(grid, lo, strict=True)))
        c = Coarsening(lo=lo, shape=shape, grid=grid, periodic=periodic, factors=factors)
        assert semicoarsening.serves(c, offsets)
        bare = lo == (0, 0, 0) and not any(periodic) and b.lattice.frameless(factors, offsets)
        results = [coarsened(b, c, offsets, rows) for rows in (with_ghosts(w, c), *([w] if bare else []))]
        with monkeypatch.context() as patched:
            patched.setattr(semicoarsening, "serves", lambda *_: False)
            expected = coarsened(b, c, offsets, with_ghosts(w, c))
        for found in results:
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.gpu
@pytest.mark.parametrize("offsets", [STAR, BOX], ids=["star", "box"])
def test_a_grid_of_which_a_gpu_holds_one_plane_at_a_time(offsets: tuple[Triple, ...]) -> None:
    """Points read what others write: blocks that start when a plane's have ended must not be awaited by them."""
    level = whole((512, 512, 16), NONE, (2, 2, 2))
    weights = np.full(len(offsets), -1.0)
    weights[offsets.index((0, 0, 0))] = len(offsets) - 1.0
    for found, expected in zip(
        *(coarsened(backend(name), level, offsets, weights) for name in ("cuda", "cpu")), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", BACKENDS)
def test_masked_cells_and_pockets_do_no_harm(name: str) -> None:
    grid = (8, 8, 8)
    rng = np.random.default_rng(8)
    solid = rng.random(grid[::-1]) < 0.4
    w = random_rows(grid, NONE, STAR)
    for k, offset in enumerate(STAR):
        inside, neighbor = links(grid, NONE, offset)
        w[k][solid | (inside & solid.reshape(-1)[neighbor])] = 0.0
    w[3] = -w[[0, 1, 2, 4, 5, 6]].sum(axis=0)
    w[3][w[3] == 0.0] = 1.0
    c = whole(grid, NONE, (2, 2, 2))
    p, coarse = coarsened(backend(name), c, STAR, with_ghosts(w, c))
    assert np.isfinite(p).all()
    assert p.min() >= -NEGLIGIBLE
    assert p.sum(axis=0).max() <= 1.0 + 1e-12
    assert (coarse[13] > 0.0).all()
    assert np.linalg.eigvalsh(matrix_of(coarse, c.coarse_grid, NONE, BOX).toarray()).min() > -1e-12 * coarse.max()


def test_entries_that_leave_the_domain_are_not_read() -> None:
    c = whole((6, 5, 4), NONE, (2, 2, 2))
    w = random_rows(c.grid, NONE, BOX, shift=0.5)
    noisy = w.copy()
    for k, offset in enumerate(BOX):
        noisy[k][~links(c.grid, NONE, offset)[0]] = 1e6
    both = (coarsened(backend("cpu"), c, BOX, with_ghosts(rows, c)) for rows in (w, noisy))
    for one, other in zip(*both, strict=True):
        np.testing.assert_array_equal(one, other)


def test_couplings_tell_strong_axes() -> None:
    w = np.ones((7, 10)) * np.array([-1.0, -4.0, -16.0, 42.0, -16.0, -4.0, -1.0])[:, None]
    np.testing.assert_allclose(couplings(np, STAR, w), 10 * np.array([32.0, 8.0, 2.0]) / 42.0)


@pytest.mark.parametrize("factors", [(3, 1, 1), (2, 2, 2)])
def test_what_cannot_be_coarsened_is_refused(factors: Triple) -> None:
    with pytest.raises(ValueError, match="cannot be coarsened"):
        whole((9, 9, 1), NONE, factors)
