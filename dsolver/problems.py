"""What is solved: diffusion with coefficients and boundary conditions, and stencils, on a grid of points or cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.boundary import Boundary, Condition, Dirichlet, Neumann, Periodic, Robin, boundary_of
from dsolver.cell_weights import CellWeights
from dsolver.errors import InputError
from dsolver.finite_volumes import KAPPA, MASK, SIGMA, Diffusion
from dsolver.kernels.backend import StencilRows
from dsolver.partition import BOX_OFFSETS, STAR_OFFSETS, Box, Cut, Flags, Offsets, Partition, Triple, cut_of, three
from dsolver.rules import CellRule, Patch, Rule

__all__ = [
    "BOX_OFFSETS",
    "STAR_OFFSETS",
    "Boundary",
    "Condition",
    "Dirichlet",
    "Neumann",
    "Periodic",
    "Problem",
    "Robin",
    "diffusion",
    "hpcg",
    "numbering",
    "poisson7",
    "poisson27",
    "stencil",
]

Coefficient = Any
"""A number; a NumPy, CuPy or Dask array of the grid's shape; or a function f(x, y, z) of the cells' centers."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A linear system on a grid. Make it with a function of this module.

    Attributes:
        name: for reports.
        grid: points or cells along x, y, z. Arrays of the problem have this shape; ``b[i, j, k]`` belongs to (i, j, k).
        chunks: how many chunks along x, y, z, or their extents along each (as a Dask array's `chunks`), or None to let
            `dsolver.solve` choose one for each worker.
        offsets: the 7 or 27 offsets of a row's columns, (0, 0, 0) among them.
        weights: the value at each offset where all rows have the same, and zero Dirichlet values outside; else empty.
        periodic: along which axes the last point is followed by the first. An axis of one or two points never is: what
            goes around it is added to the weights.
        singular: whether constants solve A x = 0, so that the solution has mean zero and b must sum to zero; None where
            only the coefficients tell.
        rule: what makes rows that differ; None where weights are given.
        coefficients: what the rule reads, by name: arrays of the grid's shape.
    """

    name: str
    grid: Triple
    chunks: Cut | None = None
    offsets: Offsets = field(repr=False)
    weights: tuple[float, ...] = field(repr=False, default=())
    periodic: Flags = (False, False, False)
    singular: bool | None = False
    rule: Rule | None = field(repr=False, default=None)
    coefficients: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", three("grid", self.grid))
        if self.chunks is not None:
            object.__setattr__(self, "chunks", cut_of(self.chunks))
        Partition(self.grid, self.chunks or (1, 1, 1))
        if self.rule is None:
            self._check_weights()

    @property
    def masked(self) -> bool:
        """Whether cells are left out."""
        return isinstance(self.rule, CellRule) and self.rule.masked

    @property
    def recipe(self) -> Problem:
        """The same without the arrays, small enough to send anywhere."""
        return replace(self, coefficients={}) if self.coefficients else self

    def _check_weights(self) -> None:
        if len(self.offsets) != len(self.weights):
            raise InputError(f"{len(self.offsets)} offsets but {len(self.weights)} weights")
        if len(set(self.offsets)) != len(self.offsets) or not set(self.offsets) <= set(BOX_OFFSETS):
            raise InputError(f"offsets must be different from each other and in -1 .. 1, not {self.offsets}")
        if not np.isfinite(self.weights).all():
            raise InputError(f"the stencil has a weight that is not finite: {self.weights}")
        if (0, 0, 0) not in self.offsets or self.weights[self.offsets.index((0, 0, 0))] == 0.0:
            raise InputError("the stencil has a zero diagonal: Gauss-Seidel and multigrid divide by it")
        _check_symmetry(dict(zip(self.offsets, self.weights, strict=True)))

    def rows(self, partition: Partition, number: int, xp: Any, patch: Patch | None = None) -> StencilRows:
        """The matrix rows of one chunk, on this problem's grid or on a coarser one with the same stencil.

        Args:
            partition: the chunks.
            number: of the chunk.
            xp: the array module.
            patch: its coefficients; where all rows have the same weights there are none.

        Raises:
            InputError: a coefficient makes no sense.
        """
        slots = [(box, 1) for _, box in partition.halo_boxes(number, self.offsets)]
        return self._rows(partition, number, slots, xp, self.values(xp, patch))

    def values(self, xp: Any, patch: Patch | None = None) -> Any:
        """The weights of a chunk's rows: float64 (K, rows), or (K,) for a constant stencil. Arguments as for `rows`."""
        if self.rule is None:
            return xp.asarray(self.weights, dtype=xp.float64)
        assert patch is not None
        return self.rule.weights(patch)

    def correction_rows(self, partition: Partition, number: int, xp: Any) -> StencilRows:
        """The same rows, with coarse points alone as halo, in the slots of `Partition.coarse_halo_plan`."""
        slots = []
        for piece in partition.halo_pieces(number, self.offsets):
            whole = partition[piece.source].box
            found = piece.box.halved(whole) if piece.source != number else None
            if found is not None:
                moved = three("moved", (a - b for a, b in zip(piece.seen.lo, piece.box.lo, strict=True)))
                lo, hi = (
                    tuple(base + 2 * i for base, i in zip(whole.lo, end, strict=True)) for end in (found.lo, found.hi)
                )
                slots.append((Box(lo=three("lo", lo), hi=three("hi", hi)).shifted(moved), 2))
        return self._rows(partition, number, slots, xp, xp.asarray(self.weights, dtype=xp.float64))

    def _rows(
        self, partition: Partition, number: int, slots: list[tuple[Box, int]], xp: Any, weights: Any
    ) -> StencilRows:
        box = partition[number].box
        return StencilRows(
            shape=box.shape,
            numbering=numbering(xp, box, slots, partition.wrapped(number, self.offsets)),
            offsets=self.offsets,
            weights=weights,
        )


def numbering(xp: Any, box: Box, slots: list[tuple[Box, int]], wrapped: Sequence[tuple[Box, Box]] = ()) -> Any:
    """int32, flat, x fastest: `StencilRows.numbering` of a box. For the arguments see `with_halo`."""
    nx, ny, nz = box.shape
    out = xp.full((nz + 2, ny + 2, nx + 2), -1, dtype=xp.int32)
    out[1:-1, 1:-1, 1:-1] = xp.arange(box.points, dtype=xp.int32).reshape(nz, ny, nx)
    return with_halo(xp, out, box, slots, wrapped).reshape(-1)


def with_halo(
    xp: Any, out: Any, box: Box, slots: list[tuple[Box, int]], wrapped: Sequence[tuple[Box, Box]] = ()
) -> Any:
    """The numbers of a box's points with those of the points around it.

    Args:
        xp: the array module.
        out: int32 (nz + 2, ny + 2, nx + 2), the numbers of the points and a layer around them, which is written to.
        box: the chunk's points.
        slots: boxes whose points are the halo, in slot order, each with a step: every point or every second one along
            each axis, the first included.
        wrapped: boxes where own points are found across a periodic axis, and which ones; see `Partition.wrapped`.
    """
    first = box.points
    for halo, step in slots:
        place = out[box.around(halo, step=step)]
        place[...] = first + xp.arange(place.size, dtype=xp.int32).reshape(place.shape)
        first += place.size
    for seen, own in wrapped:
        out[box.around(seen)] = out[box.around(own)]
    return out


def diffusion(
    grid: Triple,
    kappa: Coefficient | Sequence[Coefficient] = 1.0,
    sigma: Coefficient = 0.0,
    *,
    spacing: float | Sequence[Any] = 1.0,
    bc: Any = None,
    mask: Any = None,
    chunks: Cut | None = None,
    name: str = "diffusion",
) -> Problem:
    """−∇·(κ∇u) + σu = f on a box of cells, by finite volumes with 7 points a row.

    Unknowns are at the cells' centers. A face's κ is the harmonic average of its two cells', boundary conditions hold
    at the faces of the grid, and the order of the error in the cell size is 2. Rows are multiplied by their cell's
    volume, so that the matrix is symmetric on stretched grids too.

    `dsolver.solve` takes f, the source for each unit of volume at the cells' centers, as its b; it multiplies it by
    the volumes and adds what the boundary values contribute. Residuals are those of the system made so.

    Where neither a boundary condition nor σ fixes the constant (Neumann or periodic on all sides), f must have the
    integral that the fluxes ask for. A constant is subtracted from it where it has not, with a warning beyond rounding,
    and of all solutions the one with mean zero (by volume, over the cells that are not masked) is returned. Where cells
    are masked, all this holds for each closed region by itself: cells that hang together and are cut off from all that
    would fix them, as the pockets of a porous medium are, however many. `Solution.closed_regions` counts them.

    Args:
        grid: cells along x, y, z.
        kappa: κ > 0, one for all axes or a sequence of three, along x, y, z. Each is a number, an array of shape grid
            (NumPy, CuPy, Dask) or a function of the cells' centers.
        sigma: σ >= 0, likewise.
        spacing: the size of the cells: a number, or one for each axis, each a number or an array of that axis' length.
        bc: boundary conditions: None for u = 0; one of "dirichlet" (u = 0), "neumann" (no flux), "periodic" or a
            condition (`Dirichlet`, `Neumann`, `Robin`, `Periodic`) for all faces; or a mapping from faces ("x-", "x+",
            "y-", ...) or axes ("x", both ends) to such.
        mask: an array or a function that is True at cells to leave out: nothing flows through their faces, u is 0
            there, and their κ, σ and f do not matter and may be NaN. To hold a value in cells instead, make σ large
            there and f = σ times the value.
        chunks: how many chunks along x, y, z, or their extents along each; by default one for each worker.
        name: for reports.

    Functions are called as f(x, y, z) on every chunk's owner, with arrays of NumPy or CuPy that broadcast to the chunk;
    x runs from 0 at the face x-. They must be picklable where there is a cluster.

    Raises:
        InputError: an argument cannot be right. Values of arrays and functions are looked at when they are solved with.
    """
    grid = three("grid", grid)
    Partition(grid, cut_of(chunks) if chunks is not None else (1, 1, 1))
    boundary = boundary_of(grid, bc)
    if mask is not None and not callable(mask):
        mask = _flags(mask)
    return _diffusion(grid, _per_axis(kappa), sigma, mask, _cell_sizes(grid, spacing), boundary, chunks, name)


def changed(problem: Problem, *, kappa: Any = None, sigma: Any = None) -> Problem:
    """The same diffusion problem with other coefficients; see `diffusion` for what they may be.

    Raises:
        InputError: it is no problem of `diffusion`, or a coefficient cannot be right.
    """
    rule, arrays = problem.rule, problem.coefficients
    if not isinstance(rule, Diffusion):
        raise InputError(f"{problem.name} has no kappa and sigma: only problems of dsolver.problems.diffusion have")

    def given(name: str, number: float | None) -> Any:
        return number if number is not None else arrays.get(name, rule.functions.get(name))

    old = [given(name, number) for name, number in zip(rule.fields, rule.kappa, strict=True)]
    axes = (old if len(set(rule.fields)) == 3 else old[:1]) if kappa is None else _per_axis(kappa)
    return _diffusion(
        problem.grid,
        axes,
        given(SIGMA, rule.sigma) if sigma is None else sigma,
        given(MASK, None) if rule.mask else None,
        rule.sizes,
        rule.boundary,
        problem.chunks,
        problem.name,
    )


def _diffusion(
    grid: Triple,
    axes: Sequence[Any],
    sigma: Any,
    mask: Any,
    sizes: Any,
    boundary: Boundary,
    chunks: Cut | None,
    name: str,
) -> Problem:
    numbers: dict[str, float] = {}
    arrays: dict[str, Any] = {}
    functions: dict[str, Callable[..., Any]] = {}
    fields = (KAPPA[0], KAPPA[1], KAPPA[2]) if len(axes) == 3 else ("kappa", "kappa", "kappa")
    for called, value in [*zip(fields, axes, strict=False), (SIGMA, sigma)]:
        _sort(grid, called, value, numbers, arrays, functions)
    for called, value in numbers.items():
        if not (np.isfinite(value) and (value >= 0.0 if called == SIGMA else value > 0.0)):
            raise InputError(f"{called} must be finite and {'not negative' if called == SIGMA else '> 0'}, not {value}")
    if mask is not None:
        _sort(grid, MASK, mask, numbers, arrays, functions)
        if MASK in numbers:
            raise InputError("mask must be an array of the grid's shape, or a function of x, y, z")
    x, y, z = (numbers.get(called) for called in fields)
    rule = Diffusion(
        grid=grid,
        kappa=(x, y, z),
        fields=fields,
        sigma=numbers.get(SIGMA),
        mask=mask is not None,
        sizes=sizes,
        boundary=boundary,
        functions=functions,
    )
    return Problem(
        name=name,
        grid=grid,
        chunks=chunks,
        offsets=STAR_OFFSETS,
        periodic=_wrapping(grid, boundary.periodic),
        singular=_constants_solve(boundary, numbers.get(SIGMA), masked=mask is not None),
        rule=rule,
        coefficients=arrays,
    )


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
    by_offset = _cell_weights(grid, weights)
    if by_offset is not None:
        return _varying(grid, by_offset, flags, chunks, name)
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
    _check_symmetry(used)
    used = _folded(grid, flags, used)
    star = all(weight == 0.0 for o, weight in used.items() if o not in STAR_OFFSETS)
    offsets = STAR_OFFSETS if star else BOX_OFFSETS
    return Problem(
        name=name,
        grid=grid,
        chunks=chunks,
        offsets=offsets,
        weights=tuple(used[o] for o in offsets),
        periodic=_wrapping(grid, flags),
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


# -- stencils ----------------------------------------------------------------------------------------------------------


def _check_symmetry(weights: Mapping[Triple, float]) -> None:
    for (i, j, k), weight in weights.items():
        if weights.get((-i, -j, -k)) != weight:
            raise InputError(f"the stencil is not symmetric at {(i, j, k)}: conjugate gradients need A = Aᵀ")


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


# -- diffusion ---------------------------------------------------------------------------------------------------------


def _wrapping(grid: Triple, periodic: Flags) -> Flags:
    """The axes along which neighbors are found around the end: with one or two cells the weights hold it all."""
    x, y, z = (wraps and n > 2 for n, wraps in zip(grid, periodic, strict=True))
    return x, y, z


def _constants_solve(boundary: Boundary, sigma: float | None, *, masked: bool) -> bool | None:
    """Whether constants solve A x = 0, or None where only coefficients tell."""
    if sigma:
        return False
    if boundary.grounds and not masked:
        return False
    return None if masked or sigma is None or boundary.grounds is None else True


def _per_axis(kappa: Any) -> list[Any]:
    """One κ, or three."""
    several = isinstance(kappa, list | tuple) or getattr(kappa, "shape", None) == (3,)
    if not several:
        return [kappa]
    if len(kappa) != 3:
        raise InputError(f"kappa has {len(kappa)} entries: give one for all axes, or three, along x, y and z")
    return list(kappa)


def _sort(
    grid: Triple,
    name: str,
    value: Any,
    numbers: dict[str, float],
    arrays: dict[str, Any],
    functions: dict[str, Callable[..., Any]],
) -> None:
    """Put a coefficient to its kind.

    Raises:
        InputError: it is no number, array or function, or an array of another shape.
    """
    if isinstance(value, Real) or getattr(value, "shape", None) == ():
        numbers[name] = float(value)
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        if tuple(value.shape) != grid:
            raise InputError(f"{name} has shape {tuple(value.shape)}, but the grid is {grid}: they must be equal")
        if np.dtype(value.dtype).kind not in "fiu":
            raise InputError(f"{name} has dtype {value.dtype}: real numbers are needed")
        arrays[name] = value
    elif callable(value):
        functions[name] = value
    else:
        raise InputError(
            f"{name} must be a number, an array of shape {grid} (NumPy, CuPy, Dask) or a function of x, y, z, "
            f"not {value!r}"
        )


def _flags(mask: Any) -> Any:
    """A mask as numbers, which is what fields hold."""
    values = mask if hasattr(mask, "dtype") else np.asarray(mask)
    if np.dtype(values.dtype).kind not in "biu":
        raise InputError(f"mask has dtype {values.dtype}: it must be True at the cells to leave out")
    return (values != 0).astype(np.uint8)


def _cell_sizes(
    grid: Triple, spacing: Any
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Sizes of the cells along each axis."""
    axes = [spacing] * 3 if isinstance(spacing, Real) or getattr(spacing, "shape", None) == () else spacing
    try:
        given_x, given_y, given_z = axes
    except (TypeError, ValueError) as error:
        raise InputError(f"spacing must be a number or one entry for each axis, not {spacing!r}") from error
    x, y, z = (
        _sizes_along(axis, n, sizes) for axis, n, sizes in zip("xyz", grid, (given_x, given_y, given_z), strict=True)
    )
    return x, y, z


def _sizes_along(axis: str, n: int, sizes: Any) -> npt.NDArray[np.float64]:
    try:
        values = np.asarray(sizes, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"spacing along {axis} must be a number or {n} cell sizes, not {sizes!r}") from error
    if values.shape not in ((), (n,)):
        raise InputError(f"spacing along {axis} has shape {values.shape}: give a number, or {n} cell sizes")
    if not (np.isfinite(values).all() and (values > 0.0).all()):
        raise InputError(f"spacing along {axis} must be finite and > 0")
    return np.broadcast_to(values, n).copy()
