"""Levels of HPCG's multigrid in one chunk: every second point, injection between them, the same stencil on each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Final

from dsolver.distributed.halo import halo_layout, plan_layout
from dsolver.errors import InputError
from dsolver.grid.box import Box, Offsets, Triple, three
from dsolver.grid.coloring import Order
from dsolver.grid.halo import HaloPlan
from dsolver.grid.numbering import stencil_rows, with_halo
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend
from dsolver.kernels.formats.layout import HaloLayout, Layout
from dsolver.kernels.formats.stencil.rows import StencilRows
from dsolver.preconditioners.builder import Blocks, ordered
from dsolver.problems import Problem

HPCG_LEVELS: Final = 4


def partitions(partition: Partition, levels: int = HPCG_LEVELS) -> list[Partition]:
    """The chunks of each level, finest first."""
    found = [partition]
    while len(found) < levels:
        found.append(coarsened(found[-1]))
    return found


@dataclass(frozen=True, kw_only=True)
class HpcgLevel:
    """One level of one chunk."""

    layout: Layout
    local: Any  # the entries of its rows in own columns, in the backend's form
    ghost: Any  # those in the columns of other chunks
    halo: HaloLayout
    transfer: Any = None  # injection to the next coarser level; None on the last
    correction: HaloLayout | None = None  # what it exchanges of the next coarser level's solution; None on the last
    # what multiplies that, the columns of `ghost` that are coarse points; None on the last.
    correction_matrix: Any = None


@dataclass(frozen=True, kw_only=True)
class MakeLevels:
    """Makes the levels of a chunk."""

    label: ClassVar[str] = "setup-levels"
    problem: Problem
    partitions: Sequence[Partition]
    order: Order
    diagonal: Blocks | None = None  # what the finest level's diagonal is multiplied by; None for ones

    def __call__(self, backend: Backend, number: int, _: None = None) -> tuple[HpcgLevel, ...]:
        """All levels of one chunk, finest first."""
        layouts = [ordered(backend, p, number, self.order) for p in self.partitions]
        finer = [self._corrected(backend, number, depth, *pair) for depth, pair in enumerate(pairwise(layouts))]
        none = backend.xp.zeros(layouts[-1].rows, dtype=bool)
        finest, *coarser = *finer, self._level(backend, number, len(finer), layouts[-1], none)
        if self.diagonal is not None:
            finest = replace(finest, local=finest.local.scaled(self.diagonal(backend, number)))
        return (finest, *coarser)

    def _level(self, backend: Backend, number: int, depth: int, layout: Layout, coarse: Any) -> HpcgLevel:
        """A level by itself; coarse: bool (rows,), its coarse points."""
        partition, hpcg = self.partitions[depth], backend.format("hpcg")
        rows = stencil_rows(backend, partition, number, self.problem.offsets, self.problem.values(backend.xp))
        return HpcgLevel(
            layout=layout,
            local=hpcg.matrix(layout, rows, coarse),
            ghost=hpcg.halo_matrix(layout, rows),
            halo=halo_layout(backend, layout, partition, number, self.problem.offsets),
        )

    def _corrected(self, backend: Backend, number: int, depth: int, fine: Layout, coarse: Layout) -> HpcgLevel:
        """A level with its way to the coarser one and what it exchanges of that one's solution."""
        fine_row = coarse_rows(backend.xp, fine.shape, coarse.shape)
        points = backend.xp.zeros(fine.rows, dtype=bool)
        points[fine_row] = True
        level, hpcg = self._level(backend, number, depth, fine, points), backend.format("hpcg")
        plan = coarse_halo_plan(self.partitions[depth], number, self.problem.offsets)
        rows = correction_rows(self.problem, self.partitions[depth], number, backend)
        return replace(
            level,
            transfer=hpcg.injection(fine, coarse, fine_row),
            correction=plan_layout(backend, coarse, plan),
            correction_matrix=hpcg.halo_matrix(fine, rows),
        )


def coarsened(partition: Partition) -> Partition:
    """The partition of every second point. InputError: a chunk's extent is odd."""
    for axis, extents in zip("xyz", partition.sizes, strict=True):
        if any(n % 2 for n in extents):
            raise InputError(f"chunks of {sorted(set(extents))} points along {axis} cannot be halved")
    x, y, z = (tuple(n // 2 for n in extents) for extents in partition.sizes)
    return Partition(three("grid", (n // 2 for n in partition.grid)), (x, y, z), partition.periodic)


def coarse_rows(xp: Any, fine: Triple, coarse: Triple) -> Any:
    """The fine row of each coarse row: int32 (coarse rows,)."""
    nx, ny, _ = fine
    i, j, k = (2 * xp.arange(n, dtype=xp.int32) for n in coarse)
    return (i[None, None, :] + nx * (j[None, :, None] + ny * k[:, None, None])).reshape(-1)


def coarse_halo_plan(partition: Partition, number: int, offsets: Offsets) -> HaloPlan:
    """The part of `Partition.halo_plan` that is coarse points. The rows to send are those of the coarser level."""
    lattice = Box(lo=(0, 0, 0), hi=three("hi", ((n + 1) // 2 for n in partition[number].box.shape)))
    return partition.halo_plan(number, offsets, lambda source, box: _coarse(box, partition[source].box), lattice)


def correction_rows(problem: Problem, partition: Partition, number: int, backend: Backend) -> StencilRows:
    """The rows of a chunk with coarse points alone as halo, in the slots of `coarse_halo_plan`."""
    slots, box = [], partition[number].box
    for piece in partition.halo_pieces(number, problem.offsets):
        whole = partition[piece.source].box
        found = _coarse(piece.box, whole) if piece.source != number else None
        if found is not None:
            moved = [a + b - c for a, b, c in zip(whole.lo, piece.seen.lo, piece.box.lo, strict=True)]
            lo, hi = (
                three("end", (first + 2 * i for first, i in zip(moved, end, strict=True)))
                for end in (found.lo, found.hi)
            )
            slots.append((Box(lo=lo, hi=hi), 2))
    wrapped = partition.wrapped(number, problem.offsets)
    return StencilRows(
        shape=box.shape,
        numbering=with_halo(backend.xp, backend.lattice.numbers(box.shape), box, slots, wrapped).reshape(-1),
        offsets=problem.offsets,
        weights=problem.values(backend.xp),
        halo=bool(slots),
    )


def _coarse(part: Box, whole: Box) -> Box | None:
    """The coarse points of a part of a chunk's box, by their indices in the chunk's coarse lattice; None for none."""
    lo, hi = (
        three("end", ((a - base + 1) // 2 for a, base in zip(end, whole.lo, strict=True))) for end in (part.lo, part.hi)
    )
    return Box(lo=lo, hi=hi) if all(a < b for a, b in zip(lo, hi, strict=True)) else None
