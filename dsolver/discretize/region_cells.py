"""Cells of a chunk in closed regions."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dsolver.discretize.components import ClosedCells, numbering
from dsolver.kernels import Backend
from dsolver.kernels.reductions import Groups
from dsolver.problems.cell_arrays import sizes_of
from dsolver.problems.discretization import Patch
from dsolver.problems.finite_volumes import Diffusion


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
