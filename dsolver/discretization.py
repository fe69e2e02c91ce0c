"""From coefficients on cells to matrix rows: what each chunk computes on its owner, with NumPy or CuPy.

Arrays here have the axes z, y, x, so that raveled they are in lattice order. Formulas: docs/theory.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.boundary import Boundary
from dsolver.errors import InputError
from dsolver.kernels.layout import Array
from dsolver.kernels.views import apart
from dsolver.partition import Box, Offsets, Partition, Triple

BOX_OFFSETS: Offsets = tuple((i, j, k) for k, j, i in product((-1, 0, 1), repeat=3))
STAR_OFFSETS: Offsets = tuple(o for o in BOX_OFFSETS if sum(map(abs, o)) <= 1)

KAPPA: Final = ("kappa_x", "kappa_y", "kappa_z")
SIGMA: Final = "sigma"
MASK: Final = "mask"

ASYMMETRY: Final = 1e-12
"""How far weights given for each cell may be from symmetric, as a part of their size: more than rounding."""


@final
@dataclass(frozen=True, kw_only=True)
class Patch:
    """The coefficients of one chunk.

    Attributes:
        xp: the array module.
        partition: the chunks.
        number: of this chunk.
        own: the coefficients at the chunk's cells, float64 (nz, ny, nx), by name.
        halos: those of the cells around it, in slot order, by name.
        offsets: which cells around it they are of.
    """

    xp: Any
    partition: Partition
    number: int
    own: Mapping[str, Array]
    halos: Mapping[str, Array] = field(default_factory=dict)
    offsets: Offsets = STAR_OFFSETS

    @property
    def box(self) -> Box:
        """The chunk's cells."""
        return self.partition[self.number].box

    @property
    def shape(self) -> Triple:
        """(nz, ny, nx)."""
        nx, ny, nz = self.box.shape
        return nz, ny, nx

    def padded(self, name: str, outside: float) -> Array:
        """A coefficient with one layer of cells around the chunk: float64 (nz + 2, ny + 2, nx + 2).

        Args:
            name: of the coefficient.
            outside: the value where there is no cell, or none that an offset reaches.
        """
        box, halo, first = self.box, self.halos[name], 0
        out = self.xp.full([n + 2 for n in self.shape], outside)
        out[box.around(box)] = self.own[name]
        for piece in self.partition.halo_pieces(self.number, self.offsets):
            place = out[box.around(piece.seen)]
            if piece.source == self.number:
                place[...] = out[box.around(piece.box)]
            else:
                place[...] = halo[first : first + place.size].reshape(place.shape)
                first += place.size
        return out


@final
@dataclass(frozen=True, kw_only=True)
class Source:
    """What makes the right-hand side of a chunk's rows from the source of the differential equation.

    Attributes:
        sizes: of the cells along z, y, x, arrays that broadcast.
        faces: index and value of what boundary conditions add.
        solid: bool (nz, ny, nx), cells that are left out; None for none.
    """

    sizes: tuple[Array, Array, Array]
    faces: tuple[tuple[Any, Array], ...]
    solid: Array | None

    def volumes(self) -> Array:
        """Of the cells, zero where they are left out: broadcasts to (nz, ny, nx)."""
        z, y, x = self.sizes
        volumes = z * y * x
        return volumes if self.solid is None else volumes * ~self.solid

    def assembled(self, f: Array) -> Array:
        """f times the volume, plus the boundary's part; zero where cells are left out. Overwrites f, (nz, ny, nx)."""
        for size in self.sizes:
            f *= size
        for where, value in self.faces:
            f[where] += value
        return self.cleared(f)

    def cleared(self, x: Array) -> Array:
        """Zero where cells are left out. Overwrites x, (nz, ny, nx)."""
        if self.solid is not None:
            x[self.solid] = 0.0
        return x


class Rule(ABC):
    """How a chunk's rows follow from its coefficients. Small and picklable: it goes to every owner.

    Attributes:
        offsets: of the rows' columns.
        loaded: names of the coefficients that come as arrays.
        functions: those that are functions of the cells' coordinates, called with xp arrays on the owner.
        exchanged: names of those whose values around a chunk are needed.
    """

    offsets: Offsets
    loaded: tuple[str, ...]
    functions: Mapping[str, Callable[..., Any]]
    exchanged: tuple[str, ...]

    def centers(self, xp: Any, box: Box) -> tuple[Array, Array, Array]:
        """Coordinates of the cells' centers along x, y, z for a function, shapes (nx, 1, 1), (1, ny, 1), (1, 1, nz)."""
        raise NotImplementedError

    def prepared(self, patch: Patch, name: str) -> Array:
        """The values of a coefficient before they are exchanged, from own values alone: (nz, ny, nx).

        Raises:
            InputError: a value makes no sense.
        """
        return patch.own[name]

    @abstractmethod
    def weights(self, patch: Patch) -> Array:
        """The values at each offset: float64 (K, rows).

        Raises:
            InputError: a coefficient makes no sense.
        """

    def source(self, patch: Patch) -> Source:
        """What makes the right-hand side; by default it is taken as it is."""
        one = patch.xp.ones((1, 1, 1))
        return Source(sizes=(one, one, one), faces=(), solid=None)

    @abstractmethod
    def grounded(self, patch: Patch) -> Array:
        """Where a row's sum is not zero by construction, so that constants are no solutions: bool (nz, ny, nx)."""

    @property
    def masked(self) -> bool:
        """Whether cells are left out."""
        return False

    def solid(self, patch: Patch) -> Array | None:
        """The cells that are left out: bool (nz, ny, nx), or None for none."""
        return None

    def linked(self, patch: Patch, axis: int) -> Array:
        """Whether cells are coupled through the faces along an axis: bool (nz, ny, nx) with one more along it."""
        raise NotImplementedError


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Diffusion(Rule):
    """−∇·(κ∇u) + σu by finite volumes on cells of a box grid, times the cell's volume.

    A flux between two cells meets their half cells' resistances (h/2)/κ in a row: harmonic averages (Patankar,
    Numerical Heat Transfer and Fluid Flow, 1980, section 4.2-3).

    Attributes:
        grid: cells along x, y, z.
        kappa: along x, y, z; a number, or None where it is a field. All the same object for an isotropic κ.
        fields: the name of the field of κ along x, y, z; equal names for an isotropic κ.
        sigma: a number, or None where it is a field.
        mask: whether there is a field of masked cells.
        sizes: of the cells along x, y, z, float64 (nx,), (ny,), (nz,).
        boundary: the conditions at the faces.
        functions: as in `Rule`.
    """

    grid: Triple
    kappa: tuple[float | None, float | None, float | None]
    fields: tuple[str, str, str]
    sigma: float | None
    mask: bool
    sizes: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]] = field(repr=False)
    boundary: Boundary
    functions: Mapping[str, Callable[..., Any]]
    offsets: Offsets = STAR_OFFSETS

    @property
    def masked(self) -> bool:
        return self.mask

    @property
    def loaded(self) -> tuple[str, ...]:  # type: ignore[override]  # computed here, stored elsewhere
        given = [name for name, value in zip(self.fields, self.kappa, strict=True) if value is None]
        given += [SIGMA] * (self.sigma is None) + [MASK] * self.mask
        return tuple(name for name in dict.fromkeys(given) if name not in self.functions)

    @property
    def exchanged(self) -> tuple[str, ...]:  # type: ignore[override]
        used = zip(self.fields, self.kappa, strict=True)
        return tuple(dict.fromkeys(name for name, value in used if value is None or self.mask))

    def centers(self, xp: Any, box: Box) -> tuple[Array, Array, Array]:
        x, y, z = (self._centers(axis)[low:high] for axis, low, high in zip(range(3), box.lo, box.hi, strict=True))
        return xp.asarray(x[:, None, None]), xp.asarray(y[None, :, None]), xp.asarray(z[None, None, :])

    def prepared(self, patch: Patch, name: str) -> Array:
        number = next(value for value, called in zip(self.kappa, self.fields, strict=True) if called == name)
        xp = patch.xp
        values = patch.own[name] if number is None else xp.full(patch.shape, number)
        solid = patch.own[MASK] != 0.0 if self.mask else None
        _check(patch, "kappa", "must be positive and finite", (values > 0.0) & xp.isfinite(values), solid)
        return values if solid is None else xp.where(solid, 0.0, values)

    def weights(self, patch: Patch) -> Array:
        out = patch.xp.zeros((7, *patch.shape))
        diagonal = apart(out[STAR_OFFSETS.index((0, 0, 0))])
        for axis in range(3):
            conductance = self._conductances(patch, axis)
            for side in (0, 1):
                diagonal += _part(conductance, axis, side)
                outward = apart(out[STAR_OFFSETS.index(_unit(axis, side))])
                outward[...] = -_part(conductance, axis, side)
                if self._at_edge(patch, axis, side):
                    outward[_end(axis, side)] = 0.0
        self._add_sigma(patch, diagonal)
        solid = self.solid(patch)
        bare = diagonal == 0.0 if solid is None else solid | (diagonal == 0.0)  # left out, or closed all around
        if bool(bare.any()):
            # Decoupled and zero: any positive diagonal serves, this one has the size of a neighbor's.
            z, y, x = self._sizes(patch)
            like = max(value or 0.0 for value in self.kappa) or 1.0
            diagonal[...] = patch.xp.where(bare, 2.0 * like * (y * z / x + x * z / y + x * y / z), diagonal)
        return out.reshape(7, -1)

    def source(self, patch: Patch) -> Source:
        faces = []
        for axis, side in product(range(3), (0, 1)):
            if self._at_edge(patch, axis, side) and not self.boundary.periodic[axis]:
                _, value = self._edge(patch, axis, side)
                faces.append((_end(axis, side), value))
        return Source(sizes=self._sizes(patch), faces=tuple(faces), solid=self.solid(patch))

    def grounded(self, patch: Patch) -> Array:
        xp = patch.xp
        ground = xp.zeros(patch.shape, dtype=np.bool_)
        ground |= (patch.own[SIGMA] if self.sigma is None else self.sigma) > 0.0
        for axis, side in product(range(3), (0, 1)):
            if self._at_edge(patch, axis, side) and not self.boundary.periodic[axis]:
                on_diagonal, _ = self._edge(patch, axis, side)
                ground[_end(axis, side)] |= on_diagonal > 0.0
        solid = self.solid(patch)
        return ground if solid is None else ground & ~solid

    def solid(self, patch: Patch) -> Array | None:
        return patch.own[self.exchanged[0]] == 0.0 if self.mask else None

    def linked(self, patch: Patch, axis: int) -> Array:
        faces = self._conductances(patch, axis) > 0.0
        for side in (0, 1):
            if self._at_edge(patch, axis, side):
                faces[_end(axis, side)] = False
        return faces

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _conductances(self, patch: Patch, axis: int) -> Array:
        """Of the faces along an axis, area / resistance: (nz, ny, nx) with one more along the axis.

        At the edges of the domain, what the boundary condition adds to the diagonal.
        """
        resistance = self._resistances(patch, axis)
        area = self._area(patch, axis)
        out = area / (_part(resistance, axis, 0) + _part(resistance, axis, 1))
        shape = list(patch.shape)
        shape[2 - axis] += 1
        out = patch.xp.broadcast_to(out, shape).copy() if out.shape != tuple(shape) else out
        if self.boundary.periodic[axis] and self.grid[axis] == 2:
            out *= 2.0  # two cells that meet on both sides
        for side in (0, 1):
            if self._at_edge(patch, axis, side):
                out[_end(axis, side)] = 0.0 if self.boundary.periodic[axis] else self._edge(patch, axis, side)[0]
        return out

    def _edge(self, patch: Patch, axis: int, side: int) -> tuple[Array, Array]:
        """What the boundary condition at one end adds to the diagonal and the right-hand side: face arrays."""
        xp, box = patch.xp, patch.box
        end = _end(axis, side)
        face = [n if i != 2 - axis else 1 for i, n in enumerate(patch.shape)]
        name, number = self.fields[axis], self.kappa[axis]
        half = 0.5 * float(self.sizes[axis][-side])
        area = xp.broadcast_to(self._area(patch, axis), face)
        condition = self.boundary.at(axis, side)
        values = {name: self._face_values(xp, box, axis, side, value) for name, value in condition.values.items()}
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = half / xp.asarray(patch.own[name][end] if name in self.exchanged else number)
            on_diagonal, on_right = condition.terms(xp, xp.broadcast_to(inner, face), area, values)
        if condition.grounds is None:
            _check(patch, "alpha of a Robin condition", "must be finite and not negative", values["alpha"] >= 0.0)
        solid = self.solid(patch)
        return on_diagonal, on_right if solid is None else xp.where(solid[end], 0.0, on_right)

    def _face_values(self, xp: Any, box: Box, axis: int, side: int, value: Any) -> Array:
        """A condition's number at each cell of a face: broadcasts to (nz, ny, nx) with one cell along the axis."""
        if callable(value):
            x = list(self.centers(xp, box))
            x[axis] = xp.full((1, 1, 1), side * float(self.sizes[axis].sum()))
            shape = [n if i != axis else 1 for i, n in enumerate(box.shape)]
            return xp.broadcast_to(xp.asarray(value(*x), dtype=np.float64), shape).T
        if isinstance(value, float):
            return xp.full((1, 1, 1), value)
        part = value[tuple(box.slices[i] for i in range(3) if i != axis)]
        return xp.expand_dims(xp.asarray(part.T), 2 - axis)

    def _resistances(self, patch: Patch, axis: int) -> Array:
        """(h/2) / κ of the cells and the next ones along an axis, two more than cells; infinite where κ is zero."""
        name, number, along = self.fields[axis], self.kappa[axis], 2 - axis
        half = patch.xp.asarray(0.5 * self._around(patch.box, axis))
        half = half.reshape([-1 if i == along else 1 for i in range(3)])
        if name not in self.exchanged:
            return half / number
        kappa = patch.padded(name, 1.0)[tuple(slice(None) if i == along else slice(1, -1) for i in range(3))]
        with np.errstate(divide="ignore"):
            return half / kappa

    def _around(self, box: Box, axis: int) -> npt.NDArray[np.float64]:
        """Sizes of a box's cells along an axis and of one more at each end."""
        index = np.arange(box.lo[axis] - 1, box.hi[axis] + 1)
        sizes = self.sizes[axis]
        return sizes[index % len(sizes)] if self.boundary.periodic[axis] else sizes[index.clip(0, len(sizes) - 1)]

    def _area(self, patch: Patch, axis: int) -> Array:
        first, second = (size for i, size in enumerate(self._sizes(patch)) if i != 2 - axis)
        return first * second

    def _sizes(self, patch: Patch) -> tuple[Array, Array, Array]:
        """Of a chunk's cells along z, y, x, as arrays that broadcast."""
        box, xp = patch.box, patch.xp
        x, y, z = (xp.asarray(self.sizes[axis][box.lo[axis] : box.hi[axis]]) for axis in range(3))
        return z[:, None, None], y[None, :, None], x[None, None, :]

    def _add_sigma(self, patch: Patch, diagonal: Array) -> None:
        z, y, x = self._sizes(patch)
        if self.sigma is not None:
            if self.sigma:
                diagonal += self.sigma * (z * y * x)
            return
        sigma, solid = patch.own[SIGMA], self.solid(patch)
        _check(patch, "sigma", "must be finite and not negative", (sigma >= 0.0) & patch.xp.isfinite(sigma), solid)
        diagonal += sigma * (z * y * x)

    def _at_edge(self, patch: Patch, axis: int, side: int) -> bool:
        """Whether a chunk ends where rows read nothing more along an axis."""
        if patch.partition.periodic[axis]:
            return False
        return patch.box.lo[axis] == 0 if side == 0 else patch.box.hi[axis] == self.grid[axis]

    def _centers(self, axis: int) -> npt.NDArray[np.float64]:
        ends: npt.NDArray[np.float64] = np.cumsum(self.sizes[axis])
        return ends - 0.5 * self.sizes[axis]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class CellWeights(Rule):
    """Weights given for each cell and offset.

    Attributes:
        offsets: of the rows' columns.
        loaded: the name of the field of each offset's weights.
    """

    offsets: Offsets
    loaded: tuple[str, ...]
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def exchanged(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.loaded

    def weights(self, patch: Patch) -> Array:
        xp = patch.xp
        out = xp.empty((len(self.offsets), *patch.shape))
        for k, (offset, name) in enumerate(zip(self.offsets, self.loaded, strict=True)):
            out[k] = patch.own[name]
            outside = _outside(patch, offset)
            out[k][outside] = 0.0
            bad = int((~xp.isfinite(out[k])).sum())
            if bad:
                raise InputError(f"the weights at offset {offset} have {bad} values that are NaN or infinite")
            if offset > (0, 0, 0):
                self._check_symmetry(patch, offset, out[k], outside)
        if not bool(out[self.offsets.index((0, 0, 0))].all()):
            raise InputError("the weights have a zero on the diagonal: Gauss-Seidel and multigrid divide by it")
        return out.reshape(len(self.offsets), -1)

    def grounded(self, patch: Patch) -> Array:
        weights = self.weights(patch)
        sums, sizes = weights.sum(axis=0), abs(weights).sum(axis=0)
        ground: Array = abs(sums) > ASYMMETRY * sizes
        return ground.reshape(patch.shape)

    def _check_symmetry(self, patch: Patch, offset: Triple, weights: Array, outside: tuple[slice, ...]) -> None:
        """Compare with what the cells at the offset have for the opposite one."""
        i, j, k = offset
        opposite = patch.padded(self.loaded[self.offsets.index((-i, -j, -k))], 0.0)
        nz, ny, nx = patch.shape
        theirs = opposite[1 + k : 1 + k + nz, 1 + j : 1 + j + ny, 1 + i : 1 + i + nx].copy()
        theirs[outside] = 0.0
        size = max(float(abs(weights).max()), float(abs(theirs).max()))
        if float(abs(weights - theirs).max()) > ASYMMETRY * size:
            raise InputError(
                f"the weights are not symmetric: those at offset {offset} are not those at {(-i, -j, -k)} of the cell "
                f"there, and conjugate gradients need A = Aᵀ"
            )


def _outside(patch: Patch, offset: Triple) -> Any:
    """An index of the cells whose column at an offset is outside the domain: bool (nz, ny, nx)."""
    xp, box, partition = patch.xp, patch.box, patch.partition
    out = xp.zeros(patch.shape, dtype=np.bool_)
    for axis, step in enumerate(offset):
        at_edge = box.lo[axis] == 0 if step < 0 else box.hi[axis] == partition.grid[axis]
        if step and at_edge and not partition.periodic[axis]:
            out[_end(axis, int(step > 0))] = True
    return out


def _check(patch: Patch, name: str, must: str, good: Array, solid: Array | None = None) -> None:
    bad = int((~good if solid is None else ~good & ~solid).sum())
    if bad:
        raise InputError(f"{name} {must}, but is not in {bad} of the cells of chunk {patch.number}")


def _unit(axis: int, side: int) -> Triple:
    """The offset to the next cell at one side (0 or 1) along an axis."""
    step = (-1, 1)[side]
    return step * (axis == 0), step * (axis == 1), step * (axis == 2)


def _part(faces: Array, axis: int, side: int) -> Array:
    """All but the last (side 0) or all but the first (side 1) along an axis."""
    return faces[
        tuple(slice(side, faces.shape[2 - axis] - 1 + side) if i == 2 - axis else slice(None) for i in range(3))
    ]


def _end(axis: int, side: int) -> tuple[slice, slice, slice]:
    """Index of the first (side 0) or last (side 1) layer along an axis."""
    layer = slice(0, 1) if side == 0 else slice(-1, None)
    z, y, x = (layer if i == 2 - axis else slice(None) for i in range(3))
    return z, y, x
