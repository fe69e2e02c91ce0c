"""Diffusion with coefficients and boundary conditions, on cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Number, Real
from typing import Any, Final, final

import numpy as np

from dsolver.errors import InputError, check_computed, float_of, in_a_line
from dsolver.foreign_arrays import without_package
from dsolver.grid.partition import STAR_OFFSETS, Cut, Partition
from dsolver.problems.boundary import Boundary, boundary_of, check_unmasked, other_values
from dsolver.problems.coordinates import F64, Cells, agreed, centers_of, check_order
from dsolver.problems.embedding import WORDS, Embedding
from dsolver.problems.finite_volumes import (
    CROSS,
    FIXED,
    HELD,
    KAPPA,
    MASK,
    SCHEMES,
    SIGMA,
    UPWIND,
    VELOCITY,
    Diffusion,
)
from dsolver.problems.fluxes.flow import velocities_of
from dsolver.problems.problem import Problem, wrapping

ROUNDED: Final = 1e-12
"""Part of an entry of a tensor by which the one across the diagonal may differ."""
LARGEST: Final = 1e50
"""The largest cell size; the smallest is its inverse. Squares of volumes, as in norms, are numbers of float64."""

Coefficient = Any
"""A number; an array of the grid's shape, of NumPy, CuPy, Dask, xarray or a package that knows DLPack; or a function
f(x, y, z) of the cells' centers, in a plane f(x, y)."""


def diffusion(
    grid: int | Sequence[int],
    kappa: Coefficient | Sequence[Coefficient] = 1.0,
    sigma: Coefficient = 0.0,
    *,
    spacing: Any = None,
    bc: Any = None,
    mask: Any = None,
    active: Any = None,
    fixed: Any = None,
    velocity: Any = None,
    scheme: str = UPWIND,
    chunks: Sequence[Any] | None = None,
    name: str = "diffusion",
) -> Problem:
    """−∇·(κ∇u) + σu = f on a box of cells, by finite volumes with 7 points a row; with a velocity v, + ∇·(vu) too.

    Unknowns are at the cells' centers. A face's κ is the harmonic average of its two cells', boundary conditions hold
    at the faces of the grid, and the order of the error in the cell size is 2. Rows are multiplied by their cell's
    volume, so that the matrix is symmetric on stretched grids too.

    `dsolver.solve` takes f, the source for each unit of volume at the cells' centers, as its b; it multiplies it by
    the volumes and adds what the boundary values contribute. Residuals are those of the system made so.

    Where neither a boundary condition nor σ fixes the constant (Neumann or periodic on all sides), f must have the
    integral that the fluxes ask for. A constant is subtracted from it where it has not, with a warning beyond rounding,
    and of all solutions the one with mean zero (by volume, over the cells that are not masked) is returned. Where cells
    are masked, all this holds for each closed region by itself: connected cells that are cut off from all that
    would fix them, as the pockets of a porous medium are, however many. `Solution.closed_regions` counts them.

    In a plane the grid is (nx, ny), and on a line (nx,): arrays, entries for each axis, faces and arguments of
    functions are then those of two axes, or one, and cells have the thickness 1 along the others.

    Args:
        grid: cells along x, y, z; or along x and y; or along x.
        kappa: κ > 0, one for all axes or a sequence of three, along x, y, z. Each is a number, an array of shape grid
            (NumPy, CuPy, Dask, xarray, or any that knows DLPack) or a function of the cells' centers. A full tensor,
            symmetric and positive definite, is an array of NumPy or CuPy of shape ``(*grid, 3, 3)`` or (3, 3), in a
            plane ``(*grid, 2, 2)`` or (2, 2), or rows of such entries; rows then have 27 points, or 9. Numbers and
            arrays may be complex, as those of AC conduction are: then x is, and the rows are solved with as those of a
            sparse matrix, which this process makes.
        sigma: σ >= 0, or complex, too.
        spacing: the size of the cells: a number, or one for each axis, each a number or an array of that axis' length;
            or a DataArray of xarray whose coordinates are the cells' centers. By default what such coordinates of
            kappa, sigma and mask tell, else 1.
        bc: boundary conditions: None for u = 0 at all faces; one of "dirichlet" (u = 0), "neumann" (no flux),
            "periodic" or a condition (`Dirichlet`, `Neumann`, `Robin`, `Periodic`) for all faces; or a mapping from
            faces ("x-", "x+", "y-", ...) or axes ("x", both ends) to such, where nothing flows through faces that it
            does not name. The problem's repr has them all.
        mask: an array or a function that is True at cells to leave out: nothing flows through their faces, u is 0
            there, and their κ, σ and f do not matter and may be NaN.
        active: the same in the other sense, in place of mask: True at the cells to keep, as the pores of an image.
        fixed: a pair (where, values): an array or a function that is True at cells where u is known, and u there: a
            number, an array or a function, which do not matter elsewhere. x has these values; f and σ there do not
            matter. Other cells see the value through the half cell of κ that a fixed cell has, and where κ there is
            infinite at its faces, as those of an electrode. Cells that are left out stay so.
        velocity: v of a flow that carries u, one for each axis: a number; an array of the grid's shape, at the cells'
            centers, or with one more along its axis, at the faces; or a function, called with the faces' centers. A is
            not symmetric then, and BiCGStab solves it with algebraic multigrid. Its rows are those of a matrix, made in
            this process, or by the workers of a cluster. At faces of the grid u is that of the condition where the flow
            comes in, and with "upwind" that of the cell where it goes out.
        scheme: "upwind" (of first order, stable for any velocity) or "central" (of second order, for |v| h < 2 κ).
        chunks: how many chunks along x, y, z, or their extents along each; by default one for each worker.
        name: for reports.

    Functions are called as f(x, y, z) on every chunk's owner, with arrays of NumPy or CuPy that broadcast to the chunk;
    x runs from 0 at the face x-, or from the coordinate that DataArrays have there. They must be picklable where there
    is a cluster.

    Raises:
        InputError: an argument cannot be right. Values of arrays and functions are looked at when they are solved with.
    """
    space = Embedding.of(grid)
    cut = space.cut(chunks)
    Partition(space.grid, cut or (1, 1, 1))
    mask, (where, values) = _left_out(space, mask, active), _fixed(space, fixed)
    kappa, cross = _diagonal_and_cross(space, kappa)
    kappas = _per_axis(space, kappa)
    axes = [_embedded(space, name, values) for name, values in kappas]
    others = [(SIGMA, sigma), (MASK, mask), (FIXED, where), (HELD, values)]
    embedded = {called: _embedded(space, called, value) for called, value in others}
    if scheme not in SCHEMES:
        raise InputError(f"scheme must be one of {', '.join(SCHEMES)}, not {in_a_line(scheme)}")
    cells = _cells(space, spacing, [*kappas, *others])
    flow = velocities_of(space, cells, velocity)
    return _diffusion(space, axes, cross, embedded, cells, boundary_of(space, bc, cells), cut, name, flow, scheme)


def changed(
    problem: Problem, *, kappa: Any = None, sigma: Any = None, bc: Any = None, fixed: Any = None, velocity: Any = None
) -> Problem:
    """A diffusion problem with other coefficients; see `diffusion` for what they may be.

    Args:
        problem: which is changed.
        kappa: another κ.
        sigma: another σ.
        bc: other values of boundary conditions, see `other_values`.
        fixed: as of `diffusion`, or other values alone for the cells that are fixed.
        velocity: another one.

    Raises:
        InputError: it is no problem of `diffusion`, or a coefficient cannot be right.
    """
    rule, arrays = problem.rule, problem.coefficients
    if not isinstance(rule, Diffusion):
        raise InputError(f"{problem.name} has no kappa and sigma: only problems of dsolver.problems.diffusion have")

    def given(name: str, number: float | None) -> Any:
        return number if number is not None else arrays.get(name, rule.functions.get(name))

    old = [given(name, number) for name, number in zip(rule.fields, rule.kappa, strict=True)]
    space = Embedding.of(problem.shape)
    axes = old if len(set(rule.fields)) == 3 else old[:1]
    cross: Sequence[Any] = [given(name, number) for name, number in zip(CROSS, rule.cross, strict=False)]
    if kappa is not None:
        kappa, cross = _diagonal_and_cross(space, kappa)
        kappas = _per_axis(space, kappa)
        axes = [_embedded(space, name, values) for name, values in kappas]
        rule.cells.check(agreed(centers_of(name, values, space.numbers) for name, values in kappas))
    others = {
        SIGMA: given(SIGMA, rule.sigma),
        MASK: given(MASK, None) if rule.mask else None,
        FIXED: given(FIXED, None) if rule.fixed else None,
        HELD: given(HELD, rule.held),
    }
    new = {} if sigma is None else {SIGMA: sigma}
    if fixed is not None:
        pair = isinstance(fixed, tuple | list)
        if not (pair or rule.fixed):
            raise InputError(f"{problem.name} has no fixed cells: give a pair (where, values)")
        where, values = _fixed(space, fixed) if pair else (None, fixed)
        new |= {HELD: values} if where is None else {FIXED: where, HELD: values}
    for name, values in new.items():
        rule.cells.check(centers_of(name, values, space.numbers))
        others[name] = _embedded(space, name, values)
    flow: Sequence[Any] = [given(name, number) for name, number in zip(VELOCITY, rule.velocity, strict=False)]
    flow = flow if velocity is None else velocities_of(space, rule.cells, velocity)
    boundary = rule.boundary if bc is None else other_values(space, rule.boundary, bc, rule.cells)
    about = rule.cells, boundary, problem.chunks, problem.name
    return _diffusion(space, axes, cross, others, *about, flow, rule.scheme)


def _diffusion(
    space: Embedding,
    axes: Sequence[Any],
    cross: Sequence[Any],
    others: Mapping[str, Any],
    cells: Cells,
    boundary: Boundary,
    chunks: Cut | None,
    name: str,
    velocity: Sequence[Any],
    scheme: str,
) -> Problem:
    grid = space.grid
    numbers: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    functions: dict[str, Callable[..., Any]] = {}
    fields = (KAPPA[0], KAPPA[1], KAPPA[2]) if len(axes) == 3 else ("kappa", "kappa", "kappa")
    mask, fixed = (others[called] is not None for called in (MASK, FIXED))
    for called, value in [*zip(fields, axes, strict=False), *others.items()]:
        if value is not None:
            _sort(called, value, numbers, arrays, functions)
    held = numbers.pop(HELD, None)
    if isinstance(held, complex) or not (held is None or np.isfinite(held)) or _is_complex(arrays.get(HELD)):
        raise InputError(f"the values of fixed must be finite real numbers, not {in_a_line(others[HELD])}")
    _check_numbers(numbers)
    is_complex = any(_is_complex(value) for value in (*numbers.values(), *arrays.values()))
    flow = tuple(value if isinstance(value, float) else None for value in velocity)
    arrays |= {called: v for called, v in zip(VELOCITY, velocity, strict=False) if not isinstance(v, float)}
    beside: dict[str, Any] = {}
    for called, value in zip(CROSS, cross, strict=False):
        _sort(called, value, beside, arrays, functions)
    if cross and (flow or is_complex or any(_is_complex(v) for v in (*beside.values(), *map(arrays.get, CROSS)))):
        raise InputError("kappa is a full tensor, which must be real and goes with no velocity=: leave that out")
    x, y, z = (numbers.get(called) for called in fields)
    rule = Diffusion(
        grid=grid,
        kappa=(x, y, z),
        fields=fields,
        sigma=numbers.get(SIGMA),
        mask=mask,
        fixed=fixed,
        held=held,
        cross=tuple(beside.get(called) for called in CROSS) if cross else (),
        velocity=flow,
        scheme=scheme,
        cells=cells,
        boundary=boundary,
        functions=functions,
    )
    return Problem(
        name=name,
        grid=grid,
        dimensions=space.dimensions,
        chunks=chunks,
        offsets=STAR_OFFSETS,
        periodic=wrapping(grid, boundary.periodic),
        singular=_constants_solve(boundary, numbers.get(SIGMA), masked=mask, fixed=fixed),
        rule=rule,
        coefficients=arrays,
        complex=is_complex,
        asymmetry="a flow carries u" if flow else "",
    )


def _check_numbers(numbers: Mapping[str, Any]) -> None:
    """Refuse coefficients that are numbers and cannot be; raises InputError."""
    for called, value in numbers.items():
        if called in (MASK, FIXED):
            raise InputError(f"{called} must be an array of the grid's shape, or a function of its coordinates")
        if isinstance(value, complex):
            if not (np.isfinite(value) and (value != 0.0 or called == SIGMA)):
                raise InputError(f"{called} must be finite{'' if called == SIGMA else ' and not 0'}, not {value}")
        elif not (np.isfinite(value) and (value >= 0.0 if called == SIGMA else value > 0.0)):
            raise InputError(f"{called} must be finite and {'not negative' if called == SIGMA else '> 0'}, not {value}")


def _is_complex(value: Any) -> bool:
    return isinstance(value, complex) or np.dtype(getattr(value, "dtype", np.float64)).kind == "c"


def _constants_solve(boundary: Boundary, sigma: complex | None, *, masked: bool, fixed: bool) -> bool | None:
    """Whether constants solve A x = 0, or None where that depends on coefficients."""
    if sigma:
        return False
    if boundary.grounds and not masked:  # a region that fixed cells cut off is fixed by these
        return False
    return None if masked or fixed or sigma is None or boundary.grounds is None else True


def _diagonal_and_cross(space: Embedding, kappa: Any) -> tuple[Any, list[Any]]:
    """κ along the axes, and the rest of a full tensor, embedded, in the order of `CROSS`; nothing if it is none.

    Raises:
        InputError: a tensor is not symmetric.
    """
    check_computed("kappa", kappa)
    count = space.dimensions
    rows = _rows_of_tensor(space, kappa)
    if rows is None:
        return kappa, []
    found: dict[tuple[int, int], Any] = {}
    for i, j in combinations(range(count), 2):
        if not _equal(rows[i][j], rows[j][i]):
            raise InputError(f"kappa must be a symmetric tensor: entries [{i}, {j}] and [{j}, {i}] differ")
        found[i, j] = _embedded(space, CROSS[i + j - 1], rows[i][j])
    cross = [found.get(pair, 0.0) for pair in combinations(range(3), 2)]
    return [rows[axis][axis] for axis in range(count)], cross


def _rows_of_tensor(space: Embedding, kappa: Any) -> Sequence[Sequence[Any]] | None:
    """Entries of a tensor; None where κ is none."""
    count = space.dimensions
    if count > 1 and isinstance(kappa, list | tuple) and len(kappa) == count:
        every = all(isinstance(row, list | tuple) and len(row) == count for row in kappa)
        return kappa if every else None
    shape = tuple(getattr(kappa, "shape", ()))
    if count == 1 or shape == space.shape or shape not in ((count, count), (*space.shape, count, count)):
        return None
    values = np.asarray(kappa.get() if hasattr(kappa, "get") else without_package("kappa", kappa))
    return [[values[..., i, j].copy() for j in range(count)] for i in range(count)]


def _equal(one: Any, other: Any) -> bool:
    """Whether two entries are the same but for rounding."""
    if one is other or callable(one) or callable(other):
        return one is other
    first, second = np.asarray(one), np.asarray(other)
    return first.shape == second.shape and bool((abs(first - second) <= ROUNDED * abs(first)).all())


def _per_axis(space: Embedding, kappa: Any) -> list[tuple[str, Any]]:
    """One κ, or three, with their names; 1 along an axis that is missing."""
    check_computed("kappa", kappa)
    count, shape = space.dimensions, getattr(kappa, "shape", None)
    if not isinstance(kappa, list | tuple) and (shape != (count,) or shape == space.shape):
        return [("kappa", kappa)]
    if len(kappa) != count:
        each = f"{WORDS[count]}, along {space.listed}"
        raise InputError(f"kappa has {len(kappa)} entries: give one for all axes, or {each}")
    return list(zip(KAPPA, space.entries(list(kappa), 1.0), strict=True))


def _embedded(space: Embedding, name: str, value: Any) -> Any:
    """A coefficient on three axes: a number, an array or a function.

    Raises:
        InputError: it is none of them, or an array of another shape.
    """
    check_computed(name, value)
    if value is None or isinstance(value, Number):
        return value
    check_order(name, value, space.dimensions)
    value = without_package(name, value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if tuple(value.shape) not in ((), space.shape):
            raise InputError(
                f"{name} has shape {tuple(value.shape)}, but the grid is {space.shape}: they must be equal"
            )
        if np.dtype(value.dtype).kind not in ("fiu" if name in (MASK, FIXED, HELD) else "fiuc"):
            flags = ": an image of the cells to keep is active=" if value.dtype == bool else ": real numbers are needed"
            raise InputError(f"{name} has dtype {value.dtype}{flags}")
        if np.ma.is_masked(value):
            raise InputError(f"{name} is a masked array: pass {name}.filled(1.0), and its mask as mask=")
        return space.array(value) if value.shape else value
    if callable(value):
        return space.function(value)
    raise InputError(
        f"{name} must be a number, an array of shape {space.shape} (NumPy, CuPy, Dask) or a function of "
        f"{', '.join(space.axes)}, not {in_a_line(value)}"
    )


def _sort(
    name: str,
    value: Any,
    numbers: dict[str, Any],
    arrays: dict[str, Any],
    functions: dict[str, Callable[..., Any]],
) -> None:
    """Put a coefficient to its kind."""
    if isinstance(value, Number) or getattr(value, "shape", None) == ():
        numbers[name] = float_of(value) if isinstance(value, Real) or not np.iscomplexobj(value) else complex(value)
    elif hasattr(value, "shape"):
        arrays[name] = value
    else:
        functions[name] = value


def _left_out(space: Embedding, mask: Any, active: Any) -> Any:
    """The cells to leave out as numbers, which is what fields hold, or a function; None for none.

    Raises:
        InputError: they are given in both senses, or by no flags.
    """
    if mask is not None and active is not None:
        raise InputError("mask and active were given: leave out one of them, for each is what the other is not")
    if active is None:
        return _flags(space, MASK, mask, "to leave out")
    return _flags(space, "active", active, "to keep", negated=True)


def _fixed(space: Embedding, fixed: Any) -> tuple[Any, Any]:
    """The cells where u is held, as those that are left out, and the values; None and zero for no such cells.

    Raises:
        InputError: it is no pair of flags and values.
    """
    if fixed is None:
        return None, 0.0
    if not (isinstance(fixed, tuple | list) and len(fixed) == 2) or fixed[0] is None or fixed[1] is None:
        raise InputError(f"fixed must be a pair (where, values) of cells and u there, not {in_a_line(fixed)}")
    return _flags(space, FIXED, fixed[0], "where u is held"), fixed[1]


def _flags(space: Embedding, name: str, flags: Any, cells: str, *, negated: bool = False) -> Any:
    """Flags as numbers, or a function of them; None for none.

    Args:
        space: of the grid.
        name: for messages.
        flags: as they were given.
        cells: that they are true at, for messages.
        negated: whether the others are meant.

    Raises:
        InputError: they are no flags.
    """
    if flags is None:
        return None
    check_computed(name, flags)
    check_order(name, flags, space.dimensions)
    flags = without_package(name, flags)
    if callable(flags):
        return _Negated(flags) if negated else flags
    values = flags if hasattr(flags, "dtype") else np.asarray(flags)
    if np.dtype(values.dtype).kind not in "biu":
        raise InputError(f"{name} has dtype {values.dtype}: it must be True at the cells {cells}")
    return ((values == 0) if negated else (values != 0)).astype(np.uint8)


@final
@dataclass(frozen=True)
class _Negated:
    """A function that is true where another one is not; picklable if that is."""

    function: Callable[..., Any]

    def __call__(self, *points: Any) -> Any:
        return self.function(*points) == 0


def _cells(space: Embedding, spacing: Any, arrays: Sequence[tuple[str, Any]]) -> Cells:
    """The cells that spacing names, or coordinates of arrays tell.

    Raises:
        InputError: spacing cannot be right, or coordinates are not those of such cells, or of each other's.
    """
    check_computed("spacing", spacing)
    by_coordinates = hasattr(spacing, "coords") and tuple(spacing.shape) == space.shape
    named = [("spacing", spacing)] * by_coordinates + [*arrays]
    found = agreed(centers_of(name, values, space.numbers) for name, values in named)
    if spacing is None or by_coordinates:
        without = [axis for axis, n in enumerate(space.shape) if n > 1 and axis not in found]
        if without and (found or by_coordinates):
            name = next(iter(found.values())).of if found else "spacing"
            raise InputError(
                f"{name} has no coordinates along its axis {without[0]}, from which sizes of cells would follow: give "
                f"it some, or spacing= a number for each axis"
            )
        spacing = [found[axis].sizes() if axis in found else 1.0 for axis in space.numbers]
    sizes = _cell_sizes(space, spacing)
    starts = [float(found[axis].at[0] - 0.5 * sizes[axis][0]) if axis in found else None for axis in range(3)]
    cells = Cells(sizes=sizes, starts=(starts[0], starts[1], starts[2]))
    cells.check(found)
    return cells


def _cell_sizes(space: Embedding, spacing: Any) -> tuple[F64, F64, F64]:
    """Sizes of the cells along each axis."""
    every = isinstance(spacing, Real) or getattr(spacing, "shape", None) == ()
    axes = [spacing] * space.dimensions if every else spacing
    try:
        given_x, given_y, given_z = space.entries(axes, 1.0)
    except (TypeError, ValueError) as error:
        raise InputError(f"spacing must be a number or one entry for each axis, not {in_a_line(spacing)}") from error
    x, y, z = (
        _sizes_along(axis, n, sizes)
        for axis, n, sizes in zip("xyz", space.grid, (given_x, given_y, given_z), strict=True)
    )
    return x, y, z


def _sizes_along(axis: str, n: int, sizes: Any) -> F64:
    check_unmasked(f"spacing along {axis}", sizes)
    sizes = without_package(f"spacing along {axis}", sizes)
    try:
        values = np.asarray(sizes, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"spacing along {axis} must be a number or {n} cell sizes, not {in_a_line(sizes)}") from error
    if values.shape not in ((), (n,)):
        raise InputError(f"spacing along {axis} has shape {values.shape}: give a number, or {n} cell sizes")
    if not (np.isfinite(values).all() and (values > 0.0).all()):
        raise InputError(f"spacing along {axis} must be finite and > 0")
    if not (values.min() >= 1.0 / LARGEST and values.max() <= LARGEST):
        raise InputError(
            f"spacing along {axis} must be between {1.0 / LARGEST:g} and {LARGEST:g}, so that float64 holds volumes: "
            f"take another unit of length"
        )
    return values.copy() if values.shape else np.broadcast_to(values, n)  # of equal ones there need not be n
