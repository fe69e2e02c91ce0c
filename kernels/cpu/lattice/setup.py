"""Interpolation and Galerkin operators on a CPU, line by line of the lattice.

Arrays have ghost layers (`lattice.coarsening`); a line is one (z, y). The innermost loops run along x with
everything else fixed, so that the compiler makes vector instructions of them. Sums run in the order of the NumPy text,
whatever the range of lines.
"""

import numpy as np

from dsolver.kernels.cpu.lattice.components import least_of_connected
from dsolver.kernels.cpu.lattice.galerkin import other_weights, regular_weights
from dsolver.kernels.cpu.lattice.interpolation import interpolate, take_own
from dsolver.kernels.cpu.lattice.points import F64
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.lattice.coarsening import (
    BETWEEN,
    COARSE_OFFSETS,
    CORNERS,
    FIRST,
    OUTSIDE,
    SECOND,
    Axis,
    Coarsening,
    Triple,
    lattice_weights,
    offsets_below,
)
from dsolver.kernels.lattice.setup import LatticeSetup

LINES_WORTH_A_THREAD = 32


class CpuLattice(LatticeSetup):
    """Set-up of lattices."""

    def __init__(self, team: Team) -> None:
        super().__init__(np)
        self._team = team

    least_of_connected = staticmethod(least_of_connected)

    def interpolation(self, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64) -> F64:
        w = lattice_weights(coarsening, offsets, weights)
        p = np.zeros((len(CORNERS), *coarsening.ghosted))
        steps = np.array(offsets, dtype=np.int64)
        kinds = tuple(axis.kind for axis in coarsening.axes)
        opens = tuple(axis.open for axis in coarsening.axes)
        own = np.flatnonzero((kinds[0] == FIRST) | (kinds[0] == SECOND))
        between = np.flatnonzero(kinds[0][1:-1] == BETWEEN) + 1
        lines, worth = p.shape[1] * p.shape[2], LINES_WORTH_A_THREAD
        self._team.run(take_own, 0, lines, own, kinds, p, worth=worth)
        for count in range(1, sum(coarsening.factors) - 2):
            for in_x, members in ((0, own), (1, between)):
                which = (count, in_x, members)
                self._team.run(interpolate, 0, lines, *which, steps, w, kinds, opens, p, worth=worth)
        return p

    def galerkin(self, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64, p: F64) -> F64:
        w = lattice_weights(coarsening, offsets, weights)
        x, y, z = coarsening.coarse_shape
        out = np.empty((len(COARSE_OFFSETS), z, y, x))
        steps = np.array(offsets, dtype=np.int64)
        kinds = tuple(axis.kind for axis in coarsening.axes)
        bases = tuple(axis.base for axis in coarsening.axes)
        layout = np.array([(axis.first, axis.reach, not axis.folded) for axis in coarsening.axes], dtype=np.int64)
        regular = np.array(_regular(coarsening.axes[0], x), dtype=np.int64)
        read, lines, worth = (steps, w, p), z * y, LINES_WORTH_A_THREAD
        if regular[0] < regular[1]:
            self._team.run(regular_weights, 0, lines, *read, kinds, bases, layout, regular, out, worth=worth)
        if regular[1] - regular[0] < x:
            self._team.run(other_weights, 0, lines, *read, bases, layout, regular, out, worth=worth)
        kept = offsets_below(coarsening.factors, offsets)
        if kept != COARSE_OFFSETS:
            out = out[[COARSE_OFFSETS.index(o) for o in kept]]
        return out.reshape(len(kept), -1)


def _regular(axis: Axis, points: int) -> tuple[int, int]:
    """A range of coarse points around which kinds and bases are those of an endless axis: all but some at a seam."""
    if axis.folded:
        return 0, 0
    own = np.arange(points)
    good = np.full(points, True)
    for step in range(-1 - axis.reach, 2 + axis.reach):
        place = axis.first + (axis.reach + 1) * own + step
        good &= place < len(axis.kind)
        place = np.minimum(place, len(axis.kind) - 1)
        kind = BETWEEN if axis.reach and step % 2 else FIRST
        usual = (axis.kind[place] == kind) & (axis.base[place] == own + step // (axis.reach + 1))
        good &= usual | (axis.kind[place] == OUTSIDE)
    found = np.flatnonzero(good)
    if len(found) == 0:
        return 0, 0
    ends = np.flatnonzero(~good[found[0] :])
    return int(found[0]), int(found[0] + (ends[0] if len(ends) else points - found[0]))
