"""Slices of small grids whose shape a GPU keeps: the second set-up fills in values alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from dsolver import kernels
from dsolver.distributed.halo import halo_layout
from dsolver.grid import numbering
from dsolver.grid.box import BOX_OFFSETS, Offsets, Triple
from dsolver.grid.coloring import colored_layout
from dsolver.grid.numbering import stencil_rows
from dsolver.grid.partition import Partition
from dsolver.kernels.lattice.coarsening import offsets_below
from dsolver.kernels.layout_setup import LayoutSetup
from dsolver.problems import STAR_OFFSETS

pytestmark = pytest.mark.gpu
SLAB = offsets_below((1, 1, 2), STAR_OFFSETS)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("offsets", [BOX_OFFSETS, SLAB], ids=["box", "slab"])
@pytest.mark.parametrize("grid", [(66, 4, 5), (7, 9, 5), (33, 1, 3)])
def test_values_alone_are_filled_in(
    monkeypatch: pytest.MonkeyPatch, grid: Triple, offsets: Offsets, dtype: str
) -> None:
    from dsolver.kernels.cuda.sell.assembly import kept_shapes, slices

    backend, partition = kernels.load("cuda", 1, dtype), Partition(grid)
    layout = colored_layout(backend, partition, partition.domain, BOX_OFFSETS)
    sell, measured = backend.format("sell"), list[Any]()
    plain = slices.filled

    def noted(*given: Any, **more: Any) -> Any:
        measured.append(given)
        return plain(*given, **more)

    monkeypatch.setattr(slices, "filled", noted)
    for seed in range(2):
        weights = np.random.default_rng(seed).uniform(1.0, 2.0, (len(offsets), *grid[::-1]))
        weights[0] = 0.0  # entries that are zero are stored
        rows = stencil_rows(backend, partition, 0, offsets, backend.asarray(weights.reshape(-1)))
        found = sell.matrix(layout, rows)
        if seed:
            assert bool(measured) == (kept_shapes.known_shape(layout, rows, np.dtype(dtype)) is None)
        with monkeypatch.context() as patched:
            patched.setattr(kept_shapes, "known_shape", lambda *_: None)
            expected = sell.matrix(layout, rows)
        measured.clear()
        for name in ("diagonal", "by_color", "by_plane"):
            assert (getattr(found, name) == getattr(expected, name)).all()
        for name in ("start", "column_start", "upper", "values", "columns"):
            assert (getattr(found.local, name) == getattr(expected.local, name)).all()
        assert found.halves is not None
        assert str(found.halves) == str(expected.halves)


def test_a_row_without_a_diagonal_is_refused_again() -> None:
    grid = (8, 4, 4)
    backend, partition = kernels.load("cuda"), Partition(grid)
    layout = colored_layout(backend, partition, partition.domain, BOX_OFFSETS)
    for _ in range(2):
        weights = np.ones((27, *grid[::-1]))
        weights[13, 1, 2, 3] = 0.0
        rows = stencil_rows(backend, partition, 0, BOX_OFFSETS, backend.asarray(weights.reshape(-1)))
        with pytest.raises(ZeroDivisionError, match="row 51 of a chunk has no diagonal"):
            backend.format("sell").matrix(layout, rows)


def test_what_a_cut_tells_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that neighbors read, numbers around a chunk, rows that read a halo, shapes: ten launches a level each."""
    from dsolver.kernels.cuda.sell.assembly import assembly, slices

    backend, partition = kernels.load("cuda"), Partition((18, 4, 5), (2, 1, 1))
    weights = backend.asarray(np.random.default_rng(0).uniform(1.0, 2.0, 27 * partition[1].box.points))

    def made() -> list[Any]:
        layout = colored_layout(backend, partition, partition[1].box, BOX_OFFSETS)
        rows = stencil_rows(backend, partition, 1, BOX_OFFSETS, weights)
        sell = backend.format("sell")
        ghost, product = sell.halo_matrix(layout, rows), sell.product(layout, layout, rows, in_order=True)
        parts = [getattr(of.slices, name) for of in (ghost, product) for name in ("upper", "values", "columns")]
        sent = halo_layout(backend, layout, partition, 1, BOX_OFFSETS)
        return [rows.numbering, ghost.boundary, *parts, sent.send_rows]

    first = made()
    with monkeypatch.context() as patched:
        patched.setattr(LayoutSetup, "kept", lambda *given: given[-1]())
        patched.setattr(type(backend.layouts), "kept", LayoutSetup.kept)
        expected = made()
    made_once = (Partition, "halo_plan"), (numbering, "with_halo"), (assembly, "_boundary"), (slices, "measured")
    for where, name in made_once:
        monkeypatch.setattr(where, name, partial(pytest.fail, f"{name} was called again"))
    for each in (first, made()):
        for found, other in zip(each, expected, strict=True):
            np.testing.assert_array_equal(found.get(), other.get())
