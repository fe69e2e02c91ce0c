"""The rows of finite volumes as a sum over faces, written so that a package which differentiates can follow it.

leftᵀ A right is Σ T (left − left′)(right − right′) over the faces between two cells, plus Σ D left right over the faces
of the domain and Σ σ V left right over the cells, with the T and D of docs/theory.md. Here are only slices, products
and sums, and nothing is overwritten: what differentiates them (PyTorch, JAX) gets the derivatives in κ and σ, of any
order. Arrays have the axes x, y, z.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.grid.partition import Partition
from dsolver.kernels.formats.layout import Array
from dsolver.problems.discretization import evaluated
from dsolver.problems.finite_volumes import MASK, Diffusion
from dsolver.problems.problem import Problem

AXES: Final = (0, 1, 2)


@final
@dataclass(frozen=True, kw_only=True)
class End:
    """A face of the domain with a condition.

    Attributes:
        where: index of the cells at it in an array whose last axes are x, y, z.
        at: bool, whether a cell is one of them; broadcasts to the grid.
        diagonal: what the condition adds to the diagonal, an array with one cell along the face's axis.
        right: what it adds to the right-hand side.
    """

    where: tuple[Any, ...]
    at: npt.NDArray[np.bool_]
    diagonal: Array
    right: Array


@final
class FluxForm:
    """Matrix and right-hand side of a diffusion problem, on arrays of any package with NumPy's names.

    Args:
        problem: of `dsolver.problems.diffusion`; only its coefficients' kinds, sizes, conditions and mask matter.
        xp: the package: its `asarray`, `broadcast_to`, `where` and `zeros_like` are called.
        asarray: makes an array of it, on the right device, of one of NumPy's.
    """

    def __init__(self, problem: Problem, xp: Any, asarray: Callable[[Any], Array]) -> None:
        assert isinstance(problem.rule, Diffusion)
        self._rule, self._xp, self._asarray = problem.rule, xp, asarray
        self._sizes = [asarray(_along(axis, size.copy())) for axis, size in enumerate(self._rule.sizes)]
        solid = mask_of(problem)
        self._solid = None if solid is None else asarray(solid)
        self._open = None if solid is None else asarray(1.0 - solid)

    def volumes(self) -> Array:
        """Volumes of the cells, zero where they are left out."""
        x, y, z = self._sizes
        return self._opened(x * y * z, ())

    def of_fluxes(self, kappa: Sequence[Any], left: Array, right: Array) -> Array:
        """leftᵀ A right, but for σ, summed over pairs of vectors.

        Args:
            kappa: along x, y, z, each a number or an array of the grid's shape.
            left: of the grid's shape, or with one axis more in front; zero where cells are left out.
            right: likewise.
        """
        total = 0.0 * left.sum()  # where nothing is coupled, it is what is differentiated
        for low, high, faces in self.faces(kappa):
            total = total + (faces * (left[low] - left[high]) * (right[low] - right[high])).sum()
        for end in self._ends(kappa):
            total = total + (end.diagonal * left[end.where] * right[end.where]).sum()
        return total

    def faces(self, kappa: Sequence[Any]) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...], Array]]:
        """Faces between cells: indices of the cells on both sides, and T of each; kappa as in `of_fluxes`."""
        for axis in AXES:
            resistance = self._resistance(kappa, axis)
            for low, high, times in self._pairs(axis):
                faces = times * self._area(axis) / (resistance[low] + resistance[high])
                yield low, high, self._opened(self._opened(faces, low), high)

    def ends(self, kappa: Sequence[Any]) -> Iterator[tuple[tuple[Any, ...], Array]]:
        """Faces of the domain with a condition: indices of the cells at them, and D of each."""
        return ((end.where, end.diagonal) for end in self._ends(kappa))

    def of_sigma(self, sigma: Any, left: Array, right: Array) -> Array:
        """The part of σ in leftᵀ A right, summed over pairs of vectors; arguments as in `of_fluxes`."""
        if getattr(sigma, "shape", ()) and self._solid is not None:
            sigma = self._xp.where(self._solid, 0.0, sigma)
        return (self.volumes() * sigma * left * right).sum()

    def right_hand_side(self, kappa: Sequence[Any], f: Array) -> Array:
        """V f and what boundary conditions add to it, of f's shape.

        Args:
            kappa: as in `of_fluxes`.
            f: the source, of the grid's shape, or with one axis more in front.
        """
        right = f * self.volumes()
        for end in self._ends(kappa, feeding=True):
            right = right + self._xp.where(self._asarray(end.at), end.right, 0.0)
        return right

    @property
    def fed(self) -> bool:
        """Whether boundary conditions add to right-hand sides."""
        boundary = self._rule.boundary
        return any(not condition.periodic and condition.feeds for condition in boundary.conditions)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _resistance(self, kappa: Sequence[Any], axis: int) -> Array:
        """(h/2) / κ of the cells; some positive number where they are left out."""
        along = kappa[axis]
        if getattr(along, "shape", ()) and self._solid is not None:
            along = self._xp.where(self._solid, 1.0, along)
        return 0.5 * self._sizes[axis] / along

    def _area(self, axis: int) -> Array:
        first, second = (size for other, size in enumerate(self._sizes) if other != axis)
        return first * second

    def _pairs(self, axis: int) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...], float]]:
        """Indices of the cells on both sides of faces, and how many faces there are between two such cells."""
        n, periodic = self._rule.grid[axis], self._rule.boundary.periodic[axis]
        if n > 1:
            yield _index(axis, slice(None, -1)), _index(axis, slice(1, None)), 2.0 if periodic and n == 2 else 1.0
        if periodic and n > 2:
            yield _index(axis, slice(-1, None)), _index(axis, slice(None, 1)), 1.0

    def _ends(self, kappa: Sequence[Any], *, feeding: bool = False) -> Iterator[End]:
        """The faces of the domain with a condition, or those alone that add to right-hand sides."""
        rule, whole = self._rule, Partition(self._rule.grid, (1, 1, 1))[0].box
        for axis in AXES:
            for side in (0, 1):
                condition = rule.boundary.at(axis, side)
                if condition.periodic or (feeding and not condition.feeds):
                    continue
                where = _index(axis, slice(None, 1) if side == 0 else slice(-1, None))
                face = [n if other != axis else 1 for other, n in enumerate(rule.grid)]
                values = {
                    name: self._asarray(np.array(rule.face_values(np, whole, axis, side, value), dtype=np.float64).T)
                    for name, value in condition.values.items()
                }
                resistance = self._xp.broadcast_to(self._resistance(kappa, axis)[where], face)
                area = self._xp.broadcast_to(self._area(axis), face)
                diagonal, right = (
                    self._opened(term, where) for term in condition.terms(self._xp, resistance, area, values)
                )
                at = _along(axis, np.arange(rule.grid[axis]) == (0 if side == 0 else rule.grid[axis] - 1))
                yield End(where=where, at=at, diagonal=diagonal, right=right)

    def _opened(self, values: Array, where: tuple[Any, ...]) -> Array:
        """Values at some cells, zero where these are left out."""
        return values if self._open is None else values * (self._open[where] if where else self._open)


def mask_of(problem: Problem) -> npt.NDArray[np.bool_] | None:
    """The cells of a diffusion problem that are left out, bool of the grid's shape; None for none."""
    assert isinstance(problem.rule, Diffusion)
    return field_of(problem, MASK) != 0.0 if problem.rule.mask else None


def kappa_of(problem: Problem) -> list[complex | npt.NDArray[Any]]:
    """κ of a diffusion problem along x, y, z: numbers, or arrays of the grid's shape, in this process."""
    rule = problem.rule
    assert isinstance(rule, Diffusion)
    numbers = zip(rule.fields, rule.kappa, strict=True)
    return [field_of(problem, name) if number is None else number for name, number in numbers]


def field_of(problem: Problem, name: str) -> npt.NDArray[Any]:
    """A coefficient of a diffusion problem that is no number: of the grid's shape, in this process.

    It is float64, or complex128 where it came so.
    """
    rule = problem.rule
    assert isinstance(rule, Diffusion)
    if name in rule.functions:
        box = Partition(rule.grid, (1, 1, 1))[0].box
        values = evaluated(np, name, rule.functions[name], rule.centers(np, box), rule.grid)
    else:
        values = problem.coefficients[name]
        values = values.get() if hasattr(values, "get") else values
    return np.asarray(values, dtype=np.complex128 if np.dtype(values.dtype).kind == "c" else np.float64)


def _along(axis: int, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values along an axis, to broadcast."""
    return values.reshape([-1 if other == axis else 1 for other in AXES])


def _index(axis: int, part: slice) -> tuple[Any, ...]:
    """Index of a part along an axis, in an array whose last axes are x, y, z."""
    return (Ellipsis, *(part if other == axis else slice(None) for other in AXES))
