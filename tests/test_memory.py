"""The bytes that are counted beforehand are those that are allocated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver import kernels, memory, problems
from dsolver.engines.eager import EagerEngine
from dsolver.levels import Hierarchy
from dsolver.memory import Bytes
from dsolver.ordering import Order
from dsolver.partition import Triple
from dsolver.preconditioners import Chebyshev, Hpcg, Identity, Recipe
from dsolver.programs import Solve, SolveSpec

CUTS: list[tuple[Triple, Triple]] = [
    ((32, 32, 32), (1, 1, 1)),
    ((64, 32, 48), (2, 2, 2)),
    ((96, 32, 48), (3, 1, 2)),
    ((40, 24, 56), (1, 1, 1)),
    ((64, 16, 16), (4, 1, 1)),
    ((33, 17, 21), (1, 1, 1)),
    ((65, 64, 20), (1, 1, 1)),
    ((30, 30, 30), (2, 1, 3)),
    ((1, 40, 40), (1, 1, 1)),
]


def array_bytes(item: Any, seen: set[int]) -> int:
    """Of all arrays that an object holds, each counted once."""
    if id(item) in seen:
        return 0
    seen.add(id(item))
    if isinstance(item, np.ndarray):
        return int(item.nbytes) if item.base is None else array_bytes(item.base, seen)
    if isinstance(item, dict):
        return sum(array_bytes(part, seen) for part in item.values())
    if isinstance(item, tuple | list):
        return sum(array_bytes(part, seen) for part in item)
    return sum(array_bytes(part, seen) for part in vars(item).values()) if hasattr(item, "__dict__") else 0


def hierarchy_of(problem: problems.Problem, chunks: Triple, order: str, recipe: Recipe) -> Hierarchy:
    return Hierarchy.plan(problem, chunks, Order.parse(order), recipe.levels)


def divides(grid: Triple, chunks: Triple) -> bool:
    return all(n % (8 * p) == 0 for n, p in zip(grid, chunks, strict=True))


@pytest.mark.parametrize(("grid", "chunks"), CUTS, ids=str)
@pytest.mark.parametrize("kind", [problems.hpcg, problems.poisson7])
@pytest.mark.parametrize(("order", "low", "high"), [("color8", 0.985, 1.015), ("natural", 0.93, 1.6)])
def test_what_is_counted_is_what_is_allocated(
    grid: Triple, chunks: Triple, kind: Any, order: str, low: float, high: float
) -> None:
    if order == "natural" and 1 in grid:
        pytest.skip("the bound for planes in natural order is loose")
    for recipe in (Hpcg(), Chebyshev(), Identity()):
        if isinstance(recipe, Hpcg) and not divides(grid, chunks):
            continue
        hierarchy = hierarchy_of(kind(grid), chunks, order, recipe)
        engine = EagerEngine(hierarchy.partitions[0], kernels.load("cpu"))
        made = Solve(engine, SolveSpec(hierarchy=hierarchy, preconditioner=recipe))
        allocated = array_bytes(made, set())
        (counted,) = memory.of_workers(hierarchy, recipe, (0,) * len(hierarchy.partitions[0]), cuda=False)
        assert low * allocated <= counted.resident <= high * allocated, recipe


def test_every_worker_is_counted_by_itself() -> None:
    """Of 3 chunks in a row the middle one has two neighbors; a worker with two chunks has twice as much."""
    hierarchy = hierarchy_of(problems.hpcg((48, 16, 16)), (3, 1, 1), "color8", Hpcg())
    low, middle, high = memory.of_workers(hierarchy, Hpcg(), (0, 1, 2), cuda=True)
    assert low == high
    assert middle.halos > 1.5 * low.halos
    assert middle.matrices == low.matrices
    both, rest = memory.of_workers(hierarchy, Hpcg(), (0, 0, 1), cuda=True)
    assert both == low + middle
    assert rest == high
    on_cpu = memory.of_workers(hierarchy, Hpcg(), (0, 1, 2), cuda=False)[0]
    assert low.matrices > on_cpu.matrices
    assert low.vectors == on_cpu.vectors


def test_totals() -> None:
    one = Bytes(matrices=(100, 10), halos=5, vectors=40, blocks=8)
    assert one.resident == 155
    assert one.total == 163
    assert (one + one).total == 326
    assert str(Bytes(matrices=(1 << 30,), halos=0, vectors=1 << 29, blocks=0)) == "matrices 1 GiB, vectors 0.5 GiB"
