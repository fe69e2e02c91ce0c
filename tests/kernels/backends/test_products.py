"""Ways from one layout to another: rectangular matrices and routes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver.kernels.formats.ell import Ell
from dsolver.kernels.formats.layout import SLICE
from tests.kernels.backends.boxes import Box, Case, both, box, lattice


@pytest.mark.parametrize("in_order", [False, True])
def test_rectangular_products(pair: tuple[Box, Box], *, in_order: bool) -> None:
    slots = 40

    def run(b: Box) -> Any:
        rng = np.random.default_rng(8)
        rows, own = b.layout.rows, b.coarse.rows
        columns = rng.integers(-1, own + slots, (5, rows)).astype(np.int32)
        columns[3] = np.minimum(np.arange(rows), own - 1)  # neighbors in lattice order
        columns[4, ::3] = -1
        put = b.backend.asarray
        entries = Ell(columns=put(columns), values=put(rng.standard_normal(columns.shape)))
        lattice = b.backend.layouts.colored(put(np.zeros(own, dtype=np.int32)), 1, b.coarse.shape)
        inner = b.backend.format("sell").product(b.layout, lattice, entries, in_order=in_order)
        outer = b.backend.format("sell").halo_product(b.layout, lattice, entries)
        xc = b.backend.zeros(lattice.size)
        b.kernel("load")(lattice, rng.standard_normal(b.coarse.shape), xc)
        x, y = b.vector(1), b.zeros()
        b.kernel("prolong_add")(inner, xc, x)
        b.kernel("restrict_full")(inner, xc, y)
        h = put(np.pad(rng.standard_normal(slots), b.backend.guard).astype(b.backend.dtype))
        both_parts = b.zeros()
        b.kernel("copy")(y, both_parts)
        b.kernel("spmv_halo")(outer, h, both_parts)
        return b.block(x), b.block(y), b.block(both_parts)

    both(pair, run)


def test_products_in_lattice_order_are_runs(name: str) -> None:
    """Restriction to a lattice of coarse points from rows in eight colors: 27 entries a row, all of them runs."""
    if name == "numpy":
        return
    b = box(Case(shape=(128, 4, 4), points=27, order="parity"), name)
    nx, ny, nz = b.coarse.shape
    i, j, k = lattice(b.coarse.shape)
    columns = np.stack([(2 * i + 1) + dx + 128 * (2 * j + 1 + 4 * (2 * k + 1)) for dx in (-1, 0)]).astype(np.int32)
    entries = Ell(columns=b.backend.asarray(columns), values=b.backend.asarray(np.ones(columns.shape)))
    inner = b.backend.format("sell").product(b.coarse, b.layout, entries, in_order=True)
    host = {field: b.backend.to_host(getattr(inner.slices, field)) for field in ("start", "column_start")}
    assert (np.diff(host["column_start"]) * SLICE == np.diff(host["start"])).all()
    assert (np.diff(host["start"]) == 2 * SLICE).all()
    assert nx * ny * nz == len(columns[0])


def test_move(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        lattice_order = b.backend.layouts.colored(
            b.backend.asarray(np.zeros(b.case.rows, dtype=np.int32)), 1, b.case.shape
        )
        x, y, z = b.vector(1), b.backend.zeros(lattice_order.size), b.vector(2)
        b.kernel("move")(b.backend.layouts.route(b.layout.position, lattice_order.position), x, y)
        some = b.backend.to_host(lattice_order.position)[::3]
        there = b.backend.to_host(b.layout.position)[1::3]
        count = min(len(some), len(there))
        b.kernel("move")(b.backend.layouts.route(some[:count], there[:count]), y, z)
        host = b.backend.to_host(y)
        assert not np.delete(host, b.backend.to_host(lattice_order.position)).any()
        return host[b.backend.to_host(lattice_order.position)], b.block(z)

    both(pair, run)
