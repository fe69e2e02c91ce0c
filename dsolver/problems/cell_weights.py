"""Matrix rows whose weights are given for each cell."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dsolver.errors import InputError
from dsolver.grid.box import Offsets, Triple
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.views import layer
from dsolver.problems.discretization import Patch, Rule
from dsolver.problems.problem import UNSYMMETRIC
from dsolver.units import counted

ASYMMETRY: Final = 1e-12
"""Largest asymmetry of weights given for each cell, as a fraction of their size: more than rounding."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CellWeights(Rule):
    """Weights given for each cell and offset."""

    offsets: Offsets  # of the rows' columns
    # of the field of each offset's weights, or None where they are zero: multigrid compares the couplings along all
    # axes, so a row has its six nearest neighbors among its columns even where nothing couples them.
    names: tuple[str | None, ...]
    symmetric: bool = True  # whether opposite weights are to be equal. Others are rows of a matrix.

    @property
    def loaded(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name is not None)

    @property
    def exchanged(self) -> tuple[str, ...]:
        return self.loaded

    def weights(self, patch: Patch) -> Array:
        xp = patch.xp
        out = xp.zeros((len(self.offsets), *patch.shape))
        for k, (offset, name) in enumerate(zip(self.offsets, self.names, strict=True)):
            if name is None:
                continue
            out[k] = patch.own[name]
            outside = _outside(patch, offset)
            out[k][outside] = 0.0
            bad = int((~xp.isfinite(out[k])).sum())
            if bad:
                raise InputError(f"the weights at offset {offset} have NaN or infinity in {counted(bad, 'value')}")
            if self.symmetric and offset != (0, 0, 0):
                theirs = self._opposite(patch, offset, outside)
                if offset > (0, 0, 0):
                    _check_symmetry(offset, out[k], theirs)
                out[k][theirs == 0.0] = 0.0  # rounding has left one of a pair: coarsening needs both, or none
                if offset[::-1] < (0, 0, 0):  # and has made the others differ: both are what is above the diagonal
                    out[k] = xp.where(out[k] == 0.0, 0.0, theirs)
        if not bool(out[self.offsets.index((0, 0, 0))].all()):
            raise InputError("the weights have a zero on the diagonal: Gauss-Seidel and multigrid divide by it")
        return out.reshape(len(self.offsets), -1)

    def grounded(self, patch: Patch) -> Array:
        weights = self.weights(patch)
        sums, sizes = weights.sum(axis=0), abs(weights).sum(axis=0)
        ground: Array = abs(sums) > ASYMMETRY * sizes
        return ground.reshape(patch.shape)

    def _opposite(self, patch: Patch, offset: Triple, outside: Array) -> Array:
        """Weights for the opposite offset of the cells at an offset, float64 (nz, ny, nx)."""
        i, j, k = offset
        name = self.names[self.offsets.index((-i, -j, -k))]
        assert name is not None  # an offset comes with its opposite
        opposite = patch.padded(name, 0.0)
        nz, ny, nx = patch.shape
        theirs: Array = opposite[1 + k : 1 + k + nz, 1 + j : 1 + j + ny, 1 + i : 1 + i + nx].copy()
        theirs[outside] = 0.0
        return theirs


def _check_symmetry(offset: Triple, weights: Array, theirs: Array) -> None:
    """Refuse weights that are not those that the cells at the offset have for the opposite one."""
    i, j, k = offset
    size = max(float(abs(weights).max()), float(abs(theirs).max()))
    if float(abs(weights - theirs).max()) > ASYMMETRY * size:
        raise InputError(
            f"the weights are not symmetric: those at offset {offset} are not those at {(-i, -j, -k)} of the cell "
            f"there; {UNSYMMETRIC}"
        )


def _outside(patch: Patch, offset: Triple) -> Any:
    """An index of the cells whose column at an offset is outside the domain: bool (nz, ny, nx)."""
    xp, box, partition = patch.xp, patch.box, patch.partition
    out = xp.zeros(patch.shape, dtype=np.bool_)
    for axis, step in enumerate(offset):
        at_edge = box.lo[axis] == 0 if step < 0 else box.hi[axis] == partition.grid[axis]
        if step and at_edge and not partition.periodic[axis]:
            out[layer(axis, int(step > 0))] = True
    return out
