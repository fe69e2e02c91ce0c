"""Effective conductivity and tortuosity of an image, each in one call: steady conduction between two opposite faces."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Final, Literal, Unpack, final

import numpy as np
import numpy.typing as npt

from dsolver.api import solve
from dsolver.errors import InputError, in_a_line, warn
from dsolver.foreign_arrays import on_host, without_package
from dsolver.matrices.canonical import imported
from dsolver.problems import Dirichlet, Problem, diffusion
from dsolver.problems.coordinates import Cells
from dsolver.problems.diffusion_problem.coefficients import true_in
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.fluxes.faces import FaceFluxes
from dsolver.session.options import Arguments
from dsolver.solution import Solution

RTOL: Final = 1e-10
"""Tolerance by default: fluxes through a face have an error of the residual's size times the length of the grid."""
MOST_AXES: Final = 3  # axes of a grid at most
Ends = Literal["faces", "cells"]
Named = Mapping[str, Any]


@final
@dataclass(frozen=True, kw_only=True)
class Conduction:
    """Steady conduction from u = 1 at one face of a box to u = 0 at the opposite one.

    Attributes:
        conductivity: the effective one: the flux times the distance over the area.
        inflow: flux through the first face.
        outflow: flux through the other one; they differ by rounding and what the tolerance leaves.
        solution: u, with fluxes through all faces.
    """

    conductivity: float | complex
    inflow: float | complex
    outflow: float | complex
    solution: Solution = field(repr=False)


@final
@dataclass(frozen=True, kw_only=True)
class Tortuosity:
    """Diffusion through the pores of an image.

    Attributes:
        tortuosity: τ = ε / D, with the porosity ε of the pores that are passed.
        diffusivity: D, the effective one where it is 1 in pores.
        porosity: part of the cells that are pores.
        passed: part of the cells that are pores connected with both faces.
        conduction: of which it follows.
    """

    tortuosity: float
    diffusivity: float
    porosity: float
    passed: float
    conduction: Conduction = field(repr=False)


def effective_conductivity(
    kappa: Any,
    axis: int | str = "x",
    *,
    ends: Ends = "faces",
    mask: Any = None,
    active: Any = None,
    spacing: Any = None,
    bc: Named | None = None,
    **arguments: Unpack[Arguments],
) -> Conduction:
    """Effective conductivity of a box of cells along an axis: u is 1 at its first face, 0 at the other one.

    It is Q L / F, with the flux Q of −∇·(κ ∇u) = 0, the length L along the axis and the area F across it (Torquato,
    Random Heterogeneous Materials, 2002).

    Args:
        kappa: κ, an array, a sequence of one for each axis, or full tensors, as of `dsolver.problems.diffusion`.
        axis: "x", "y", "z", or its number.
        ends: whether u is held at the "faces" of the grid, or in the first and the last layer of "cells", at whose
            centers the distance is then measured: so do PoreSpy and others who solve on networks.
        mask: as of `dsolver.problems.diffusion`.
        active: as of `dsolver.problems.diffusion`.
        spacing: as of `dsolver.problems.diffusion`.
        bc: conditions at the faces across other axes, {"y": "periodic"} for instance; nothing flows through others.
        arguments: of `dsolver.solve`. rtol is 1e-10 by default.

    Raises:
        InputError: an argument cannot be right.
    """
    like = next((each for each in _entries(kappa) if getattr(each, "shape", ())), None)
    if like is None:
        raise InputError(f"kappa must be an array, or a sequence with an array for an axis, not {in_a_line(kappa)}")
    if len(like.shape) > MOST_AXES:
        like = like[..., 0, 0]  # a full tensor for each cell
    options: dict[str, Any] = {"mask": mask, "active": active, "spacing": spacing}
    return _conduction(like, kappa, axis, ends, bc, options, arguments)


def tortuosity(
    image: Any, axis: int | str = "x", *, ends: Ends = "faces", bc: Named | None = None, **arguments: Unpack[Arguments]
) -> Tortuosity:
    """Tortuosity of an image of pores along an axis, from steady diffusion through them.

    It is τ = ε / D, with the part ε of the cells that are pores connected with both faces, and the effective
    conductivity D where pores have 1 and all else 0 (Cooper et al., SoftwareX 5, 2016).

    Args:
        image: an array in two or three dimensions that is True in pores, or has one integer there and 0 elsewhere.
            Cells are cubes.
        axis: as of `effective_conductivity`, like all that follow.
        ends: as of `effective_conductivity`.
        bc: as of `effective_conductivity`.
        arguments: as of `effective_conductivity`.

    Raises:
        InputError: an argument cannot be right, or no pore leads from one face to the other.
    """
    like = without_package("image", image.data if hasattr(image, "dims") else image)
    like = like if hasattr(like, "dtype") else np.asarray(like)
    pores = np.asarray(on_host(like))
    if pores.dtype.kind not in "biu" or pores.ndim not in (2, 3):
        raise InputError(
            f"image must be an array in two or three dimensions that is True in pores, such as image > 0.5, not one of "
            f"{pores.dtype} in {pores.ndim}"
        )
    pores = true_in("image", pores)
    along = _axis(pores.ndim, axis)
    others = _beside(bc, along)
    wraps = [others.get(name) == "periodic" for name in "xyz"[: pores.ndim]]
    passed = _passed(pores, along, wraps)
    if not passed.any():
        raise InputError(f"no pore leads from the face {'xyz'[along]}- of the image to {'xyz'[along]}+")
    found = _conduction(like, 1.0, along, ends, bc, {"active": passed}, arguments)
    part, diffusivity = float(passed.mean()), found.conductivity.real
    return Tortuosity(
        tortuosity=part / diffusivity,
        diffusivity=diffusivity,
        porosity=float(pores.mean()),
        passed=part,
        conduction=found,
    )


def _entries(kappa: Any) -> Iterator[Any]:
    """κ, or what rows of it hold."""
    if isinstance(kappa, list | tuple):
        for each in kappa:
            yield from _entries(each)
    else:
        yield kappa


def _conduction(
    like: Any, kappa: Any, axis: int | str, ends: Ends, bc: Named | None, options: Named, arguments: Named
) -> Conduction:
    """The conduction through κ, with x in the kind of array of another one of the grid's shape."""
    like = without_package("kappa", like.data if hasattr(like, "dims") else like)
    along = _axis(len(like.shape), axis)
    name, others = "xyz"[along], _beside(bc, along)
    if ends not in ("faces", "cells"):
        raise InputError(f"ends must be 'faces' or 'cells', not {in_a_line(ends)}")
    if ends == "faces":
        others |= {f"{name}-": Dirichlet(1.0), f"{name}+": Dirichlet(0.0)}
        problem = diffusion(like.shape, kappa, bc=others, **options)
    else:
        if like.shape[along] < 3:
            raise InputError(f"ends='cells' needs three layers of cells along {name}: there are {like.shape[along]}")
        centers = _cells(diffusion(like.shape, kappa, **options)).centers(along)
        low, high = 0.5 * (centers[0] + centers[1]), 0.5 * (centers[-2] + centers[-1])
        fixed = _Outside(axis=along, low=low, high=high), _Outside(axis=along, low=low, high=np.inf)
        problem = diffusion(like.shape, kappa, bc=others, fixed=fixed, **options)
    arguments = {"rtol": RTOL, **arguments}
    solution = solve(problem, np.zeros_like(like, dtype=np.float64), **arguments)
    if not solution.converged:
        warn(f"the solve for conduction ended as {solution.status}: {solution.advice}", RuntimeWarning)
    fluxes, cells, inner = FaceFluxes(problem, solution.x), _cells(problem), ends == "cells"
    inflow, outflow = (fluxes.across(along, face) for face in ((1, -2) if inner else (0, -1)))
    sizes = cells.sizes[along]
    length = float(sizes.sum()) - (0.5 * float(sizes[0] + sizes[-1]) if inner else 0.0)
    area = math.prod(float(across.sum()) for other, across in enumerate(cells.sizes) if other != along)
    return Conduction(
        conductivity=0.5 * (inflow + outflow) * length / area, inflow=inflow, outflow=outflow, solution=solution
    )


@dataclass(frozen=True, kw_only=True)
class _Outside:
    """A function of coordinates that is 1 below and above two places along an axis, else 0."""

    axis: int
    low: float
    high: float

    def __call__(self, *points: Any) -> Any:
        along = points[self.axis]
        return ((along < self.low) | (along > self.high)).astype(np.uint8)


def _cells(problem: Problem) -> Cells:
    assert isinstance(problem.rule, Diffusion)
    return problem.rule.cells


def _axis(dimensions: int, axis: Any) -> int:
    """The number of an axis. InputError: the grid has none such."""
    names = "xyz"[:dimensions]
    if isinstance(axis, str) and len(axis) == 1 and axis in names:
        return names.index(axis)
    if isinstance(axis, Integral) and 0 <= int(axis) < dimensions:
        return int(axis)
    raise InputError(f"axis must be one of {', '.join(names)}, or a number below {dimensions}, not {in_a_line(axis)}")


def _beside(bc: Any, along: int) -> dict[str, Any]:
    """Conditions across other axes. InputError: they are not by face, or name this axis."""
    name, others = "xyz"[along], {} if bc is None else bc
    if not isinstance(others, Mapping) or any(str(face)[:1] == name for face in others):
        raise InputError(
            f"bc= has conditions for faces or axes across {name}, as {{{'yxx'[along]!r}: 'periodic'}} has, and none "
            f"along {name}, where u is 1 at one end and 0 at the other"
        )
    return dict(others)


def _passed(pores: npt.NDArray[np.bool_], axis: int, wraps: Sequence[bool]) -> npt.NDArray[np.bool_]:
    """The pores that are connected with both faces of an axis; wraps: which axes are periodic."""
    label, count = imported("ndimage").label(pores)
    pairs = [np.stack([np.take(label, end, at).ravel() for end in (0, -1)]) for at, wrap in enumerate(wraps) if wrap]
    if pairs:  # pieces that hang together around an axis get one label
        here, there = np.concatenate(pairs, axis=1)
        both = (here > 0) & (there > 0)
        ones, shape = np.ones(int(both.sum()), dtype=np.int8), (count + 1, count + 1)
        graph = imported("sparse").csr_array((ones, (here[both], there[both])), shape=shape)
        label = imported("sparse.csgraph").connected_components(graph, directed=False)[1][label]
    first, last = (np.unique(np.take(label, end, axis)[np.take(pores, end, axis)]) for end in (0, -1))
    return np.isin(label, np.intersect1d(first, last)) & pores
