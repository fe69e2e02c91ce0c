"""Which cells hang together, and which of their regions nothing fixes: found where the cells are, chunk by chunk.

Every cell begins with a label of its own and takes the smallest of those that it is coupled to, inside the chunk as
often as it takes, then across chunks by exchanges, until nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from dsolver.coefficients import Coefficients
from dsolver.discretization import Patch, Rule
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.errors import InputError
from dsolver.kernels import Backend
from dsolver.kernels.contract import WAXPBY

GROUNDED: Final = 0.5
"""The label of regions whose solution is fixed: smaller than every cell's."""
SOLID: Final = 2.0**53
"""The label of cells that are left out: larger than every cell's."""
LABELS: Final = "labels"


@final
@dataclass(frozen=True, kw_only=True)
class FirstLabels:
    """The labels to begin with: the cell's row in the whole grid plus one, unless it is grounded or left out."""

    rule: Rule

    def __call__(self, _: Backend, number: int, patch: Patch) -> Any:
        """A block (nx, ny, nz)."""
        xp = patch.xp
        labels = xp.where(self.rule.grounded(patch), GROUNDED, _rows(patch) + 1.0)
        solid = self.rule.solid(patch)
        return (labels if solid is None else xp.where(solid, SOLID, labels)).T


@final
@dataclass(frozen=True, kw_only=True)
class Spread:
    """Labels after all cells of a chunk have looked at each other and at the cells around them."""

    rule: Rule

    def __call__(self, _: Backend, number: int, patch: Patch) -> Any:
        """A block (nx, ny, nz)."""
        xp = patch.xp
        labels = patch.own[LABELS]
        around = patch.padded(LABELS, SOLID)
        linked = [self.rule.linked(patch, axis) for axis in range(3)]
        for axis in range(3):
            for side in (0, 1):
                layer = [slice(1, -1)] * 3
                layer[2 - axis] = slice(0, 1) if side == 0 else slice(-1, None)
                end = [slice(None)] * 3
                end[2 - axis] = slice(0, 1) if side == 0 else slice(-1, None)
                here = labels[tuple(end)]
                here[...] = xp.where(linked[axis][tuple(end)], xp.minimum(here, around[tuple(layer)]), here)
        while True:
            before = labels.copy()
            for axis in range(3):
                _sweep(xp, labels, linked[axis], 2 - axis)
            if bool((labels == before).all()):
                return labels.T


@final
@dataclass(frozen=True, kw_only=True)
class Marked:
    """Ones where a label says so and zeros elsewhere.

    Attributes:
        what: "grounded" cells; those with the "first" label of a region that is not grounded; all cells of such, which
            are "floating".
    """

    what: str

    def __call__(self, _: Backend, number: int, patch: Patch) -> Any:
        """A block (nx, ny, nz)."""
        labels = patch.own[LABELS]
        if self.what == "grounded":
            marked = labels == GROUNDED
        elif self.what == "first":
            marked = labels == _rows(patch) + 1.0
        else:
            marked = (labels > GROUNDED) & (labels < SOLID)
        return marked.astype(np.float64).T


def floating(engine: Engine, coefficients: Coefficients, rule: Rule, *, connected: bool) -> PerChunk | None:
    """Blocks of ones on the region whose solution nothing fixes and zeros elsewhere; None where all are fixed.

    Args:
        engine: runs the kernels.
        coefficients: prepared.
        rule: of the rows.
        connected: whether all cells are known to hang together.

    Raises:
        InputError: there are several such regions.
    """
    labels, work = coefficients.field(), coefficients.field()
    coefficients.fill(labels, coefficients.per_chunk(FirstLabels(rule=rule)))

    def count(what: str) -> int:
        coefficients.fill(work, coefficients.per_chunk(Marked(what=what), {LABELS: labels}))
        return int(_square(engine, work))

    if connected:
        regions = 0 if count("grounded") else 1
    else:
        alone = len(engine.partition) == 1 and not any(engine.partition.periodic)
        while _changed(engine, coefficients, rule, labels, work) and not alone:
            pass
        regions = count("first")
    if regions > 1:
        raise InputError(
            f"{regions} regions of cells are connected neither to each other nor to a Dirichlet or Robin face, and "
            f"sigma is zero in them, so each has a constant of its own that nothing fixes: mask the small ones, which "
            f"scipy.ndimage.label finds, or give them a small sigma"
        )
    return coefficients.per_chunk(Marked(what="floating"), {LABELS: labels}) if regions else None


def _changed(engine: Engine, coefficients: Coefficients, rule: Rule, labels: Field, work: Field) -> bool:
    """Spread the labels once; whether that changed any."""
    halo = coefficients.exchanged(labels)
    coefficients.fill(work, coefficients.per_chunk(Spread(rule=rule), {LABELS: labels}, {LABELS: halo}))
    change = coefficients.field()
    engine.run(WAXPBY, 1.0, labels, -1.0, work, change)
    engine.copy(work, labels)
    return _square(engine, change) > 0.0


def _square(engine: Engine, x: Field) -> float:
    square = engine.scalar(0.0)
    engine.dot(x, x, engine.parts(), square)
    return engine.read(square)[0]


def _rows(patch: Patch) -> Any:
    """The number of each cell in the whole grid: float64 (nz, ny, nx)."""
    nx, ny, _ = patch.partition.grid
    x, y, z = (
        patch.xp.arange(low, high, dtype=np.float64) for low, high in zip(patch.box.lo, patch.box.hi, strict=True)
    )
    return x[None, None, :] + nx * (y[None, :, None] + ny * z[:, None, None])


def _sweep(xp: Any, labels: Any, linked: Any, along: int) -> None:
    """Carry small labels along an array axis, there and back."""
    cells, faces = xp.moveaxis(labels, along, 0), xp.moveaxis(linked, along, 0)
    count = len(cells)
    for here, there in [*((i, i - 1) for i in range(1, count)), *((i, i + 1) for i in range(count - 2, -1, -1))]:
        smaller = xp.minimum(cells[here], cells[there])
        cells[here] = xp.where(faces[max(here, there)], smaller, cells[here])
