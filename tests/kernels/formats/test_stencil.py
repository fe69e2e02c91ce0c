"""Constant stencils without a matrix do what the text-book does with a stored one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.kernels import Backend, load
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.stencil.alike import constant_stencil
from dsolver.kernels.formats.stencil.constant import CLASSES, STAR_COLORS, ConstantStencil
from dsolver.kernels.formats.stencil.rows import CENTER, OFFSETS, StencilRows
from dsolver.kernels.lattice.coarsening import Coarsening
from dsolver.kernels.lattice.galerkin import interpolation
from dsolver.kernels.lattice.star import Around, star_transfer

F64 = npt.NDArray[np.float64]
Shape = tuple[int, int, int]
STAR = tuple(o for o in OFFSETS if sum(map(abs, o)) <= 1)
BACKENDS = ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A box with constant weights, in a larger grid: neighbors on the side x = nx, unless it wraps.

    upwind: whether the entry of the next point along x is zero.
    """

    shape: Shape
    points: int
    wraps: tuple[bool, bool, bool] = (False, False, False)
    faces: bool = True
    lo: Shape = (0, 0, 0)
    neighbor: bool = False
    symmetric: bool = False
    upwind: bool = False

    def __str__(self) -> str:
        wraps = "".join(a for a, w in zip("xyz", self.wraps, strict=True) if w)
        kind = "".join(f"-{name}" for name in ("faces", "upwind") if getattr(self, name))
        return f"{'x'.join(map(str, self.shape))}-{self.points}pt-{wraps}{kind}"


CASES = [
    Case(shape=(8, 6, 5), points=7),
    Case(shape=(8, 6, 5), points=27, lo=(1, 0, 1)),
    Case(shape=(7, 5, 3), points=7, lo=(1, 1, 0), neighbor=True),
    Case(shape=(7, 5, 3), points=27, neighbor=True),
    Case(shape=(6, 4, 8), points=7, wraps=(True, True, True), faces=False),
    Case(shape=(4, 6, 2), points=27, wraps=(True, False, True)),
    Case(shape=(1, 9, 4), points=7),
    Case(shape=(8, 6, 5), points=7, upwind=True),
    Case(shape=(1, 1, 1), points=27),
    Case(shape=(130, 37, 19), points=7),
    Case(shape=(131, 20, 18), points=27, wraps=(False, True, False)),
    Case(shape=(264, 34, 20), points=7, wraps=(True, False, True), faces=False),
    Case(shape=(520, 26, 7), points=7, wraps=(False, True, False)),
    Case(shape=(260, 25, 8), points=27, wraps=(True, False, False)),
    Case(shape=(516, 25, 8), points=7),
]
# On a GPU's resident blocks: more parts of several planes than blocks.
LONG = [Case(shape=(8, 1700, 12), points=7), Case(shape=(8, 1700, 12), points=27)]


def numbering_of(case: Case) -> npt.NDArray[np.int32]:
    nx, ny, nz = case.shape
    number = np.full((nz + 2, ny + 2, nx + 2), -1, dtype=np.int32)
    number[1:-1, 1:-1, 1:-1] = np.arange(nx * ny * nz).reshape(nz, ny, nx)
    for axis, wraps in enumerate(case.wraps):
        if wraps:
            lines = np.moveaxis(number, 2 - axis, 0)
            lines[0], lines[-1] = lines[-2], lines[1]
    if case.neighbor:
        number[1:-1, 1:-1, -1] = nx * ny * nz + np.arange(ny * nz).reshape(nz, ny)
    return number


def rows_of(case: Case) -> StencilRows:
    """Rows with weights of their own, which are the same: as a problem with boundary conditions makes them."""
    offsets = OFFSETS if case.points == 27 else STAR
    rng = np.random.default_rng(3)
    values = {o: -rng.uniform(0.2, 1.0) for o in offsets}
    if case.symmetric:
        values = {(i, j, k): values[max((i, j, k), (-i, -j, -k))] for i, j, k in offsets}
    values[0, 0, 0] = 30.0
    if case.upwind:
        values[1, 0, 0] = 0.0
    nx, ny, nz = case.shape
    weights = np.empty((len(offsets), nz, ny, nx))
    for k, o in enumerate(offsets):
        weights[k] = values[o]
    if case.faces:
        center = weights[offsets.index((0, 0, 0))]
        for axis in range(3):
            if case.symmetric and case.wraps[axis]:
                continue
            lines = np.moveaxis(center, 2 - axis, 0)
            lines[0] += rng.uniform(-1.0, 1.0)
            lines[-1] += rng.uniform(-1.0, 1.0)
    return StencilRows(
        shape=case.shape,
        numbering=numbering_of(case).ravel(),
        offsets=offsets,
        weights=weights.reshape(len(offsets), -1) if case.faces else weights[:, 0, 0, 0].copy(),
    )


def colors_of(case: Case) -> tuple[npt.NDArray[np.int32], int]:
    """The text-book's colors: from global indices, coarse points first."""
    k, j, i = np.indices(case.shape[::-1])
    x, y, z = (a + b for a, b in zip((i, j, k), case.lo, strict=True))
    if case.points == 7:
        return (1 - (x + y + z) % 2).ravel().astype(np.int32), 2
    return np.argsort(CLASSES)[(x % 2 + 2 * (y % 2) + 4 * (z % 2)).ravel()].astype(np.int32), 8


class Box:
    """A case, stored in the text-book and as a constant stencil on a backend."""

    def __init__(self, case: Case, backend: Backend) -> None:
        self.backend, self.textbook = backend, load("numpy")
        rows = rows_of(case)
        self.stored_layout = self.textbook.layouts.colored(*colors_of(case), case.shape)
        self.stored = self.textbook.format("sell").matrix(self.stored_layout, rows)
        count = int(np.prod(case.shape))
        put = backend.asarray
        self.layout = backend.layouts.colored(put(np.zeros(count, dtype=np.int32)), 1, case.shape)
        on_device = replace(rows, numbering=put(rows.numbering), weights=put(rows.weights))
        found = constant_stencil(backend.lattice, on_device, case.lo)
        assert found is not None
        self.stencil = found
        self.constant = backend.stencil.matrix(found)

    def vector(self, seed: int) -> tuple[F64, Any]:
        """A random vector in the text-book and on the backend."""
        block = np.random.default_rng(seed).standard_normal(self.layout.shape)
        x, y = self.textbook.zeros(self.stored_layout.size), self.backend.zeros(self.layout.size)
        self.textbook.kernel("load")(self.stored_layout, block, x)
        self.backend.kernel("load")(self.layout, self.backend.asarray(block), y)
        return x, y

    def block(self, x: Any) -> F64:
        """A vector of the backend; its padding must be zero."""
        host = self.backend.to_host(x)
        assert not host[self.backend.to_host(self.layout.row) < 0].any()
        return self.backend.to_host(self.backend.vectors.unload(self.layout, x)).ravel(order="F")


def close(found: F64, expected: F64) -> None:
    assert np.isfinite(found).all()
    assert float(np.abs(found - expected).max()) <= 1e-13 * max(1.0, float(np.abs(expected).max()))


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    return load(str(request.param))


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def test_products(case: Case, backend: Backend) -> None:
    box = Box(case, backend)
    x, on_device = box.vector(1)
    expected = np.empty_like(x)
    box.textbook.kernel("spmv")(box.stored, x, expected)
    y, z, dot = backend.zeros(box.layout.size), backend.zeros(box.layout.size), backend.scalars(1)
    backend.kernel("spmv")(box.constant, on_device, y)
    backend.kernel("spmv_dot")(box.constant, on_device, z, dot)
    close(box.block(y), expected)
    assert (box.block(y) == box.block(z)).all()
    close(backend.to_host(dot), np.array([x @ expected]))


def test_half_sweeps(case: Case, backend: Backend) -> None:
    box = Box(case, backend)
    book, real = box.textbook.kernel, backend.kernel
    r, on_device = box.vector(2)
    x, y, w, z = (np.zeros_like(r) for _ in range(4))
    # What an earlier sweep left must not matter.
    x2, y2, w2, z2 = (box.vector(seed)[1] for seed in (3, 4, 5, 6))
    book("forward")(box.stored, r, x)
    real("forward")(box.constant, on_device, x2)
    close(box.block(x2), x)
    book("upper_residual")(box.stored, x, y)
    real("upper_residual")(box.constant, x2, y2)
    close(box.block(y2), y)
    book("lower_residual")(box.stored, r, x, w)
    real("lower_residual")(box.constant, on_device, x2, w2)
    close(box.block(w2), w)
    book("backward")(box.stored, w, z)
    real("backward")(box.constant, w2, z2)
    close(box.block(z2), z)


def test_division_by_the_diagonal(case: Case, backend: Backend) -> None:
    box = Box(case, backend)
    r, on_device = box.vector(2)
    z, z2 = np.zeros_like(r), box.vector(3)[1]
    box.textbook.kernel("jacobi")(box.stored, r, 0.3, z)
    backend.kernel("jacobi")(box.constant, on_device, 0.3, z2)
    close(box.block(z2), z)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        *((c, "float64") for c in CASES + LONG if c.shape[0] % 2 == 0 and not c.wraps[1]),
        *((c, "float32") for c in CASES + LONG if c.shape[0] % 4 == 0 and not c.wraps[1]),
    ],
    ids=str,
)
def test_both_ways_through_a_grid_give_the_same_bits(case: Case, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launches = pytest.importorskip("dsolver.kernels.cuda.stencil.setup")
    backend = load("cuda", dtype=dtype)
    box = Box(case, load("numpy"))
    layout = backend.layouts.colored(backend.asarray(np.zeros(int(np.prod(case.shape)), dtype=np.int32)), 1, case.shape)
    values = np.random.default_rng(1).standard_normal(layout.rows).astype(dtype)
    x = backend.zeros(layout.size)
    x[SLICE : SLICE + layout.rows] = backend.asarray(values)
    names, results = [], []
    for least in (1, 1 << 30):
        monkeypatch.setattr(launches, "LEAST_LINE", least)
        a = backend.stencil.matrix(box.stencil)
        names.append(a.products.name)
        for _ in range(2):  # the second one finds what the first one left of its tickets
            y, dot = backend.zeros(layout.size), backend.scalars(1)
            backend.kernel("spmv_dot")(a, x, y, dot)
            results.append((backend.to_host(y), float(backend.to_host(dot)[0])))
    if names[0] == names[1]:
        pytest.skip("this device knows one way only")
    for y, dot in results[1:]:
        assert (y == results[0][0]).all()
        assert abs(dot - results[0][1]) <= 1e-12 * float(
            np.abs(values).astype(np.float64) @ np.abs(y[SLICE : SLICE + layout.rows])
        )
    assert results[0][1] == results[1][1]


def test_bits_do_not_depend_on_threads() -> None:
    one, two = (Box(Case(shape=(130, 37, 19), points=27), load("cpu", threads)) for threads in (1, 2))
    for name in ("spmv", "forward"):
        results = []
        for box in (one, two):
            y = box.backend.zeros(box.layout.size)
            box.backend.kernel(name)(box.constant, box.vector(1)[1], y)
            results.append(box.block(y))
        assert (results[0] == results[1]).all()


# -- a star between two levels -----------------------------------------------------------------------------------------

STARS = [
    Case(shape=(8, 6, 10), points=7, symmetric=True),
    Case(shape=(7, 5, 9), points=7, symmetric=True),
    Case(shape=(6, 4, 8), points=7, symmetric=True, wraps=(True, True, True), faces=False),
    Case(shape=(12, 7, 6), points=7, symmetric=True, wraps=(True, False, False)),
    Case(shape=(3, 4, 5), points=7, symmetric=True),
    Case(shape=(130, 57, 29), points=7, symmetric=True),
    Case(shape=(131, 60, 64), points=7, symmetric=True, faces=False),
]


def alone(grid: Shape, wraps: tuple[bool, bool, bool] = (False, False, False)) -> Around:
    """A chunk that is the whole grid."""
    return Around(grid=grid, wraps=wraps, lo=(0, 0, 0), shape=grid)


def both_alone(case: Case) -> tuple[Around, Around]:
    """The grid and the coarse one, each as the only chunk."""
    x, y, z = (n // 2 for n in case.shape)
    return alone(case.shape, case.wraps), alone((x, y, z), case.wraps)


@pytest.mark.parametrize("case", STARS[:5], ids=str)
def test_interpolation_is_the_one_of_the_coarse_operators(case: Case) -> None:
    box = Box(case, load("numpy"))
    nx, ny, nz = (n // 2 for n in case.shape)
    layout = load("numpy").layouts.colored(np.zeros(nx * ny * nz, dtype=np.int32), 1, (nx, ny, nz))
    transfer = star_transfer(box.stencil, *both_alone(case), layout)
    coarsening = Coarsening(lo=(0, 0, 0), shape=case.shape, grid=case.shape, periodic=case.wraps, factors=(2, 2, 2))
    rows = rows_of(case)
    weights = np.broadcast_to(rows.weights.reshape(7, -1), (7, rows.rows)).reshape(7, *case.shape[::-1])
    ghosted = np.pad(weights, ((0, 0), *[(2, 2)] * 3), mode="wrap")
    p = interpolation(coarsening, rows.offsets, ghosted.reshape(7, -1)).reshape(8, *coarsening.ghosted)
    own = p[:, 2:-2, 2:-2, 2:-2]
    kinds = transfer.kinds
    for k, j, i in np.ndindex(*case.shape[::-1]):
        odd = [i % 2, j % 2, k % 2]
        if sum(odd) == 1:
            axis = odd.index(1)
            found = transfer.table[kinds[2][k], kinds[1][j], kinds[0][i], axis]
            first, second = (2**a for a in range(3) if a != axis)
            expected = [own[first * (n & 1) + second * (n >> 1), k, j, i] for n in range(4)]
            assert np.abs(found - expected).max() <= 1e-15, (i, j, k)
        elif sum(odd) == 3:
            assert own[0, k, j, i] == 1.0


@pytest.mark.parametrize("case", STARS, ids=str)
@pytest.mark.parametrize("name", BACKENDS[1:])
def test_a_level_in_two_passes(case: Case, name: str) -> None:
    results = []
    for backend in (load("numpy"), load(name)):
        box = Box(case, backend)
        nx, ny, nz = (n // 2 for n in case.shape)
        shape = nx, ny, nz
        count = int(np.prod(shape))
        k, j, i = np.indices(shape[::-1])
        color = ((i + j + k) % 2).ravel().astype(np.int32)
        coarse = backend.layouts.colored(backend.asarray(color), 2, shape)
        lattice = backend.layouts.colored(backend.asarray(np.zeros(count, dtype=np.int32)), 1, shape)
        transfer = backend.stencil.transfer(star_transfer(box.stencil, *both_alone(case), coarse))
        r, xc, no_halo = box.vector(1)[1], backend.zeros(lattice.size), backend.zeros(2 * backend.guard)
        block = np.random.default_rng(2).standard_normal(shape)
        backend.kernel("load")(lattice, backend.asarray(block), xc)
        rc, x = backend.zeros(coarse.size), box.vector(3)[1]
        backend.kernel("star_down")(transfer, r, no_halo, rc)
        backend.kernel("star_up")(transfer, r, no_halo, xc, x)
        host = backend.to_host(rc)
        assert not host[backend.to_host(coarse.row) < 0].any()
        results.append((backend.to_host(backend.vectors.unload(coarse, rc)).ravel(order="F"), box.block(x)))
    for found, expected in zip(results[1], results[0], strict=True):
        close(found, expected)


def test_a_level_in_two_passes_is_symmetric() -> None:
    """R is Pᵀ and the sweeps are each other's transpose: with c = rc, r to x is a symmetric matrix."""
    book = load("numpy")
    case = Case(shape=(8, 7, 6), points=7, symmetric=True)
    box = Box(case, book)
    layout = book.layouts.colored(np.zeros(36, dtype=np.int32), 1, (4, 3, 3))
    transfer = book.stencil.transfer(star_transfer(box.stencil, *both_alone(case), layout))
    no_halo, rc, x = book.zeros(0), book.zeros(layout.size), book.zeros(box.layout.size)
    matrix = np.zeros((len(x), len(x)))
    for number, unit in enumerate(np.eye(len(x))):
        book.kernel("star_down")(transfer, unit, no_halo, rc)
        book.kernel("star_up")(transfer, unit, no_halo, rc, x)
        matrix[:, number] = x
    assert np.abs(matrix - matrix.T).max() <= 1e-15
    assert np.linalg.eigvalsh(matrix)[0] > 0.0


def test_which_stars_have_a_way_down() -> None:
    book = load("numpy")

    def way(case: Case, coarse: Shape) -> None:
        layout = book.layouts.colored(np.zeros(int(np.prod(coarse)), dtype=np.int32), 1, coarse)
        star_transfer(Box(case, book).stencil, alone(case.shape), alone(coarse), layout)

    way(Case(shape=(8, 7, 6), points=7, symmetric=True), (4, 3, 3))
    for case, coarse in (
        (Case(shape=(8, 7, 6), points=27, symmetric=True), (4, 3, 3)),
        (Case(shape=(8, 7, 6), points=7, symmetric=True, lo=(2, 0, 0)), (4, 3, 3)),
        (Case(shape=(8, 7, 6), points=7), (4, 3, 3)),
        (Case(shape=(8, 2, 6), points=7, symmetric=True), (4, 1, 3)),
        (Case(shape=(8, 7, 6), points=7, symmetric=True), (8, 3, 3)),
    ):
        with pytest.raises(ValueError, match=r"star|coarse grid"):
            way(case, coarse)


# -- what is a constant stencil ----------------------------------------------------------------------------------------


def found_in(case: Case, change: Any = None) -> ConstantStencil | None:
    rows = rows_of(case)
    if change is not None:
        weights = rows.weights.copy()
        change(weights, rows.offsets)
        rows = replace(rows, weights=weights)
    return constant_stencil(load("numpy").lattice, rows, case.lo)


def test_weights_and_colors() -> None:
    star = found_in(Case(shape=(8, 6, 5), points=7, faces=False))
    assert star is not None
    assert star.star
    assert star.colors == STAR_COLORS
    assert star.weights[CENTER] == 30.0
    assert not any(star.faces)
    box = found_in(Case(shape=(8, 6, 5), points=27))
    assert box is not None
    assert not box.star
    assert len(box.colors) == 8
    assert all(box.faces)


def test_an_entry_of_its_own_is_no_constant_stencil() -> None:
    case = Case(shape=(8, 6, 5), points=7)
    assert found_in(case) is not None

    def inside(weights: F64, offsets: Any) -> None:
        weights[offsets.index((1, 0, 0)), 17] *= 1.0 + 1e-12

    def center(weights: F64, offsets: Any) -> None:
        weights[offsets.index((0, 0, 0)), 17] *= 1.0 + 1e-12

    def outside(weights: F64, offsets: Any) -> None:
        weights[offsets.index((1, 0, 0)), 7] = 5.0  # leaves the domain: no row reads it

    assert found_in(case, inside) is None
    assert found_in(case, center) is None
    assert found_in(case, outside) is not None


def test_a_diagonal_that_would_lose_its_digits_is_no_constant_stencil() -> None:
    """Faces that gain the negative of what is inside, so that nothing is left."""
    case = Case(shape=(8, 6, 5), points=7, faces=False)
    rows = rows_of(case)
    weights = np.broadcast_to(rows.weights[:, None], (7, rows.rows)).copy()
    for large, fits in ((40.0, True), (1e6, False), (1e20, False)):
        center = weights[rows.offsets.index((0, 0, 0))].reshape(case.shape[::-1])
        center[...] = large
        center[:, :, 0] = 30.0
        found = constant_stencil(load("numpy").lattice, replace(rows, weights=weights), case.lo)
        assert (found is not None) == fits


def test_an_axis_that_wraps_must_be_even() -> None:
    assert found_in(Case(shape=(7, 6, 5), points=7, wraps=(True, False, False))) is None
    assert found_in(Case(shape=(7, 6, 5), points=7, wraps=(False, True, False))) is not None
