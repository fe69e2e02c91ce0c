"""Remains of the set-up of a matrix, for the next one with entries in the same places."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.formats.layout import Layout
from dsolver.multigrid.level import Level

Outcome = Literal["used", "first", "pattern", "none", "kept", "anew"]
"""Use that a set-up has made of the one before: "used"; none, as there was nothing yet ("first"), as entries are in
other places or stored in another order ("pattern"), or as the preconditioner keeps nothing ("none"). "kept": all of
M is that of the matrix before; "anew": that was wanted, and cannot be."""


@dataclass
class Reuse:
    """Remains of the last set-up on every rank, None for nothing, and what that has used of the one before."""

    kept: Any = None
    outcome: Outcome = "none"


@dataclass(frozen=True, kw_only=True)
class KeptLevels:
    """Levels of M that stay while A changes: M of another positive definite matrix is positive definite, too."""

    # finest first. The finest matrix of M stays beside the new A, unless M is stored in a smaller type.
    levels: Sequence[Level]
    layout: PerChunk
    closed: int

    @classmethod
    def of(cls, levels: Sequence[Any], layout: PerChunk, closed: int) -> Self | None:
        """Levels without the matrix that they were made for, where M is a hierarchy of those; else None."""
        if not levels or not all(isinstance(level, Level) for level in levels):
            return None
        return cls(levels=(replace(levels[0], original=None), *levels[1:]), layout=layout, closed=closed)

    def serve(self, engine: Engine, layout: PerChunk, closed: int) -> bool:
        """Whether they serve a matrix whose vectors are stored so; the same on every rank.

        Where several regions are closed, others may be now: each set-up looks for them.
        """
        if closed != self.closed or closed > 1:
            return False
        return same_order(engine, layout, self.layout)


def same_order(engine: Engine, layout: PerChunk, before: PerChunk) -> bool:
    """Whether vectors are stored in the same order in two `Layout`s of every chunk; the same on every rank."""
    return not engine.global_sums(engine.per_chunk(_moved, layout, before))[0]


def _moved(backend: Backend, _: int, layout: Layout, before: Layout) -> Any:
    """float64 (1,), zero where vectors are in the same order."""
    alike = layout.size == before.size and backend.amg.same(layout.position, before.position)
    return backend.xp.full(1, float(not alike))
