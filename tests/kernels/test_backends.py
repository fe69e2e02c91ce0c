"""Every backend computes what the NumPy text-book does, on boxes with and without neighbors."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.kernels import Backend, contract, load
from dsolver.kernels.backend import Entries, StencilRows, semidefinite_inverse
from dsolver.kernels.layout import SLICE, HaloLayout, Matrix, Slices

F64 = npt.NDArray[np.float64]
Shape = tuple[int, int, int]

BACKENDS = [
    "cpu",
    "cpu float32",
    pytest.param("cuda", marks=pytest.mark.gpu),
    pytest.param("cuda float32", marks=pytest.mark.gpu),
]
TOLERANCE = {"float64": 1e-13, "float32": 1e-5}
PLACE_OF_PARITY = np.array([7, 3, 4, 5, 6, 1, 2, 0])
STEPS = (-1, 0, 1)
AROUND: tuple[Shape, ...] = tuple((x, y, z) for z, y, x in itertools.product(STEPS, repeat=3) if (x, y, z) != (0, 0, 0))
NO_NEIGHBORS: tuple[Shape, ...] = ()
SOME_NEIGHBORS = ((1, 0, 0), (0, -1, 0), (1, -1, 0), (0, 0, 1), (1, 0, 1))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A box of rows: enough to build it on any backend, twice with the same numbers."""

    shape: Shape
    points: int
    order: str
    neighbors: tuple[Shape, ...] = NO_NEIGHBORS
    per_row: bool = False

    def __str__(self) -> str:
        halo = f"-{len(self.neighbors)}nb" if self.neighbors else ""
        return f"{'x'.join(map(str, self.shape))}-{self.points}pt-{self.order}{halo}{'-rows' if self.per_row else ''}"

    @property
    def rows(self) -> int:
        return int(np.prod(self.shape))


CASES = [
    Case(shape=(7, 5, 3), points=27, order="parity"),
    Case(shape=(7, 5, 3), points=7, order="natural", neighbors=AROUND, per_row=True),
    Case(shape=(1, 9, 4), points=27, order="natural"),
    Case(shape=(1, 9, 4), points=7, order="parity", neighbors=SOME_NEIGHBORS),
    Case(shape=(16, 8, 8), points=27, order="parity", neighbors=AROUND),
    Case(shape=(16, 8, 8), points=7, order="natural", neighbors=SOME_NEIGHBORS),
    Case(shape=(33, 17, 9), points=27, order="natural", neighbors=SOME_NEIGHBORS, per_row=True),
    Case(shape=(33, 17, 9), points=27, order="parity", neighbors=SOME_NEIGHBORS, per_row=True),
    Case(shape=(64, 6, 6), points=27, order="parity", neighbors=AROUND),
    Case(shape=(64, 64, 32), points=27, order="parity", neighbors=SOME_NEIGHBORS),
    Case(shape=(1, 1, 1), points=27, order="parity"),
]
LARGE = Case(shape=(64, 64, 32), points=27, order="parity", neighbors=SOME_NEIGHBORS)


def lattice(shape: Shape) -> tuple[npt.NDArray[np.int64], ...]:
    """i, j, k of the rows."""
    k, j, i = np.meshgrid(*(np.arange(n) for n in reversed(shape)), indexing="ij")
    return i.ravel(), j.ravel(), k.ravel()


def colors_of(shape: Shape, order: str) -> tuple[npt.NDArray[np.int32], int]:
    i, j, k = lattice(shape)
    if order == "parity":
        return PLACE_OF_PARITY[i % 2 + 2 * (j % 2) + 4 * (k % 2)].astype(np.int32), 8
    color = (i + 2 * j + 4 * k).astype(np.int32)
    return color, int(color.max()) + 1


def numbering_of(shape: Shape, neighbors: tuple[Shape, ...]) -> npt.NDArray[np.int32]:
    """The box and one layer around it; the halo's slots are numbered x fastest."""
    nx, ny, nz = shape
    number = np.full((nz + 2, ny + 2, nx + 2), -1, dtype=np.int32)
    inside = {-1: slice(0, 1), 0: slice(1, -1), 1: slice(-1, None)}
    for x, y, z in neighbors:
        number[inside[z], inside[y], inside[x]] = 0
    halo = number == 0
    number[halo] = nx * ny * nz + np.arange(np.count_nonzero(halo))
    number[1:-1, 1:-1, 1:-1] = np.arange(nx * ny * nz).reshape(nz, ny, nx)
    return number.ravel()


def stencil_of(case: Case) -> tuple[tuple[Shape, ...], F64]:
    """Offsets and weights of a matrix with a dominant diagonal."""
    every = ((0, 0, 0), *AROUND)
    offsets = tuple(o for o in every if case.points == 27 or sum(map(abs, o)) <= 1)
    rng = np.random.default_rng(7)
    weights = -rng.uniform(0.2, 1.0, (len(offsets), case.rows) if case.per_row else len(offsets))
    weights[0] = case.points * rng.uniform(1.0, 1.5, weights.shape[1:])
    return offsets, weights


def loaded(name: str) -> Backend:
    """The backend of a name and, after a space, a value type."""
    backend, _, dtype = name.partition(" ")
    return load(backend, dtype=dtype or "float64")


class Box:
    """A case on one backend, with its coarse level."""

    def __init__(self, case: Case, backend: Backend) -> None:
        self.case = case
        self.backend = backend
        put = backend.asarray
        numbering = numbering_of(case.shape, case.neighbors)
        self.halo_size = int(numbering.max()) + 1 - case.rows
        color, colors = colors_of(case.shape, case.order)
        i, j, k = lattice(case.shape)
        is_coarse = (i % 2 == 0) & (j % 2 == 0) & (k % 2 == 0)
        nx, ny, nz = ((n + 1) // 2 for n in case.shape)
        offsets, weights = stencil_of(case)
        self.stencil = StencilRows(shape=case.shape, numbering=put(numbering), offsets=offsets, weights=put(weights))
        self.layout = backend.layout(put(color), colors, case.shape)
        self.matrix = backend.matrix(self.layout, self.stencil, put(is_coarse))
        self.outer = backend.halo_matrix(self.layout, self.stencil)
        coarse_color, coarse_colors = colors_of((nx, ny, nz), case.order)
        self.coarse = backend.layout(put(coarse_color), coarse_colors, (nx, ny, nz))
        fine_row = np.flatnonzero(is_coarse).astype(np.int32)
        self.transfer = backend.transfer(self.layout, self.coarse, put(fine_row))

    def vector(self, seed: int, *, coarse: bool = False) -> Any:
        """A vector with the same random items on every backend."""
        where = self.coarse if coarse else self.layout
        x = self.backend.zeros(where.size)
        self.kernel("load")(where, np.random.default_rng(seed).standard_normal(where.shape), x)
        return x

    def zeros(self, *, coarse: bool = False) -> Any:
        return self.backend.zeros((self.coarse if coarse else self.layout).size)

    def halo(self, seed: int) -> Any:
        values = np.random.default_rng(seed).standard_normal(self.halo_size)
        return self.backend.asarray(np.pad(values, self.backend.guard).astype(self.backend.dtype))

    def kept(self) -> Any:
        """Room for one item a boundary row."""
        return self.backend.zeros(self.outer.size)

    def scalar(self, value: float = 0.0) -> Any:
        return self.backend.asarray(np.array([value]))

    def kernel(self, name: str) -> Any:
        return self.backend.kernel(name)

    def block(self, x: Any, *, coarse: bool = False) -> F64:
        """A vector in lattice order, on the host. Its padding and guards must be zero."""
        where = self.coarse if coarse else self.layout
        host, row = self.backend.to_host(x), self.backend.to_host(where.row)
        assert not host[row < 0].any(), "padding must stay zero"
        return self.backend.to_host(self.backend.unload(where, x))


@cache
def box(case: Case, name: str) -> Box:
    return Box(case, loaded(name))


@pytest.fixture(params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture
def pair(case: Case, name: str) -> tuple[Box, Box]:
    """The case on the backend under test, and in the text-book."""
    return box(case, name), box(case, "numpy")


def close(found: F64, expected: F64, tolerance: float) -> None:
    assert np.isfinite(found).all()
    scale = max(float(np.abs(expected).max(initial=0.0)), 0.1)  # a residual may vanish; what it came from is about 1
    assert float(np.abs(found - expected).max(initial=0.0)) <= tolerance * scale


def both(pair: tuple[Box, Box], run: Any) -> None:
    """`run(box)` gives the same blocks and scalars on both."""
    for found, expected in zip(run(pair[0]), run(pair[1]), strict=True):
        close(np.asarray(found), np.asarray(expected), TOLERANCE[pair[0].backend.dtype.name])


# -- set-up ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_every_kernel_of_the_contract_exists(backend: str) -> None:
    described = [k for k in vars(contract).values() if isinstance(k, contract.Kernel)]
    assert described
    wrong = []
    for kernel in described:
        parameters = inspect.signature(load(backend).kernel(kernel.name)).parameters
        if len(parameters) != len(kernel.arguments):
            wrong.append(f"{kernel.name}: {list(parameters)} instead of {list(kernel.arguments)}")
    assert not wrong, "\n".join(wrong)


def test_layout(pair: tuple[Box, Box]) -> None:
    one, textbook = pair
    backend, layout = one.backend, one.layout
    position, row = backend.to_host(layout.position), backend.to_host(layout.row)
    color = textbook.layout.color
    assert layout.rows == one.case.rows
    assert layout.size % SLICE == 0
    assert (row[position] == np.arange(layout.rows)).all()
    assert np.count_nonzero(row >= 0) == layout.rows
    assert (row[:SLICE] < 0).all()
    assert (row[-SLICE:] < 0).all()
    starts = layout.color_slices
    assert starts[0] == 1
    assert starts[-1] == layout.size // SLICE - 1
    assert ((position // SLICE >= starts[color]) & (position // SLICE < starts[color + 1])).all()
    for c in range(layout.colors):
        assert (np.diff(position[color == c]) == 1).all(), "lattice order, without gaps"


def test_load_and_unload(pair: tuple[Box, Box]) -> None:
    one, _ = pair
    shape = one.case.shape
    block = np.random.default_rng(1).standard_normal(tuple(2 * n for n in shape))[::2, ::2, ::2]
    for values in (block, np.asfortranarray(block), block[::-1], block.astype(np.float32)):
        x = one.zeros()
        one.kernel("load")(one.layout, values, x)
        assert (one.block(x) == values.astype(one.backend.dtype)).all()
        x = one.zeros()
        one.kernel("load")(one.layout, one.backend.asarray(values), x)
        assert (one.block(x) == values.astype(one.backend.dtype)).all()


def test_diagonal_and_boundary(pair: tuple[Box, Box]) -> None:
    one, textbook = pair
    where = one.backend.to_host(one.layout.position)
    diagonal = one.backend.to_host(one.matrix.diagonal)
    assert (diagonal[where] == textbook.matrix.diagonal.astype(one.backend.dtype)).all()
    assert (diagonal[one.backend.to_host(one.layout.row) < 0] == 1.0).all()
    row = one.backend.to_host(one.layout.row)
    boundary = one.backend.to_host(one.outer.boundary)
    assert (np.diff(boundary) > 0).all()
    assert (np.sort(row[boundary]) == textbook.outer.boundary).all()


def test_scale_diagonal(pair: tuple[Box, Box]) -> None:
    factors = np.random.default_rng(5).uniform(1.0, 2.0, pair[0].case.shape)

    def run(b: Box) -> Any:
        scaled = b.backend.scale_diagonal(b.matrix, b.backend.asarray(factors))
        x, y, s = b.vector(3), b.zeros(), b.zeros()
        b.kernel("spmv")(scaled, x, y)
        b.kernel("symgs")(scaled, x, s)
        return b.block(y), b.block(s)

    both(pair, run)


@pytest.mark.parametrize("missing", [False, True])
def test_a_row_without_a_diagonal_is_named(name: str, *, missing: bool) -> None:
    case = Case(shape=(5, 4, 3), points=7, order="parity", per_row=True)
    b = box(case, name)
    offsets, weights = stencil_of(case)
    if missing:
        offsets, weights, named = offsets[1:], weights[1:], "row [0-9]+ "
    else:
        weights[0, 17], named = 0.0, "row 17 "
    rows = replace(b.stencil, offsets=offsets, weights=b.backend.asarray(weights))
    with pytest.raises(ZeroDivisionError, match=named):
        b.backend.matrix(b.layout, rows, None)


def test_halo_layout_and_pack(pair: tuple[Box, Box]) -> None:
    rng = np.random.default_rng(2)
    sends = [(3, rng.integers(0, pair[0].case.rows, 40)), (5, rng.integers(0, pair[0].case.rows, 3))]

    def run(b: Box) -> Any:
        plan: HaloLayout = b.backend.halo_layout(b.layout, sends, [(3, 8), (5, 1)])
        assert plan.sends == ((3, 0, 40), (5, 40, 43))
        assert plan.size == 9 + 2 * b.backend.guard
        assert plan.receives[0] == (3, b.backend.guard, b.backend.guard + 8)
        buffer = b.backend.zeros(43)
        b.kernel("pack")(plan, b.vector(1), buffer)
        nothing = b.backend.halo_layout(b.layout, [], [])
        b.kernel("pack")(nothing, b.vector(1), b.backend.zeros(0))
        return (b.backend.to_host(buffer),)

    both(pair, run)


# -- matrix passes -----------------------------------------------------------------------------------------------------


def test_spmv(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        x, y, y_too, dot = b.vector(1), b.zeros(), b.zeros(), b.scalar(np.nan)
        b.kernel("spmv")(b.matrix, x, y)
        b.kernel("spmv_dot")(b.matrix, x, y_too, dot)
        assert (b.block(y) == b.block(y_too)).all()
        return b.block(y), b.backend.to_host(dot)

    both(pair, run)


def test_halo_kernels(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        h, x, r = b.halo(11), b.vector(1), b.vector(2)
        y, z, q, rc, kept = b.vector(3), b.vector(3), b.vector(2), b.vector(4, coarse=True), b.kept()
        dot, part, product, too = b.scalar(2.5), b.scalar(np.nan), b.kept(), b.kept()
        b.kernel("spmv_halo")(b.outer, h, y)
        b.kernel("times_halo_dot")(b.outer, h, x, product, part)
        b.kernel("add_halo_dot")(b.outer, product, part, z, dot)
        assert (b.block(y) == b.block(z)).all()
        b.kernel("times_halo")(b.outer, h, too)
        assert (b.backend.to_host(product) == b.backend.to_host(too)).all()
        b.kernel("residual_halo")(b.outer, b.transfer, product, r, rc, kept)
        b.kernel("subtract_halo")(b.outer, h, q)
        assert (b.block(q) == b.block(r)).all()
        changed = b.block(r).copy()
        b.kernel("restore")(b.outer, kept, r)
        assert (b.block(r) == b.block(b.vector(2))).all()
        return b.block(y), b.block(z), changed, b.block(rc, coarse=True), b.backend.to_host(dot)

    both(pair, run)


def test_a_whole_level_of_a_cycle(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        m, t, r, xc = b.matrix, b.transfer, b.vector(1), b.vector(2, coarse=True)
        s, x, e, w, c = b.zeros(), b.zeros(), b.zeros(), b.zeros(), b.zeros()
        rc = b.zeros(coarse=True)
        b.kernel("symgs")(m, r, s)
        b.kernel("presmooth")(m, r, x, e)
        first = b.block(x).copy()
        b.kernel("restrict")(m, t, r, x, e, rc)
        b.kernel("prolong")(t, xc, c)
        correction = b.block(c).copy()
        b.kernel("postsmooth")(m, r, c, e, x, w)
        b.block(e), b.block(w)  # their padding is looked at
        return b.block(s), first, b.block(rc, coarse=True), correction, b.block(x)

    both(pair, run)


def test_half_sweeps_of_a_cycle(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        r, x, y, ax, z, w = b.vector(1), b.zeros(), b.zeros(), b.zeros(), b.vector(3), b.zeros()
        b.kernel("forward")(b.matrix, r, x)
        b.kernel("upper_residual")(b.matrix, x, y)
        b.kernel("spmv")(b.matrix, x, ax)
        close(b.block(y), b.block(r) - b.block(ax), TOLERANCE[b.backend.dtype.name])
        b.kernel("lower_residual")(b.matrix, r, z, w)
        b.kernel("backward")(b.matrix, w, z)
        return b.block(x), b.block(y), b.block(w), b.block(z)

    both(pair, run)


def test_backward_from_zero_and_forward_make_symgs(pair: tuple[Box, Box]) -> None:
    one, _ = pair
    r, x, w, s = one.vector(1), one.zeros(), one.zeros(), one.zeros()
    one.kernel("forward")(one.matrix, r, x)
    one.kernel("lower_residual")(one.matrix, r, x, w)
    one.kernel("backward")(one.matrix, w, x)
    one.kernel("symgs")(one.matrix, r, s)
    close(one.block(x), one.block(s), TOLERANCE[one.backend.dtype.name])


@pytest.mark.parametrize("in_order", [False, True])
def test_rectangular_products(pair: tuple[Box, Box], *, in_order: bool) -> None:
    slots = 40

    def run(b: Box) -> Any:
        rng = np.random.default_rng(8)
        rows, own = b.layout.rows, b.coarse.rows
        columns = rng.integers(-1, own + slots, (5, rows)).astype(np.int32)
        columns[3] = np.minimum(np.arange(rows), own - 1)  # neighbors in lattice order
        columns[4, ::3] = -1
        put = b.backend.asarray
        entries = Entries(columns=put(columns), values=put(rng.standard_normal(columns.shape)))
        lattice = b.backend.layout(put(np.zeros(own, dtype=np.int32)), 1, b.coarse.shape)
        inner = b.backend.product(b.layout, lattice, entries, in_order=in_order)
        outer = b.backend.halo_product(b.layout, lattice, entries)
        xc = b.backend.zeros(lattice.size)
        b.kernel("load")(lattice, rng.standard_normal(b.coarse.shape), xc)
        x, y = b.vector(1), b.zeros()
        b.kernel("prolong_add")(inner, xc, x)
        b.kernel("restrict_full")(inner, xc, y)
        h = put(np.pad(rng.standard_normal(slots), b.backend.guard).astype(b.backend.dtype))
        both_parts = b.zeros()
        b.kernel("copy")(y, both_parts)
        b.kernel("spmv_halo")(outer, h, both_parts)
        return b.block(x), b.block(y), b.block(both_parts)

    both(pair, run)


def test_products_in_lattice_order_are_runs(name: str) -> None:
    """Restriction to a lattice of coarse points from rows in eight colors: 27 entries a row, all of them runs."""
    if name == "numpy":
        return
    b = box(Case(shape=(128, 4, 4), points=27, order="parity"), name)
    nx, ny, nz = b.coarse.shape
    i, j, k = lattice(b.coarse.shape)
    columns = np.stack([(2 * i + 1) + dx + 128 * (2 * j + 1 + 4 * (2 * k + 1)) for dx in (-1, 0)]).astype(np.int32)
    entries = Entries(columns=b.backend.asarray(columns), values=b.backend.asarray(np.ones(columns.shape)))
    inner = b.backend.product(b.coarse, b.layout, entries, in_order=True)
    host = {field: b.backend.to_host(getattr(inner.slices, field)) for field in ("start", "column_start")}
    assert (np.diff(host["column_start"]) * SLICE == np.diff(host["start"])).all()
    assert (np.diff(host["start"]) == 2 * SLICE).all()
    assert nx * ny * nz == len(columns[0])


def test_move(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        lattice_order = b.backend.layout(b.backend.asarray(np.zeros(b.case.rows, dtype=np.int32)), 1, b.case.shape)
        x, y, z = b.vector(1), b.backend.zeros(lattice_order.size), b.vector(2)
        b.kernel("move")(b.backend.route(b.layout.position, lattice_order.position), x, y)
        some = b.backend.to_host(lattice_order.position)[::3]
        there = b.backend.to_host(b.layout.position)[1::3]
        count = min(len(some), len(there))
        b.kernel("move")(b.backend.route(some[:count], there[:count]), y, z)
        host = b.backend.to_host(y)
        assert not np.delete(host, b.backend.to_host(lattice_order.position)).any()
        return host[b.backend.to_host(lattice_order.position)], b.block(z)

    both(pair, run)


@pytest.mark.parametrize("backend", ["numpy", *BACKENDS])
@pytest.mark.parametrize("singular", [False, True])
def test_dense_solve(backend: str, *, singular: bool) -> None:
    b = box(Case(shape=(7, 5, 3), points=27, order="parity"), backend)
    rng = np.random.default_rng(4)
    a = -rng.uniform(0.1, 1.0, (105, 105))
    a += a.T
    np.fill_diagonal(a, 0.0)
    np.fill_diagonal(a, -a.sum(axis=1) + (0.0 if singular else 1.0))
    r = rng.standard_normal(105)
    r -= r.mean() if singular else 0.0
    inverse = b.backend.dense_inverse(b.layout, a)
    right, x = b.zeros(), b.zeros()
    b.kernel("load")(b.layout, r.reshape(b.case.shape, order="F"), right)
    b.kernel("dense_solve")(inverse, right, x)
    close(a @ b.block(x).reshape(-1, order="F"), r, 100 * TOLERANCE[b.backend.dtype.name])


def test_semidefinite_inverse() -> None:
    rng = np.random.default_rng(5)
    factor = rng.standard_normal((30, 30))
    full = factor @ factor.T
    close(semidefinite_inverse(full) @ full, np.eye(30), 1e-8)
    thin = factor[:, :11] @ factor[:, :11].T
    found = semidefinite_inverse(thin)
    assert (found == found.T).all()
    close(thin @ found @ thin, thin, 1e-8)
    assert np.linalg.eigvalsh(found).min() > -1e-9 * np.abs(found).max()
    blocks = np.kron(np.eye(3), np.array([[1.0, -1.0], [-1.0, 1.0]]))  # three constants in the null space
    assert np.linalg.matrix_rank(semidefinite_inverse(blocks)) == 3


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 31, 32, 70, 300])
@pytest.mark.parametrize("kind", ["full", "thin", "singular"])
def test_a_device_finds_the_inverse_of_the_text(rows: int, kind: str) -> None:
    backend, rng = load("cuda"), np.random.default_rng(rows)
    factor = rng.standard_normal((rows, rows if kind == "full" else max(1, rows // 2)))
    a = factor @ factor.T + (rows * np.eye(rows) if kind == "full" else 0.0)
    if kind == "singular":  # two regions, of which one has constants in its null space but for rounding
        a = -rng.uniform(0.1, 1.0, (rows, rows))
        a = (a + a.T) / 2
        a[: rows // 2, rows // 2 :] = a[rows // 2 :, : rows // 2] = 0.0
        np.fill_diagonal(a, 0.0)
        np.fill_diagonal(a, -a.sum(axis=1) + np.where(np.arange(rows) < rows // 2, 1e-10, 0.3))
    layout = backend.layout(backend.xp.zeros(rows, dtype=np.int32), 1, (rows, 1, 1))
    found = backend.to_host(backend.dense_inverse(layout, a, singular=kind == "singular").values)
    expected = semidefinite_inverse(a, singular=kind == "singular")
    assert (found == found.T).all()
    close(found, expected, 1e-6 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("name", BACKENDS)
def test_a_dense_matrix_is_the_rows_of_the_stencil(name: str) -> None:
    b = box(Case(shape=(7, 5, 3), points=27, order="parity"), name)
    dense = b.backend.to_host(b.backend.dense_matrix(b.stencil))

    def times(x: Any) -> Any:
        vector, y = b.zeros(), b.zeros()
        b.kernel("load")(b.layout, x.reshape(b.case.shape, order="F"), vector)
        b.kernel("spmv")(b.matrix, vector, y)
        return b.backend.to_host(b.block(y)).reshape(-1, order="F")

    u, v = np.random.default_rng(0).standard_normal((2, 105))
    assert (dense == dense.T).all()
    expected = (u @ times(v) + v @ times(u)) / 2  # its symmetric part
    assert u @ dense @ v == pytest.approx(expected, rel=1e3 * TOLERANCE[b.backend.dtype.name])


def test_semidefinite_inverse_of_what_is_known_to_be_singular() -> None:
    """Rounding may leave a pivot that is too large to count as zero by itself."""
    rng = np.random.default_rng(6)
    a = -rng.uniform(0.1, 1.0, (40, 40))
    a += a.T
    a[:25, 25:] = a[25:, :25] = 0.0  # two regions
    np.fill_diagonal(a, 0.0)
    np.fill_diagonal(a, -a.sum(axis=1) + np.where(np.arange(40) < 25, 1e-10, 0.3))  # what nothing fixes is not the last
    r = rng.standard_normal(40)
    r[:25] -= r[:25].mean()
    found = semidefinite_inverse(a, singular=True)
    close(a @ (found @ r), r, 1e-7)
    assert np.abs(found).max() < 100.0
    assert np.abs(semidefinite_inverse(a)).max() > 1e7
    assert np.linalg.matrix_rank(found) == 39


def test_fused_steps_are_their_parts(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        out = []
        x, e, w, c = b.zeros(), b.zeros(), b.zeros(), b.zeros()
        rc = b.zeros(coarse=True)
        for seed in (1, 3):  # the second time over what the first one left
            r, xc = b.vector(seed), b.vector(seed + 1, coarse=True)
            b.kernel("presmooth_restrict")(b.matrix, b.transfer, r, x, e, rc)
            out += [b.block(x).copy(), b.block(rc, coarse=True).copy()]
            b.kernel("prolong_postsmooth")(b.matrix, b.transfer, r, xc, e, x, c, w)
            out.append(b.block(x).copy())
        return out

    both(pair, run)


def test_a_halo_of_nan_reaches_boundary_rows_only(name: str) -> None:
    case = Case(shape=(16, 8, 8), points=27, order="parity", neighbors=((1, 0, 0),))
    b = box(case, name)
    y = b.zeros()
    nowhere = b.halo(0)
    nowhere[b.backend.guard : b.backend.guard + b.halo_size] = np.nan
    b.kernel("spmv_halo")(b.outer, nowhere, y)
    found = np.isnan(b.block(y))
    assert found[-1].all()
    assert not found[:-1].any()


def test_a_box_without_coarse_points(name: str) -> None:
    case = CASES[0]
    b, textbook = box(case, name), box(case, "numpy")
    last = b.backend.matrix(b.layout, b.stencil, None)
    x, expected = b.zeros(), textbook.zeros()
    b.kernel("symgs")(last, b.vector(1), x)
    textbook.kernel("symgs")(textbook.matrix, textbook.vector(1), expected)
    close(b.block(x), textbook.block(expected), TOLERANCE[b.backend.dtype.name])


# -- run and explicit slices -------------------------------------------------------------------------------------------


def is_run(s: Slices, backend: Backend) -> npt.NDArray[np.bool_]:
    start, column_start = backend.to_host(s.start), backend.to_host(s.column_start)
    run: npt.NDArray[np.bool_] = np.diff(column_start) == np.diff(start) // SLICE
    return run & (np.diff(start) > 0)


def made_explicit(s: Slices, backend: Backend) -> Slices:
    """The same entries with a column for each."""
    start, column_start, columns = (backend.to_host(v) for v in (s.start, s.column_start, s.columns))
    out = []
    for i in range(len(start) - 1):
        mine = columns[column_start[i] : column_start[i + 1]]
        if len(mine) == (start[i + 1] - start[i]) // SLICE:
            mine = (mine[:, None] + np.arange(SLICE, dtype=np.int32)).ravel()
        out.append(mine)
    put = backend.asarray
    return replace(s, column_start=put(start), columns=put(np.concatenate(out).astype(np.int32)))


def with_slices(b: Box, local: Slices) -> Any:
    """The matrix of the box with other slices."""
    parts = {field.name: getattr(b.matrix, field.name) for field in fields(Matrix)}
    other = Matrix(**{**parts, "local": local})
    if b.backend.name != "cuda":
        return other
    from dsolver.kernels.cuda.assembly import with_launches

    return with_launches(other)


def test_both_kinds_of_slices_give_the_same_product(name: str) -> None:
    seen = np.zeros(2, dtype=bool)
    for case in CASES:
        b = box(case, name)
        run = is_run(b.matrix.local, b.backend)
        seen |= [bool(run.any()), not run.all()]
        other = with_slices(b, made_explicit(b.matrix.local, b.backend))
        y, y_too = b.zeros(), b.zeros()
        b.kernel("spmv")(b.matrix, b.vector(1), y)
        b.kernel("spmv")(other, b.vector(1), y_too)
        assert (b.block(y) == b.block(y_too)).all()
    assert seen.all(), "the cases must have run and explicit slices"


def test_cube_of_even_size_is_made_of_runs(name: str) -> None:
    b = box(Case(shape=(64, 64, 32), points=27, order="parity"), name)
    assert is_run(b.matrix.local, b.backend).all()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_both_assemblies_write_the_same_slices(case: Case, dtype: str) -> None:
    cpu, cuda = box(case, f"cpu {dtype}"), box(case, f"cuda {dtype}")
    for ours, theirs in ((cpu.matrix.local, cuda.matrix.local), (cpu.outer.slices, cuda.outer.slices)):
        for field in fields(Slices):
            expected = getattr(ours, field.name)
            found = cuda.backend.to_host(getattr(theirs, field.name))
            assert found.dtype == expected.dtype, field.name
            assert (found == expected).all(), field.name


@pytest.mark.gpu
def test_assembly_makes_no_runs_unless_they_are_wanted(case: Case) -> None:
    from dsolver.kernels.cuda import assembly

    b = box(case, "cuda")
    coarse = b.backend.zeros(b.case.rows).astype(bool)
    coarse[b.layout.row[b.transfer.fine_of[b.coarse.position]]] = True
    made = assembly.matrix(b.layout, b.stencil, coarse, b.backend.dtype, runs=False)
    assert not is_run(made.local, b.backend).any()
    x, y, y_too = b.vector(1), b.zeros(), b.zeros()
    b.kernel("spmv")(made, x, y)
    b.kernel("spmv")(b.matrix, x, y_too)
    close(b.block(y), b.block(y_too), TOLERANCE["float64"])


# -- value types -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["numpy", "numpy float32", *BACKENDS])
@pytest.mark.parametrize("size", [1e-150, 3e-20, 1.0, 2.0**70, 1e150])
def test_narrowed_vectors_are_about_1_and_widen_to_what_they_were(name: str, size: float) -> None:
    b, wide = box(LARGE, name), box(LARGE, name.partition(" ")[0])
    x, back, narrow = wide.vector(1), wide.zeros(), b.zeros()
    wide.kernel("waxpby")(size, x, 0.0, x, x)
    xx = wide.scalar()
    wide.kernel("dot")(x, x, xx)
    b.kernel("narrow")(x, xx, narrow)
    assert 0.5 < np.linalg.norm(b.block(narrow).ravel()) < 2.1
    b.kernel("widen")(narrow, xx, back)
    rounded = 2.0**-24 if b.backend.dtype == np.float32 else 0.0
    assert (np.abs(wide.block(back) - wide.block(x)) <= rounded * np.abs(wide.block(x)) + 1e-38 * size).all()
    dots = [b.scalar(), b.scalar()]
    wide.kernel("dot")(wide.vector(2), wide.vector(3), dots[0])
    b.kernel("dot_narrowed")(wide.vector(2), b.vector(3), dots[1])
    difference = np.abs(np.diff([b.backend.to_host(dot)[0] for dot in dots]))
    assert (difference <= rounded * b.case.rows).all()


@pytest.mark.parametrize("name", ["numpy", "numpy float32", *BACKENDS])
@pytest.mark.parametrize("xx", [0.0, np.nan, np.inf])
def test_a_norm_that_is_no_number_scales_nothing(name: str, xx: float) -> None:
    b, wide = box(CASES[0], name), box(CASES[0], name.partition(" ")[0])
    narrow = b.zeros()
    b.kernel("narrow")(wide.vector(1), b.scalar(xx), narrow)
    assert (b.block(narrow) == wide.block(wide.vector(1)).astype(b.backend.dtype)).all()


@pytest.mark.parametrize("name", ["numpy float32", "cpu float32", pytest.param("cuda float32", marks=pytest.mark.gpu)])
def test_directions_are_updated_in_double_from_a_narrow_vector(name: str) -> None:
    b, wide = box(LARGE, name), box(LARGE, name.partition(" ")[0])
    z, p, expected = b.vector(1), wide.vector(2), wide.vector(2)
    b.kernel("update_p_narrowed")(z, b.scalar(1.0), b.scalar(3.0), b.scalar(1.0), p)
    exact = wide.zeros()
    exact[:] = z
    wide.kernel("update_p")(exact, b.scalar(1.0), b.scalar(3.0), b.scalar(1.0), expected)
    close(wide.block(p), wide.block(expected), 1e-15)


@pytest.mark.parametrize("name", ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("exact", [False, True])
def test_compact_storage_changes_no_bit_and_is_taken_only_where_it_loses_nothing(
    case: Case, name: str, *, exact: bool
) -> None:
    b = box(case, name)
    weights = b.backend.to_host(b.stencil.weights)
    rows = replace(b.stencil, weights=b.backend.asarray(weights.astype(np.float32).astype(float) if exact else weights))
    plain = b.backend.matrix(b.layout, rows, None)
    compact = b.backend.compacted(plain)
    stored = (compact.values if name == "numpy" else compact.local.values).dtype
    single = b.case.rows == 1  # no entry beside the diagonal
    assert stored == (np.float32 if exact or single else np.float64)
    results = []
    for matrix in (plain, compact):
        y, z, dot = b.zeros(), b.zeros(), b.scalar()
        b.kernel("spmv")(matrix, b.vector(1), y)
        b.kernel("spmv_dot")(matrix, b.vector(1), z, dot)
        results.append([b.block(y), b.block(z), b.backend.to_host(dot).copy()])
    assert all((one == other).all() for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("name", ["numpy float32", "cpu float32", pytest.param("cuda float32", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("factor", [1e-60, 1e-40, 1e60])
def test_a_diagonal_out_of_the_range_of_its_type_is_nan(name: str, factor: float) -> None:
    b = box(CASES[0], name)
    weights = b.backend.to_host(b.stencil.weights) * factor
    made = b.backend.matrix(b.layout, replace(b.stencil, weights=b.backend.asarray(weights)), None)
    assert np.isnan(b.backend.to_host(made.diagonal)[b.backend.to_host(b.layout.position)]).all()


# -- vectors -----------------------------------------------------------------------------------------------------------


def test_vectors(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        x, y, w, f = b.vector(1), b.vector(2), b.zeros(), b.zeros()
        dot, p = b.scalar(np.nan), b.vector(4)
        b.kernel("copy")(x, w)
        copied = b.block(w).copy()
        b.kernel("waxpby")(2.0, x, -0.25, y, w)
        b.kernel("waxpby")(1.0, x, 3.0, y, y)  # in place
        b.kernel("fill")(b.layout, 1.5, f)
        b.kernel("dot")(x, y, dot)
        b.kernel("update_p")(x, b.scalar(3.0), b.scalar(4.0), b.scalar(1.0), p)
        return copied, b.block(w), b.block(y), b.block(f), b.backend.to_host(dot), b.block(p)

    both(pair, run)


def test_diagonal_steps(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        r, w, z, d = b.vector(1), b.vector(2), b.zeros(), b.vector(3)
        b.kernel("jacobi")(b.matrix, r, 0.75, z)
        scaled = b.block(z).copy()
        b.kernel("chebyshev")(b.matrix, r, w, 0.5, 1.5, d, z)
        return scaled, b.block(d), b.block(z)

    both(pair, run)
    one, textbook = pair
    scaled, d, z = run(one)
    assert textbook.backend.name == "numpy"
    diagonal = textbook.matrix.diagonal.reshape(one.case.shape, order="F")
    r, w, before = (one.block(one.vector(seed)) for seed in (1, 2, 3))
    tolerance = TOLERANCE[one.backend.dtype.name]
    close(scaled, 0.75 * r / diagonal, tolerance)
    close(d, 0.5 * before + 1.5 * (r - w) / diagonal, tolerance)
    close(z, scaled + d, tolerance)


INF = np.inf
FROZEN: dict[str, tuple[float, ...]] = {
    "converged": (3.0, 4.0, 1.0, 1.0, INF),
    "diverged": (3.0, 4.0, 2.0, 1.0, 1.5),
    "no residual": (3.0, 4.0, np.nan, 1.0, INF),
    "M is not definite": (0.0, 4.0, 2.0, 1.0, INF),
    "A is not definite": (3.0, -4.0, 2.0, 1.0, INF),
    "no curvature": (3.0, 0.0, 2.0, 1.0, INF),
    "rz overflows": (INF, 4.0, 2.0, 1.0, INF),
    "pAp overflows": (3.0, INF, 2.0, 1.0, INF),
    "rz is NaN": (np.nan, 4.0, 2.0, 1.0, INF),
    "pAp is NaN": (3.0, np.nan, 2.0, 1.0, INF),
}
"""rz, pAp, rr, limit and ceiling that end a solve."""


@pytest.mark.parametrize("scalars", [(3.0, 4.0, 2.0, 1.0, INF), (3.0, 4.0, 2.0, 1.0, 2.0), *FROZEN.values()])
def test_update_x_r(pair: tuple[Box, Box], scalars: tuple[float, ...]) -> None:
    def run(b: Box) -> Any:
        x, r, dot = b.vector(3), b.vector(4), b.scalar(np.nan)
        b.kernel("update_x_r")(b.vector(1), b.vector(2), *map(b.scalar, scalars), x, r, dot)
        return b.block(x), b.block(r), b.backend.to_host(dot)

    both(pair, run)
    b = pair[0]
    changed = (run(b)[0] != b.block(b.vector(3))).any()
    assert changed == (scalars not in FROZEN.values())


def test_update_x_r_may_write_the_scalar_that_it_reads(name: str) -> None:
    b = box(CASES[0], name)
    dots = []
    for shared in (True, False):
        rr = b.scalar(1e3)
        dot = rr if shared else b.scalar()
        scalars = b.scalar(3.0), b.scalar(4.0), rr, b.scalar(1.0), b.scalar(1e4)
        b.kernel("update_x_r")(b.vector(1), b.vector(2), *scalars, b.vector(3), b.vector(4), dot)
        dots.append(float(b.backend.to_host(dot)[0]))
    assert dots[0] == dots[1]


@pytest.mark.parametrize(
    "case", ["M is not definite", "A is not definite", "no curvature", "rz overflows", "pAp is NaN"]
)
def test_a_breakdown_leaves_p_as_it_was(name: str, case: str) -> None:
    b = box(CASES[0], name)
    rz, pap, *_ = FROZEN[case]
    p = b.vector(1)
    b.kernel("update_p")(b.vector(2), b.scalar(rz), b.scalar(1.0), b.scalar(pap), p)
    assert (b.block(p) == b.block(b.vector(1))).all()


# -- the same bits -----------------------------------------------------------------------------------------------------


def everything(b: Box) -> list[F64]:
    """Results of all kernels that could depend on who computes what when."""
    r, x, y, e, w, c = b.vector(1), b.zeros(), b.zeros(), b.zeros(), b.zeros(), b.zeros()
    rc, product, dots = b.zeros(coarse=True), b.kept(), [b.scalar() for _ in range(4)]
    b.kernel("presmooth_restrict")(b.matrix, b.transfer, r, x, e, rc)
    b.kernel("prolong_postsmooth")(b.matrix, b.transfer, r, rc, e, x, c, w)
    b.kernel("spmv_dot")(b.matrix, x, y, dots[0])
    b.kernel("times_halo_dot")(b.outer, b.halo(4), x, product, dots[3])
    b.kernel("add_halo_dot")(b.outer, product, dots[3], y, dots[0])
    b.kernel("dot")(x, r, dots[1])
    b.kernel("update_x_r")(x, y, dots[0], b.scalar(1.0), b.scalar(1.0), b.scalar(0.0), b.scalar(INF), e, r, dots[2])
    return [b.backend.to_host(v).copy() for v in (x, y, e, r, rc, *dots)]


def test_bits_repeat(name: str) -> None:
    b = box(LARGE, name)
    first = everything(b)
    for _ in range(5):
        assert all((a == z).all() for a, z in zip(first, everything(b), strict=True))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bits_do_not_depend_on_the_number_of_threads(dtype: str) -> None:
    one, two = (Box(LARGE, load("cpu", threads, dtype)) for threads in (1, 2))
    assert all((a == z).all() for a, z in zip(everything(one), everything(two), strict=True))


# -- what only a GPU must do -------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_an_iteration_can_be_captured_and_replayed() -> None:
    import cupy

    b = box(LARGE, "cuda")
    r, x, y, e, w, c = b.vector(1), b.zeros(), b.zeros(), b.zeros(), b.zeros(), b.zeros()
    h, rc, kept, dot, other = b.halo(4), b.zeros(coarse=True), b.kept(), b.scalar(), b.scalar()
    product, part = b.kept(), b.scalar()

    def work() -> None:
        b.kernel("presmooth_restrict")(b.matrix, b.transfer, r, x, e, rc)
        b.kernel("times_halo")(b.outer, h, product)
        b.kernel("residual_halo")(b.outer, b.transfer, product, r, rc, kept)
        b.kernel("subtract_halo")(b.outer, h, r)
        b.kernel("prolong_postsmooth")(b.matrix, b.transfer, r, rc, e, x, c, w)
        b.kernel("restore")(b.outer, kept, r)
        b.kernel("spmv_dot")(b.matrix, x, y, dot)
        b.kernel("times_halo_dot")(b.outer, h, x, product, part)
        b.kernel("add_halo_dot")(b.outer, product, part, y, dot)
        b.kernel("dot")(x, y, other)

    work()
    expected = [v.get() for v in (x, y, rc, dot, other)]
    cupy.cuda.get_current_stream().synchronize()
    before = cupy.get_default_memory_pool().total_bytes(), cupy.get_default_memory_pool().used_bytes()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        work()
        graph = stream.end_capture()
        for v in (x, y, rc, dot, other):
            v.fill(0.0)
        graph.launch(stream)
        graph.launch(stream)
    stream.synchronize()
    after = cupy.get_default_memory_pool().total_bytes(), cupy.get_default_memory_pool().used_bytes()
    assert after == before
    assert all((a == v.get()).all() for a, v in zip(expected, (x, y, rc, dot, other), strict=True))


def smoothed(b: Box, matrix: Any) -> list[F64]:
    """What every kind of half sweep leaves."""
    s, x, e, w, c = (b.zeros() for _ in range(5))
    b.kernel("symgs")(matrix, b.vector(1), s)
    b.kernel("presmooth")(matrix, b.vector(1), x, e)
    first = b.block(x).copy()
    b.kernel("prolong")(b.transfer, b.vector(2, coarse=True), c)
    b.kernel("postsmooth")(matrix, b.vector(1), c, e, x, w)
    return [b.block(s), first, b.block(e), b.block(w), b.block(x)]


@pytest.mark.gpu
@pytest.mark.parametrize("slabs", [2, 5])
@pytest.mark.parametrize("explicit", [False, True])
def test_slabs_change_no_bit(case: Case, slabs: int, monkeypatch: pytest.MonkeyPatch, *, explicit: bool) -> None:
    from dsolver.kernels.cuda import schedule

    b = box(case, "cuda")
    local = made_explicit(b.matrix.local, b.backend) if explicit else b.matrix.local
    expected = smoothed(b, with_slices(b, local))
    monkeypatch.setattr(schedule, "slabs_of", lambda *_: slabs)
    matrix = with_slices(b, local)
    for _ in range(3):
        assert all((a == z).all() for a, z in zip(expected, smoothed(b, matrix), strict=True))


@pytest.mark.gpu
def test_slabs_of_a_lattice_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.kernels.cuda import schedule

    b = box(LARGE, "cuda")
    monkeypatch.setattr(schedule, "slabs_of", lambda *_: 4)
    matrix = with_slices(b, b.matrix.local)
    layers, slices_of_layer = 16, 32  # of a color: 32 x 32 x 16 points
    for sweep, colors in ((matrix.forward, 8), (matrix.backward, 7)):
        assert sweep.chains == 2
        assert len(sweep.units) == 4 * colors
        counts = [int(unit.launch[2][2]) for unit in sweep.units]
        assert sum(counts) == colors * layers * slices_of_layer
        shift = slices_of_layer  # a slab's boundary moves by one layer at most
        assert all(abs(count - layers // 4 * slices_of_layer) <= shift for count in counts)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("explicit", [False, True])
def test_no_choice_changes_a_bit(case: Case, dtype: str, *, explicit: bool) -> None:
    """Whatever tuning can choose: widths of blocks, narrow kernels, slabs, and both half sweeps in one launch."""
    from dsolver.kernels.cuda import choice, tuning

    b = box(case, f"cuda {dtype}")
    local = made_explicit(b.matrix.local, b.backend) if explicit else b.matrix.local
    itemsize = b.backend.dtype.itemsize
    plain = replace(choice.default(itemsize), narrow=False, flow=False)
    with choice.using(itemsize, plain):
        expected = smoothed(b, with_slices(b, local))
    for _, attribute, values in tuning.questions(itemsize):
        for value in values:
            with choice.using(itemsize, replace(plain, **{attribute: value})):
                matrix = with_slices(b, local)
                for _ in range(3):  # launches take turns with what they tell each other
                    found = smoothed(b, matrix)
                    assert all((a == z).all() for a, z in zip(expected, found, strict=True)), (attribute, value)


@pytest.mark.gpu
def test_small_levels_are_swept_in_one_launch_on_any_stream() -> None:
    import cupy

    b = box(LARGE, "cuda")
    expected = smoothed(b, b.matrix)
    assert b.matrix.flow is not None
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    cupy.cuda.get_current_stream().synchronize()
    for _ in range(20):  # at the same time: each stream has its own values to tell
        found = []
        for stream in streams:
            with stream:
                x, e = b.zeros(), b.zeros()
                b.kernel("presmooth")(b.matrix, b.vector(1), x, e)
                found.append((stream, x, e))
        for stream, x, e in found:
            stream.synchronize()
            assert (b.block(x) == expected[1]).all()
            assert (b.block(e) == expected[2]).all()


@pytest.mark.gpu
def test_values_that_are_no_numbers_end_a_sweep_like_any_other() -> None:
    """A launch that waits for values must not take one of them for a value that is still to come."""
    import cupy

    b = box(LARGE, "cuda")
    r, x, e = b.vector(1), b.zeros(), b.zeros()
    r[:] = cupy.asarray(np.full(1, -1, dtype=np.int64)).view(np.float64)  # NaN with all bits set
    b.kernel("presmooth")(b.matrix, r, x, e)
    assert np.isnan(b.block(x)).all()


@pytest.mark.gpu
def test_early_starts_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.kernels.cuda import launching

    b = box(LARGE, "cuda")
    early = everything(b)
    monkeypatch.setattr(launching, "_starts_early", lambda *_: False)
    assert all((a == z).all() for a, z in zip(early, everything(b), strict=True))


def test_cuda_sources_need_no_header_of_the_system() -> None:
    from dsolver.kernels.cuda import loader

    for file in loader.SOURCES:
        text = loader.source(file)
        assert "#include" not in text
        assert "__global__" in text
