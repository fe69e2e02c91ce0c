"""Set-up on a lattice: rows of finite volumes, coarser levels, transfers between levels, connected components.

Arrays are lattices (..., z, y, x); those of coarser levels have `coarsening.GHOST` ghost layers on every side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from dsolver.kernels.formats.ell import Ell
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.formats.stencil import alike as stencil_rows
from dsolver.kernels.lattice import components, galerkin, statistics, transfers
from dsolver.kernels.lattice import fluxes as finite_volumes
from dsolver.kernels.lattice.coarsening import Coarsening, Triple
from dsolver.kernels.reductions import Groups, grouped

T = TypeVar("T")


def _of_array_module(function: Callable[..., T]) -> Callable[..., T]:
    """A function whose first argument is an array module, as a method of a set-up that has one."""

    @wraps(function)
    def method(self: LatticeSetup, *arguments: Any, **options: Any) -> T:
        return function(self.xp, *arguments, **options)

    return method


class LatticeSetup:
    """Set-up of lattices by the NumPy text; what a device does faster, it overrides."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def numbers(self, shape: Triple) -> Array:
        """int32 (nz + 2, ny + 2, nx + 2): row numbers of a box, x fastest, -1 around; shared, not to be written to."""
        nx, ny, nz = shape
        out = self.xp.full((nz + 2, ny + 2, nx + 2), -1, dtype=np.int32)
        out[1:-1, 1:-1, 1:-1] = self.xp.arange(nx * ny * nz, dtype=np.int32).reshape(nz, ny, nx)
        return out

    star = _of_array_module(finite_volumes.star)

    def frameless(self, factors: Triple, offsets: tuple[Triple, ...]) -> bool:
        """Whether a chunk that is a whole grid without periodic axes needs no ghost layers around its rows.

        `interpolation` and `galerkin` then take weights (K, nz, ny, nx), which spares copies of all rows.
        """
        del factors, offsets
        return False

    def interpolation(self, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array) -> Array:
        """The operator-induced interpolation P to a chunk's fine points (docs/theory.md).

        Args:
            weights: float64 (K, nz + 4, ny + 4, nx + 4) in any shape of as many items: the rows of own points and of
                `GHOST` layers of neighbors (across periodic axes, too), 0 outside the domain; or (K,) for a constant
                stencil. Entries that leave the domain are not read.

        Returns:
            float64 (8, nz + 4, ny + 4, nx + 4): the weight of corner a + 2 b + 4 c in every fine point's value, see
            `lattice.coarsening`. Zero where there is no such coarse point, outside the domain, and at ghost
            points of the outer layer that lie between coarse points along the axis that they end: no coarse point of
            the chunk reads them. Where the rows sum to zero, each point's weights sum to one. Corners that are 1 along
            an axis that is not coarsened are not read, and may hold anything.
        """
        return galerkin.interpolation(coarsening, offsets, weights)

    def galerkin(self, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array, p: Array) -> Array:
        """The rows of P^T A P at a chunk's coarse points; p: what `interpolation` made of the other arguments.

        Returns:
            float64 (K, coarse rows), weights at `coarsening.offsets_below`; 0 for entries that leave the domain.
            Symmetric to rounding, and the same bits whatever the partition. Along a periodic axis with one coarse point
            the entries that would be the point's own are added to the diagonal. A diagonal that is zero or rounding (a
            pocket of points without any other coupling) becomes positive, so that the row is decoupled.
        """
        return galerkin.galerkin(coarsening, offsets, weights, p)

    couplings = _of_array_module(statistics.couplings)
    jumps = _of_array_module(statistics.jumps)
    leanings = _of_array_module(statistics.leanings)
    turns = _of_array_module(statistics.turns)
    alike = staticmethod(stencil_rows.alike)
    outweighed = _of_array_module(statistics.outweighed)
    unfit = _of_array_module(statistics.unfit)

    def restriction(self, coarsening: Coarsening, p: Array, around: Array) -> Ell:
        """R = Pᵀ at a chunk's coarse points: see `transfers.restriction`."""
        columns, values = transfers.restriction(self.xp, coarsening, p, around)
        return Ell(columns=columns, values=values)

    def prolongation(self, coarsening: Coarsening, p: Array, around: Array, base: Triple) -> Ell:
        """P at a chunk's own fine points: see `transfers.prolongation`."""
        columns, values = transfers.prolongation(self.xp, coarsening, p, around, base)
        return Ell(columns=columns, values=values)

    framed = _of_array_module(transfers.framed)
    spread = _of_array_module(transfers.spread)

    def first_labels(self, ground: Array, solid: Array, numbers: components.Numbering) -> Array:
        """The labels of a box's components, from those of its cells: see `components.cell_labels`."""
        return self.least_of_connected(components.cell_labels(ground, solid, numbers))

    least_of_connected = staticmethod(components.least_of_connected)
    labels_seen = staticmethod(components.labels_seen)

    def grouped(self, keys: Array) -> tuple[Array, Groups]:
        """Items with equal keys, float64 (items,), as groups: see `reductions.grouped`."""
        return grouped(self.xp, keys)

    def places(self, flags: Array, count: int) -> Array:
        """The places of flags, bool, that are set, ascending: int32 (count,); count: how many there are."""
        del count
        return np.flatnonzero(flags).astype(np.int32)
