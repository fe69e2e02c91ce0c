"""Slabs of a grid along x with a layer of cells on both sides: problems whose inner rows are those of the grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Array
from dsolver.problems.boundaries.boundary import Boundary
from dsolver.problems.boundaries.conditions import Condition, Neumann
from dsolver.problems.coefficient_names import VELOCITY
from dsolver.problems.coordinates import Cells
from dsolver.problems.discretization import evaluated
from dsolver.problems.finite_volumes import Diffusion

if TYPE_CHECKING:
    from dsolver.problems.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Slab:
    """A range of layers of cells."""

    grid: tuple[int, int, int]
    first: int
    last: int
    below: int  # layers of others that come with it before the first: 0 or 1
    above: int  # the same, behind the last

    @property
    def layers(self) -> npt.NDArray[np.int64]:
        """Numbers of its layers, those of others at both ends."""
        return np.arange(self.first - self.below, self.last + self.above) % self.grid[0]

    @property
    def layer(self) -> int:
        """Rows of a layer."""
        return self.grid[1] * self.grid[2]

    @property
    def own(self) -> range:
        """Numbers of its own rows among those that come with it."""
        first = self.below * self.layer
        return range(first, first + (self.last - self.first) * self.layer)

    @property
    def rows(self) -> int:
        """Number of its own rows."""
        return len(self.own)

    def arrays(self, problem: Problem) -> dict[str, Array]:
        """Parts of a problem's arrays in the slab."""
        faces = np.arange(self.first - self.below, self.last + self.above + 1)
        faces = faces % self.grid[0] if self.first < self.below or self.last + self.above > self.grid[0] else faces
        found = {}
        for name, values in problem.coefficients.items():
            values = values.data if hasattr(values, "dims") else values
            longer = name == VELOCITY[0] and values.shape[0] > self.grid[0]
            found[name] = values[faces if longer else self.layers]
        return found


def slabs(problem: Problem, count: int) -> list[Slab]:
    """Slabs of about as many layers each: as many as wanted, or as there are layers."""
    rule, n = problem.rule, problem.grid[0]
    assert isinstance(rule, Diffusion)
    count = min(count, n)
    bounds, wraps = [n * part // count for part in range(count + 1)], rule.boundary.periodic[0] and count > 1
    return [
        Slab(grid=problem.grid, first=first, last=last, below=int(wraps or first > 0), above=int(wraps or last < n))
        for first, last in pairwise(bounds)
    ]


def slab_of(problem: Problem, slab: Slab, arrays: Mapping[str, Array]) -> Problem:
    """The problem on a slab; arrays: its parts of the problem's. Where it goes on nothing flows through its ends."""
    rule, layers = problem.rule, slab.layers
    assert isinstance(rule, Diffusion)
    points = [rule.cells.centers(axis) for axis in range(3)]
    points[0] = points[0][layers]
    x, y, z = (along.reshape([-1 if a == b else 1 for b in range(3)]) for a, along in enumerate(points))
    grid = (len(layers), *problem.grid[1:])
    made = {name: evaluated(np, name, function, (x, y, z), grid) for name, function in rule.functions.items()}
    sizes = rule.cells.sizes
    start = float(points[0][0] - 0.5 * sizes[0][layers[0]])
    cells = Cells(sizes=(sizes[0][layers], *sizes[1:]), starts=(start, *rule.cells.starts[1:]))
    conditions = [
        Neumann()
        if axis == 0 and (slab.above if side else slab.below)
        else _cut(rule.boundary.at(axis, side), axis, layers)
        for axis in range(3)
        for side in (0, 1)
    ]
    boundary = Boundary(tuple(conditions))
    return replace(
        problem,
        grid=grid,
        chunks=None,
        rule=replace(rule, grid=grid, cells=cells, boundary=boundary, functions={}),
        coefficients={**arrays, **made},
    )


def _cut(condition: Condition, axis: int, layers: npt.NDArray[np.int64]) -> Condition:
    """A condition at the part of a face that a slab has."""
    if axis == 0 or not any(isinstance(value, np.ndarray) for value in condition.values.values()):
        return condition
    values = {name: v[layers] if isinstance(v, np.ndarray) else v for name, v in condition.values.items()}
    return type(condition)(**values)
