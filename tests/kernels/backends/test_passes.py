"""Passes over a matrix, its halo and a level of a cycle, on boxes with and without neighbors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.kernels.backends.boxes import CASES, TOLERANCE, Box, Case, both, box, close


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


def test_sweeps_of_jacobi(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        r, x, y, z = b.vector(1), b.vector(2), b.zeros(), b.zeros()
        first, left, swept, dot = b.zeros(), b.zeros(), b.zeros(), b.scalar(np.nan)
        scaled = b.matrix.scaled(b.backend.asarray(np.full(b.matrix.layout.shape, 1.5)))
        b.kernel("residual")(b.matrix, r, x, y)
        b.kernel("jacobi_sweep")(b.matrix, scaled, r, x, z)
        b.kernel("jacobi_first")(b.matrix, scaled, r, first, left)
        b.kernel("jacobi_sweep_dot")(b.matrix, scaled, r, x, swept, dot)
        assert (b.block(swept) == b.block(z)).all()
        return b.block(y), b.block(z), b.block(first), b.block(left), b.backend.to_host(dot)

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


def test_a_box_without_coarse_points(name: str) -> None:
    case = CASES[0]
    b, textbook = box(case, name), box(case, "numpy")
    last = b.backend.format("hpcg").matrix(b.layout, b.stencil, b.backend.xp.zeros(b.case.rows, dtype=bool))
    x, expected = b.zeros(), textbook.zeros()
    b.kernel("symgs")(last, b.vector(1), x)
    textbook.kernel("symgs")(textbook.matrix, textbook.vector(1), expected)
    close(b.block(x), textbook.block(expected), TOLERANCE[b.backend.dtype.name])
