"""Set-up of slices on a GPU: the same slices as a CPU's."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest

from dsolver.kernels import load
from dsolver.kernels.formats.ell import Ell
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.sell import Slices
from tests.kernels.backends.boxes import AROUND, SOME_NEIGHBORS, Box, Case, box
from tests.support.on_host import packed

CASES = [
    Case(shape=(7, 5, 3), points=27, order="parity", neighbors=SOME_NEIGHBORS, per_row=True),
    Case(shape=(16, 8, 4), points=27, order="parity", neighbors=AROUND),
    Case(shape=(1, 9, 4), points=7, order="natural", neighbors=SOME_NEIGHBORS),
    Case(shape=(33, 5, 4), points=7, order="parity"),
]


def tables_of(b: Box) -> Ell:
    """The rows of a box as a table."""
    rows = b.stencil
    nx, ny, first, line, lines = rows.walk
    i = np.arange(rows.rows)
    place = first + i % nx + line * (i // nx % ny + lines * (i // (nx * ny)))
    columns = rows.numbering[place[None, :] + rows.steps()[:, None]]
    values = np.broadcast_to(rows.weights.reshape(len(columns), -1), columns.shape)
    return Ell(columns=columns, values=np.where(columns < 0, 0.0, values))


def equal(found: Slices, wanted: Slices) -> None:
    for name in ("start", "upper", "column_start", "values", "columns"):
        ours, theirs = getattr(found, name), getattr(wanted, name)
        ours = ours if isinstance(ours, np.ndarray) else ours.get()
        assert ours.dtype == theirs.dtype, name
        assert np.array_equal(ours, theirs), name


def on_gpu(rows: Ell) -> Ell:
    import cupy

    return Ell(columns=cupy.asarray(rows.columns), values=cupy.asarray(rows.values))


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("table", [False, True])
def test_rows_of_a_stencil_and_of_a_table(case: Case, *, table: bool) -> None:
    from dsolver.kernels.cuda.sell.assembly import assembly, slices

    here, there = box(case, "cpu"), box(case, "cuda")
    rows = on_gpu(tables_of(here)) if table else there.stencil
    wanted = load("cpu").format("sell").matrix(here.layout, here.stencil)
    found, ends = assembly.square(slices.LOCAL, there.layout, rows, np.dtype(np.float64))
    equal(found.local, wanted.local)
    assert np.array_equal(found.diagonal.get(), wanted.diagonal)
    assert np.array_equal(ends[:, 0].get(), wanted.local.upper)
    halo = assembly.halo_matrix(there.layout, there.layout, rows, np.dtype(np.float64))
    assert np.array_equal(halo.boundary.get(), here.outer.boundary)
    equal(halo.slices, here.outer.slices)


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=str)
def test_entries_at_coarse_points_come_last(case: Case) -> None:
    import cupy

    from dsolver.kernels.cuda.hpcg import matrix
    from dsolver.kernels.cuda.sell.assembly import assembly, slices

    here, there = box(case, "cpu"), box(case, "cuda")
    late = np.zeros(case.rows, dtype=np.uint8)
    late[here.layout.row[here.transfer.fine_of[here.coarse.position]]] = 1
    dtype = np.dtype(np.float64)
    found, ends = assembly.square(matrix.SMOOTHED, there.layout, there.stencil, dtype, cupy.asarray(late))
    equal(found.local, here.matrix.local)
    assert np.array_equal(ends[:, 1].get(), here.matrix.coarse)
    headers = matrix._packed(slices.packed(found.local), cupy.asarray(here.matrix.coarse))
    assert np.array_equal(headers.get().reshape(-1), packed(here.matrix.local, coarse=here.matrix.coarse))


@pytest.mark.parametrize(("slices", "looks"), [(1, 2), (None, 1)])
def test_one_batch_looks_for_its_candidates_once(
    slices: int | None, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the time of set-up on CPUs went into candidates."""
    from dsolver.kernels.cpu.sell import assembly

    b, sell, took = box(CASES[0], "cpu"), load("cpu").format("sell"), Mock(side_effect=assembly._take)
    expected = sell.matrix(b.layout, b.stencil)
    monkeypatch.setattr(assembly, "_take", took)
    if slices is not None:
        monkeypatch.setattr(assembly, "BATCH", slices)
    equal(sell.matrix(b.layout, b.stencil).local, expected.local)
    batches = 1 if slices is None else (len(b.layout.row) // SLICE - 2) // slices
    assert took.call_count == looks * batches


@pytest.mark.gpu
@pytest.mark.parametrize("in_order", [False, True])
def test_rectangular_rows(*, in_order: bool) -> None:
    from dsolver.kernels.cuda.sell.assembly import assembly

    here, there, dtype = box(CASES[1], "cpu"), box(CASES[1], "cuda"), np.dtype(np.float64)
    rng, own = np.random.default_rng(8), here.coarse.rows
    columns = rng.integers(-1, own + 40, (5, here.layout.rows)).astype(np.int32)
    columns[3] = np.minimum(np.arange(here.layout.rows), own - 1)  # neighbors in lattice order
    rows = Ell(columns=columns, values=rng.standard_normal(columns.shape))
    wanted = load("cpu").format("sell").product(here.layout, here.coarse, rows, in_order=in_order)
    found = assembly.product(there.layout, there.coarse, on_gpu(rows), dtype, in_order=in_order)
    equal(found.slices, wanted.slices)
    assert np.array_equal(found.target.get(), wanted.target)
    halo = assembly.halo_matrix(there.layout, there.coarse, on_gpu(rows), dtype)
    outer = load("cpu").format("sell").halo_product(here.layout, here.coarse, rows)
    assert np.array_equal(halo.boundary.get(), outer.boundary)
    equal(halo.slices, outer.slices)


@pytest.mark.gpu
@pytest.mark.parametrize("listed", [False, True])
def test_headers_tell_what_slices_are(*, listed: bool) -> None:
    import cupy

    from dsolver.kernels.cuda.sell.assembly import slices

    here, there = box(CASES[0], "cpu"), box(CASES[0], "cuda")
    order = np.random.default_rng(3).permutation(len(here.matrix.local.upper)) if listed else None
    found = slices.packed(there.matrix.local, None if order is None else cupy.asarray(order))
    assert np.array_equal(found.get().reshape(-1), packed(here.matrix.local, order))
