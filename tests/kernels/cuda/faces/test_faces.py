"""Symmetric stars in the colors of a checkerboard as faces: the bits of sliced ELL, for one vector and for several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dsolver import kernels
from dsolver.cost.memory import part_of
from dsolver.grid.box import STAR_OFFSETS, Flags, Triple
from dsolver.grid.coloring import colored_layout
from dsolver.grid.numbering import stencil_rows
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.formats.checkered.faces import Faces
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.formats.stencil.rows import STAR, StencilRows
from dsolver.multigrid.forecast import levels_of
from dsolver.preconditioners import Multigrid
from dsolver.problems import diffusion
from dsolver.program.spec import SolveSpec

pytestmark = pytest.mark.gpu
F32, F64 = "float32", "float64"
NOT: Flags = (False, False, False)
CASES: list[tuple[Triple, Triple, Flags]] = [
    ((66, 9, 7), (1, 1, 1), NOT),
    ((4, 3, 1), (1, 1, 1), NOT),
    ((6, 4, 18), (1, 1, 1), (True, True, True)),
    ((12, 7, 9), (1, 1, 2), (True, False, False)),
]


def symmetric(grid: Triple, wraps: Flags) -> Any:
    """Weights of a whole grid, float64 (7, nz, ny, nx), with a dominant diagonal."""
    rng = np.random.default_rng(3)
    weights = np.zeros((7, *grid[::-1]))
    for axis in range(3):
        face = -rng.uniform(0.2, 1.0, grid[::-1])
        along = np.moveaxis(face, 2 - axis, 0)
        if not wraps[axis]:
            along[-1] = 0.0
        weights[4 + axis], weights[2 - axis] = face, np.moveaxis(np.roll(along, 1, axis=0), 0, 2 - axis)
    weights[3] = 0.5 - weights.sum(axis=0)
    return weights


def rows_of(backend: Backend, partition: Partition, number: int, weights: Any) -> tuple[Layout, StencilRows]:
    """The storage order and the rows of a chunk."""
    box = partition[number].box
    own = tuple(slice(lo, hi) for lo, hi in zip(box.lo[::-1], box.hi[::-1], strict=True))
    put = backend.asarray(np.ascontiguousarray(weights[(slice(None), *own)]).reshape(7, -1))
    return colored_layout(backend, partition, box, STAR_OFFSETS), stencil_rows(backend, partition, number, STAR, put)


def vectors(backend: Backend, layout: Layout, count: int) -> Any:
    out = backend.xp.zeros((count, layout.size), dtype=backend.dtype)
    values = np.random.default_rng(0).standard_normal((count, layout.rows)).astype(backend.dtype)
    out[:, layout.position] = backend.asarray(values)
    return out


def test_offsets_are_those_of_a_grid() -> None:
    assert STAR == STAR_OFFSETS


PASSES: dict[str, str] = {
    "spmv": "x",
    "spmv_dot": "x",
    "residual": "rx",
    "jacobi_sweep": "rx",
    "jacobi_sweep_dot": "rx",
    "upper_residual": "x",
    "lower_residual": "rx",
    "forward": "r",
    "backward": "r",
    "sweep_backward": "rx",
}
"""The vectors that each kernel reads."""


def made_by(a: Any, backend: Backend, name: str) -> tuple[Any, float]:
    """Result of a kernel for vectors that are the same everywhere, and its dot product."""
    r, x, out = vectors(backend, a.layout, 3)
    if name == "sweep_backward":
        a.sweep_backward(r, x, out)
        return backend.to_host(backend.vectors.unload(a.layout, x)), 0.0
    given = [{"r": r, "x": x}[letter] for letter in PASSES[name]]
    if name.startswith("jacobi"):
        given.insert(0, a.scaled(backend.asarray(np.full(a.layout.shape, 1.5))))
    dot = backend.scalars(1)
    getattr(a, name)(*given, out, *([dot] if name.endswith("dot") else []))
    return backend.to_host(backend.vectors.unload(a.layout, out)), float(dot[0])


@pytest.mark.parametrize(("grid", "cut", "wraps"), CASES)
def test_faces_have_the_bits_of_slices(grid: Triple, cut: Triple, wraps: Flags) -> None:
    backend, partition = kernels.load("cuda"), Partition(grid, cut, periodic=wraps)
    for number in range(len(partition)):
        layout, rows = rows_of(backend, partition, number, symmetric(grid, wraps))
        sell = backend.format("sell")
        faces, slices = sell.matrix(layout, rows), sell.matrix(replace(layout, checkered=None), rows)
        assert isinstance(faces, Faces)
        assert not isinstance(slices, Faces)
        assert faces.nbytes < slices.nbytes
        assert (faces.diagonal == slices.diagonal).all()
        for name in PASSES:
            (found, dot), (want, other) = (made_by(a, backend, name) for a in (faces, slices))
            assert (found == want).all(), name
            assert dot == pytest.approx(other, rel=1e-12)


@pytest.mark.parametrize(("grid", "cut", "wraps"), CASES)
def test_faces_of_floats(grid: Triple, cut: Triple, wraps: Flags) -> None:
    backend, wide, textbook = (kernels.load(name, 1, of) for name, of in (("cuda", F32), ("cuda", F64), ("numpy", F32)))
    partition = Partition(grid, cut, periodic=wraps)
    weights = symmetric(grid, wraps)
    sells = [one.format("sell") for one in (backend, wide, textbook)]
    rows = [rows_of(one, partition, 0, weights) for one in (backend, wide, textbook)]
    faces, exact, slices = (sell.matrix(*given) for sell, given in zip(sells, rows, strict=True))
    made = sells[0].narrowed(exact)
    assert all((getattr(made, name) == getattr(faces, name)).all() for name in ("diagonal", "values"))
    for name in PASSES:
        (found, dot), (want, other) = made_by(made, backend, name), made_by(slices, textbook, name)
        np.testing.assert_allclose(found, want, atol=3e-5 * abs(want).max(), rtol=0.0)
        assert dot == pytest.approx(other, rel=1e-4)


@pytest.mark.parametrize("dtype", [F64, F32])
def test_several_vectors_have_the_bits_of_one(dtype: str) -> None:
    backend = kernels.load("cuda", 1, dtype)
    for grid, cut, wraps in CASES[::2]:
        partition = Partition(grid, cut, periodic=wraps)
        layout, rows = rows_of(backend, partition, 0, symmetric(grid, wraps))
        faces = backend.format("sell").matrix(layout, rows)
        r, x, out, want = (vectors(backend, layout, 3) for _ in range(4))
        dots, alone = backend.xp.zeros((3, 1)), backend.xp.zeros((3, 1))
        for name in ("spmv", "residual", "upper_residual", "lower_residual", "forward", "backward"):
            given = [{"r": r, "x": x}[letter] for letter in PASSES[name]]
            getattr(faces.batched(3), name)(*given, out)
            for n in range(3):
                getattr(faces, name)(*(one[n] for one in given), want[n])
            assert (out == want).all(), name
        out[:], want[:] = x, x
        faces.batched(3).sweep_backward(r, out, out)
        for n in range(3):
            faces.sweep_backward(r[n], want[n], want[n])
        assert (out == want).all()
        faces.batched(3).spmv_dot(x, out, dots)
        for n in range(3):
            faces.spmv_dot(x[n], want[n], alone[n])
        assert (dots == alone).all()
        assert (out == want).all()


def test_values_that_lose_nothing_are_stored_in_less() -> None:
    backend = kernels.load("cuda")
    layout, rows = rows_of(backend, Partition((6, 4, 5), (1, 1, 1)), 0, np.round(8 * symmetric((6, 4, 5), NOT)))
    faces = backend.format("sell").matrix(layout, rows)
    less = faces.compacted()
    assert less.values.dtype == np.float32
    x, y, want = vectors(backend, layout, 3)
    less.spmv(x, y)
    faces.spmv(x, want)
    assert (y == want).all()
    less.residual(x, x, y)
    faces.residual(x, x, want)
    assert (y == want).all()


def test_only_symmetric_stars_are_faces() -> None:
    backend, partition = kernels.load("cuda"), Partition((6, 4, 5), (1, 1, 1))
    weights = symmetric((6, 4, 5), NOT)
    weights[5, 2, 1, 3] *= 1.0 + 1e-15
    layout, rows = rows_of(backend, partition, 0, weights)
    assert not isinstance(backend.format("sell").matrix(layout, rows), Faces)
    weights[3, 1, 1, 1], weights[5, 2, 1, 3] = 0.0, weights[1, 2, 2, 3]
    with pytest.raises(ZeroDivisionError, match="row 31 "):
        backend.format("sell").matrix(*rows_of(backend, partition, 0, weights))
    odd = Partition((7, 4, 5), (1, 1, 1))
    assert not isinstance(backend.format("sell").matrix(*rows_of(backend, odd, 0, symmetric((7, 4, 5), NOT))), Faces)


def test_long_boxes_have_slices() -> None:
    backend, grid = kernels.load("cuda"), (2, 1, 65_536)
    layout, rows = rows_of(backend, Partition(grid), 0, symmetric(grid, NOT))
    assert not isinstance(backend.format("sell").matrix(layout, rows), Faces)


def test_their_bytes_are_forecast() -> None:
    grid: Triple = (66, 9, 7)
    backend = kernels.load("cuda")
    layout, rows = rows_of(backend, Partition(grid), 0, symmetric(grid, NOT))
    made = backend.format("sell").matrix(layout, rows)
    spec = SolveSpec.plan(diffusion(grid, np.ones(grid)), (1, 1, 1), m=Multigrid())
    order = sum(int(getattr(layout, name).nbytes) for name in ("position", "row", "color"))
    assert levels_of(part_of(spec, 0, cuda=True))[0].matrix == made.nbytes + order
    assert not levels_of(part_of(spec, 0, cuda=False))[0].faces
