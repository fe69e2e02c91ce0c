"""Coefficients of cells as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from dsolver.discretize.coefficients import CellArrays
from dsolver.kernels import load


def test_values_in_lattice_order_are_no_copies() -> None:
    """Eleven copies of κ and of the mask were made in a set-up."""
    backend, shape = load("cpu"), (3, 4, 5)
    values = np.random.default_rng(0).standard_normal(shape)
    plain = backend.layouts.plain(shape)
    vectors: Any = backend.vectors
    for layout, copied in ((plain, False), (backend.layouts.permuted(plain, np.arange(60)[::-1]), True)):
        vector = np.zeros(layout.size)
        vectors.load(layout, values, vector)
        found = CellArrays(backend, layout, {"kappa": vector})["kappa"]
        assert np.array_equal(found, values.T)
        assert np.shares_memory(found, vector) != copied
