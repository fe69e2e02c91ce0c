"""Boxes of rows, the same numbers on every backend, and how what is computed there is compared."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.kernels import Backend, load
from dsolver.kernels.formats.stencil.rows import StencilRows

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
        self.layout = backend.layouts.colored(put(color), colors, case.shape)
        hpcg = backend.format("hpcg")
        self.matrix = hpcg.matrix(self.layout, self.stencil, put(is_coarse))
        self.outer = hpcg.halo_matrix(self.layout, self.stencil)
        coarse_color, coarse_colors = colors_of((nx, ny, nz), case.order)
        self.coarse = backend.layouts.colored(put(coarse_color), coarse_colors, (nx, ny, nz))
        fine_row = np.flatnonzero(is_coarse).astype(np.int32)
        self.transfer = hpcg.injection(self.layout, self.coarse, put(fine_row))

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
        return self.backend.to_host(self.backend.vectors.unload(where, x))


@cache
def box(case: Case, name: str) -> Box:
    return Box(case, loaded(name))


def close(found: F64, expected: F64, tolerance: float) -> None:
    assert np.isfinite(found).all()
    scale = max(float(np.abs(expected).max(initial=0.0)), 0.1)  # a residual may vanish; what it came from is about 1
    assert float(np.abs(found - expected).max(initial=0.0)) <= tolerance * scale


def both(pair: tuple[Box, Box], run: Any) -> None:
    """`run(box)` gives the same blocks and scalars on both."""
    for found, expected in zip(run(pair[0]), run(pair[1]), strict=True):
        close(np.asarray(found), np.asarray(expected), TOLERANCE[pair[0].backend.dtype.name])
