"""Matrix rows whose weights are given for each cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from dsolver.errors import InputError
from dsolver.kernels.layout import Array
from dsolver.kernels.views import layer
from dsolver.partition import Offsets, Triple
from dsolver.rules import Patch, Rule

ASYMMETRY: Final = 1e-12
"""How far weights given for each cell may be from symmetric, as a part of their size: more than rounding."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class CellWeights(Rule):
    """Weights given for each cell and offset.

    Attributes:
        offsets: of the rows' columns.
        names: of the field of each offset's weights.
    """

    offsets: Offsets
    names: tuple[str, ...]

    @property
    def loaded(self) -> tuple[str, ...]:
        return self.names

    @property
    def exchanged(self) -> tuple[str, ...]:
        return self.names

    def weights(self, patch: Patch) -> Array:
        xp = patch.xp
        out = xp.empty((len(self.offsets), *patch.shape))
        for k, (offset, name) in enumerate(zip(self.offsets, self.names, strict=True)):
            out[k] = patch.own[name]
            outside = _outside(patch, offset)
            out[k][outside] = 0.0
            bad = int((~xp.isfinite(out[k])).sum())
            if bad:
                raise InputError(f"the weights at offset {offset} have {bad} values that are NaN or infinite")
            if offset > (0, 0, 0):
                self._check_symmetry(patch, offset, out[k], outside)
        if not bool(out[self.offsets.index((0, 0, 0))].all()):
            raise InputError("the weights have a zero on the diagonal: Gauss-Seidel and multigrid divide by it")
        return out.reshape(len(self.offsets), -1)

    def grounded(self, patch: Patch) -> Array:
        weights = self.weights(patch)
        sums, sizes = weights.sum(axis=0), abs(weights).sum(axis=0)
        ground: Array = abs(sums) > ASYMMETRY * sizes
        return ground.reshape(patch.shape)

    def _check_symmetry(self, patch: Patch, offset: Triple, weights: Array, outside: tuple[slice, ...]) -> None:
        """Compare with what the cells at the offset have for the opposite one."""
        i, j, k = offset
        opposite = patch.padded(self.names[self.offsets.index((-i, -j, -k))], 0.0)
        nz, ny, nx = patch.shape
        theirs = opposite[1 + k : 1 + k + nz, 1 + j : 1 + j + ny, 1 + i : 1 + i + nx].copy()
        theirs[outside] = 0.0
        size = max(float(abs(weights).max()), float(abs(theirs).max()))
        if float(abs(weights - theirs).max()) > ASYMMETRY * size:
            raise InputError(
                f"the weights are not symmetric: those at offset {offset} are not those at {(-i, -j, -k)} of the cell "
                f"there, and conjugate gradients need A = Aᵀ"
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
