"""Ghost parts of general matrices on all backends, against SciPy's products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dsolver import kernels
from dsolver.kernels import contract
from dsolver.kernels.formats.csr import Csr
from tests.multigrid.hierarchies import on_host

ROWS, SLOTS = 700, 1500
ENTRIES = {"none": (0, 0, 0), "one": (300, 1, 1), "some": (90, 1, 15), "many": (40, 30, 300), "all": (5, 1, SLOTS)}
"""Boundary rows, and the least and most entries of one."""
LIMIT = {"float64": 1e-13, "float32": 1e-5}


@pytest.mark.parametrize("dtype", list(LIMIT))
@pytest.mark.parametrize("backend", ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", list(ENTRIES))
def test_ghost_parts(name: str, backend: str, dtype: str) -> None:
    count, least, most = ENTRIES[name]
    rng, made = np.random.default_rng(7), kernels.load(backend, dtype=dtype)
    lengths = np.linspace(least, most, count).astype(np.int64)
    rows = [np.sort(rng.choice(SLOTS, length, replace=False)) for length in lengths]
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *rows]).astype(np.int32)
    start, values = np.concatenate([[0], np.cumsum(lengths)]), rng.standard_normal(len(columns))
    boundary = np.sort(rng.choice(ROWS, count, replace=False))
    whole = sparse.csr_array((values, columns, start), shape=(count, SLOTS))
    a = sparse.csr_array(sparse.eye_array(ROWS, format="csr")[:, boundary] @ whole)
    layout, guard = made.layouts.plain((ROWS, 1, 1)), made.guard
    ghost = made.general.ghost(layout.position[boundary], Csr(*map(made.asarray, (start, columns, values))), SLOTS)
    assert ghost.size == count

    def vector(values: Any, size: int) -> Any:
        x = np.zeros((*values.shape[:-1], size), dtype=dtype)
        x[..., guard : guard + values.shape[-1]] = values
        return made.asarray(x)

    def run(kernel: contract.Kernel, *arguments: Any, one: Any = ghost) -> None:
        getattr(one, kernel.name)(*arguments)

    def check(found: Any, expected: Any) -> None:
        there = on_host(found)[..., guard : guard + ROWS]
        assert np.abs(there - expected).max() <= LIMIT[dtype] * np.abs(expected).max()

    h, x, y = rng.standard_normal((2, SLOTS)), rng.standard_normal(ROWS), rng.standard_normal((2, ROWS))
    slots, places = vector(h, SLOTS + 2 * guard), vector(x, layout.size)
    out, q, dots = vector(y, layout.size), made.zeros(count), made.asarray(np.array([2.5, np.nan if count else 0.0]))
    run(contract.SPMV_HALO, slots[0], out[0])
    check(out[0], y[0] + a @ h[0])
    run(contract.SUBTRACT_HALO, slots[0], out[0])
    check(out[0], y[0])
    run(contract.TIMES_HALO_DOT, slots[0], places, q, dots[1:])
    run(contract.ADD_HALO_DOT, q, dots[1:], out[0], dots[:1])
    check(out[0], y[0] + a @ h[0])
    assert on_host(dots)[0] == pytest.approx(2.5 + x @ (a @ h[0]), rel=10 * LIMIT[dtype])
    run(contract.SPMV_HALO, slots[0], out[1], one=ghost.scaled_rows(places))
    check(out[1], y[1] + x * (a @ h[0]))
    run(contract.SUBTRACT_HALO, slots[0], out[1], one=ghost.scaled_rows(places))
    run(contract.SPMV_HALO, slots[0], out[1], one=ghost.scaled_columns(slots[1]))
    check(out[1], y[1] + a @ (h[1] * h[0]))
    beside = made.xp.ascontiguousarray(slots.T).T  # two columns come side by side
    out = vector(y, layout.size)
    run(contract.SPMV_HALO, beside, out, one=ghost.batched(2))
    check(out, y + (a @ h.T).T)
