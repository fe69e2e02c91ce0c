"""Operator-induced interpolation and Galerkin operators on a lattice, in NumPy: the text that the backends follow.

Black-box multigrid (Dendy, J. Comput. Phys. 48, 1982, after Alcouffe, Brandt, Dendy, Painter, SIAM J. Sci. Stat.
Comput. 2, 1981; in three dimensions Dendy, ibid. 8, 1987): the interpolation solves the rows of A, with what
they cannot see collapsed onto what they can.
"""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.lattice.coarsening import (
    BETWEEN,
    COARSE_OFFSETS,
    CORNERS,
    LOWER,
    NEGLIGIBLE,
    OUTSIDE,
    SECOND,
    UPPER,
    Coarsening,
    Triple,
    lattice_weights,
    offsets_below,
)

F64 = npt.NDArray[np.float64]
Int = npt.NDArray[np.int_]
HERE: Triple = (0, 0, 0)


def interpolation(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64) -> F64:
    """The interpolation P by corners: see `LatticeSetup.interpolation`.

    A coarse point takes its own value. A point between coarse ones along the axes S takes the solution of its row of
    A x = 0 collapsed onto S: an entry at offset o counts as one at o with the components outside of S set to zero. So a
    point on an edge sees two neighbors, one on a face eight, one in a cell's center all 26; each of them is a coarse
    point or interpolated before it.
    """
    entries = _inside_entries(coarsening, offsets, weights)
    kinds = np.meshgrid(*(axis.kind for axis in reversed(coarsening.axes)), indexing="ij")[::-1]
    inside = np.all([kind != OUTSIDE for kind in kinds], axis=0)
    size = sum(np.abs(weight) for weight in entries.values())
    p = np.zeros((len(CORNERS), *coarsening.ghosted))
    own_corner = sum(2**axis * (kind == SECOND) for axis, kind in enumerate(kinds))
    for count in range(4):
        for axes in combinations(range(3), count):
            here = inside & np.all([(kinds[axis] == BETWEEN) == (axis in axes) for axis in range(3)], axis=0)
            if not axes:
                for corner in range(len(CORNERS)):
                    p[corner][here & (own_corner == corner)] = 1.0
                continue
            here &= _off_the_frame(coarsening.ghosted, axes)
            collapsed = _collapsed(entries, axes)
            center = collapsed.pop(HERE)
            here &= center > NEGLIGIBLE * size
            for offset, weight in collapsed.items():
                part = np.divide(-weight, center, out=np.zeros_like(center), where=here)
                for corner, bits in enumerate(CORNERS):
                    target = _number(bit if o == 0 else (o + 1) // 2 for bit, o in zip(bits, offset, strict=True))
                    p[target] += part * _neighbor(p[corner], offset)
    return p


def galerkin(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64, p: F64) -> F64:
    """The weights of P^T A P: see `LatticeSetup.galerkin`.

    Coarse row I is the sum over the fine points i that read I, the entries o of their rows, and the corners of i + o.
    """
    w = lattice_weights(coarsening, offsets, weights)
    w = np.broadcast_to(w, (len(offsets), *coarsening.ghosted))
    shape = coarsening.coarse_shape
    own = np.indices(shape[::-1])[::-1]
    places = [axis.first + (axis.reach + 1) * i for axis, i in zip(coarsening.axes, own, strict=True)]
    out = np.zeros((len(COARSE_OFFSETS), *shape[::-1]))
    scale = np.zeros(shape[::-1])
    for step in product(*(range(-axis.reach, axis.reach + 1) for axis in reversed(coarsening.axes))):
        x, y, z = (place + d for place, d in zip(places, reversed(step), strict=True))
        corner, reads = _corner_of(coarsening, own, (x, y, z))
        restricted = np.where(reads, p[corner, z, y, x], 0.0)
        for k, (dx, dy, dz) in enumerate(offsets):
            value = restricted * w[k, z, y, x]
            scale += np.abs(value)
            farther = zip((x + dx, y + dy, z + dz), reversed(coarsening.ghosted), strict=True)
            neighbor = tuple(np.minimum(place, n - 1) for place, n in farther)  # past the ghost layers value is 0
            for number, bits in enumerate(CORNERS):
                products = value * p[number][neighbor[::-1]]
                column = _coarse_offset(coarsening, own, neighbor, bits)
                out[column, own[2], own[1], own[0]] += products
    center = COARSE_OFFSETS.index(HERE)
    empty = out[center] <= NEGLIGIBLE * scale
    out[center][empty] = np.where(scale > 0.0, scale, 1.0)[empty]
    kept = [COARSE_OFFSETS.index(o) for o in offsets_below(coarsening.factors, offsets)]
    return out[kept].reshape(len(kept), -1)


def _inside_entries(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64) -> dict[Triple, F64]:
    """The weights of each offset at every point, 0 where the entry leaves the domain."""
    lattice = lattice_weights(coarsening, offsets, weights)
    below_above = [(axis.open & LOWER != 0, axis.open & UPPER != 0) for axis in coarsening.axes]
    entries = {}
    for offset, weight in zip(offsets, lattice, strict=True):
        x, y, z = (
            np.ones_like(below) if o == 0 else below if o < 0 else above
            for o, (below, above) in zip(offset, below_above, strict=True)
        )
        entries[offset] = np.where(z[:, None, None] & y[:, None] & x, weight, 0.0)
    return entries


def _collapsed(entries: dict[Triple, F64], axes: tuple[int, ...]) -> dict[Triple, F64]:
    """The entries with their offsets' components outside of the axes set to zero, in the order of `COARSE_OFFSETS`."""
    out: dict[Triple, F64] = {}
    for (dx, dy, dz), weight in entries.items():
        x, y, z = (d if axis in axes else 0 for axis, d in enumerate((dx, dy, dz)))
        out[x, y, z] = out.get((x, y, z), 0.0) + weight
    return {offset: out[offset] for offset in COARSE_OFFSETS if offset in out}


def _off_the_frame(ghosted: Triple, axes: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Points that have a neighbor on both sides along the axes."""
    out = np.ones(ghosted, dtype=np.bool_)
    for axis in axes:
        lines = np.moveaxis(out, 2 - axis, 0)
        lines[0] = lines[-1] = False
    return out


def _neighbor(values: F64, offset: Triple) -> F64:
    """The values at each point's neighbor."""
    x, y, z = offset
    return np.roll(values, (-z, -y, -x), axis=(0, 1, 2))


def _corner_of(coarsening: Coarsening, own: Int, place: Iterable[Int]) -> tuple[Int, npt.NDArray[np.bool_]]:
    """The corner of a fine point that an own coarse point is, and whether it is one."""
    bits = [i - axis.base[at] for axis, i, at in zip(coarsening.axes, own, place, strict=True)]
    reads = np.all([(bit >= 0) & (bit <= 1) for bit in bits], axis=0)
    return np.where(reads, _number(bits), 0), reads


def _coarse_offset(coarsening: Coarsening, own: Int, place: Iterable[Int], bits: Triple) -> Int:
    """The number in `COARSE_OFFSETS` of a corner of a fine point as seen from an own coarse point."""
    number: Int = np.full_like(own[0], COARSE_OFFSETS.index(HERE))
    for axis, i, at, bit, stride in zip(coarsening.axes, own, place, bits, (1, 3, 9), strict=True):
        step = 0 if axis.folded else np.clip(axis.base[at] + bit - i, -1, 1)
        number += stride * step
    return number


def _number(bits: Iterable[Any]) -> Any:
    """The number of a corner; of many, if the bits are arrays."""
    a, b, c = bits
    return a + 2 * b + 4 * c
