"""The levels whose R and P may lack the second color: those that are swept once, in a chunk alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver import problems
from dsolver.engines.eager.engine import EagerEngine
from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition
from dsolver.kernels import load
from dsolver.kernels.reference.sell import NumpySell
from dsolver.multigrid import hierarchy
from dsolver.multigrid.finest_rows import FinestRows


@pytest.mark.parametrize(
    ("sweeps", "chunks", "rough", "asked"),
    [
        (None, (1, 1, 1), False, True),
        (None, (1, 1, 1), True, False),
        (1, (1, 1, 1), True, True),
        (2, (1, 1, 1), False, False),
        (None, (1, 1, 2), False, False),
    ],
)
def test_levels_that_are_swept_once_alone(
    monkeypatch: pytest.MonkeyPatch, sweeps: int | None, chunks: Triple, rough: bool, asked: bool
) -> None:
    colors: list[int] = []

    def noted(*given: Any, in_place: bool) -> None:
        assert not in_place  # on a GPU alone
        colors.append(given[3].colors)

    monkeypatch.setattr(NumpySell, "half_transfer", noted)
    grid = (12, 12, 12)
    rng = np.random.default_rng(0)
    partition = Partition(grid, chunks)
    engine = EagerEngine(partition, load("numpy"))
    weights = -(10.0 ** rng.uniform(-3.0 if rough else -0.2, 0.0, (7, *grid[::-1])))
    weights[3] = 8.0
    parts = [weights[(slice(None), *chunk.box.slices[::-1])].reshape(-1).copy() for chunk in partition]
    rows = FinestRows(
        partition=partition,
        offsets=problems.STAR_OFFSETS,
        weights=engine.per_chunk(lambda _, number: parts[number]),
        constant=False,
        lattice=True,
    )
    hierarchy.build(engine, lambda: rows, sweeps=sweeps)
    assert (2 in colors) == asked
