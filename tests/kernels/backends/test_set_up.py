"""Every backend has all kernels, and sets layouts, diagonals, boundaries and halos up as the text-book does."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dsolver.distributed.halo import direct_layout, plan_layout
from dsolver.grid.halo import HaloPlan
from dsolver.kernels import contract, load
from dsolver.kernels.direct.parts import DirectPart
from dsolver.kernels.formats import hpcg
from dsolver.kernels.formats.ell import Ell
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.stencil.constant import ConstantStencil
from dsolver.kernels.formats.stencil.rows import OFFSETS
from dsolver.kernels.lattice.star import Around, star_transfer
from tests.kernels.backends.boxes import SOME_NEIGHBORS, Box, Case, both, box, stencil_of


@pytest.mark.parametrize("backend", ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_every_kernel_of_the_contract_exists(backend: str) -> None:
    made, b = load(backend), box(Case(shape=(4, 4, 4), points=7, order="parity"), backend)
    entries = Ell(columns=made.asarray(np.zeros((1, 64), dtype=np.int32)), values=made.asarray(np.ones((1, 64))))
    weights = tuple(6.0 if not any(o) else -1.0 * (sum(map(abs, o)) == 1) for o in OFFSETS)
    stencil = ConstantStencil(
        shape=(4, 4, 4), weights=weights, faces=(0.0,) * 6, wraps=(False, False, False), lo=(0, 0, 0)
    )
    product = made.format("sell").product(b.layout, b.layout, entries, in_order=True)
    plan = direct_layout(made, [], [])
    carriers: dict[str, Any] = {
        "A": b.matrix,
        "H": b.outer,
        "T": b.transfer,
        "R": product,
        "P": product,
        "S": made.stencil.transfer(star_transfer(stencil, whole((4, 4, 4)), whole((2, 2, 2)), b.coarse)),
        "direct": DirectPart(backend=made, position=b.layout.position, size=64, gather=plan, scatter=plan),
        "inverse": made.dense.inverse(b.layout, made.dense.matrix(b.stencil)),
    }
    assert set(carriers) == {*contract.CARRIERS, "T"}
    wrong = []
    for kernel in (*contract.KERNELS.values(), *hpcg.KERNELS):
        arguments = kernel.arguments
        carried = kernel.name not in contract.OF_VECTORS
        owner, expected = (carriers[arguments[0]], arguments[1:]) if carried else (made.vectors, arguments)
        parameters = inspect.signature(getattr(owner, kernel.name)).parameters
        any_number = [p.kind for p in parameters.values()] == [inspect.Parameter.VAR_POSITIONAL]  # their order counts
        if len(parameters) != len(expected) and not any_number:
            wrong.append(f"{kernel.name}: {list(parameters)} instead of {list(expected)}")
    assert not wrong, "\n".join(wrong)
    constant = made.stencil.matrix(stencil)
    for name in ("spmv", "spmv_dot", "forward", "upper_residual", "lower_residual", "backward"):
        assert len(inspect.signature(getattr(constant, name)).parameters) == len(contract.KERNELS[name].arguments) - 1
    for carrier in (*carriers.values(), constant):
        assert carrier.nbytes >= 0


def whole(grid: tuple[int, int, int]) -> Around:
    return Around(grid=grid, wraps=(False, False, False), lo=(0, 0, 0), shape=grid)


def test_cuda_sources_need_no_header_of_the_system() -> None:
    from dsolver.kernels.cuda.launch import loader

    for file in loader.all_sources():
        text = loader.source(file)
        assert "#include" not in text
        assert "__global__" in text


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
        turned = one.backend.to_host(one.backend.vectors.unload_turned(one.layout, x))
        assert (turned == values.astype(one.backend.dtype)).all()


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
        scaled = b.matrix.scaled(b.backend.asarray(factors))
        x, y, s = b.vector(3), b.zeros(), b.zeros()
        b.kernel("spmv")(scaled, x, y)
        b.kernel("symgs")(scaled, x, s)
        return b.block(y), b.block(s)

    both(pair, run)


def test_scale_the_ghost_part(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        rows, columns = b.outer.scaled_rows(b.vector(5)), b.outer.scaled_columns(b.halo(6))
        x, y = b.zeros(), b.zeros()
        b.kernel("spmv_halo")(rows, b.halo(7), x)
        b.kernel("spmv_halo")(columns, b.halo(7), y)
        return b.block(x), b.block(y)

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
        b.backend.format("sell").matrix(b.layout, rows)


def test_halo_layout_and_pack(pair: tuple[Box, Box]) -> None:
    rng = np.random.default_rng(2)
    sends = [(3, rng.integers(0, pair[0].case.rows, 40)), (5, rng.integers(0, pair[0].case.rows, 3))]

    def run(b: Box) -> Any:
        plan = plan_layout(b.backend, b.layout, HaloPlan(sends=tuple(sends), receives=((3, 8), (5, 1))))
        assert plan.sends == ((3, 0, 40), (5, 40, 43))
        assert plan.size == 9 + 2 * b.backend.guard
        assert plan.receives[0] == (3, b.backend.guard, b.backend.guard + 8)
        buffer = b.backend.zeros(43)
        b.kernel("pack")(plan, b.vector(1), buffer)
        nothing = plan_layout(b.backend, b.layout, HaloPlan(sends=(), receives=()))
        b.kernel("pack")(nothing, b.vector(1), b.backend.zeros(0))
        return (b.backend.to_host(buffer),)

    both(pair, run)


@pytest.mark.parametrize("backend", ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("size", [1.0, 1e60])
def test_what_is_narrowed_has_the_bits_of_what_is_made(backend: str, size: float) -> None:
    b = box(
        Case(shape=(7, 5, 3), points=7, order="parity", neighbors=SOME_NEIGHBORS, per_row=True), f"{backend} float32"
    )
    rows = replace(b.stencil, weights=size * b.stencil.weights)
    sell, exact, products = b.backend.format("sell"), load(backend).format("sell"), []
    with np.errstate(over="ignore", invalid="ignore"):
        made = sell.matrix(b.layout, rows), sell.halo_matrix(b.layout, rows)
        wide = exact.matrix(b.layout, rows), exact.halo_matrix(b.layout, rows)
        narrow = sell.narrowed(wide[0]), sell.narrowed_halo(wide[1])
        for local, ghost in (made, narrow):
            x, y = b.vector(3), b.vector(4)
            local.spmv(x, y)
            ghost.subtract_halo(b.halo(5), x)
            products.append(np.array([b.backend.to_host(values) for values in (x, y)]))
    assert np.isnan(products[0][1]).any() == (size > 1.0)
    np.testing.assert_array_equal(products[0], products[1])
