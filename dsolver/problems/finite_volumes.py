"""Diffusion on cells by finite volumes: from coefficients to matrix rows. Formulas: docs/theory.md."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final, Self

import numpy as np

from dsolver.grid.box import STAR_OFFSETS, Box, Offsets, Triple
from dsolver.kernels import Backend
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.lattice.fluxes import Fluxes, conductances, lines, part
from dsolver.kernels.lattice.sources import EndCells, Source
from dsolver.kernels.views import layer, without_base
from dsolver.problems.boundaries.boundary import Boundary
from dsolver.problems.boundaries.conditions import FACES
from dsolver.problems.cell_arrays import Sizes, centers_in, check_values, face_values, sizes_around, sizes_in, sizes_of
from dsolver.problems.coefficient_names import FIXED, HELD, LEAST_KAPPA, MASK, SIGMA
from dsolver.problems.coordinates import F64, Cells
from dsolver.problems.discretization import Patch, Rule
from dsolver.problems.held_cells import HeldCells, Link

UPWIND: Final = "upwind"
SCHEMES: Final = (UPWIND, "central")
"""Values of u that a flow carries through a face: that of the cell it comes from, or one between both."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Diffusion(Rule):
    """−∇·(κ∇u) + σu by finite volumes on cells of a box grid, times the cell's volume.

    A flux between two cells meets their half cells' resistances (h/2)/κ in a row: harmonic averages (Patankar,
    Numerical Heat Transfer and Fluid Flow, 1980, section 4.2-3).
    """

    grid: Triple  # cells along x, y, z
    # along x, y, z; a number, or None where it is a field. All the same object for an isotropic κ.
    kappa: tuple[Any, Any, Any]
    fields: tuple[str, str, str]  # the name of the field of κ along x, y, z; equal names for an isotropic κ
    sigma: Any  # a number, or None where it is a field
    mask: bool  # whether there is a field of masked cells
    fixed: bool = False  # whether there is one of cells where u is held
    held: complex | None = 0.0  # u there: a number, or None where it is a field
    # of `CROSS`, numbers, or None where it is a field; () where κ is diagonal. Rows with them are those of a matrix.
    cross: tuple[float | None, ...] = ()
    # along x, y, z, numbers, or None where it is a field; () where nothing flows. Rows with a flow are those of a
    # matrix: see `dsolver.matrices.composed.grids`.
    velocity: tuple[float | None, ...] = ()
    scheme: str = UPWIND  # one of `SCHEMES`
    cells: Cells = field(repr=False)  # their sizes and places
    boundary: Boundary  # the conditions at the faces
    # coefficients that are functions of the cells' coordinates, called with xp arrays on the owner.
    functions: Mapping[str, Callable[..., Any]]
    offsets: Offsets = STAR_OFFSETS

    @property
    def sizes(self) -> tuple[F64, F64, F64]:
        """Sizes of the cells along x, y, z, float64 (nx,), (ny,), (nz,)."""
        return self.cells.sizes

    @property
    def by_fluxes(self) -> bool:
        return bool(self.velocity or self.cross)

    @property
    def masked(self) -> bool:
        """Whether cells are no unknowns: left out, or held at a value."""
        return self.mask or self.fixed

    @property
    def varying(self) -> bool:
        return bool(self.loaded or self.functions)

    @property
    def grounds(self) -> bool:
        """Whether a boundary condition fixes the solution at cells that it reaches."""
        return self.boundary.grounds is not False

    @property
    def holding(self) -> Self | None:
        """The rule that loads the values of held cells alone; None where there are no such cells."""
        if not self.fixed:
            return None
        one, none = (1.0, 1.0, 1.0), {name: f for name, f in self.functions.items() if name == HELD}
        names = ("kappa", "kappa", "kappa")
        return replace(self, kappa=one, fields=names, sigma=0.0, mask=False, fixed=False, functions=none)

    @property
    def faces(self) -> Mapping[str, str]:
        """The boundary conditions in words, by face."""
        return {face: str(condition) for face, condition in zip(FACES, self.boundary.conditions, strict=True)}

    @property
    def loaded(self) -> tuple[str, ...]:
        given = [name for name, value in zip(self.fields, self.kappa, strict=True) if value is None]
        given += [SIGMA] * (self.sigma is None) + [MASK] * self.mask + [FIXED] * self.fixed
        given += [HELD] * (self.held is None)
        return tuple(name for name in dict.fromkeys(given) if name not in self.functions)

    @property
    def exchanged(self) -> tuple[str, ...]:
        used = zip(self.fields, self.kappa, strict=True)
        found = [name for name, value in used if value is None or self.masked]
        return tuple(dict.fromkeys(found + [HELD] * (self.held is None)))

    def centers(self, xp: Any, box: Box) -> tuple[Array, Array, Array]:
        """Coordinates of the cells' centers along x, y, z for a function, shapes (nx, 1, 1), (1, ny, 1), (1, 1, nz)."""
        return centers_in(self.cells, xp, box)

    def prepared(self, patch: Patch, name: str) -> Array:
        if name == HELD:
            return patch.own[name]
        number = next(value for value, called in zip(self.kappa, self.fields, strict=True) if called == name)
        xp = patch.xp
        values = patch.own[name] if number is None else xp.full(patch.shape, number)
        solid = patch.own[MASK] != 0.0 if self.mask else None
        held = patch.own[FIXED] != 0.0 if self.fixed else None
        if patch.backend.lattice.unfit(values, LEAST_KAPPA, left_out=False):  # in solid cells anything may be
            finite = xp.isfinite(values) if held is None else xp.isfinite(values) | held
            must = f"must be positive and finite, {LEAST_KAPPA:g} or more"
            check_values(patch, "kappa", must, (values >= LEAST_KAPPA) & finite, solid)
        values = values if held is None else xp.where(held, -values, values)
        return values if solid is None else xp.where(solid, 0.0, values)

    def weights(self, patch: Patch) -> Array:
        out = patch.backend.lattice.star(self._fluxes(patch))
        diagonal = without_base(out[STAR_OFFSETS.index((0, 0, 0))])
        self._add_sigma(patch, diagonal)
        solid = self.solid(patch)
        if solid is None and not patch.backend.lattice.unfit(diagonal, 0.0, left_out=True):
            return out.reshape(7, -1)
        bare = diagonal == 0.0 if solid is None else solid | (diagonal == 0.0)  # left out, or closed all around
        if solid is not None or bool(bare.any()):
            self._fill_bare(patch, bare, diagonal)
        return out.reshape(7, -1)

    def weights_of(self, patch: Patch, cells: Array) -> Array:
        """`weights` of some cells that are not left out, by their numbers in the chunk: float64 (7, cells)."""
        out = patch.backend.lattice.star(self._fluxes(patch), cells)
        diagonal = without_base(out[STAR_OFFSETS.index((0, 0, 0))])
        self._add_sigma(patch, diagonal, cells)
        self._fill_bare(patch, diagonal == 0.0, diagonal, cells)
        return out

    def source(self, patch: Patch) -> Source:
        """The right-hand side of a chunk as a function of the source of the equation."""
        ends = tuple(
            EndCells(axis=axis, side=side, kappa=self._kappa_at(patch, axis, side))
            for axis, side in product(range(3), (0, 1))
            if self._at_edge(patch, axis, side) and not self.boundary.periodic[axis]
        )
        made = Source(sizes=sizes_in(self.cells, patch), ends=ends, solid=self.solid(patch))
        return self.fed(patch.backend, patch.box, made)

    def fed(self, backend: Backend, box: Box, source: Source) -> Source:
        """A chunk's right-hand side with this rule's boundary values in place of others; InputError for a bad one."""
        feeding = (end for end in source.ends if self.boundary.at(end.axis, end.side).feeds)
        values = {(end.axis, end.side): self._terms(backend.xp, box, source.sizes, end)[1] for end in feeding}
        return replace(source, faces={at: backend.xp.ascontiguousarray(value) for at, value in values.items()})

    def grounded(self, patch: Patch) -> Array:
        ground, sizes = patch.xp.zeros(patch.shape, dtype=np.bool_), sizes_in(self.cells, patch)
        if self.sigma != 0.0:
            ground |= (patch.own[SIGMA] if self.sigma is None else self.sigma) > 0.0
        for axis, side in product(range(3), (0, 1)):
            if self._at_edge(patch, axis, side) and not self.boundary.periodic[axis]:
                share = self.boundary.at(axis, side).share
                if share is None:
                    ground[layer(axis, side)] |= self._edge(patch, axis, side, sizes) > 0.0
                elif share > 0.0:
                    ground[layer(axis, side)] = True
        for axis, side in product(range(3), (0, 1)) if self.fixed else ():
            ground |= part(self._beside_held(patch, axis), axis, side)
        return ground

    def solid(self, patch: Patch) -> Array | None:
        """The cells that are left out, or held: bool (nz, ny, nx), or None for none."""
        return patch.own[self.exchanged[0]] <= 0.0 if self.masked else None

    def held_cells(self, patch: Patch) -> HeldCells | None:
        """The cells of a chunk where u is held, and what couples others to such cells; None where there are none."""
        if not self.fixed:
            return None
        xp, fluxes, links = patch.xp, self._fluxes(patch), []
        around = tuple(n + 2 for n in patch.shape)
        numbers = xp.arange(math.prod(around)).reshape(around)
        for axis, side in product(range(3), (0, 1)):
            faces, beside = conductances(xp, fluxes, axis), self._beside_held(patch, axis)
            here = part(beside, axis, side) & (patch.own[self.fields[axis]] > 0.0)
            beyond = part(part(lines(numbers, axis), axis, side), axis, side)
            links.append(Link(cells=xp.flatnonzero(here), couplings=part(faces, axis, side)[here], beyond=beyond[here]))
        return HeldCells(cells=xp.flatnonzero(patch.own[self.fields[0]] < 0.0), links=tuple(links))

    def coupled_beyond(self, patch: Patch) -> Array:
        """Cells that are coupled through the chunk's outer faces, where some are left out: bool (nz, ny, nx)."""
        conducts = patch.padded(self.exchanged[0], 1.0) > 0.0  # all κ have the same signs
        across = patch.xp.zeros(patch.shape, dtype=np.bool_)
        for axis, side in product(range(3), (0, 1)):
            if not self._at_edge(patch, axis, side):
                across[layer(axis, side)] |= lines(conducts, axis)[layer(axis, side)]
        return across & conducts[1:-1, 1:-1, 1:-1]

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _beside_held(self, patch: Patch, axis: int) -> Array:
        """Faces along an axis between a held cell and one that is not: bool (nz, ny, nx) with one more along it."""
        kappa = lines(patch.padded(self.fields[axis], 1.0), axis)
        low, high = part(kappa, axis, 0), part(kappa, axis, 1)
        return ((low < 0.0) & (high > 0.0)) | ((low > 0.0) & (high < 0.0))

    def _fluxes(self, patch: Patch) -> Fluxes:
        """The conductivities and sizes that fluxes between a chunk's cells follow from, and its face conditions."""
        edges = product(range(3), (0, 1))
        kappa = {name: patch.padded(name, 1.0) for name in self.exchanged if name != HELD}
        x, y, z = (kappa.get(name, number) for name, number in zip(self.fields, self.kappa, strict=True))
        periodic = self.boundary.periodic
        along_x, along_y, along_z = (sizes_around(self.cells, patch.box, axis, periodic[axis]) for axis in range(3))
        twice = [wraps and n == 2 for wraps, n in zip(periodic, self.grid, strict=True)]
        return Fluxes(
            kappa=(x, y, z),
            sizes=(along_x, along_y, along_z),
            ends={at: self._end(patch, *at) for at in edges if self._at_edge(patch, *at)},
            doubled=(twice[0], twice[1], twice[2]),
            held=self.fixed,
        )

    def _end(self, patch: Patch, axis: int, side: int) -> Array | float:
        """The diagonal's share of a flux through the end of a row: a face array, or see `Fluxes.ends`."""
        if self.boundary.periodic[axis]:
            return 0.0
        share = self.boundary.at(axis, side).share
        return self._edge(patch, axis, side, sizes_in(self.cells, patch)) if share is None else share

    def _edge(self, patch: Patch, axis: int, side: int, sizes: Sizes) -> Array:
        """Addition of the condition at one end to the diagonal: a face array; sizes: of the chunk's cells."""
        end = EndCells(axis=axis, side=side, kappa=self._kappa_at(patch, axis, side))
        on_diagonal, _, values = self._terms(patch.xp, patch.box, sizes, end)
        if self.boundary.at(axis, side).grounds is None:
            check_values(patch, "alpha of a Robin condition", "must be finite and not negative", values["alpha"] >= 0.0)
        return on_diagonal

    def _terms(self, xp: Any, box: Box, sizes: Sizes, end: EndCells) -> tuple[Array, Array, dict[str, Any]]:
        """Additions of a boundary condition to the diagonal and to the right-hand side, face arrays, and its numbers.

        Those to the right-hand side say nothing of cells that are left out.
        """
        axis, side = end.axis, end.side
        face = [n if i != 2 - axis else 1 for i, n in enumerate(box.shape[::-1])]
        half = 0.5 * float(self.sizes[axis][-side])
        first, second = (size for i, size in enumerate(sizes) if i != 2 - axis)
        area = xp.broadcast_to(first * second, face)
        condition = self.boundary.at(axis, side)
        values = {name: face_values(self.cells, xp, box, axis, side, value) for name, value in condition.values.items()}
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = half / xp.asarray(end.kappa)
            on_diagonal, on_right = condition.terms(xp, xp.broadcast_to(inner, face), area, values)
        return on_diagonal, on_right, values

    def _kappa_at(self, patch: Patch, axis: int, side: int) -> Array | float:
        """κ of a chunk's cells at one end of an axis, apart from that of the others."""
        name, number = self.fields[axis], self.kappa[axis]
        return patch.own[name][layer(axis, side)].copy() if name in self.exchanged else number

    def _fill_bare(self, patch: Patch, bare: Array, diagonal: Array, cells: Array | None = None) -> None:
        """Give decoupled rows a diagonal, of all cells or of those with these numbers.

        Where it is zero any positive one serves; this one has the size of a neighbor's.
        """
        z, y, x = sizes_of(self.cells, patch, cells)
        like = max(value or 0.0 for value in self.kappa) or 1.0
        diagonal[...] = patch.xp.where(bare, 2.0 * like * (y * z / x + x * z / y + x * y / z), diagonal)

    def _add_sigma(self, patch: Patch, diagonal: Array, cells: Array | None = None) -> None:
        """Add σ V to the diagonal of all cells, or of those with these numbers."""
        if self.sigma == 0.0:
            return
        z, y, x = sizes_of(self.cells, patch, cells)
        if self.sigma is not None:
            diagonal += self.sigma * (z * y * x)
            return
        sigma, solid = patch.own[SIGMA], self.solid(patch)
        if patch.backend.lattice.unfit(sigma, 0.0, left_out=False):
            good = (sigma >= 0.0) & patch.xp.isfinite(sigma)
            must = "must be finite and not negative (for eigsh add a constant, and take it off the values)"
            check_values(patch, "sigma", must, good, solid)
        diagonal += (sigma if cells is None else sigma.reshape(-1)[cells]) * (z * y * x)

    def _at_edge(self, patch: Patch, axis: int, side: int) -> bool:
        """Whether a chunk ends where rows read nothing more along an axis."""
        if patch.partition.periodic[axis]:
            return False
        return patch.box.lo[axis] == 0 if side == 0 else patch.box.hi[axis] == self.grid[axis]
