"""Stencils with 7 or 27 points: the same for all rows, or with weights for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.boundary import check_unmasked
from dsolver.cell_weights import CellWeights
from dsolver.errors import InputError, check_computed
from dsolver.partition import BOX_OFFSETS, STAR_OFFSETS, Cut, Flags, Offsets, Triple, three
from dsolver.problems.problem import Problem, check_symmetry, wrapping


def stencil(
    grid: Triple,
    weights: Any,
    *,
    periodic: Sequence[bool] | bool = False,
    chunks: Cut | None = None,
    name: str = "stencil",
) -> Problem:
    """A stencil with 7 or 27 points, the same for all rows or with weights for each, and zero outside the grid.

    Args:
        grid: points along x, y, z.
        weights: for a constant stencil shape (3, 3, 3), the value for column offset (di, dj, dk) at
            [di + 1, dj + 1, dk + 1]; symmetric under point reflection; with zeros off the axes it is stored with 7
            points. For weights that differ, a mapping from offsets (di, dj, dk) to arrays of shape grid, or an array
            (3, 3, 3, nx, ny, nz), or 27 arrays of shape grid in the order of such an array (the last offset fastest).
            The weight of row (i, j, k) at an offset must be that of the row at the offset for the opposite one.
            Weights at offsets that leave the grid are not looked at.
        periodic: along which axes (or all) the last point is followed by the first.
        chunks: how many chunks along x, y, z, or their extents along each; by default one for each worker.
        name: for reports.

    Raises:
        InputError: the shape is none of these, a weight is not real and finite, the diagonal is zero, the stencil is
            not symmetric, or the grid cannot be cut so. Weights for each row are looked at when they are solved with.
    """
    flags = _flags_of(periodic)
    grid = three("grid", grid)
    check_computed("weights", weights)
    by_offset = _cell_weights(grid, weights)
    if by_offset is not None:
        return _varying(grid, by_offset, flags, chunks, name)
    check_unmasked("weights", weights)
    try:
        values = np.asarray(weights)
    except ValueError as error:
        raise InputError(f"stencil weights must have shape (3, 3, 3): {error}") from error
    if values.dtype.kind not in "fiu":
        raise InputError(f"stencil weights must be real numbers, not {values.dtype}")
    if values.shape != (3, 3, 3):
        raise InputError(f"stencil weights must have shape (3, 3, 3), not {values.shape}")
    if not np.isfinite(values).all():
        raise InputError("the stencil has a weight that is not finite")
    used = {o: float(values[o[0] + 1, o[1] + 1, o[2] + 1]) for o in BOX_OFFSETS}
    closed = all(flags[axis] or not any(w for o, w in used.items() if o[axis]) for axis in range(3))
    singular = closed and abs(sum(used.values())) <= 1e-14 * sum(map(abs, used.values()))
    check_symmetry(used)
    used = _folded(grid, flags, used)
    star = all(weight == 0.0 for o, weight in used.items() if o not in STAR_OFFSETS)
    offsets = STAR_OFFSETS if star else BOX_OFFSETS
    return Problem(
        name=name,
        grid=grid,
        chunks=chunks,
        offsets=offsets,
        weights=tuple(used[o] for o in offsets),
        periodic=wrapping(grid, flags),
        singular=singular,
    )


def hpcg(grid: Triple, *, chunks: Cut | None = None) -> Problem:
    """HPCG's 27-point problem: diagonal 26, every other entry -1 (Dongarra, Heroux, Luszczek, HPCG 3.1)."""
    return stencil(grid, _centered(26.0, BOX_OFFSETS), chunks=chunks, name="hpcg")


def poisson7(grid: Triple, *, chunks: Cut | None = None) -> Problem:
    """The 7-point Laplacian times -h²: diagonal 6, neighbors -1."""
    return stencil(grid, _centered(6.0, STAR_OFFSETS), chunks=chunks, name="poisson7")


def poisson27(grid: Triple, *, chunks: Cut | None = None) -> Problem:
    """The 27-point Laplacian with equal weights: diagonal 26, neighbors -1; HPCG's matrix under its usual name."""
    return stencil(grid, _centered(26.0, BOX_OFFSETS), chunks=chunks, name="poisson27")


def _centered(center: float, offsets: Offsets) -> npt.NDArray[np.float64]:
    out = np.zeros((3, 3, 3))
    for i, j, k in offsets:
        out[i + 1, j + 1, k + 1] = -1.0
    out[1, 1, 1] = center
    return out


def _folded(grid: Triple, periodic: Flags, weights: dict[Triple, float]) -> dict[Triple, float]:
    """Weights without steps around periodic axes of one or two points.

    Around one point every step ends where it began; of two points each is the other's neighbor on both sides.
    """
    for axis, (n, wraps) in enumerate(zip(grid, periodic, strict=True)):
        if not wraps or n > 2:
            continue
        found = dict.fromkeys(weights, 0.0)
        for offset, weight in weights.items():
            for step in (0,) if n == 1 or offset[axis] == 0 else (-1, 1):
                i, j, k = (step if a == axis else o for a, o in enumerate(offset))
                found[i, j, k] += weight
        # Sums of the same numbers in another order: the two of a pair must be equal to the last bit.
        weights = {(i, j, k): 0.5 * (w + found[-i, -j, -k]) for (i, j, k), w in found.items()}
    return weights


def _cell_weights(grid: Triple, weights: Any) -> dict[Triple, Any] | None:
    """Arrays by offset, or None for weights that are the same in all rows."""
    ordered = [(i, j, k) for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)]
    if isinstance(weights, Mapping):
        return {three("offset", offset): values for offset, values in weights.items()}
    shape = tuple(getattr(weights, "shape", ()))
    if shape == (3, 3, 3, *grid):
        return {o: weights[o[0] + 1, o[1] + 1, o[2] + 1] for o in ordered}
    listed = isinstance(weights, list | tuple) and len(weights) == 27 and all(hasattr(w, "shape") for w in weights)
    if shape == (27, *grid) or listed:
        return {o: weights[i] for i, o in enumerate(ordered)}
    return None


def _varying(grid: Triple, arrays: dict[Triple, Any], periodic: Flags, chunks: Cut | None, name: str) -> Problem:
    """A problem with weights for each row."""
    if not set(arrays) <= set(BOX_OFFSETS):
        raise InputError(f"offsets must be in -1 .. 1, not {sorted(set(arrays) - set(BOX_OFFSETS))[0]}")
    if (0, 0, 0) not in arrays:
        raise InputError("the stencil has no diagonal, offset (0, 0, 0): Gauss-Seidel and multigrid divide by it")
    for offset, values in arrays.items():
        i, j, k = offset
        if (-i, -j, -k) not in arrays:
            raise InputError(
                f"the stencil has offset {offset} but not the opposite one: conjugate gradients need A = Aᵀ"
            )
        shape = tuple(getattr(values, "shape", ()))
        if shape != grid:
            raise InputError(f"the weights at offset {offset} have shape {shape}, but the grid is {grid}")
    small = [axis for axis, n, wraps in zip("xyz", grid, periodic, strict=True) if wraps and n < 3]
    if small:
        raise InputError(
            f"the periodic axis {small[0]} has fewer than 3 points: add what goes around it to the other weights, and "
            f"make the axis not periodic"
        )
    everywhere = STAR_OFFSETS if set(arrays) <= set(STAR_OFFSETS) else BOX_OFFSETS
    offsets = tuple(o for o in everywhere if o in arrays)
    names = tuple(f"weights{i:+d}{j:+d}{k:+d}" for i, j, k in offsets)
    return Problem(
        name=name,
        grid=grid,
        chunks=chunks,
        offsets=offsets,
        periodic=periodic,
        singular=None,
        rule=CellWeights(offsets=offsets, names=names),
        coefficients={called: arrays[o] for called, o in zip(names, offsets, strict=True)},
    )


def _flags_of(periodic: Any) -> Flags:
    try:
        x, y, z = (bool(flag) for flag in ([periodic] * 3 if isinstance(periodic, bool | np.bool_) else periodic))
    except (TypeError, ValueError) as error:
        raise InputError(f"periodic must be True, False or one of them for each axis, not {periodic!r}") from error
    return x, y, z
