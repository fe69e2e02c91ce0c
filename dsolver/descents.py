"""The way of a chunk from a level of a lattice to the next coarser one and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

from dsolver.gridlevels import AtLevel, at_level
from dsolver.grids import Coarse, colored, halo_layout, has_halo, in_lattice_order, numbered, own_number
from dsolver.kernels.backend import Backend
from dsolver.kernels.coarsening import Coarsening
from dsolver.kernels.layout import HaloLayout, Layout, Route
from dsolver.partition import BOX_OFFSETS, Offsets, Partition


@final
@dataclass(frozen=True, kw_only=True)
class Descent:
    """The way of one chunk from a level to the next coarser one and back.

    Attributes:
        weights: float64 (27 coarse rows,), the coarser level's matrix rows, offset after offset.
        coarse: the storage order of the restricted residual: the coarser level's; lattice order where that is gathered.
        lattice: the lattice order of what is prolonged: the chunk's coarse points; where they are gathered, all.
        restriction: R, in own fine points.
        prolongation: P, in own coarse points, or in all where the level is gathered.
        residual_halo: what is exchanged of the residual before R is applied.
        restriction_halo: what multiplies that.
        solution_halo: what is exchanged of the coarser level's solution before P is applied; nothing where it is
            gathered.
        prolongation_halo: what multiplies that.
    """

    weights: Any
    coarse: Layout
    lattice: Layout
    restriction: Any
    prolongation: Any
    residual_halo: HaloLayout
    restriction_halo: Any
    solution_halo: HaloLayout
    prolongation_halo: Any


@final
@dataclass(frozen=True, kw_only=True)
class MakeDescent:
    """Makes a chunk's way to the coarser level from the rows in and around it."""

    depth: int
    partition: Partition
    offsets: Offsets
    coarse: Coarse

    def __call__(self, backend: Backend, number: int, layout: Layout, weights: Any) -> AtLevel:
        """The `Descent` of a chunk whose rows have this layout; weights as from `MakeSurrounded`, or (K,)."""
        backend.tidy()
        number = own_number(self.partition, number)
        below = self.coarse
        whole = below.gathered
        box, coarse_box = self.partition[number].box, below.boxes[number]
        made = Coarsening(
            lo=box.lo,
            shape=box.shape,
            grid=self.partition.grid,
            periodic=self.partition.periodic,
            factors=below.factors,
        )
        p = backend.interpolation(made, self.offsets, weights)
        rows = backend.galerkin(made, self.offsets, weights, p)
        coarse_number = 0 if whole else number
        around = numbered(backend, below.partition, coarse_number, BOX_OFFSETS)
        if whole:
            target = in_lattice_order(backend, coarse_box.shape)
        else:
            target = colored(backend, below.partition, coarse_box, BOX_OFFSETS)
        lattice = in_lattice_order(backend, below.partition[coarse_number].box.shape)
        reads = numbered(backend, self.partition, number, BOX_OFFSETS)
        restriction = replace(backend.restriction(made, p, reads), halo=has_halo(self.partition, number, BOX_OFFSETS))
        restrict = backend.product(target, layout, restriction, in_order=True)
        restrict_halo = backend.halo_product(target, layout, restriction)
        del restriction
        prolongation = replace(
            backend.prolongation(made, p, around, coarse_box.lo if whole else (0, 0, 0)),
            halo=has_halo(below.partition, coarse_number, BOX_OFFSETS),
        )
        del p  # what follows is when set-up needs most
        prolong = backend.product(layout, lattice, prolongation, in_order=False)
        prolong_halo = backend.halo_product(layout, lattice, prolongation)
        no_halo = backend.halo_layout(target, [], [])
        descent = Descent(
            weights=rows.reshape(-1),
            coarse=target,
            lattice=lattice,
            restriction=restrict,
            prolongation=prolong,
            residual_halo=halo_layout(backend, layout, self.partition, number, BOX_OFFSETS),
            restriction_halo=restrict_halo,
            solution_halo=no_halo if whole else halo_layout(backend, target, below.partition, number, BOX_OFFSETS),
            prolongation_halo=prolong_halo,
        )
        backend.synchronize()
        return at_level(self.depth, descent)


@final
@dataclass(frozen=True, kw_only=True)
class WithoutWeights:
    """Makes a way to the coarser level that does not hold that level's rows, which are needed at set-up alone."""

    depth: int

    def __call__(self, _: Backend, __: int, descent: Any) -> AtLevel:
        """Of a chunk."""
        return at_level(self.depth, replace(descent, weights=None))


def in_order(backend: Backend, _: int, layout: Layout, lattice: Layout) -> Route:
    """From storage order to lattice order."""
    route = backend.route(layout.position, lattice.position)
    backend.synchronize()  # kernels read routes before they wait for earlier launches
    return route
