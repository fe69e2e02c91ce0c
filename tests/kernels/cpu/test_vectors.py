"""Blocks of a grid and vectors on a CPU, where some cells are no rows."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import pytest

from dsolver.kernels import load
from dsolver.kernels.cpu.vectors import CpuVectors


def test_the_order_of_some_rows_is_that_of_a_box_without_the_others() -> None:
    for name in ("cpu", "numpy"):
        layouts, closed = load(name).layouts, np.random.default_rng(1).random(210) < 0.6
        wanted = layouts.opened(layouts.plain((7, 5, 6)), closed)
        found = layouts.some((7, 5, 6), np.flatnonzero(~closed).astype(np.int32))
        for part in ("position", "row", "color", "color_slices") if layouts.guard else ():
            assert np.array_equal(getattr(found, part), getattr(wanted, part)), part
        assert not layouts.guard or (found.size, found.in_order, found.places.shape) == (wanted.size, False, (210,))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_cells_that_are_left_out_are_neither_loaded_nor_unloaded(dtype: str, order: Literal["C", "F"]) -> None:
    kernels, rng, shape = load("cpu", dtype=dtype, threads=2), np.random.default_rng(5), (70, 50, 60)
    vectors = cast(CpuVectors, kernels.vectors)
    closed = rng.random(210000) < 0.6
    layout = kernels.layouts.opened(kernels.layouts.plain(shape), closed)
    block = np.asarray(rng.standard_normal(shape), order=order)  # more items than are worth a thread
    x = np.zeros(layout.size, dtype=dtype)
    vectors.load(layout, block, x)
    stored = block.astype(dtype).reshape(-1, order="F")
    assert np.array_equal(x[layout.row >= 0], stored[~closed])
    assert not x[layout.row < 0].any()
    expected = np.where(closed.reshape(shape, order="F"), 0.0, block).astype(dtype)
    assert np.array_equal(vectors.unload(layout, x), expected)
    vectors.fill(layout, 3.0, x)
    assert (x[layout.row >= 0] == 3.0).all()
    assert not x[layout.row < 0].any()
    vectors.fill(layout, 0.0, x)
    assert not x.any()
