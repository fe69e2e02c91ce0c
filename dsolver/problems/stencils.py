"""Stencils with 7 or 27 points, in a plane with 5 or 9: the same for all rows, or with weights for each."""

from collections.abc import Mapping, Sequence
from itertools import product
from numbers import Real
from typing import Any, Final

import numpy as np

from dsolver.errors import InputError, check_computed
from dsolver.grid.box import BOX_OFFSETS, STAR_OFFSETS, Flags, Offsets, Triple, wrapping
from dsolver.grid.partition import Cut
from dsolver.problems.boundaries.boundary import check_unmasked
from dsolver.problems.cell_weights import CellWeights
from dsolver.problems.embedding import WORDS, Embedding
from dsolver.problems.problem import UNSYMMETRIC, Problem, check_symmetry

ONE_SIDED: Final = "the weights of a stencil may differ from those of opposite offsets"


def stencil(
    grid: int | Sequence[int],
    weights: Any,
    *,
    periodic: Sequence[bool] | bool = False,
    symmetric: bool = True,
    chunks: Sequence[Any] | None = None,
    name: str = "stencil",
) -> Problem:
    """A stencil with 7 or 27 points, the same for all rows or with weights for each, and zero outside the grid.

    In a plane, where the grid is (nx, ny), stencils have 5 or 9 points, and on a line 3: offsets, flags, chunks and
    arrays then have two axes, or one.

    Args:
        grid: points along x, y, z; or along x and y; or along x.
        weights: for a constant stencil shape (3, 3, 3), the value for column offset (di, dj, dk) at
            [di + 1, dj + 1, dk + 1], or a mapping from offsets to numbers; symmetric under point reflection; with zeros
            off the axes it is stored with 7 points. For weights that differ, a mapping from offsets (di, dj, dk) to
            arrays of shape grid, or numbers, or an array (3, 3, 3, nx, ny, nz), or 27 arrays in the order of such an
            array (the last offset fastest).
            Offsets that a mapping leaves out are zero: a 5-point matrix in a plane, or a finite-element one without
            couplings across faces.
            The weight of row (i, j, k) at an offset must be that of the row at the offset for the opposite one.
            Weights at offsets that leave the grid are not looked at.
        periodic: along which axes (or all) the last point is followed by the first.
        symmetric: whether A = Aᵀ, which is checked. With False weights may be any, as those of convection; this process
            makes rows of a matrix of them, which GMRES solves.
        chunks: how many chunks along x, y, z, or their extents along each; by default one for each worker.
        name: for reports.

    Raises:
        InputError: the shape is none of these, a weight is not real and finite, the diagonal is zero, the stencil is
            not symmetric, or the grid cannot be cut so. Weights for each row are looked at when they are solved with.
    """
    space = Embedding.of(grid)
    flags = space.periodic(periodic)
    cut = space.cut(chunks)
    check_computed("weights", weights)
    by_offset = _cell_weights(space, weights)
    if by_offset is not None:
        return _varying(space, by_offset, flags, cut, name, symmetric=symmetric)
    used = _constant_weights(space, weights)
    closed = all(flags[axis] or not any(w for o, w in used.items() if o[axis]) for axis in range(3))
    singular = closed and abs(sum(used.values())) <= 1e-14 * sum(map(abs, used.values()))
    if symmetric:
        check_symmetry(used)
    used = _folded(space.grid, flags, used, symmetric=symmetric)
    star = all(weight == 0.0 for o, weight in used.items() if o not in STAR_OFFSETS)
    offsets = STAR_OFFSETS if star else BOX_OFFSETS
    return Problem(
        name=name,
        grid=space.grid,
        dimensions=space.dimensions,
        chunks=cut,
        offsets=offsets,
        weights=tuple(used[o] for o in offsets),
        periodic=wrapping(space.grid, flags),
        singular=singular,
        asymmetry="" if symmetric else ONE_SIDED,
    )


def hpcg(grid: Triple, *, chunks: Cut | None = None) -> Problem:
    """HPCG's 27-point problem: diagonal 26, every other entry -1 (Dongarra, Heroux, Luszczek, HPCG 3.1).

    `grid`, `chunks` and errors: as of `poisson7`.
    """
    return _centered("hpcg", grid, 26.0, BOX_OFFSETS, chunks)


def poisson5(grid: tuple[int, int], *, chunks: Sequence[Any] | None = None) -> Problem:
    """The 5-point Laplacian times -h², in a plane: diagonal 4, neighbors -1.

    `grid`, `chunks` and errors: as of `poisson7`, along x and y.
    """
    return _centered("poisson5", grid, 4.0, tuple(o for o in STAR_OFFSETS if o[2] == 0), chunks, dimensions=2)


def poisson7(grid: Triple, *, chunks: Cut | None = None) -> Problem:
    """The 7-point Laplacian times -h²: diagonal 6, neighbors -1.

    Args:
        grid: points along x, y, z.
        chunks: how many chunks along x, y, z, or their extents along each; by default one for each worker.

    Raises:
        InputError: the grid is none, or cannot be cut so.
    """
    return _centered("poisson7", grid, 6.0, STAR_OFFSETS, chunks)


def poisson27(grid: Triple, *, chunks: Cut | None = None) -> Problem:
    """The 27-point Laplacian with equal weights: diagonal 26, neighbors -1; HPCG's matrix under its usual name.

    `grid`, `chunks` and errors: as of `poisson7`.
    """
    return _centered("poisson27", grid, 26.0, BOX_OFFSETS, chunks)


def _centered(
    name: str, grid: Sequence[int], center: float, offsets: Offsets, chunks: Sequence[Any] | None, dimensions: int = 3
) -> Problem:
    """A stencil with one weight in the middle and -1 at the other offsets, on a grid of so many axes."""
    if Embedding.of(grid).dimensions != dimensions:
        other = "poisson5 serves a plane" if dimensions == 3 else "poisson7 serves a box, a stencil of your own a line"
        raise InputError(f"{name}: grid must be {WORDS[dimensions]} integers, not {tuple(grid)}; {other}")
    weights = {offset[:dimensions]: -1.0 for offset in offsets} | {(0, 0, 0)[:dimensions]: center}
    return stencil(grid, weights, chunks=chunks, name=name)


def _folded(grid: Triple, periodic: Flags, weights: dict[Triple, float], *, symmetric: bool) -> dict[Triple, float]:
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
        if not symmetric:
            weights = found
            continue
        # Sums of the same numbers in another order: the two of a pair must be equal to the last bit.
        weights = {(i, j, k): 0.5 * (w + found[-i, -j, -k]) for (i, j, k), w in found.items()}
    return weights


def _constant_weights(space: Embedding, weights: Any) -> dict[Triple, float]:
    """The weight at each offset of `BOX_OFFSETS`, by offset or as an array of them. InputError: they are none."""
    cube = (3,) * space.dimensions
    if isinstance(weights, Mapping):
        given, weights = {space.offset(o): value for o, value in weights.items()}, np.zeros(cube)
        _check_offsets(given)
        for offset, value in given.items():
            weights[tuple(step + 1 for step in offset[: space.dimensions])] = value
    check_unmasked("weights", weights)
    try:
        values = np.asarray(weights)
    except ValueError as error:
        raise InputError(f"stencil weights must have shape {cube}: {error}") from error
    if values.dtype.kind not in "fiu":
        raise InputError(f"stencil weights must be real numbers, not {values.dtype}")
    if values.shape != cube:
        raise InputError(f"stencil weights must have shape {cube}, not {values.shape}")
    if not np.isfinite(values).all():
        raise InputError("the stencil has a weight that is not finite")
    steps = product((-1, 0, 1), repeat=space.dimensions)
    found = {space.offset(step): float(value) for step, value in zip(steps, values.flat, strict=True)}
    return {offset: found.get(offset, 0.0) for offset in BOX_OFFSETS}


def _cell_weights(space: Embedding, weights: Any) -> dict[Triple, Any] | None:
    """Arrays by offset, or None for weights that are the same in all rows."""
    if isinstance(weights, Mapping):
        if weights and all(isinstance(value, Real) for value in weights.values()):
            return None
        whole = {o: np.full(space.shape, w) if isinstance(w, Real) else w for o, w in weights.items()}
        return {space.offset(offset): values for offset, values in whole.items()}
    ordered = list(product((-1, 0, 1), repeat=space.dimensions))
    shape, cube = tuple(getattr(weights, "shape", ())), (3,) * space.dimensions
    if shape == (*cube, *space.shape):
        return {space.offset(o): weights[tuple(step + 1 for step in o)] for o in ordered}
    all_arrays = isinstance(weights, list | tuple) and all(hasattr(w, "shape") for w in weights)
    if shape == (len(ordered), *space.shape) or (all_arrays and len(weights) == len(ordered)):
        return {space.offset(o): weights[i] for i, o in enumerate(ordered)}
    return None


def _check_offsets(weights: Mapping[Triple, Any]) -> None:
    """Refuse offsets that are not those of nearest neighbors."""
    if not set(weights) <= set(BOX_OFFSETS):
        raise InputError(f"offsets must be in -1 .. 1, not {sorted(set(weights) - set(BOX_OFFSETS))[0]}")


def _varying(
    space: Embedding, arrays: dict[Triple, Any], periodic: Flags, chunks: Cut | None, name: str, *, symmetric: bool
) -> Problem:
    """A problem with weights for each row."""
    grid = space.grid
    _check_offsets(arrays)
    if (0, 0, 0) not in arrays:
        center = (0, 0, 0)[: space.dimensions]
        raise InputError(f"the stencil has no diagonal, offset {center}: Gauss-Seidel and multigrid divide by it")
    for offset, values in arrays.items():
        i, j, k = offset
        if symmetric and (-i, -j, -k) not in arrays:
            raise InputError(f"the stencil lacks the opposite of offset {offset[: space.dimensions]}: {UNSYMMETRIC}")
        shape = tuple(getattr(values, "shape", ()))
        if shape != space.shape:
            raise InputError(
                f"the weights at offset {offset[: space.dimensions]} have shape {shape}, but the grid is {space.shape}"
            )
    small = [axis for axis, n, wraps in zip("xyz", grid, periodic, strict=True) if wraps and n < 3]
    if small:
        raise InputError(
            f"the periodic axis {small[0]} has fewer than 3 points: add what goes around it to the other weights, and "
            f"make the axis not periodic"
        )
    everywhere = STAR_OFFSETS if set(arrays) <= set(STAR_OFFSETS) else BOX_OFFSETS
    offsets = tuple(o for o in everywhere if o in arrays or o in STAR_OFFSETS)
    names = {(i, j, k): f"weights{i:+d}{j:+d}{k:+d}" for i, j, k in offsets if (i, j, k) in arrays}
    return Problem(
        name=name,
        grid=grid,
        dimensions=space.dimensions,
        chunks=chunks,
        offsets=offsets,
        periodic=periodic,
        singular=None,
        rule=CellWeights(offsets=offsets, names=tuple(map(names.get, offsets)), symmetric=symmetric),
        asymmetry="" if symmetric else ONE_SIDED,
        coefficients={called: space.array(arrays[o]) for o, called in names.items()},
    )
