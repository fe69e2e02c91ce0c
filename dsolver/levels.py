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
from dsolver.partition import Partition, Triple
from dsolver.problems import Problem

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
    def plan(cls, problem: Problem, chunks: Triple, order: Order, levels: int = HPCG_LEVELS) -> Hierarchy:
        """The levels of a problem cut into chunks.

        Raises:
            InputError: a chunk cannot be halved levels - 1 times.
        """
        partition = Partition(problem.grid, chunks)
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
        return cls(problem=problem, partitions=tuple(partitions), order=order)

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.partitions)

    def build(self, backend: Backend, number: int) -> tuple[ChunkLevel, ...]:
        """All levels of one chunk, finest first."""
        layouts = [self._layout(backend, p[number].box.shape) for p in self.partitions]
        transfers = [
            backend.transfer(fine, coarse, coarse_rows(backend.xp, fine.shape, coarse.shape))
            for fine, coarse in pairwise(layouts)
        ]
        built = []
        for depth, transfer in enumerate([*transfers, None]):
            level = self._level(backend, number, depth, layouts[depth], transfer)
            if transfer is not None:
                level = self._corrected(backend, number, depth, level, layouts[depth + 1])
            built.append(level)
        return tuple(built)

    def _layout(self, backend: Backend, shape: Triple) -> Layout:
        return backend.layout(self.order.colors(backend.xp, shape), self.order.count(shape), shape)

    def _level(self, backend: Backend, number: int, depth: int, layout: Layout, transfer: Any) -> ChunkLevel:
        coarse = None
        if transfer is not None:
            coarse = backend.xp.zeros(layout.rows, dtype=np.bool_)
            coarse[coarse_rows(backend.xp, layout.shape, _halved(layout.shape))] = True
        plan = self.partitions[depth].halo_plan(number, self.problem.offsets)
        rows = self.problem.rows(self.partitions[depth], number, backend.xp)
        return ChunkLevel(
            layout=layout,
            matrix=backend.matrix(layout, rows, coarse),
            halo=backend.halo_layout(layout, list(plan.sends), list(plan.receives)),
            halo_matrix=backend.halo_matrix(layout, rows),
            transfer=transfer,
        )

    def _corrected(self, backend: Backend, number: int, depth: int, level: ChunkLevel, coarse: Layout) -> ChunkLevel:
        """The level with what it exchanges of the coarser level's solution."""
        plan = self.partitions[depth].coarse_halo_plan(number, self.problem.offsets)
        rows = self.problem.correction_rows(self.partitions[depth], number, backend.xp)
        return replace(
            level,
            correction=backend.halo_layout(coarse, list(plan.sends), list(plan.receives)),
            correction_matrix=backend.halo_matrix(level.layout, rows),
        )


def coarse_rows(xp: Any, fine: Triple, coarse: Triple) -> Any:
    """The fine row of each coarse row: int32 (coarse rows,). Coarse point (I, J, K) is fine point (2I, 2J, 2K)."""
    nx, ny, _ = fine
    i, j, k = (2 * xp.arange(n, dtype=xp.int32) for n in coarse)
    return (i[None, None, :] + nx * (j[None, :, None] + ny * k[:, None, None])).reshape(-1)


def _halved(shape: Triple) -> Triple:
    nx, ny, nz = shape
    return nx // 2, ny // 2, nz // 2
