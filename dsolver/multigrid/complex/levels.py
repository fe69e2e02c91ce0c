"""Levels of a complex symmetric matrix: P and R of a real hierarchy, and Galerkin products of A itself.

Where `MatrixProblem.quadrant` is (s, t), (s - i t) A has the real part s Re A + t Im A: the matrix that stands for A,
by which coarse points and interpolation are chosen. So its levels are the real parts of those of (s - i t) A. Imaginary
parts follow with the P and R that there are, by numeric products alone.

For AC conduction with jumps of four decades in both parts COCG takes 16 iterations in place of 34 by a real cycle on
both parts (`bench/complex_systems.py`, 32³), 20, 10 and 18 in place of 20, 17 and 22 for others. A complex first level
above real ones takes 32, and a sweep of complex Jacobi around a real cycle 28.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dsolver.distributed.loaded_rows import chunk_matrix
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend, load
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Layout
from dsolver.multigrid.algebraic.finest import rows_of_blocks
from dsolver.multigrid.algebraic.galerkin_numeric import coarse_again
from dsolver.multigrid.algebraic.reuse import Kept, KeptLevel, rows_again
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.finished import finished_rows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import Bounds
from dsolver.multigrid.algebraic.storage import DAMPING, DOMINANT
from dsolver.multigrid.algebraic.storing.deferred import storing_of_rows
from dsolver.multigrid.coarse_solve import regularized
from dsolver.multigrid.level import AtLevel, ComplexPart, Level, at_level

Signs = tuple[float, float]  # (s, t): see above


@dataclass(frozen=True, kw_only=True)
class ComplexSetup:
    """A real hierarchy, and the parts of A of which its levels get imaginary ones."""

    engine: Engine  # of the finest level's set-up
    levels: Sequence[Level]  # of the real hierarchy
    rows: Sequence[PerChunk]  # the `LevelRows` of every chunk of each of them
    kept: Kept  # how they were made
    parts: Sequence[PerChunk]  # the `RowBlock` of every chunk of Re A and of Im A
    bounds: Bounds  # of the finest level's chunks
    signs: Signs
    lowered: bool  # whether the parts serve in another precision than the matrix's own
    singular: bool  # whether constants are in the null space of A

    def complex_levels(self) -> list[Level]:
        """The levels with their `ComplexPart`s."""
        engine, imaginary, found = self.engine, self._imaginary_rows(), []
        for depth in range(len(self.levels)):
            if depth:
                step = self.kept.steps[depth - 1]
                imaginary, engine = _coarser(engine, imaginary, step), step.place.engine
            found.append(self._with_part(engine, depth, imaginary))
        return found

    def _imaginary_rows(self) -> PerChunk:
        """The `LevelRows` of every chunk of Im (s - i t) A, in the places of its real part."""
        brought = rows_of_blocks(self.engine, self.parts[1], self.bounds)
        return self.engine.per_chunk(partial(_imaginary, signs=self.signs), brought, self.rows[0], self.kept.first)

    def _with_part(self, engine: Engine, depth: int, imaginary: PerChunk) -> Level:
        """A level with its `ComplexPart`, of its imaginary `LevelRows`."""
        level, rows = self.levels[depth], self.rows[depth]
        factor = 1.0 if depth else complex(self.signs[0], -self.signs[1])
        weights = engine.per_chunk(partial(_weights, factor=factor), rows, imaginary)
        placed = level.engine.per_chunk(partial(_placed, depth=depth), level.layout, weights).at(depth)
        part = ComplexPart(weights=placed, signs=self.signs)
        if depth:
            store = storing_of_rows(level.engine, imaginary, level.layout, depth, self.kept.steps[depth - 1].choices)
            part = replace(part, imaginary=store())
        elif self.lowered:
            make = partial(chunk_matrix, wait=False)
            part = replace(part, parts=tuple(level.engine.per_chunk(make, each).at(0) for each in self.parts))
        if level.inverse is None:
            return replace(level, complex_part=part)
        make_inverse = partial(_inverse, depth=depth, factor=factor, singular=self.singular)
        made = level.engine.per_chunk(make_inverse, level.layout, rows, imaginary).at(depth)
        return replace(level, inverse=made.at(0), complex_part=replace(part, inverse=made.at(1)))


def _coarser(engine: Engine, rows: PerChunk, step: KeptLevel) -> PerChunk:
    """The `LevelRows` of every chunk of the coarser level, by the P and R that there are."""
    place, diagonal = step.place, engine.per_chunk(_diagonal, rows)
    made = coarse_again(engine, rows, diagonal, step.again, definite=False)
    made = made if place.gather is None else place.gather(made)
    if step.mirrors is not None:
        return place.engine.per_chunk(rows_again, made, step.mirrors)
    return finished_rows(place.engine, made, place.reach, place.bounds, halves=False, symmetric=True)


def _imaginary(
    backend: Backend, _: int, part: LevelRows, real: LevelRows, pattern: LevelRows, *, signs: Signs
) -> LevelRows:
    """Im (s - i t) A = s Im A - t Re A, and Re (s - i t) A = s Re A + t Im A is known: it is 2 s Im A - s t of that."""
    s, t = signs
    own, places = DistributedRows(window=part.window, matrix=part.matrix), pattern.matrix
    found = pattern.window.placed(backend.amg, own.rows(backend.amg))
    if len(found.columns) == len(places.columns):
        values = 2.0 * s * found.values
    else:
        values = np.zeros_like(real.matrix.values)
        wanted, there = (_numbers(backend, each, pattern.window.size) for each in (found, places))
        values[np.searchsorted(there, wanted)] = 2.0 * s * found.values
    values -= s * t * real.matrix.values
    return replace(pattern, matrix=places._replace(values=values))


def _numbers(backend: Backend, rows: Csr, columns: int) -> Any:
    """A number of each entry, int64, that ascends."""
    return backend.general.places(rows.start, len(rows.columns)) * columns + rows.columns


def _diagonal(backend: Backend, _: int, rows: LevelRows) -> Any:
    """The diagonal, float64 (rows,)."""
    return backend.amg.row_measures(rows.matrix, rows.window.below)[1]


def _weights(backend: Backend, number: int, rows: LevelRows, imaginary: LevelRows, *, factor: complex) -> Any:
    """D⁻¹ times a factor, complex128 (rows,): D is the diagonal times what the magnitudes of entries ask for."""
    amg, sizes = backend.amg, np.hypot(rows.matrix.values, imaginary.matrix.values)
    *_, share = amg.row_measures(rows.matrix._replace(values=sizes), rows.window.below)
    damped = amg.damped(share, 1.0 / DAMPING, DOMINANT, 1.0)
    diagonal = _diagonal(backend, number, rows) + 1j * _diagonal(backend, number, imaginary)
    return factor / (diagonal * damped)


def _placed(backend: Backend, _: int, layout: Layout, weights: Any, *, depth: int) -> AtLevel:
    """Both parts in the order of vectors, zero on padding."""
    made = backend.xp.zeros((2, layout.size), dtype=backend.dtype)
    weights = backend.asarray(weights)
    made[0, layout.position], made[1, layout.position] = weights.real, weights.imag
    backend.synchronize()
    return at_level(depth, (made[0], made[1]))


def _inverse(
    backend: Backend,
    _: int,
    layout: Layout,
    rows: LevelRows,
    imaginary: LevelRows,
    *,
    depth: int,
    factor: complex,
    singular: bool,
) -> AtLevel:
    """Both parts of (B + i C)⁻¹ = X + i Y times a factor, with X = (B + C B⁻¹ C)⁻¹ and Y = -B⁻¹ C X.

    B is positive semidefinite, so both are inverses of such matrices; singular: constants are in the null space of A.
    """
    exact = load(backend.name, backend.threads, "float64").dense
    b, c = exact.of_rows(rows.a), exact.of_rows(imaginary.a)
    if singular:
        b = regularized(b)
    solved = exact.product(exact.inverse(layout, b).values, c)
    x = exact.inverse(layout, b + exact.product(c, solved))
    y = -exact.product(solved, x.values)
    whole = factor * (x.values + 1j * y)
    made = tuple(backend.dense.stored(layout, part) for part in (whole.real, whole.imag))
    return at_level(depth, made)
