"""Right-hand sides and solutions of cells: sources, values at the boundary, and held cells."""

from dataclasses import replace
from functools import partial
from typing import Any

from dsolver.discretize.coefficients import Coefficients, cells
from dsolver.discretize.lifting import times
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.contract import ASSEMBLE, LOAD
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.lattice.sources import Source
from dsolver.problems.coefficient_names import HELD
from dsolver.problems.discretization import Patch
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.held_cells import HeldCells, HeldValues


class CellSides:
    """Right-hand sides and solutions of cells; InputError: a held value makes no sense. Coefficients are not kept."""

    def __init__(
        self, engine: Engine, partition: Partition, coefficients: Coefficients, rule: Diffusion, layout: PerChunk
    ) -> None:
        self._engine, self._partition, self._layout = engine, partition, layout
        self._source = coefficients.per_chunk(partial(_source, rule=rule))
        self._held_cells: PerChunk | None = None
        self._held_values: PerChunk | None = None
        if rule.fixed:
            self._held_cells = coefficients.per_chunk(partial(_held_cells, rule=rule))
            self.hold(coefficients, rule)

    def take(self, rule: Diffusion, engine: Engine) -> None:
        """Take the values at the boundary of another rule; engine: a view whose value type they have."""
        self._source = engine.per_chunk(partial(_fed, rule=rule, partition=self._partition), self._source)

    def hold(self, coefficients: Coefficients, rule: Diffusion) -> None:
        """Take values of held cells, from coefficients that are prepared."""
        assert self._held_cells is not None
        make = partial(_held_values, rule=rule)
        self._held_values = coefficients.per_chunk(make, operands=(self._held_cells,))
        self._source = self._engine.per_chunk(_with_feeds, self._source, self._held_values)

    def assemble(self, b: Field, lift: int) -> None:
        """b, which holds the source, becomes the right-hand side; both are lifted by this exponent of two."""
        source = self._engine.per_chunk(partial(_lifted, lift=lift), self._source) if lift else self._source
        self._engine.run(ASSEMBLE, self._layout, source, b)

    def clear(self, x: Field) -> None:
        """x = 0 at cells that are left out, or held."""
        self._engine.run(LOAD, self._layout, self._engine.per_chunk(_cleared, self._layout, x, self._source), x)

    def filled(self, x: Field, lift: int) -> PerChunk | None:
        """Blocks of x with the values of held cells, both lifted by this exponent of two; None where there are none."""
        if self._held_values is None:
            return None
        return self._engine.per_chunk(partial(_filled, lift=lift), self._layout, x, self._held_values)

    def times_volumes(self, ones: PerChunk) -> PerChunk:
        """Blocks times the volumes of their cells."""
        return self._engine.per_chunk(_volumes, self._source, ones)

    def volumes(self) -> PerChunk:
        """Blocks of the volumes of cells, zero where they are left out."""
        return self._engine.per_chunk(_volumes_of, self._layout, self._source)


# -- what is made on the owners: blocks (nx, ny, nz) -------------------------------------------------------------------


def _source(_: Backend, __: int, patch: Patch, *, rule: Diffusion) -> Source:
    """The `Source` of a chunk."""
    return rule.source(patch)


def _fed(backend: Backend, number: int, source: Source, *, rule: Diffusion, partition: Partition) -> Source:
    """The `Source` of a chunk with the boundary values of a rule."""
    return rule.fed(backend, partition[number].box, source)


def _held_cells(_: Backend, __: int, patch: Patch, *, rule: Diffusion) -> Any:
    """The `HeldCells` of a chunk."""
    return rule.held_cells(patch)


def _held_values(_: Backend, __: int, patch: Patch, held: HeldCells, *, rule: Diffusion) -> Any:
    """The `HeldValues` of a chunk."""
    return held.fed(patch, HELD, rule.held)


def _with_feeds(_: Backend, __: int, source: Source, held: HeldValues) -> Source:
    """The `Source` of a chunk with what held cells add."""
    return replace(source, feeds=held.feeds)


def _lifted(_: Backend, __: int, source: Source, *, lift: int) -> Source:
    """The `Source` of a chunk for sources times two to this power."""
    faces = {end: times(value, lift) for end, value in source.faces.items()}
    return replace(source, faces=faces, feeds=tuple((at, times(values, lift)) for at, values in source.feeds))


def _cleared(backend: Backend, _: int, layout: Layout, x: Any, source: Source) -> Any:
    """A block of x with zeros at cells that are no unknowns."""
    return source.cleared(cells(backend, layout, x)).T


def _filled(backend: Backend, _: int, layout: Layout, x: Any, held: HeldValues, *, lift: int) -> Any:
    """A block of the lifted x with the lifted values of held cells."""
    values = cells(backend, layout, x)
    replace(held, values=times(held.values, lift)).fill(values)
    return values.T


def _volumes(_: Backend, __: int, source: Source, ones: Any) -> Any:
    return (source.volumes() * ones.T).T


def _volumes_of(backend: Backend, _: int, layout: Layout, source: Source) -> Any:
    return (source.volumes() * backend.xp.ones(layout.shape[::-1])).T


def with_added(backend: Backend, _: int, layout: Layout, source: Any, volumes: Any, *added: Any, lift: int) -> Any:
    """A block of the lifted source times the volumes, where these are not zero, and what is added."""
    volumes = backend.asarray(volumes)
    found = backend.xp.where(volumes > 0.0, backend.vectors.unload(layout, source), 0.0) * volumes
    return found + times(backend.asarray(added[0]), lift) if added else found
