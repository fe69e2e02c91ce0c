"""The coarsest level's matrix, made one that can be inverted."""

from __future__ import annotations

import numpy as np
import pytest

from dsolver.multigrid.coarse_solve import regularized, without_null_vectors


@pytest.mark.parametrize("scale", [1.0, 1e-14, 1e14])
def test_cells_that_are_left_out_have_no_part_in_a_singular_matrix(scale: float) -> None:
    """Rows with ones, beside which all couplings may be rounding, or they beside these."""
    line = scale * (np.diag([1.0, 2.0, 2.0, 1.0]) - np.eye(4, k=1) - np.eye(4, k=-1))
    matrix = np.block([[line, np.zeros((4, 3))], [np.zeros((3, 4)), np.eye(3)]])
    r = scale * np.array([1.0, -3.0, 0.5, 1.5, 0.0, 0.0, 0.0])
    x = np.linalg.solve(regularized(matrix), r)
    assert np.allclose(matrix @ x, r, rtol=0.0, atol=1e-13 * scale)
    assert np.linalg.cond(regularized(matrix)[:4, :4]) < 20.0
    assert np.allclose(regularized(np.eye(2)), np.eye(2) + 0.5), "no cell has couplings"


@pytest.mark.parametrize("symmetric", [True, False])
def test_null_vectors_get_the_eigenvalue_one_and_others_keep_theirs(symmetric: bool) -> None:
    line = np.diag([1.0, 2.0, 2.0, 1.0]) - np.eye(4, k=1) - np.eye(4, k=-1)
    sizes = np.array([1.0, 10.0, 100.0, 3.0])
    matrix = sizes[:, None] * line * (sizes if symmetric else 1.0)
    made, root = without_null_vectors(matrix), np.sqrt(matrix.diagonal())
    before, after = (np.linalg.svd(a / root[:, None] / root, compute_uv=False) for a in (matrix, made))
    assert np.allclose(np.sort(after), np.sort([*before[:-1], 1.0]))
    assert np.allclose(matrix @ np.linalg.solve(made, matrix), matrix, rtol=0.0, atol=1e-11 * abs(matrix).max())
