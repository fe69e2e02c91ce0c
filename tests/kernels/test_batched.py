"""Several vectors at once: each gets the bits that the kernels of one vector make of it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dsolver.kernels import Backend
from dsolver.kernels.contract import KERNELS
from dsolver.kernels.formats.choice import Choice
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.stencil.rows import StencilRows
from tests.kernels.backends.boxes import BACKENDS, Case, colors_of, loaded, numbering_of, stencil_of

WIDTHS = (2, 3, 8)
SWEEPS = ("spmv", "spmv_dot", "residual", "jacobi_first", "jacobi_sweep", "jacobi_sweep_dot")
CHOICES = {
    "one thread a row": Choice(name="rows", threads=1, why=""),
    "eight threads a row": Choice(name="rows", threads=8, why=""),
    "a warp a row": Choice(name="rows", threads=32, why=""),
    "chunks": Choice(name="chunks", why=""),
    "slices": Choice(name="slices", why=""),
    "sorted slices": Choice(name="slices", window=64, why=""),
    "blocks": Choice(name="slices", block=3, why=""),
}


@cache
def compressed(rows: int, columns: int, each: int, longest: int = 0) -> Csr:
    """Rows of different lengths in float64; square ones have a diagonal, and a last row may be long."""
    rng = np.random.default_rng(3)
    matrix = sparse.random(rows, columns, each / columns, random_state=1, data_rvs=rng.standard_normal).tolil()
    matrix[rows - 1, :longest] = 1.0
    if rows == columns:
        matrix.setdiag(2.0 * each + rng.random(rows))
    matrix = sparse.csr_matrix(matrix)
    matrix.sort_indices()
    return Csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)


def put(backend: Backend, rows: Csr) -> Csr:
    return Csr(*(backend.asarray(part) for part in rows))


def compare(backend: Backend, name: str, width: int, sizes: dict[str, int], **shared: Any) -> None:
    """A kernel on several vectors against each alone.

    Args:
        backend: whose kernels.
        name: the kernel's.
        width: number of vectors.
        sizes: items of each argument's vectors.
        shared: the arguments that are of all vectors.
    """
    rng, kernel = np.random.default_rng(5), KERNELS[name]
    made, after = [], len(kernel.reads)
    for argument in kernel.arguments:
        if argument in shared:
            made.append(shared[argument])
            continue
        values = np.zeros((width, sizes[argument]), dtype=np.float64 if argument == "dot" else backend.dtype)
        values[:, backend.guard : -backend.guard] = rng.standard_normal(values[:, backend.guard : -backend.guard].shape)
        made.append(backend.asarray(values))
    alone = [one.copy() if place >= after else one for place, one in enumerate(made)]
    backend.batched(width).kernel(name)(*made)
    for number in range(width):
        backend.kernel(name)(*(one[number] if getattr(one, "ndim", 0) else one for one in alone))
    for argument, found, expected in zip(kernel.arguments[after:], made[after:], alone[after:], strict=True):
        found, expected = backend.to_host(found), backend.to_host(expected)
        assert found.any(), f"{name} has written nothing to {argument}"
        assert np.array_equal(found, expected), f"{argument} of {name}"


def compare_sweeps(backend: Backend, matrix: Any, widths: tuple[int, ...] = WIDTHS) -> None:
    scaled = matrix.scaled(backend.asarray(np.full(matrix.layout.shape, 1.2)))
    sizes = {**dict.fromkeys("xyzr", matrix.layout.size), "dot": 1}
    for width in widths:
        for name in SWEEPS:
            compare(backend, name, width, sizes, A=matrix, scaled=scaled)


@pytest.mark.parametrize("kind", CHOICES)
def test_sweeps_of_any_matrix(kind: str, name: str) -> None:
    if kind in ("blocks", "sorted slices") and name.startswith("cpu"):
        return  # they are for GPUs
    backend, rows = loaded(name), compressed(300, 300, 9)
    layout = backend.layouts.plain((rows.size, 1, 1))
    compare_sweeps(backend, backend.general.matrix(put(backend, rows), layout, choice=CHOICES[kind]))


def test_sweeps_of_rows_that_go_on_in_several_chunks(name: str) -> None:
    backend, rows = loaded(name), compressed(3000, 3000, 3, longest=3000)
    layout = backend.layouts.plain((rows.size, 1, 1))
    compare_sweeps(backend, backend.general.matrix(put(backend, rows), layout, choice=CHOICES["chunks"]), (2,))


@pytest.mark.parametrize("points", [7, 27])
def test_sweeps_of_a_lattice(points: int, name: str) -> None:
    backend, case = loaded(name), Case(shape=(19, 6, 5), points=points, order="parity", per_row=True)
    color, colors = colors_of(case.shape, case.order)
    offsets, weights = stencil_of(case)
    numbering = backend.asarray(numbering_of(case.shape, ()))
    rows = StencilRows(shape=case.shape, numbering=numbering, offsets=offsets, weights=backend.asarray(weights))
    layout = backend.layouts.colored(backend.asarray(color), colors, case.shape)
    matrix = backend.format("sell").matrix(layout, rows)
    compare_sweeps(backend, matrix)
    compare(backend, "spmv_dot", 3, {"x": layout.size, "y": layout.size, "dot": 1}, A=matrix.compacted())


@pytest.mark.parametrize("each", [3, 30])
def test_rows_between_two_levels(each: int, name: str) -> None:
    """Short rows, as those of interpolation, and long ones, as those of restriction."""
    backend = loaded(name)
    coarse, fine = (backend.layouts.plain((count, 1, 1)) for count in (90, 300))
    rows = put(backend, compressed(300, 90, each))
    product = backend.general.transfer(rows, fine, coarse)
    sizes = {"x": fine.size, "y": fine.size, "xc": coarse.size}
    restriction = backend.general.transfer(put(backend, compressed(90, 300, each)), coarse, fine)
    for width in WIDTHS:
        compare(backend, "prolong_add", width, sizes, P=product)
        compare(backend, "prolong_sum", width, sizes, P=product)
        compare(backend, "restrict_full", width, {"y": fine.size, "rc": coarse.size}, R=restriction)


@pytest.fixture(params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)
