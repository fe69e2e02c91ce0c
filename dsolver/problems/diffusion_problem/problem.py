"""Diffusion with coefficients and boundary conditions, on cells."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dsolver.errors import InputError, in_a_line
from dsolver.grid.box import STAR_OFFSETS, wrapping
from dsolver.grid.partition import Cut, Partition
from dsolver.problems.boundaries.boundary import Boundary, boundary_of, other_values
from dsolver.problems.coefficient_names import CROSS, FIXED, HELD, KAPPA, MASK, SIGMA, VELOCITY
from dsolver.problems.coordinates import Cells, agreed, centers_of, check_agreement
from dsolver.problems.diffusion_problem import coefficients
from dsolver.problems.diffusion_problem.coefficients import Coefficient, Kinds
from dsolver.problems.diffusion_problem.spacing import cells_of
from dsolver.problems.embedding import Embedding
from dsolver.problems.finite_volumes import SCHEMES, UPWIND, Diffusion
from dsolver.problems.problem import Problem


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
            (NumPy, CuPy, Dask, xarray, or any that knows DLPack) or a function of the cells' centers. In an
            island that conducts 10¹² times better than all around it rounding changes u by 10⁻³, though solves may
            converge; from 10¹⁴ times on u is lost there, of which multigrid warns: leave such insulation out with mask.
            A full tensor, symmetric and positive definite, is an array of NumPy or CuPy of shape ``(*grid, 3, 3)`` or
            (3, 3), in a plane ``(*grid, 2, 2)`` or (2, 2), or rows of such entries; rows then have 27 points, or 9.
            Numbers and arrays may be complex, as those of AC conduction are, and so may values of bc and fixed: then x
            is, and the rows are solved with as those of a sparse matrix, which this process makes.
        sigma: σ >= 0, or complex, too.
        spacing: the size of the cells: a number, or one for each axis, each a number or an array of that axis' length,
            which on a line may stand alone; or a DataArray of xarray whose coordinates are the cells' centers. By
            default what such coordinates of kappa, sigma and mask tell, else 1.
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
    mask, (where, values) = coefficients.left_out(space, mask, active), coefficients.fixed_cells(space, fixed)
    kappa, cross = coefficients.diagonal_and_cross(space, kappa)
    kappas = coefficients.per_axis(space, kappa)
    others = [(SIGMA, sigma), (MASK, mask), (FIXED, where), (HELD, values)]
    check_agreement(named := dict([*kappas, *others]), dict.fromkeys(named, space.dimensions))
    axes = [coefficients.on_axes(space, name, values) for name, values in kappas]
    embedded = {called: coefficients.on_axes(space, called, value) for called, value in others}
    if scheme not in SCHEMES:
        raise InputError(f"scheme must be one of {', '.join(SCHEMES)}, not {in_a_line(scheme)}")
    cells = cells_of(space, spacing, [*kappas, *others])
    flow = coefficients.velocities_of(space, cells, velocity)
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

    def given(name: str, number: complex | None) -> Any:
        return number if number is not None else arrays.get(name, rule.functions.get(name))

    old = [given(name, number) for name, number in zip(rule.fields, rule.kappa, strict=True)]
    space = Embedding.of(problem.shape)
    axes = old if len(set(rule.fields)) == 3 else old[:1]
    cross: Sequence[Any] = [given(name, number) for name, number in zip(CROSS, rule.cross, strict=False)]
    if kappa is not None:
        kappa, cross = coefficients.diagonal_and_cross(space, kappa)
        kappas = coefficients.per_axis(space, kappa)
        axes = [coefficients.on_axes(space, name, values) for name, values in kappas]
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
        where, values = coefficients.fixed_cells(space, fixed) if pair else (None, fixed)
        new |= {HELD: values} if where is None else {FIXED: where, HELD: values}
    for name, values in new.items():
        rule.cells.check(centers_of(name, values, space.numbers))
        others[name] = coefficients.on_axes(space, name, values)
    flow: Sequence[Any] = [given(name, number) for name, number in zip(VELOCITY, rule.velocity, strict=False)]
    flow = flow if velocity is None else coefficients.velocities_of(space, rule.cells, velocity)
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
    grid, mask, fixed = space.grid, others[MASK] is not None, others[FIXED] is not None
    fields = (KAPPA[0], KAPPA[1], KAPPA[2]) if len(axes) == 3 else ("kappa", "kappa", "kappa")
    found = Kinds.of([*zip(fields, axes, strict=False), *others.items()])
    beside, is_complex = Kinds.of(zip(CROSS, cross, strict=False)), boundary.has_complex or found.complex
    numbers, flow = found.numbers, tuple(value if isinstance(value, float) else None for value in velocity)
    held = numbers.pop(HELD, None)
    if not (held is None or np.isfinite(held)):
        raise InputError(f"the values of fixed must be finite numbers, not {in_a_line(others[HELD])}")
    coefficients.check_numbers(numbers)
    if cross and (flow or is_complex or beside.complex):
        raise InputError(
            "kappa is a full tensor, which must be real and goes with no velocity= or complex values: leave these out"
        )
    x, y, z = (numbers.get(called) for called in fields)
    rule = Diffusion(
        grid=grid,
        kappa=(x, y, z),
        fields=fields,
        sigma=numbers.get(SIGMA),
        mask=mask,
        fixed=fixed,
        held=held,
        cross=tuple(beside.numbers.get(called) for called in CROSS) if cross else (),
        velocity=flow,
        scheme=scheme,
        cells=cells,
        boundary=boundary,
        functions=found.functions | beside.functions,
    )
    carried = {called: v for called, v in zip(VELOCITY, velocity, strict=False) if not isinstance(v, float)}
    return Problem(
        name=name,
        grid=grid,
        dimensions=space.dimensions,
        chunks=chunks,
        offsets=STAR_OFFSETS,
        periodic=wrapping(grid, boundary.periodic),
        singular=_constants_solve(boundary, numbers.get(SIGMA), masked=mask, fixed=fixed),
        rule=rule,
        coefficients=found.arrays | carried | beside.arrays,
        complex=is_complex,
        asymmetry="a flow carries u" if flow else "",
    )


def _constants_solve(boundary: Boundary, sigma: complex | None, *, masked: bool, fixed: bool) -> bool | None:
    """Whether constants solve A x = 0, or None where that depends on coefficients."""
    if sigma:
        return False
    if boundary.grounds and not masked:  # a region that fixed cells cut off is fixed by these
        return False
    return None if masked or fixed or sigma is None or boundary.grounds is None else True
