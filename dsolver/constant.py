"""The finest level where its rows are a constant stencil: nothing of it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.engines.base import Engine, PerChunk
from dsolver.grids import Coarse, colored, in_lattice_order, stencil_rows
from dsolver.kernels.backend import Backend
from dsolver.kernels.coarsening import GHOST, Coarsening
from dsolver.kernels.layout import Layout
from dsolver.kernels.stencil import OFFSETS, ConstantStencil, constant_stencil, has_way_down, star_transfer
from dsolver.partition import BOX_OFFSETS, Offsets, Partition, Triple
from dsolver.totals import totals

F64 = npt.NDArray[np.float64]

MODEL: Final = 12
"""Points along an axis of the model grid, or one more: the coarse rows of a larger grid all occur in its coarse grid. A
coarse row depends on 3 points on either side: of 6 coarse points, two on either side may differ from the others."""
EDGE: Final = 2
"""Coarse points at a face whose rows may differ."""


@final
@dataclass(frozen=True, kw_only=True)
class Finest:
    """What the rows of a chunk on the finest level are.

    Attributes:
        layout: their storage order: the lattice's for a constant stencil.
        stencil: that, or None if they are none.
    """

    layout: Layout
    stencil: ConstantStencil | None


@final
@dataclass(frozen=True, kw_only=True)
class MakeFinest:
    """Looks at a chunk's rows.

    Attributes:
        partition: the chunks.
        offsets: of the rows' columns.
        stored: whether rows are to be stored even if they are all the same.
    """

    partition: Partition
    offsets: Offsets
    stored: bool = False

    def __call__(self, backend: Backend, number: int, weights: Any) -> Finest:
        """What they are; weights (K, rows) in any shape, or (K,)."""
        box = self.partition[number].box
        rows = stencil_rows(backend, self.partition, number, self.offsets, weights)
        lattice = in_lattice_order(backend, box.shape)
        stencil = constant_stencil(lattice, rows, box.lo)
        if stencil is not None and (self.stored or not stencil.fits(backend.dtype)):
            stencil = None
        layout = colored(backend, self.partition, box, self.offsets) if stencil is None else lattice
        return Finest(layout=layout, stencil=stencil)


def knows_way(engine: Engine, partition: Partition, below: Coarse, stencil: PerChunk) -> bool:
    """Whether `MakeStarDescent` makes the way from the finest level to the next; the same on every rank.

    Args:
        engine: of the finest level, in float64.
        partition: its chunks.
        below: the next level.
        stencil: the `ConstantStencil` of every chunk, or None.
    """
    if len(partition) > 1 or below.factors != (2, 2, 2):
        return False
    return totals(engine, engine.per_chunk(_has_way, stencil)) == (1.0,)


def _has_way(backend: Backend, _: int, stencil: ConstantStencil | None) -> Any:
    """float64 (1,): 1 if it does, else 0."""
    return backend.xp.full(1, float(stencil is not None and has_way_down(stencil)))


@final
@dataclass(frozen=True, kw_only=True)
class StarDescent:
    """The way from a star on the whole grid to the next coarser level and back.

    Attributes:
        weights: float64 (27 coarse rows,), the coarser level's matrix rows, offset after offset.
        coarse: the storage order of the restricted residual.
        lattice: the lattice order of what is prolonged.
        transfer: both products, with the sweeps, in the backend's form.
    """

    weights: Any
    coarse: Layout
    lattice: Layout
    transfer: Any


@final
@dataclass(frozen=True, kw_only=True)
class MakeStarDescent:
    """Makes a star's way to the coarser level, at the level's number."""

    coarse: Coarse

    def __call__(self, backend: Backend, _: int, stencil: ConstantStencil) -> tuple[StarDescent]:
        """The `StarDescent` of the only chunk."""
        below = self.coarse.partition
        shape = below.grid
        target = colored(backend, below, below[0].box, BOX_OFFSETS)
        lattice = in_lattice_order(backend, shape)
        descent = StarDescent(
            weights=coarse_weights(backend, stencil, shape),
            coarse=target,
            lattice=lattice,
            transfer=backend.constant_transfer(star_transfer(stencil, target, lattice)),
        )
        backend.synchronize()
        return (descent,)


def coarse_weights(backend: Backend, stencil: ConstantStencil, shape: Triple) -> Any:
    """The rows of PᵀAP for a constant stencil on a whole grid: float64 (27 coarse rows,), offset after offset.

    Away from the faces they are all the same: those of a grid of at most `MODEL` + 1 points along each axis are
    computed, and laid out on the larger one.
    """
    fine = [n if n <= MODEL + 1 else MODEL + n % 2 for n in stencil.shape]
    nx, ny, nz = fine
    rows = _model_rows(stencil, (nx, ny, nz))
    made = Coarsening(lo=(0, 0, 0), shape=(nx, ny, nz), grid=(nx, ny, nz), periodic=stencil.wraps, factors=(2, 2, 2))
    rows = backend.asarray(rows)
    coarse = backend.galerkin(made, OFFSETS, rows, backend.interpolation(made, OFFSETS, rows))
    like = [_like(n, m) for n, m in zip(shape, made.coarse_shape, strict=True)]
    return backend.spread(coarse.reshape(len(BOX_OFFSETS), *made.coarse_shape[::-1]), like).reshape(-1)


def _like(n: int, m: int) -> npt.NDArray[np.int64]:
    """Which of m coarse points of the model each of n coarse points along an axis is like."""
    if n == m:
        return np.arange(n)
    out = np.full(n, EDGE)
    out[:EDGE] = np.arange(EDGE)
    out[n - EDGE :] = np.arange(m - EDGE, m)
    return out


def _model_rows(stencil: ConstantStencil, shape: Triple) -> F64:
    """The rows of the same stencil on another grid, with ghost layers: float64 (27, nz + 4, ny + 4, nx + 4)."""
    rows = np.empty((len(OFFSETS), *shape[::-1]))
    for row, weight in zip(rows, stencil.weights, strict=True):
        row[...] = weight
    center = rows[OFFSETS.index((0, 0, 0))]
    for axis, side in product(range(3), range(2)):
        np.moveaxis(center, 2 - axis, 0)[-side] += stencil.faces[2 * axis + side]
    for axis, wraps in enumerate(stencil.wraps):
        width = [(GHOST, GHOST) if 3 - axis == a else (0, 0) for a in range(4)]
        rows = np.pad(rows, width, mode="wrap") if wraps else np.pad(rows, width)
    return rows
