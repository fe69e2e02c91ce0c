"""Forecasts of a hierarchy before it is made."""

from __future__ import annotations

import pytest

from dsolver.distributed.forecast import Part
from dsolver.grid.box import Triple
from dsolver.multigrid.forecast import has_corners
from dsolver.problems import diffusion
from dsolver.program.spec import SolveSpec


@pytest.mark.parametrize(
    ("sweeps", "chunks", "grid", "periodic", "corners"),
    [
        (1, (1, 1, 1), (16, 16, 16), False, True),
        (2, (1, 1, 1), (16, 16, 16), False, False),
        (None, (1, 1, 1), (16, 16, 16), False, False),
        (1, (2, 1, 1), (16, 16, 16), False, False),
        (1, (1, 1, 1), (15, 16, 16), False, False),
        (1, (1, 1, 1), (16, 15, 16), True, False),
    ],
)
def test_r_and_p_have_corners_alone_where_faces_of_one_chunk_are_swept_once(
    sweeps: int | None, chunks: Triple, grid: Triple, periodic: bool, corners: bool
) -> None:
    bc = {"y": "periodic"} if periodic else None
    problem = diffusion(grid, lambda x, y, z: 1.0 + x + 0.0 * y * z, bc=bc or "dirichlet")
    spec = SolveSpec.plan(problem, chunks)
    assert has_corners(Part(spec.problem, spec.partition, spec.order, 0), sweeps) == corners
