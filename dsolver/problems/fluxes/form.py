"""The rows of finite volumes as a sum over faces, written so that a package which differentiates can follow it.

leftᵀ A right is Σ T (left − left′)(right − right′) over the faces between two cells, plus Σ D left right over the faces
of the domain and Σ σ V left right over the cells, with the T and D of docs/theory.md. Here are only slices, products
and sums, and nothing is overwritten: what differentiates them (PyTorch, JAX) gets the derivatives in κ and σ, of any
order. Arrays have the axes x, y, z.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.grid.partition import Partition
from dsolver.kernels.formats.layout import Array
from dsolver.problems.cell_arrays import face_values
from dsolver.problems.coefficient_names import FIXED, MASK, VELOCITY
from dsolver.problems.finite_volumes import UPWIND, Diffusion
from dsolver.problems.fluxes.coefficients import field_of

if TYPE_CHECKING:
    from dsolver.problems.problem import Problem


AXES: Final = (0, 1, 2)  # axes of arrays whose last ones are x, y, z


def along(axis: int, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values along an axis, to broadcast."""
    return values.reshape([-1 if other == axis else 1 for other in AXES])


def part_of(axis: int, part: slice) -> tuple[Any, ...]:
    """Index of a part along an axis, in an array whose last axes are x, y, z."""
    return (Ellipsis, *(part if other == axis else slice(None) for other in AXES))


@dataclass(frozen=True, kw_only=True)
class DomainFace:
    """A face of the domain with a condition."""

    where: tuple[Any, ...]  # index of the cells at it in an array whose last axes are x, y, z
    at: npt.NDArray[np.bool_]  # bool, whether a cell is one of them; broadcasts to the grid
    diagonal: Array  # what the condition adds to the diagonal, an array with one cell along the face's axis
    right: Array  # what it adds to the right-hand side


class FluxForm:
    """Matrix and right-hand side of a diffusion problem, on arrays of any package with NumPy's names.

    Args:
        problem: of `dsolver.problems.diffusion`; only its coefficients' kinds, sizes, conditions and mask matter.
        xp: the package: its `asarray`, `broadcast_to`, `where` and `zeros_like` are called.
        asarray: makes an array of it, on the right device, of one of NumPy's, and leaves its own as they are.
        field: a coefficient by its name, as `field_of` has it, or an array of the package.

    Attributes:
        held: whether u is held in cells; None where it is in none.
    """

    def __init__(
        self, problem: "Problem", xp: Any, asarray: Callable[[Any], Array], field: Callable[[str], Any] | None = None
    ) -> None:
        assert isinstance(problem.rule, Diffusion)
        field = field or partial(field_of, problem)
        self._rule, self._xp, self._asarray = problem.rule, xp, asarray
        self._sizes = [asarray(along(axis, size.copy())) for axis, size in enumerate(self._rule.sizes)]
        solid = field(MASK) != 0.0 if problem.rule.mask else None
        self._solid = None if solid is None else asarray(solid)
        self._open = None if solid is None else asarray(1.0 - solid)
        held = field(FIXED) != 0.0 if problem.rule.fixed else None
        self.held: Array | None = None if held is None else asarray(held if solid is None else held & ~solid)
        self._flows = [self._flow_along(axis, field) for axis in AXES] if problem.rule.velocity else None

    def volumes(self) -> Array:
        """Volumes of the cells, zero where they are left out."""
        x, y, z = self._sizes
        return self._opened(x * y * z, ())

    def of_fluxes(self, kappa: Sequence[Any], left: Array, right: Array) -> Array:
        """leftᵀ A right, but for σ, summed over pairs of vectors.

        `left`: of the grid's shape, or with one axis more in front; zero where cells are left out.
        """
        total = 0.0 * left.sum()  # where nothing is coupled, it is what is differentiated
        for low, high, faces, _ in self.couplings(kappa):  # without a flow both numbers are T
            total = total + (faces * (left[low] - left[high]) * (right[low] - right[high])).sum()
        for end in self._ends(kappa):
            total = total + (end.diagonal * left[end.where] * right[end.where]).sum()
        return total

    def couplings(self, kappa: Sequence[Any]) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...], Array, Array]]:
        """Faces between cells: indices of the cells on both sides, low and high, and numbers a and b of each.

        The flux from low to high is a u_low - b u_high, with the flow's part. Kappa is as in `of_fluxes`.
        """
        for axis in AXES:
            if self._rule.grid[axis] == 1:
                continue
            resistance = self._resistance(kappa, axis, ())
            low, high = part_of(axis, slice(None, -1)), part_of(axis, slice(1, None))
            yield low, high, *self._coupled(axis, resistance[low] + resistance[high], low, high, slice(1, -1))
            if self._rule.boundary.periodic[axis]:
                low, high = part_of(axis, slice(-1, None)), part_of(axis, slice(None, 1))
                yield low, high, *self._coupled(axis, resistance[low] + resistance[high], low, high, slice(0, 1))

    def ends(self, kappa: Sequence[Any]) -> Iterator[tuple[tuple[Any, ...], Array]]:
        """Faces of the domain with a condition: indices of the cells at them, and D of each."""
        return ((end.where, end.diagonal) for end in self._ends(kappa))

    def flux_along(self, kappa: Sequence[Any], u: Array, axis: int) -> Array:
        """Flux through the faces along an axis, in its direction, of u's shape with one more along the axis.

        At both ends of a periodic axis it is the same. There is none through faces of the domain at held cells, nor
        between two of these.
        """
        low, high = (self.outflow(kappa, u, axis, side) for side in (0, 1))
        below, above = part_of(axis, slice(None, -1)), part_of(axis, slice(1, None))
        return self._xp.concatenate([-low, self._flux(kappa, u, axis, below, above, slice(1, -1)), high], axis=axis)

    def flux_across(self, kappa: Sequence[Any], u: Array, axis: int, face: int) -> Array:
        """A layer of `flux_along`, by its number from 0 or, negative, from the end."""
        n = self._rule.grid[axis]
        face %= n + 1
        if face == 0:
            return -self.outflow(kappa, u, axis, 0)
        if face == n:
            return self.outflow(kappa, u, axis, 1)
        low, high = part_of(axis, slice(face - 1, face)), part_of(axis, slice(face, face + 1))
        return self._flux(kappa, u, axis, low, high, slice(face, face + 1))

    def outflow(self, kappa: Sequence[Any], u: Array, axis: int, side: int) -> Array:
        """Flux out of the domain at one end (0 or 1) of an axis, an array with one cell along it.

        That is D u less the right-hand side's part; through a periodic end, what flows to the other one.
        """
        if not self._rule.boundary.periodic[axis]:
            end = self._end(kappa, axis, side)
            return end.diagonal * u[end.where] - end.right
        last, first = part_of(axis, slice(-1, None)), part_of(axis, slice(None, 1))
        around = self._flux(kappa, u, axis, last, first, slice(0, 1))
        return around if side else -around

    def of_sigma(self, sigma: Any, left: Array, right: Array) -> Array:
        """The part of σ in leftᵀ A right, summed over pairs of vectors; arguments as in `of_fluxes`."""
        if getattr(sigma, "shape", ()) and self._solid is not None:
            sigma = self._xp.where(self._solid, 0.0, sigma)
        return (self.volumes() * sigma * left * right).sum()

    def right_hand_side(self, kappa: Sequence[Any], f: Array) -> Array:
        """V f and what boundary conditions add to it, of f's shape.

        `kappa`: as in `of_fluxes`. `f`: the source, of the grid's shape, or with one axis more in front.
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

    def _flux(
        self, kappa: Sequence[Any], u: Array, axis: int, low: tuple[Any, ...], high: tuple[Any, ...], faces: slice
    ) -> Array:
        """Flux from cells to others behind them; faces: between these, of those along the axis."""
        resistance = self._resistance(kappa, axis, low) + self._resistance(kappa, axis, high)
        a, b = self._coupled(axis, resistance, low, high, faces)
        return a * u[low] - b * u[high]

    def _coupled(
        self, axis: int, resistance: Array, low: tuple[Any, ...], high: tuple[Any, ...], faces: slice
    ) -> tuple[Array, Array]:
        """a and b of `couplings` for some faces along an axis, from the resistance of both halves in a row."""
        conducted = self._area(axis) / resistance
        if self.held is not None:
            conducted = self._xp.where(self.held[low] & self.held[high], 0.0, conducted)
        conducted = self._opened(self._opened(conducted, low), high)
        if self._flows is None:
            return conducted, conducted
        flow = self._opened(self._opened(self._flows[axis][part_of(axis, faces)], low), high)
        if self.held is not None:
            flow = self._xp.where(self.held[low] & self.held[high], 0.0, flow)
        if self._rule.scheme == UPWIND:
            return conducted + self._xp.maximum(flow, 0.0), conducted + self._xp.maximum(-flow, 0.0)
        here, there = self._sizes[axis][low], self._sizes[axis][high]
        return conducted + flow * (there / (here + there)), conducted - flow * (here / (here + there))

    def _resistance(self, kappa: Sequence[Any], axis: int, where: tuple[Any, ...]) -> Array:
        """(h/2) / κ of cells; some positive number where they are left out."""
        along = kappa[axis]
        if getattr(along, "shape", ()):
            along = along[where] if where else along
            if self._solid is not None:
                along = self._xp.where(self._solid[where] if where else self._solid, 1.0, along)
        size = self._sizes[axis]
        return 0.5 * (size[where] if where else size) / along

    def _flow_along(self, axis: int, field: Callable[[str], Any]) -> Array:
        """Volume that flows through each face along an axis, in its direction: of the grid's shape with one more."""
        rule, area, number = self._rule, self._area(axis), self._rule.velocity[axis]
        if number is not None:
            shape = [size + (other == axis) for other, size in enumerate(rule.grid)]
            return self._xp.broadcast_to(self._asarray(np.array(number)) * area, shape)
        velocity = self._asarray(field(VELOCITY[axis]))
        if velocity.shape[axis] == rule.grid[axis]:  # at centers
            size, low, high = self._sizes[axis], part_of(axis, slice(None, 1)), part_of(axis, slice(-1, None))
            first, last = velocity[low], velocity[high]
            if rule.boundary.periodic[axis]:
                first = last = _interpolated(velocity, size, high, low)
            between = _interpolated(velocity, size, part_of(axis, slice(None, -1)), part_of(axis, slice(1, None)))
            velocity = self._xp.concatenate([first, between, last], axis=axis)
        return velocity * area

    def _area(self, axis: int) -> Array:
        first, second = (size for other, size in enumerate(self._sizes) if other != axis)
        return first * second

    def _ends(self, kappa: Sequence[Any], *, feeding: bool = False) -> Iterator[DomainFace]:
        """The faces of the domain with a condition, or those alone that add to right-hand sides."""
        for axis in AXES:
            for side in (0, 1):
                condition = self._rule.boundary.at(axis, side)
                if condition.periodic or (feeding and not condition.feeds):
                    continue
                yield self._end(kappa, axis, side)

    def _end(self, kappa: Sequence[Any], axis: int, side: int) -> DomainFace:
        """The faces at one end (0 or 1) of an axis that is not periodic."""
        rule, whole = self._rule, Partition(self._rule.grid, (1, 1, 1))[0].box
        condition, where = rule.boundary.at(axis, side), part_of(axis, slice(None, 1) if side == 0 else slice(-1, None))
        face = [n if other != axis else 1 for other, n in enumerate(rule.grid)]
        values = {
            name: self._asarray(np.array(face_values(rule.cells, np, whole, axis, side, value)).T)
            for name, value in condition.values.items()
        }
        resistance = self._xp.broadcast_to(self._resistance(kappa, axis, where), face)
        area = self._xp.broadcast_to(self._area(axis), face)
        terms = condition.terms(self._xp, resistance, area, values)
        if self._flows is not None:
            flow = self._flows[axis][where] * (1.0 if side else -1.0)
            share, value = condition.at_face(self._xp, resistance, values)
            given = self._xp.minimum(flow, 0.0) if rule.scheme == UPWIND else flow
            terms = terms[0] + (flow - given) + given * share, terms[1] - given * value
        diagonal, right = (self._opened(term, where) for term in terms)
        if self.held is not None:
            diagonal, right = (self._xp.where(self.held[where], 0.0, term) for term in (diagonal, right))
        at = along(axis, np.arange(rule.grid[axis]) == (0 if side == 0 else rule.grid[axis] - 1))
        return DomainFace(where=where, at=at, diagonal=diagonal, right=right)

    def _opened(self, values: Array, where: tuple[Any, ...]) -> Array:
        """Values at some cells, zero where these are left out."""
        return values if self._open is None else values * (self._open[where] if where else self._open)


def _interpolated(values: Array, size: Array, low: tuple[Any, ...], high: tuple[Any, ...]) -> Array:
    """Values at faces by those at the centers on both sides."""
    here, there = size[low], size[high]
    return (values[low] * there + values[high] * here) / (here + there)
