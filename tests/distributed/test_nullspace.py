"""The part of b that no x can reach, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver import kernels
from dsolver.distributed import nullspace
from dsolver.distributed.nullspace import Constants, NullSpace, NullVectors
from dsolver.engines.eager.engine import EagerEngine
from dsolver.grid.partition import Partition

GRID = (5, 4, 3)


def found(given: bool, b: Any) -> tuple[Any, Any]:
    """Findings on b, and what becomes of it, with ones for the null space."""
    partition = Partition(GRID, (2, 1, 1))
    engine = EagerEngine(partition, kernels.load("numpy"))
    layout = engine.per_chunk(lambda backend, number: backend.layouts.plain(partition[number].box.shape))
    ones, x, y, z = (engine.field(layout) for _ in range(4))
    engine.fill(layout, 1.0, ones)
    engine.fill(layout, 1.0 / np.sqrt(b.size) if given else 1.0, y)
    space: NullSpace = NullVectors(engine, [y], (z, ones)) if given else Constants(engine, ones, y, z)
    engine.load({chunk.number: b[chunk.box.slices] for chunk in partition}, layout, x)
    told, out = space.project(x), np.empty(GRID)
    for chunk in partition:
        out[chunk.box.slices] = engine.unload(x, layout)[chunk.number]
    return told, out


@pytest.mark.parametrize("given", [False, True])
def test_the_part_of_b_that_no_x_can_reach(given: bool) -> None:
    b = np.random.default_rng(0).standard_normal(GRID)
    rest = b - b.mean()
    b = rest + 0.5
    told, out = found(given, b)
    assert told.part == pytest.approx(np.sqrt(0.25 * b.size) / np.linalg.norm(b), rel=1e-12)
    assert np.allclose(out, rest, atol=1e-14)
    assert found(given, rest)[0].part < 1e-14
    assert found(given, 0.0 * b)[0].part == 0.0


def test_a_part_as_large_as_rounding_may_be_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    b = np.random.default_rng(0).standard_normal(GRID)
    told, _ = found(given=False, b=b)
    assert told.regions == 1
    monkeypatch.setattr(nullspace, "CONSISTENT", told.part)
    assert found(given=False, b=b)[0].regions == 0


@pytest.mark.parametrize("given", [False, True])
def test_of_a_b_that_is_infinite_nothing_is_taken(given: bool) -> None:
    """Zeros of the vectors would become NaN in b, and stay beside the cells that the next one is loaded to."""
    told, out = found(given, np.full(GRID, np.inf))
    assert not np.isfinite(told.part)
    assert np.isinf(out).all()
