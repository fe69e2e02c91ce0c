"""Sums over all chunks of one number each: how ranks agree on what only owners can see."""

from __future__ import annotations

from typing import Any

from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.contract import DOT


def totals(engine: Engine, *numbers: PerChunk) -> tuple[float, ...]:
    """The sum of each over all chunks, the same bits on every rank.

    Args:
        engine: of the chunks, in float64. A view of another type would read their bits as that on a GPU.
        numbers: float64 (1,) of every chunk.
    """
    ones, parts = engine.per_chunk(_one), engine.parts()
    scalars = [engine.scalar(0.0) for _ in numbers]
    for number, scalar in zip(numbers, scalars, strict=True):
        engine.run(DOT, number, ones, parts)
        engine.total(parts, scalar)
    return tuple(engine.read(*scalars))


def _one(backend: Backend, _: int) -> Any:
    """float64 (1,)."""
    return backend.xp.ones(1)
