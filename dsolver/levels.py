"""The levels of a chunk: built once, on the device that owns it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dsolver.errors import InputError
from dsolver.kernels.backend import Backend
from dsolver.kernels.layout import HaloLayout, Layout
from dsolver.ordering import Order
from dsolver.partition import STAR_OFFSETS, Cut, Partition, Triple
from dsolver.problems import Problem
from dsolver.rules import Patch

HPCG_LEVELS = 4


@dataclass(frozen=True, kw_only=True)
class ChunkLevel:
    """One level of one chunk.

    Attributes:
        layout: the storage order of its rows.
        matrix: the local part of its rows of the matrix, in the backend's form.
        halo: what it exchanges.
        halo_matrix: what multiplies that halo.
        transfer: injection to the next coarser level; None on the last.
        correction: what it exchanges of the next coarser level's solution; None on the last.
        correction_matrix: what multiplies that, the columns of `halo_matrix` that are coarse points; None on the last.
    """

    layout: Layout
    matrix: Any
    halo: HaloLayout
    halo_matrix: Any
    transfer: Any = None
    correction: HaloLayout | None = None
    correction_matrix: Any = None


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """The recipe of all levels, small enough to send anywhere.

    Attributes:
        problem: the system on the finest level; the coarser ones have the same stencil on every second point.
        partitions: one per level, finest first.
        order: in which smoothers visit the rows.
    """

    problem: Problem
    partitions: tuple[Partition, ...]
    order: Order

    @classmethod
    def plan(cls, problem: Problem, chunks: Cut, order: Order, levels: int = HPCG_LEVELS) -> Hierarchy:
        """The levels of a problem cut into chunks.

        Raises:
            InputError: a chunk cannot be halved levels - 1 times.
        """
        partition = Partition(problem.grid, chunks, problem.periodic)
        if levels > 1 and (problem.rule is not None or any(problem.periodic)):
            raise InputError(
                f"HPCG's V-cycle needs a stencil that is the same in all rows on a grid that is not periodic, which "
                f"{problem.name} is not: use another preconditioner"
            )
        if order.red_black and not set(problem.offsets) <= set(STAR_OFFSETS):
            raise InputError("order='color2' is for 7-point stencils, where red reads black alone: use color8")
        divisor = 2 ** (levels - 1)
        for axis, extents in zip("xyz", partition.sizes, strict=True):
            bad = sorted({n for n in extents if n % divisor})
            if bad:
                raise InputError(
                    f"{sum(extents)} points along {axis} in {len(extents)} chunks make chunks of {bad[0]} points along "
                    f"{axis} that are not divisible by {divisor}, which {levels} multigrid levels need: choose a grid "
                    f"and chunks so that every chunk is"
                )
        partitions = [partition]
        for _ in range(levels - 1):
            partitions.append(partitions[-1].coarsened())
        return cls(problem=problem.recipe, partitions=tuple(partitions), order=order)

    def finest(self) -> Hierarchy:
        """The finest level alone, with the same storage order."""
        return replace(self, partitions=self.partitions[:1])

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.partitions)

    def build(self, backend: Backend, number: int, patch: Patch | None = None) -> tuple[ChunkLevel, ...]:
        """All levels of one chunk, finest first; the patch has its coefficients, if there are any."""
        layouts = [self._layout(backend, p, number) for p in self.partitions]
        finer = [self._corrected(backend, number, depth, *pair) for depth, pair in enumerate(pairwise(layouts))]
        return (*finer, self._level(backend, number, self.depth - 1, layouts[-1], None, patch))

    def _layout(self, backend: Backend, partition: Partition, number: int) -> Layout:
        shape, wrapped = partition[number].box.shape, partition.whole_axes
        colors = self.order.colors(backend.xp, shape, wrapped=wrapped)
        return backend.layout(colors, self.order.count(shape, wrapped), shape)

    def _level(
        self, backend: Backend, number: int, depth: int, layout: Layout, coarse: Any, patch: Patch | None = None
    ) -> ChunkLevel:
        """A level by itself; coarse: bool (rows,), its coarse points, or None if there is no coarser level."""
        plan = self.partitions[depth].halo_plan(number, self.problem.offsets)
        rows = self.problem.rows(self.partitions[depth], number, backend.xp, patch)
        return ChunkLevel(
            layout=layout,
            matrix=backend.matrix(layout, rows, coarse),
            halo=backend.halo_layout(layout, list(plan.sends), list(plan.receives)),
            halo_matrix=backend.halo_matrix(layout, rows),
        )

    def _corrected(self, backend: Backend, number: int, depth: int, fine: Layout, coarse: Layout) -> ChunkLevel:
        """A level with its way to the coarser one and what it exchanges of that one's solution."""
        fine_row = coarse_rows(backend.xp, fine.shape, coarse.shape)
        points = backend.xp.zeros(fine.rows, dtype=np.bool_)
        points[fine_row] = True
        level = self._level(backend, number, depth, fine, points)
        plan = self.partitions[depth].coarse_halo_plan(number, self.problem.offsets)
        rows = self.problem.correction_rows(self.partitions[depth], number, backend.xp)
        return replace(
            level,
            transfer=backend.transfer(fine, coarse, fine_row),
            correction=backend.halo_layout(coarse, list(plan.sends), list(plan.receives)),
            correction_matrix=backend.halo_matrix(fine, rows),
        )


def coarse_rows(xp: Any, fine: Triple, coarse: Triple) -> Any:
    """The fine row of each coarse row: int32 (coarse rows,). Coarse point (I, J, K) is fine point (2I, 2J, 2K)."""
    nx, ny, _ = fine
    i, j, k = (2 * xp.arange(n, dtype=xp.int32) for n in coarse)
    return (i[None, None, :] + nx * (j[None, :, None] + ny * k[:, None, None])).reshape(-1)
