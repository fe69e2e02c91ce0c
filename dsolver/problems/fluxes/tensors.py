"""Couplings of cells whose κ is a full tensor: the symmetric multi-point flux approximation.

Around each vertex of the grid the corners of its cells meet. In a corner u is linear: its gradient follows from u at
the cell's center and at the middles of the faces that meet there. Values at faces are those for which the energy
½ ∫ ∇u · κ ∇u of all corners is least, so what leaves a corner through its part of a face enters the next one. On cells
that are boxes this is the O-method (Aavatsmark, Computational Geosciences 6, 2002, section 3). The matrix is symmetric,
and positive semidefinite as that of a least energy. Where κ is diagonal it is that of `form`: harmonic averages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from dsolver.grid.box import Triple, three
from dsolver.grid.partition import Partition
from dsolver.problems.boundaries.conditions import ALPHA, Dirichlet
from dsolver.problems.cell_arrays import face_values
from dsolver.problems.coefficient_names import FIXED
from dsolver.problems.coordinates import F64
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.fluxes.cell_tensors import absent_cells, cell_tensors, definite
from dsolver.problems.fluxes.coefficients import field_of

if TYPE_CHECKING:
    from dsolver.problems.problem import Problem

TOGETHER: Final = 1 << 13  # vertices whose systems are solved at once, about: 20 MB in three dimensions

Corner = tuple[int, ...]
"""Side of a vertex on which a cell is, along each axis: 0 where the vertex is at the cell's upper end."""


@dataclass(frozen=True, kw_only=True)
class TensorCouplings:
    """Couplings of the cells of a grid."""

    # of each cell with those around it, arrays of the grid's shape by the offset along x, y and z.
    weights: dict[Triple, F64]
    right: F64  # what boundary conditions add to right-hand sides, of the grid's shape
    sizes: F64  # of the terms that cancel in a cell's weights, of the grid's shape


def tensor_couplings(problem: Problem) -> TensorCouplings:
    """The couplings of a problem with a full tensor. InputError: a tensor is not positive definite."""
    return _Vertices(problem).summed()


def tensor_fluxes(problem: Problem, u: F64) -> list[F64]:
    """Fluxes through all faces along each axis, in its direction: arrays with one more along the axis.

    There is none through faces of the domain at cells where u is held, nor between two of these.
    """
    return _Vertices(problem).fluxes(u)


class _Vertices:
    """The vertices of a grid, with what cells around them have. Arrays have the grid's own axes, one to three."""

    def __init__(self, problem: Problem) -> None:
        rule, self._count = problem.rule, problem.dimensions
        assert isinstance(rule, Diffusion)
        self._rule, self._axes = rule, range(self._count)
        self._shape = rule.grid[: self._count]
        self._periodic = rule.boundary.periodic[: self._count]
        self._corners: list[Corner] = list(product((0, 1), repeat=self._count))
        faces = [(axis, corner) for axis in self._axes for corner in self._corners if not corner[axis]]
        self._faces = {face: number for number, face in enumerate(faces)}
        self._present = ~absent_cells(problem)
        self._held = (field_of(problem, FIXED) != 0.0).reshape(self._shape) if rule.fixed else None
        self._kappa = definite(cell_tensors(problem)[..., : self._count, : self._count], self._present)
        self._conditions = {
            (axis, side): self._face_values(axis, side)
            for axis, side in product(self._axes, (0, 1))
            if not self._periodic[axis]
        }

    def summed(self) -> TensorCouplings:
        """Couplings of all vertices, summed in the order of these, so that A is symmetric to the bit."""
        around = [n + 2 for n in self._shape]
        sums = {offset: np.zeros(around) for offset in product((-1, 0, 1), repeat=self._count)}
        right, sizes = np.zeros(around), np.zeros(around)
        for first, last in self._blocks():
            couplings, added, terms = self._eliminated(first, last)
            for number, corner in enumerate(self._corners):
                where = self._where(corner, first, last)
                right[where] += added[..., number]
                sizes[where] += terms[..., number]
                for other, beside in enumerate(self._corners):
                    offset = tuple(b - a for a, b in zip(corner, beside, strict=True))
                    sums[offset][where] += couplings[..., number, other]
        inner = (slice(1, -1),) * self._count  # cells around the grid are none, or have all their vertices elsewhere
        weights = {
            three("offset", (*offset, *(0,) * (3 - self._count))): values[inner].reshape(self._rule.grid)
            for offset, values in sums.items()
        }
        right, sizes = (np.ascontiguousarray(each[inner]).reshape(self._rule.grid) for each in (right, sizes))
        return TensorCouplings(weights=weights, right=right, sizes=sizes)

    def fluxes(self, u: F64) -> list[F64]:
        """As of `tensor_fluxes`."""
        shapes = [[n + (1 if other == axis else 2) for other, n in enumerate(self._shape)] for axis in self._axes]
        sums = [np.zeros(shape) for shape in shapes]
        for first, last in self._blocks():
            _, b, d = self._energies(first, last)
            q, _ = self._with_conditions(first, last, b, d)
            around = np.stack([self._at(u, corner, first, last) for corner in self._corners], axis=-1)
            faces = np.linalg.solve(d, (q - np.einsum("...fc,...c->...f", b, around))[..., None])[..., 0]
            for number, corner in enumerate(self._corners):
                steps = faces[..., [self._met(axis, corner) for axis in self._axes]] - around[..., number, None]
                out = np.einsum("...ij,...j->...i", self._energy(corner, first, last), steps)
                inside = self._inside(corner, first, last)
                for axis in self._axes:
                    low = self._inside(tuple(0 if a == axis else s for a, s in enumerate(corner)), first, last)
                    taken = inside if corner[axis] == 0 else inside & ~low  # of two cells the lower one tells
                    where = list(self._where(corner, first, last))
                    where[axis] = slice(where[axis].start - corner[axis], where[axis].stop - corner[axis])
                    sums[axis][tuple(where)] += np.where(taken, out[..., axis] * (2 * corner[axis] - 1), 0.0)
        inner = [tuple(slice(None) if a == axis else slice(1, -1) for a in self._axes) for axis in self._axes]
        return [self._unheld(axis, sums[axis][inner[axis]]) for axis in self._axes]

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _unheld(self, axis: int, flux: F64) -> F64:
        """Fluxes along an axis without those that concern held cells alone."""
        if self._held is None:
            return flux
        mode: Literal["wrap", "edge"] = "wrap" if self._periodic[axis] else "edge"
        held = np.pad(self._held, [(1, 1) if other == axis else (0, 0) for other in self._axes], mode=mode)
        along = np.moveaxis(held, axis, 0)
        return np.where(np.moveaxis(along[1:] & along[:-1], 0, axis), 0.0, flux)

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges of layers of vertices."""
        layers = self._vertices(0)
        layer = int(np.prod([self._vertices(axis) for axis in self._axes[1:]]))
        step = max(1, TOGETHER // layer)
        return ((first, min(first + step, layers)) for first in range(0, layers, step))

    def _vertices(self, axis: int) -> int:
        """Number of vertices along an axis: the first and the last are the same one on a periodic axis."""
        return self._shape[axis] + 1

    def _where(self, corner: Corner, first: int, last: int) -> tuple[slice, ...]:
        """The cells at a corner of vertices, in arrays with one more cell at each end."""
        ranges = [(first, last), *((0, self._vertices(axis)) for axis in self._axes[1:])]
        return tuple(slice(low + side, high + side) for side, (low, high) in zip(corner, ranges, strict=True))

    def _at(self, values: Any, corner: Corner, first: int, last: int) -> Any:
        """Values at the cells at a corner of vertices; those beyond the grid are those of a cell in it."""
        ranges = [np.arange(first, last), *(np.arange(self._vertices(axis)) for axis in self._axes[1:])]
        places = [
            (at - 1 + side) % n if wraps else (at - 1 + side).clip(0, n - 1)
            for at, side, n, wraps in zip(ranges, corner, self._shape, self._periodic, strict=True)
        ]
        return values[np.ix_(*places)]

    def _inside(self, corner: Corner, first: int, last: int) -> npt.NDArray[np.bool_]:
        """Whether there is a cell at a corner of vertices, which has a κ."""
        found = np.array(self._at(self._present, corner, first, last))
        for axis in self._axes:
            if not self._periodic[axis]:
                along, low = np.moveaxis(found, axis, 0), first if axis == 0 else 0
                high = last if axis == 0 else self._vertices(axis)
                if not corner[axis] and low == 0:
                    along[0] = False
                if corner[axis] and high == self._vertices(axis):
                    along[-1] = False
        return found

    def _eliminated(self, first: int, last: int) -> tuple[F64, F64, F64]:
        """Couplings of the cells at the corners of some layers of vertices, what b gets of them there, and C.

        Values u of cells and v of faces have the energy ½ uᵀ C u + vᵀ B u + ½ vᵀ D v - vᵀ q, whose least value over v
        is ½ uᵀ (C - Bᵀ D⁻¹ B) u + uᵀ Bᵀ D⁻¹ q and a constant.
        """
        c, b, d = self._energies(first, last)
        q, fed = self._with_conditions(first, last, b, d)
        solved = np.linalg.solve(d, np.concatenate([b, q[..., None]], axis=-1))
        couplings = -np.swapaxes(b, -1, -2) @ solved[..., :-1]
        couplings = 0.5 * (couplings + np.swapaxes(couplings, -1, -2))
        np.einsum("...ii->...i", couplings)[...] += c
        return couplings, fed - np.einsum("...fc,...f->...c", b, solved[..., -1]), c

    def _energies(self, first: int, last: int) -> tuple[F64, F64, F64]:
        """C, which is diagonal, B and D of some layers of vertices."""
        shape = (last - first, *(self._vertices(axis) for axis in self._axes[1:]))
        cells, faces = len(self._corners), len(self._faces)
        c, b, d = np.zeros((*shape, cells)), np.zeros((*shape, faces, cells)), np.zeros((*shape, faces, faces))
        for number, corner in enumerate(self._corners):
            energy = self._energy(corner, first, last)
            met = [self._met(axis, corner) for axis in self._axes]
            c[..., number] = energy.sum(axis=(-2, -1))
            for i, face in enumerate(met):
                b[..., face, number] -= energy[..., i, :].sum(axis=-1)
                for j, other in enumerate(met):
                    d[..., face, other] += energy[..., i, j]
        diagonal = np.einsum("...ii->...i", d)
        diagonal[diagonal == 0.0] = 1.0  # faces of no cell
        return c, b, d

    def _met(self, axis: int, corner: Corner) -> int:
        """The face across an axis that meets a cell's corner."""
        return self._faces[axis, tuple(0 if other == axis else side for other, side in enumerate(corner))]

    def _energy(self, corner: Corner, first: int, last: int) -> F64:
        """Energy of differences between faces and center along each axis, in a corner: (..., axes, axes)."""
        kappa, inside = self._at(self._kappa, corner, first, last), self._inside(corner, first, last)
        steps = [0.5 * size for size in self._sizes(corner, first, last)]
        volume: Any = 1.0
        for step in steps:
            volume = volume * step
        for axis in range(self._count, 3):
            volume = volume * self._rule.sizes[axis][0]
        out = np.zeros(kappa.shape)
        for i, j in product(self._axes, repeat=2):
            sign = 1.0 if corner[i] == corner[j] else -1.0
            out[..., i, j] = np.where(inside, sign * volume * kappa[..., i, j] / (steps[i] * steps[j]), 0.0)
        return out

    def _sizes(self, corner: Corner, first: int, last: int) -> list[F64]:
        """Sizes of the cells at a corner along each axis, to broadcast."""
        grid = np.ix_(*self._rule.sizes[: self._count])
        return [self._at(np.broadcast_to(size, self._shape), corner, first, last) for size in grid]

    def _with_conditions(self, first: int, last: int, b: F64, d: F64) -> tuple[F64, F64]:
        """q, and what cells get of known values at faces, whose rows leave B and D."""
        q, fed = np.zeros(d.shape[:-1]), np.zeros((*d.shape[:-2], b.shape[-1]))
        known, values = np.zeros(q.shape, dtype=np.bool_), np.zeros(q.shape)
        for (axis, side), given in self._conditions.items():
            whole = first == 0 if side == 0 else last == self._vertices(0)
            if axis == 0 and not whole:
                continue
            at_end = (*(slice(None),) * axis, slice(0, 1) if side == 0 else slice(-1, None))
            for corner in self._corners:
                if corner[axis] == side:  # beyond the end
                    continue
                face = (*at_end, Ellipsis, self._met(axis, corner))
                inside = self._inside(corner, first, last)[at_end]
                numbers = {name: self._at(value, corner, first, last)[at_end] for name, value in given.items()}
                area = self._area(axis, corner, first, last)[at_end]
                if isinstance(self._rule.boundary.at(axis, side), Dirichlet):
                    known[face], values[face] = inside, np.where(inside, numbers["value"], 0.0)
                    continue
                q[face] = np.where(inside, area * numbers["value" if ALPHA in numbers else "flux"], 0.0)
                if ALPHA in numbers:
                    d[(*face, face[-1])] += np.where(inside, area * numbers[ALPHA], 0.0)
        if known.any():
            fed -= np.einsum("...fc,...f->...c", b, values)
            q -= np.einsum("...fg,...g->...f", d, values)
            q[known] = values[known]
            b[known] = 0.0
            d[known] = 0.0
            np.swapaxes(d, -1, -2)[known] = 0.0
            np.einsum("...ii->...i", d)[known] = 1.0
        return q, fed

    def _area(self, axis: int, corner: Corner, first: int, last: int) -> Any:
        """Areas of the parts of faces across an axis that meet corners."""
        area: Any = 1.0
        for other, size in enumerate(self._sizes(corner, first, last)):
            area = area * (np.ones_like(size) if other == axis else 0.5 * size)
        for missing in range(self._count, 3):
            area = area * self._rule.sizes[missing][0]
        return area

    def _face_values(self, axis: int, side: int) -> dict[str, F64]:
        """Numbers of a condition, broadcast to the grid."""
        whole = Partition(self._rule.grid, (1, 1, 1))[0].box
        found = {}
        for name, value in self._rule.boundary.at(axis, side).values.items():
            given = np.array(face_values(self._rule.cells, np, whole, axis, side, value), dtype=np.float64).T
            face = [1 if other == axis else n for other, n in enumerate(self._rule.grid)]
            found[name] = np.broadcast_to(np.broadcast_to(given, face).reshape(face[: self._count]), self._shape)
        return found
