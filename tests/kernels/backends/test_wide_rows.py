"""Rows of very many entries, as a dense row of an otherwise sparse matrix is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver.kernels.formats.ell import Ell
from dsolver.kernels.formats.sell import WIDEST
from tests.kernels.backends.boxes import F64, TOLERANCE, close, loaded

ROWS, DENSE = 1600, 1500


def arrow(backend: Any) -> tuple[Ell, F64]:
    """Row 0 has entries in columns 0 to 1500, these rows one in column 0: as a table, and with its zeros."""
    rng = np.random.default_rng(3)
    dense = np.zeros((ROWS, ROWS))
    dense[0, : DENSE + 1] = dense[: DENSE + 1, 0] = rng.uniform(-1.0, 0.0, DENSE + 1)
    dense[np.arange(ROWS), np.arange(ROWS)] = np.where(np.arange(ROWS) == 0, 2.0 * DENSE, 4.0)
    columns = np.full((DENSE + 1, ROWS), -1, dtype=np.int32)
    columns[:, 0] = np.arange(DENSE + 1)
    columns[0, 1:], columns[1, 1 : DENSE + 1] = np.arange(1, ROWS), 0
    values = np.where(columns < 0, 0.0, dense[np.arange(ROWS), columns])
    return Ell(columns=backend.asarray(columns), values=backend.asarray(values)), dense


@pytest.mark.parametrize("first", [False, True], ids=["swept last", "swept first"])
def test_a_row_of_1500_entries(name: str, *, first: bool) -> None:
    found, expected = (_results(kind, first=first) for kind in (name, "numpy"))
    for ours, theirs in zip(found, expected, strict=True):
        close(ours, theirs, TOLERANCE[loaded(name).dtype.name])


def _results(name: str, *, first: bool) -> list[F64]:
    """Products and half sweeps; in the text-book against the dense matrix, too."""
    backend = loaded(name)
    rows, dense = arrow(backend)
    color = np.full(ROWS, int(first), dtype=np.int32)
    color[0] = int(not first)
    layout = backend.layouts.colored(backend.asarray(color), 2, (ROWS, 1, 1))
    a = backend.format("sell").matrix(layout, rows)
    values = np.random.default_rng(4).standard_normal((ROWS, 1, 1))
    x, r, y, forward, rest, backward = (backend.zeros(layout.size) for _ in range(6))
    dot = backend.scalars(1)
    backend.kernel("load")(layout, values, x)
    backend.kernel("fill")(layout, 1.0, r)
    backend.kernel("spmv_dot")(a, x, y, dot)
    backend.kernel("forward")(a, r, forward)
    backend.kernel("lower_residual")(a, r, forward, rest)
    backend.kernel("backward")(a, rest, backward)
    found = [backend.to_host(backend.vectors.unload(layout, v)).reshape(-1) for v in (y, forward, rest, backward)]
    if name == "numpy":
        close(found[0], dense @ values.reshape(-1), 1e-13)
    else:
        width = np.diff(backend.to_host(a.local.start)) // 32
        assert width.max() == DENSE
    return [*found, backend.to_host(dot).copy()]


def test_more_entries_than_a_slice_can_have_are_refused(name: str) -> None:
    backend = loaded(name)
    rows, columns = backend.layouts.plain((32, 1, 1)), backend.layouts.plain((WIDEST + 1, 1, 1))
    for count in (WIDEST, WIDEST + 1):
        table = np.full((count, 32), -1, dtype=np.int32)
        table[:, 5] = np.arange(count)
        entries = Ell(columns=backend.asarray(table), values=backend.asarray(np.ones(table.shape)))
        if count > WIDEST:
            with pytest.raises(ValueError, match=f"have {WIDEST + 1} columns of entries and can have {WIDEST}"):
                backend.format("sell").product(rows, columns, entries, in_order=True)
            continue
        product = backend.format("sell").product(rows, columns, entries, in_order=True)
        x, y = backend.zeros(columns.size), backend.zeros(rows.size)
        backend.kernel("fill")(columns, 1.0, x)
        backend.kernel("restrict_full")(product, x, y)
        expected = np.zeros(32)
        expected[5] = WIDEST
        assert (backend.to_host(backend.vectors.unload(rows, y)).reshape(-1) == expected).all()
