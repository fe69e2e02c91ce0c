"""Connected components of cells, and which of them are closed: found where the cells are, chunk by chunk.

Closed components, called regions, touch no boundary that fixes the solution and have no σ. Every cell begins with a
label of its own and takes the smallest of those that it is connected with inside its chunk, then across chunks by
exchanges, until nothing changes.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from dsolver.discretize.coefficients import Coefficients
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.contract import WAXPBY
from dsolver.kernels.views import layer
from dsolver.problems.discretization import CellRule, Patch, Rule

GROUNDED: Final = 0.5
"""The label of regions whose solution is fixed: smaller than every cell's."""
SOLID: Final = 2.0**53
"""The label of cells that are left out: larger than every cell's."""
LABELS: Final = "labels"
Links = tuple[Any, Any, Any]
"""Couplings of cells along x, y, z: see `CellRule.linked`."""


def is_grounded(engine: Engine, coefficients: Coefficients, rule: Rule) -> bool:
    """Whether there is a cell that is grounded."""
    work = coefficients.field()
    coefficients.fill(work, coefficients.per_chunk(partial(_grounded, rule=rule)))
    return _square(engine, work) > 0.0


def links_of(coefficients: Coefficients, rule: CellRule) -> PerChunk:
    """The `Links` of every chunk; coefficients: prepared."""
    return coefficients.per_chunk(partial(_links, rule=rule))


def labelled(engine: Engine, coefficients: Coefficients, rule: CellRule, links: PerChunk) -> Field:
    """The label of every cell, in lattice order: of closed regions, the number of their first cell plus one."""
    labels = coefficients.field()
    coefficients.fill(labels, coefficients.per_chunk(partial(_first_labels, rule=rule), operands=(links,)))
    alone = len(engine.partition) == 1 and not any(engine.partition.periodic)
    while not alone and _changed(engine, coefficients, links, labels):
        pass
    return labels


def counted(engine: Engine, coefficients: Coefficients, labels: Field) -> tuple[int, int]:
    """The numbers of cells in closed regions, and of others that are not left out; labels: of `labelled`."""
    counts = coefficients.per_chunk(_counted, {LABELS: labels})
    closed, free = engine.global_sums(counts.at(0), counts.at(1))
    return int(closed), int(free)


def any_kept(engine: Engine, coefficients: Coefficients, rule: CellRule) -> bool:
    """Whether there is a cell that is not left out; `counted` tells, too."""
    return bool(engine.global_sums(coefficients.per_chunk(partial(_kept, rule=rule)))[0])


def _changed(engine: Engine, coefficients: Coefficients, links: PerChunk, labels: Field) -> bool:
    """Spread the labels once; whether that changed any."""
    halo, work, change = coefficients.exchanged(labels), coefficients.field(), coefficients.field()
    coefficients.fill(work, coefficients.per_chunk(_spread, {LABELS: labels}, {LABELS: halo}, operands=(links,)))
    engine.run(WAXPBY, 1.0, labels, -1.0, work, change)
    engine.copy(work, labels)
    return _square(engine, change) > 0.0


def _square(engine: Engine, x: Field) -> float:
    square = engine.scalar(0.0)
    engine.dot(x, x, engine.partial_sums(), square)
    return engine.read(square)[0]


def rows(patch: Patch) -> Any:
    """The number of each cell in the whole grid: float64 (nz, ny, nx)."""
    nx, ny, _ = patch.partition.grid
    if patch.shape[1:] == (ny, nx):  # they ascend by one
        first = float(nx * ny * patch.box.lo[2])
        return patch.xp.arange(first, first + patch.box.points, dtype=np.float64).reshape(patch.shape)
    x, y, z = (
        patch.xp.arange(low, high, dtype=np.float64) for low, high in zip(patch.box.lo, patch.box.hi, strict=True)
    )
    return x[None, None, :] + nx * (y[None, :, None] + ny * z[:, None, None])


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _grounded(_: Backend, __: int, patch: Patch, *, rule: Rule) -> Any:
    """Ones where a cell's row is grounded by itself and zeros elsewhere: a block (nx, ny, nz)."""
    return rule.grounded(patch).astype(np.float64).T


def _kept(_: Backend, __: int, patch: Patch, *, rule: CellRule) -> Any:
    """float64 (1,): the number of cells that are not left out."""
    solid = rule.solid(patch)
    assert solid is not None
    return (~solid).astype(np.float64).sum().reshape(1)


def _counted(_: Backend, __: int, patch: Patch) -> tuple[Any, Any]:
    """float64 (1,) each: the numbers of cells in closed regions, and of those whose region is fixed."""
    labels = patch.own[LABELS]
    closed, free = (labels > GROUNDED) & (labels < SOLID), labels <= GROUNDED
    return closed.astype(np.float64).sum().reshape(1), free.astype(np.float64).sum().reshape(1)


def _links(_: Backend, __: int, patch: Patch, *, rule: CellRule) -> Links:
    return rule.linked(patch)


def _first_labels(backend: Backend, _: int, patch: Patch, links: Links, *, rule: CellRule) -> Any:
    """Labels after all cells of a chunk have looked at each other: a block (nx, ny, nz).

    They begin with the cell's row in the whole grid plus one, unless it is grounded or left out.
    """
    xp = patch.xp
    labels = xp.where(rule.grounded(patch), GROUNDED, rows(patch) + 1.0)
    solid = rule.solid(patch)
    labels = labels if solid is None else xp.where(solid, SOLID, labels)
    return backend.lattice.least_of_connected(labels, links).T


def _spread(backend: Backend, _: int, patch: Patch, links: Links) -> Any:
    """Labels after all cells of a chunk have looked at the cells around them, and at each other: (nx, ny, nz)."""
    xp = patch.xp
    before = patch.own[LABELS]
    labels, around = before.copy(), patch.padded(LABELS, SOLID)
    for axis, side in product(range(3), (0, 1)):
        end = layer(axis, side)
        here = labels[end]
        beyond = around[layer(axis, side, slice(1, -1))]
        here[...] = xp.where(links[axis][end], xp.minimum(here, beyond), here)
    if bool((labels == before).all()):
        return labels.T
    return backend.lattice.least_of_connected(labels, links).T
