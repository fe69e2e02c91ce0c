"""Coefficients of a problem on an engine: loaded on the owners of their chunks, checked and exchanged.

No array is ever whole anywhere: blocks go to their chunks' owners like those of b, and neighbors' values come by
`Engine.exchange`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.distributed.halo import halo_layout
from dsolver.engines.base import Engine, Field, Halo, PerChunk
from dsolver.errors import InputError
from dsolver.grid.box import STAR_OFFSETS, Offsets
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.contract import LOAD
from dsolver.kernels.formats.layout import HaloLayout, Layout
from dsolver.problems.coefficient_names import FIXED, MASK
from dsolver.problems.discretization import Patch, Rule, evaluated
from dsolver.problems.finite_volumes import Diffusion

FLAGS: Final = {MASK: "to leave out", FIXED: "where u is held"}
"""Coefficients that are flags, with what the cells are that they are true at."""


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """Storage order of a chunk's cells in lattice order, and what is exchanged of them."""

    layout: Layout
    halo: HaloLayout


class CellArrays(Mapping[str, Any]):
    """Vectors in storage order by name, as arrays (nz, ny, nx) that are made when they are asked for and then kept."""

    def __init__(self, backend: Backend, layout: Layout, vectors: Mapping[str, Any]) -> None:
        self._backend, self._layout, self._vectors = backend, layout, vectors
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _seen(self._backend, self._layout, self._vectors[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._vectors)

    def __len__(self) -> int:
        return len(self._vectors)


@dataclass(frozen=True, kw_only=True)
class WithPatch:
    """Calls make(backend, number, patch, *operands) with a chunk's coefficients."""

    make: Callable[..., Any]
    partition: Partition
    own: tuple[str, ...]  # names of the coefficients whose fields are among the operands
    halos: tuple[str, ...]  # names of those whose halos follow them
    offsets: Offsets  # what the halos hold

    @property
    def label(self) -> str | None:
        """Name of the task on Dask's dashboard, if `make` has one."""
        return getattr(self.make, "label", None)

    def __call__(self, backend: Backend, number: int, lattice: Lattice, *items: Any) -> Any:
        """Call make with the `Patch` of one chunk."""
        layout, guard = lattice.layout, backend.guard
        known, last = len(self.own), len(self.own) + len(self.halos)
        fields, halos = items[:known], items[known:last]
        patch = Patch(
            backend=backend,
            partition=self.partition,
            number=number,
            own=CellArrays(backend, layout, dict(zip(self.own, fields, strict=True))),
            halos={name: h[guard : len(h) - guard] for name, h in zip(self.halos, halos, strict=True)},
            offsets=self.offsets,
        )
        return self.make(backend, number, patch, *items[last:])


class Coefficients:
    """The coefficients of one problem, which a rule names, held in float64."""

    def __init__(self, engine: Engine, rule: Rule, partition: Partition) -> None:
        self.engine = engine
        self._rule = rule
        self._partition = partition
        self._offsets: Offsets = rule.offsets if len(rule.offsets) > len(STAR_OFFSETS) else STAR_OFFSETS
        self.lattice = engine.per_chunk(partial(_lattice, partition=partition, offsets=self._offsets))
        self._fields: dict[str, Field] = {}
        self._halos: dict[str, Halo] = {}

    def load(self, name: str, blocks: Mapping[int, Any]) -> None:
        """Set a coefficient from blocks by chunk number."""
        self.engine.load(blocks, self.lattice.at("layout"), self._field(name))

    def prepare(self) -> None:
        """Evaluate functions, check values, and exchange what rows need of neighbors. InputError: a bad value."""
        rule = self._rule
        if isinstance(rule, Diffusion):
            for name in rule.functions:
                make = partial(_evaluated, rule=rule, name=name, partition=self._partition)
                self.fill(self._field(name), self.engine.per_chunk(make))
        prepared = {name: self.per_chunk(partial(_prepared, rule=rule, name=name)) for name in rule.exchanged}
        for name, made in prepared.items():
            self.fill(self._field(name), made)
            self._halos[name] = self.exchanged(self._fields[name])
        for name in (MASK, FIXED):  # now these are where κ is zero, and where it is negative
            self._fields.pop(name, None)

    def per_chunk(
        self,
        make: Callable[..., Any],
        fields: Mapping[str, Field] | None = None,  # more of what the patch holds, by name, in lattice order
        halos: Mapping[str, Halo] | None = None,  # of these fields, by name
        engine: Engine | None = None,  # a view of the engine, whose backend is to make it
        operands: tuple[PerChunk, ...] = (),
    ) -> PerChunk:
        """make(backend, number, patch, *operands) on the owner of each chunk."""
        own, around = self._fields | dict(fields or {}), self._halos | dict(halos or {})
        wrapped = WithPatch(
            make=make, partition=self._partition, own=tuple(own), halos=tuple(around), offsets=self._offsets
        )
        return (engine or self.engine).per_chunk(wrapped, self.lattice, *own.values(), *around.values(), *operands)

    def field(self) -> Field:
        """Zeros, one for each cell, in lattice order."""
        return self.engine.field(self.lattice.at("layout"))

    def fill(self, x: Field, blocks: PerChunk) -> None:
        """x = blocks that were built, each (nx, ny, nz)."""
        self.engine.run(LOAD, self.lattice.at("layout"), blocks, x)

    def exchanged(self, x: Field) -> Halo:
        """The halo of x, in lattice order."""
        halo = self.engine.halo(self.lattice.at("halo"))
        self.engine.exchange(x, halo)
        return halo

    def _field(self, name: str) -> Field:
        if name not in self._fields:
            self._fields[name] = self.field()
        return self._fields[name]


def cells(backend: Backend, layout: Layout, x: Any) -> Any:
    """A vector in storage order as a new array (nz, ny, nx)."""
    return backend.vectors.unload(layout, x).T


def _seen(backend: Backend, layout: Layout, x: Any) -> Any:
    """A vector in storage order as an array (nz, ny, nx) to be read: a view of it where that is its order."""
    places = layout.places
    return x[places].reshape(layout.shape[::-1]) if isinstance(places, slice) else cells(backend, layout, x)


def _lattice(backend: Backend, number: int, *, partition: Partition, offsets: Offsets) -> Lattice:
    layout = backend.layouts.plain(partition[number].box.shape)
    return Lattice(layout=layout, halo=halo_layout(backend, layout, partition, number, offsets))


def _evaluated(backend: Backend, number: int, *, rule: Diffusion, name: str, partition: Partition) -> Any:
    """The values of a function of coordinates at the cells' centers of a chunk: a block (nx, ny, nz)."""
    box = partition[number].box
    values = evaluated(backend.xp, name, rule.functions[name], rule.centers(backend.xp, box), box.shape)
    if name in FLAGS and values.dtype.kind not in "biu":  # a distance, say, is nowhere zero
        raise InputError(f"{name} returned {values.dtype}: it must be True at the cells {FLAGS[name]}")
    return backend.xp.ascontiguousarray(values, dtype=np.float64)


def _prepared(_: Backend, __: int, patch: Patch, *, rule: Rule, name: str) -> Any:
    """The values of a coefficient that are exchanged: a block (nx, ny, nz)."""
    return rule.prepared(patch, name).T
