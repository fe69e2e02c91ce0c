"""Blocks of a grid and vectors on a CPU, where some cells are no rows."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import pytest

from dsolver.kernels import load
from dsolver.kernels.cpu.vectors import CpuVectors


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
