"""Connected components of cells, and which of them are closed: found where the cells are, chunk by chunk.

Closed components, called regions, touch no boundary that fixes the solution and have no σ. Every cell begins with a
label of its own and takes the smallest of those that it is connected with inside its chunk, then across chunks by
exchanges, until nothing changes.
"""

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from dsolver.discretize.coefficients import Coefficients
from dsolver.distributed.nullspace import dots
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.lattice.components import SOLID, Numbering
from dsolver.kernels.reductions import Groups
from dsolver.kernels.views import layer
from dsolver.problems.cell_arrays import sizes_of
from dsolver.problems.discretization import Patch, Rule
from dsolver.problems.finite_volumes import Diffusion

LABELS: Final = "labels"


@dataclass(frozen=True, kw_only=True)
class ClosedCells:
    """Cells of a chunk in closed regions."""

    closed: Any  # bool (nz, ny, nx), which they are
    among: int  # how many they are
    free: int  # how many others are not left out


def is_grounded(engine: Engine, coefficients: Coefficients, rule: Rule) -> bool:
    """Whether there is a cell that is grounded."""
    work = coefficients.field()
    coefficients.fill(work, coefficients.per_chunk(partial(_grounded, rule=rule)))
    return dots(engine, engine.partial_sums(), (work, work))[0] > 0.0


def labelled(engine: Engine, coefficients: Coefficients, rule: Diffusion) -> PerChunk:
    """The labels of every chunk's cells, (nz, ny, nx): of closed regions, the number of their first cell plus one."""
    labels = coefficients.per_chunk(partial(_first_labels, rule=rule))
    alone = len(engine.partition) == 1 and not any(engine.partition.periodic)
    changed = not alone
    while changed:
        field = coefficients.field()
        coefficients.fill(field, engine.per_chunk(_as_block, labels))
        around = {LABELS: coefficients.exchanged(field)}
        spread = coefficients.per_chunk(_spread, {LABELS: field}, around, operands=(labels,))
        labels, changed = spread.at(0), engine.sums(spread.at(1))[0] > 0.0
    return labels


def seen(engine: Engine, labels: PerChunk) -> tuple[PerChunk, list[tuple[float, ...]]]:
    """The `ClosedCells` of every chunk; and by chunk how many these are, and how many others not left out."""
    found = engine.per_chunk(_seen, labels)
    return found, engine.known(engine.per_chunk(_counts, found))


def kept(engine: Engine, coefficients: Coefficients, rule: Diffusion) -> list[int]:
    """The number of cells of each chunk that are not left out; `seen` tells, too."""
    counts = engine.known(coefficients.per_chunk(partial(_kept, rule=rule)))
    return [int(count) for (count,) in counts]


def numbering(patch: Patch) -> Numbering:
    """The numbers of a chunk's cells in the whole grid."""
    (nx, ny, _), (x, y, z) = patch.partition.grid, patch.box.lo
    return x + nx * (y + ny * z), nx, nx * ny


def _grounded(_: Backend, __: int, patch: Patch, *, rule: Rule) -> Any:
    """Ones where a cell's row is grounded by itself and zeros elsewhere: a block (nx, ny, nz)."""
    return rule.grounded(patch).astype(np.float64).T


def _kept(_: Backend, __: int, patch: Patch, *, rule: Diffusion) -> tuple[float]:
    """The number of cells that are not left out."""
    solid = rule.solid(patch)
    assert solid is not None
    return (float((~solid).astype(np.float64).sum()),)  # CuPy compiles sums of bool for seconds


def _seen(backend: Backend, _: int, labels: Any) -> ClosedCells:
    closed, counts = backend.lattice.labels_seen(labels)
    among, free = backend.to_host(counts).tolist()
    return ClosedCells(closed=closed, among=int(among), free=int(free))


def _counts(_: Backend, __: int, found: ClosedCells) -> tuple[float, float]:
    return float(found.among), float(found.free)


def _as_block(_: Backend, __: int, labels: Any) -> Any:
    return labels.T


def _first_labels(backend: Backend, _: int, patch: Patch, *, rule: Diffusion) -> Any:
    """Labels after all cells of a chunk have looked at each other: float64 (nz, ny, nx)."""
    solid = rule.solid(patch)
    assert solid is not None
    return backend.lattice.first_labels(rule.grounded(patch), solid, numbering(patch))


def _spread(backend: Backend, _: int, patch: Patch, before: Any) -> tuple[Any, tuple[float]]:
    """Labels after all cells of a chunk have looked at the cells around them, and at each other; 1 if any has changed.

    `before`: what they are, as the patch has them, too.
    """
    xp = patch.xp
    labels, around = before.copy(), patch.padded(LABELS, SOLID)
    for axis, side in product(range(3), (0, 1)):
        end = layer(axis, side)
        here = labels[end]
        beyond = around[layer(axis, side, slice(1, -1))]
        here[...] = xp.where(here < SOLID, xp.minimum(here, beyond), here)
    if bool((labels == before).all()):
        return before, (0.0,)
    return backend.lattice.least_of_connected(labels), (1.0,)


@dataclass(frozen=True, kw_only=True)
class RegionCells:
    """The cells of one chunk in closed regions, which are numbered in the order of their labels."""

    cells: Any  # int32 (cells,), numbers in lattice order, region after region
    volumes: Any  # float64 (cells,), of each
    groups: Groups  # which region they are of; its keys are the labels
    begun: Any  # float64 (regions,), 1 for a region whose first cell is here, so that each counts once; else 0
    beyond: Any  # int (shared regions,), those with a cell that is coupled to one in another chunk


def members_of(
    backend: Backend, _: int, patch: Patch, labels: Any, found: ClosedCells, *, rule: Diffusion, several: bool
) -> RegionCells:
    """A chunk's cells in closed regions, by their labels (nz, ny, nx); several: whether there are other chunks."""
    xp, closed = patch.xp, backend.lattice.places(found.closed, found.among)
    order, groups = backend.lattice.grouped(labels.reshape(-1)[closed])
    places = closed[order]
    begun, beyond = xp.ones(len(groups.keys)), xp.zeros(0, dtype=np.int64)
    if several:
        begun = (_numbers(patch, places[groups.starts]) + 1.0 == groups.keys).astype(np.float64)
        shared = xp.zeros(len(groups.keys), dtype=np.bool_)
        shared[groups.of[rule.coupled_beyond(patch).reshape(-1)[places]]] = True
        beyond = xp.flatnonzero(shared)
    z, y, x = sizes_of(rule.cells, patch, places)
    return RegionCells(
        cells=places, volumes=xp.full(len(places), 1.0) * (z * y * x), groups=groups, begun=begun, beyond=beyond
    )


def _numbers(patch: Patch, cells: Any) -> Any:
    """Numbers in the whole grid of some cells by their numbers in the chunk: float64 (cells,)."""
    (_, ny, nx), (first, along_y, along_z) = patch.shape, numbering(patch)
    line = (cells // nx).astype(np.int64)
    return first + (cells % nx + along_y * (line % ny) + along_z * (line // ny)).astype(np.float64)
