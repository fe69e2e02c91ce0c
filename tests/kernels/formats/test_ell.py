"""Rows in ELL form, tables with as many entries in every row: the same on every backend, and their products."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver import kernels
from dsolver.grid.numbering import chunk_numbering
from dsolver.grid.partition import Partition
from dsolver.kernels.cpu.csr.rows import tabulated
from dsolver.kernels.formats.csr import Csr
from dsolver.problems import BOX_OFFSETS

F64 = npt.NDArray[np.float64]
GRID = (7, 6, 5)
NUMPY = kernels.load("numpy")
BACKENDS = ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
RNG = np.random.default_rng(5)


def lattice(sigma: float) -> F64:
    """A matrix of links between neighbors of a lattice that jump by 10⁴."""
    points = GRID[0] * GRID[1] * GRID[2]
    kappa = np.where(RNG.random(points) < 0.5, 1e4, 1.0)
    around = chunk_numbering(NUMPY, Partition(GRID), 0, BOX_OFFSETS)
    nx, ny, nz = GRID
    dense = np.zeros((points, points))
    for i, j, k in BOX_OFFSETS:
        columns = around[1 + k : 1 + k + nz, 1 + j : 1 + j + ny, 1 + i : 1 + i + nx].reshape(-1)
        if (i, j, k) != (0, 0, 0):
            link = 2.0 / (1.0 / kappa + 1.0 / kappa[columns])
            dense[np.flatnonzero(columns >= 0), columns[columns >= 0]] = -link[columns >= 0]
    dense[np.diag_indices(points)] = sigma - dense.sum(axis=1)
    return dense


def sparse(dense: F64) -> Csr:
    row, column = np.nonzero(dense)
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(dense)))]).astype(np.int64)
    return Csr(start, column.astype(np.int32), dense[row, column])


def table(backend: Any, rows: Csr) -> Any:
    return backend.amg.table(backend.amg.on_device(rows), rows.width)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tables_are_those_of_the_host(backend: str) -> None:
    made, rows = kernels.load(backend), sparse(lattice(sigma=0.0))
    found, expected = table(made, rows), tabulated(rows, rows.width)
    np.testing.assert_array_equal(made.to_host(found.columns), expected.columns)
    np.testing.assert_array_equal(made.to_host(found.values), expected.values)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_matrix_from_a_table_multiplies_as_it_should(backend: str) -> None:
    dense = lattice(sigma=0.1)
    made = kernels.load(backend)
    layout = made.layouts.plain((len(dense), 1, 1))
    matrix = made.format("sell").matrix(layout, table(made, sparse(dense)))
    x, y = made.zeros(layout.size), made.zeros(layout.size)
    values = RNG.standard_normal(len(dense))
    x[layout.position] = made.asarray(values)
    made.kernel("spmv")(matrix, x, y)
    np.testing.assert_allclose(made.to_host(y[layout.position]), dense @ values, rtol=1e-11, atol=1e-8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_table_without_a_diagonal_is_refused(backend: str) -> None:
    made = kernels.load(backend)
    dense = np.array([[1.0, -1.0], [-1.0, 0.0]])
    with pytest.raises(ZeroDivisionError, match="row 1 "):
        made.format("sell").matrix(made.layouts.plain((2, 1, 1)), table(made, sparse(dense)))
