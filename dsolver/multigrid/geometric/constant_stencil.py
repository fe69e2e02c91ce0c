"""The finest level where its rows are a constant stencil: nothing of it is stored."""

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.grid.box import BOX_OFFSETS, Box, Offsets, Triple
from dsolver.grid.coloring import colored_layout
from dsolver.grid.numbering import stencil_rows
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.formats.stencil.alike import constant_stencil
from dsolver.kernels.formats.stencil.constant import ConstantStencil
from dsolver.kernels.formats.stencil.rows import OFFSETS
from dsolver.kernels.lattice.coarsening import GHOST, Coarsening

F64 = npt.NDArray[np.float64]

MODEL: Final = 12
"""Points along an axis of the model grid, or one more: the coarse rows of a larger grid all occur in its coarse grid. A
coarse row depends on 3 points on either side: of 6 coarse points, two on either side may differ from the others."""
EDGE: Final = 2  # coarse points at a face whose rows may differ


LEFT_OUT: Final = 0.25
"""Part of a chunk's cells that are left out from which their rows are not stored. The other rows do not follow each
other any more, so that each entry has a column: 12 bytes for 8.1."""
FEW: Final = 4096
"""Least number of them: fewer cost nothing, and a small grid's matrix may be inverted with all its rows."""


@dataclass(frozen=True, kw_only=True)
class Finest:
    """Storage order of the finest level's rows of a chunk, the lattice's for a constant stencil, which they may be."""

    layout: Layout
    stencil: ConstantStencil | None


def look_at_rows(
    backend: Backend,
    number: int,
    weights: Any,  # (K, rows) in any shape, or (K,)
    closed: Any = None,  # bool (rows,), cells that are left out; None for none
    *,
    partition: Partition,
    offsets: Offsets,
    stored: bool,  # whether rows are to be stored even if they are all the same
) -> Finest:
    """The storage order of a chunk's rows, and the stencil that they are, if float32 has room for it.

    The order is the same whatever the value type, since a solve may go on with another one.
    """
    box = partition[number].box
    rows = stencil_rows(backend, partition, number, offsets, weights)
    stencil = constant_stencil(backend.lattice, rows, box.lo)
    if stencil is None or stored or not stencil.fits(np.dtype(np.float32)):
        layout = colored_layout(backend, partition, box, offsets)
        if closed is not None and float(closed.astype(np.float64).sum()) >= max(LEFT_OUT * box.points, FEW):
            layout = backend.layouts.opened(layout, closed)
        return Finest(layout=layout, stencil=None)
    return Finest(layout=backend.layouts.plain(box.shape), stencil=stencil)


def coarse_weights(backend: Backend, stencil: ConstantStencil, box: Box) -> Any:
    """The rows of PᵀAP for a constant stencil on a whole grid, at a box of coarse points: float64 (27 coarse rows,).

    Away from the faces they are all the same: those of a grid of at most `MODEL` + 1 points along each axis are
    computed, and laid out on the larger one.
    """
    fine = [n if n <= MODEL + 1 else MODEL + n % 2 for n in stencil.shape]
    nx, ny, nz = fine
    rows = _model_rows(stencil, (nx, ny, nz))
    made = Coarsening(lo=(0, 0, 0), shape=(nx, ny, nz), grid=(nx, ny, nz), periodic=stencil.wraps, factors=(2, 2, 2))
    rows = backend.asarray(rows)
    coarse = backend.lattice.galerkin(made, OFFSETS, rows, backend.lattice.interpolation(made, OFFSETS, rows))
    like = [
        _like(n // 2, m)[low:high]
        for n, m, low, high in zip(stencil.shape, made.coarse_shape, box.lo, box.hi, strict=True)
    ]
    return backend.lattice.spread(coarse.reshape(len(BOX_OFFSETS), *made.coarse_shape[::-1]), like).reshape(-1)


def _like(n: int, m: int) -> npt.NDArray[np.int64]:
    """The coarse point of the model, of m, that each of n coarse points along an axis is like."""
    if n == m:
        return np.arange(n)
    out = np.full(n, EDGE)
    out[:EDGE] = np.arange(EDGE)
    out[n - EDGE :] = np.arange(m - EDGE, m)
    return out


def _model_rows(stencil: ConstantStencil, shape: Triple) -> F64:
    """The rows of a stencil on another grid, with ghost layers: float64 (27, nz + 4, ny + 4, nx + 4)."""
    rows = np.zeros((len(OFFSETS), *(n + 2 * GHOST for n in shape[::-1])))
    own = slice(GHOST, -GHOST)
    rows[:, own, own, own] = np.array(stencil.weights)[:, None, None, None]
    center = rows[OFFSETS.index((0, 0, 0)), own, own, own]
    for axis, side in product(range(3), range(2)):
        np.moveaxis(center, 2 - axis, 0)[-side] += stencil.faces[2 * axis + side]
    for axis in (a for a, wraps in enumerate(stencil.wraps) if wraps):
        layers = np.moveaxis(rows, 3 - axis, 0)
        layers[:GHOST], layers[-GHOST:] = layers[-2 * GHOST : -GHOST], layers[GHOST : 2 * GHOST]
    return rows
