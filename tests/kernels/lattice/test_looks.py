"""Looks at rows and coefficients of a lattice, and sources of its cells: every backend against the NumPy text."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.kernels import Backend, load
from dsolver.kernels.formats.stencil.rows import OFFSETS, StencilRows
from dsolver.kernels.lattice import statistics
from dsolver.kernels.lattice.setup import LatticeSetup
from dsolver.kernels.lattice.sources import Source

F64 = npt.NDArray[np.float64]
STAR = tuple(o for o in OFFSETS if sum(map(abs, o)) <= 1)
CENTER = STAR.index((0, 0, 0))
TEXT = LatticeSetup(np)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> Backend:
    return load(str(request.param))


def couplings(rows: int) -> F64:
    """Weights (7, rows) of several magnitudes, some of them zero, also on both sides along an axis."""
    rng = np.random.default_rng(1)
    weights = -np.exp(3.0 * rng.standard_normal((len(STAR), rows)))
    weights[rng.random(weights.shape) < 0.2] = 0.0
    return weights


@pytest.mark.parametrize("rows", [1, 1003])
def test_how_rows_lean(backend: Backend, rows: int) -> None:
    weights = couplings(rows)
    there = backend.asarray(weights)
    expected = TEXT.leanings(STAR, weights)
    found = backend.to_host(backend.lattice.leanings(STAR, there))
    assert np.array_equal(found[1::2], expected[1::2])
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
    sums, limits = np.array([0.2, 2.0, -0.2, 1.0, 0.9, 3.0]), (log(30.0), log(1e3))
    turned = TEXT.turns(STAR, weights, sums, limits)
    assert rows == 1 or 0.0 < turned[1] < turned[0] < rows
    assert np.array_equal(backend.to_host(backend.lattice.turns(STAR, there, backend.asarray(sums), limits)), turned)


@pytest.mark.parametrize("rows", [1, 1003, statistics.AT_ONCE + 5])
def test_whether_diagonals_outweigh_their_rows(backend: Backend, rows: int) -> None:
    weights = couplings(rows)
    weights[CENTER] = 0.0
    weights[CENTER] = 2.0 * abs(weights).sum(axis=0) + 1.0

    def found(part: float) -> float:
        (one,) = backend.to_host(backend.lattice.outweighed(STAR, backend.asarray(weights), part))
        assert TEXT.outweighed(STAR, weights, part).tolist() == [one]
        return float(one)

    assert found(0.5) == 0.0
    assert found(1e-9) == 1.0
    last = weights[CENTER, -1]
    for wrong in (0.4 * last, 0.0, -last, np.nan):
        weights[CENTER, -1] = wrong
        assert found(0.5) == 1.0
    weights[:, -1] = 0.0
    assert found(0.5) == 1.0, "Jacobi would divide by zero"


def test_what_no_coefficient_may_be(backend: Backend) -> None:
    values = np.random.default_rng(1).random(3000).reshape(10, 15, 20) + 0.1
    values.reshape(-1)[[3, 700, 1500, 2998, 2999]] = 0.0, np.nan, np.inf, -1.0, -np.inf
    for some, wrong in ((values, (5, 4)), (values[1:2], (0, 0)), (values[:1], (1, 0))):
        counts = [backend.lattice.unfit(backend.asarray(some), 0.0, left_out=out) for out in (True, False)]
        assert counts == [TEXT.unfit(some, 0.0, left_out=out) for out in (True, False)] == list(wrong)


@pytest.mark.parametrize("opened", [False, True])
def test_sources_become_right_hand_sides(backend: Backend, opened: bool) -> None:
    """Right-hand sides of all cells, and of open ones: sizes in their order, then parts of faces and held cells."""
    rng = np.random.default_rng(1)
    f, z, y, x = (rng.random(shape) for shape in ((5, 6, 7), (5, 1, 1), (1, 6, 1), (1, 1, 7)))
    solid, faces = rng.random((5, 6, 7)) < 0.4, {(0, 0): (5, 6, 1), (1, 1): (5, 1, 7), (2, 0): (1, 6, 7)}
    values, cells = {end: rng.random(shape) for end, shape in faces.items()}, np.flatnonzero(~solid)[::5]
    feeds = rng.random(len(cells))
    sizes = tuple(map(backend.asarray, (z, y, x)))
    source = Source(
        sizes=(sizes[0], sizes[1], sizes[2]),
        ends=(),
        solid=backend.asarray(solid),
        faces={end: backend.asarray(value) for end, value in values.items()},
        feeds=((backend.asarray(cells), backend.asarray(feeds)),),
    )
    layouts = backend.layouts
    places = np.flatnonzero(~solid).astype(np.int32)
    layout = layouts.some((7, 6, 5), backend.asarray(places)) if opened else layouts.plain((7, 6, 5))
    vector = backend.zeros(layout.size)
    backend.kernel("load")(layout, backend.asarray(f.T), vector)
    backend.kernel("assemble")(layout, source, vector)
    wanted = f * z * y * x
    wanted[:, :, 0] += values[0, 0][:, :, 0]
    wanted[:, -1] += values[1, 1][:, 0]
    wanted[0] += values[2, 0][0]
    wanted[solid] = 0.0
    wanted.reshape(-1)[cells] += feeds
    assert np.array_equal(backend.to_host(backend.vectors.unload(layout, vector)).T, wanted)


# -- what rows have in common ------------------------------------------------------------------------------------------


def box(shape: tuple[int, int, int], *, wraps: bool = False, neighbor: bool = False) -> StencilRows:
    """Rows of a box with one value for each offset, but at its faces; it may wrap along y, and have a neighbor at x."""
    nx, ny, nz = shape
    number = np.full((nz + 2, ny + 2, nx + 2), -1, dtype=np.int32)
    number[1:-1, 1:-1, 1:-1] = np.arange(nx * ny * nz).reshape(nz, ny, nx)
    if wraps:
        number[:, 0], number[:, -1] = number[:, -2], number[:, 1]
    if neighbor:
        number[1:-1, 1:-1, -1] = nx * ny * nz + np.arange(ny * nz).reshape(nz, ny)
    weights = np.empty((len(STAR), nz, ny, nx))
    weights[...] = -np.arange(1.0, 8.0)[:, None, None, None]
    center = weights[CENTER]
    center[...] = 30.0
    center[0] += 0.5
    center[:, :, -1] -= 0.25
    numbering = number.reshape(-1)
    return StencilRows(shape=shape, numbering=numbering, offsets=STAR, weights=weights.reshape(len(STAR), -1))


def alike(backend: Backend, rows: StencilRows) -> Any:
    put = backend.asarray
    return backend.lattice.alike(replace(rows, numbering=put(rows.numbering), weights=put(rows.weights)))


@pytest.mark.parametrize("shape", [(8, 6, 4), (1, 5, 2), (1, 1, 1), (40, 9, 1)])
def test_what_rows_have_in_common(backend: Backend, shape: tuple[int, int, int]) -> None:
    for rows in (box(shape), box(shape, wraps=True), box(shape, neighbor=True)):
        expected = TEXT.alike(rows)
        assert expected is not None
        assert alike(backend, rows) == expected
        unread = rows.weights.copy()
        unread[STAR.index((0, 0, -1)), 0] = 7.0  # leads out of the box, where no row is
        assert alike(backend, replace(rows, weights=unread)) == expected


def test_one_entry_of_its_own(backend: Backend) -> None:
    """Anywhere, of any offset, not a number included; a zero of another sign is none."""
    rows = box((8, 6, 4))
    for offset, place, value in (
        (0, 191, -1.5),
        (5, 0, -6.0 + 1e-15),
        (3, 100, 30.0001),
        (6, 17, np.nan),
        (3, 9, np.nan),
    ):
        weights = rows.weights.copy()
        weights[offset, place] = value
        assert TEXT.alike(replace(rows, weights=weights)) is None
        assert alike(backend, replace(rows, weights=weights)) is None
    weights = rows.weights.copy()
    weights[0] = np.where(np.arange(rows.rows) % 2, 0.0, -0.0)
    found = alike(backend, replace(rows, weights=weights))
    assert found is not None
    assert found == TEXT.alike(replace(rows, weights=weights))
    assert str(found.weights[0]) == "0.0"
