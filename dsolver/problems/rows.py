"""Rows of a problem on a grid as a sparse matrix of SciPy, in the order of numpy.ravel."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition
from dsolver.kernels import load
from dsolver.problems.coefficient_names import MASK
from dsolver.problems.discretization import Patch, Rule, evaluated
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.fluxes.rows import flux_rows

if TYPE_CHECKING:
    from dsolver.problems.problem import Problem


def rows_of(problem: Problem) -> Any:
    """Rows of A, a CSR array of SciPy. InputError: a coefficient makes no sense."""
    if problem.by_fluxes:
        return flux_rows(problem).matrix
    if problem.rule is None:
        values = np.asarray(problem.weights)[:, None]
    else:
        values = problem.rule.weights(_whole(problem, problem.rule))
    x, y, z = problem.grid
    numbers = np.arange(x * y * z).reshape(problem.grid)
    rows, columns, entries = [], [], []
    for offset, weights in zip(problem.offsets, values, strict=True):
        whole = np.broadcast_to(weights, numbers.size).reshape(z, y, x).T
        there = np.roll(numbers, [-step for step in offset], axis=(0, 1, 2))
        kept = _inside(problem, offset) & ((whole != 0.0) | (offset == (0, 0, 0)))
        rows.append(numbers[kept])
        columns.append(there[kept])
        entries.append(whole[kept])
    found = tuple(map(np.concatenate, (entries, rows, columns)))
    made = import_module("scipy.sparse").csr_array((found[0], found[1:]), shape=(numbers.size, numbers.size))
    made.sum_duplicates()
    return made


def _whole(problem: Problem, rule: Rule) -> Patch:
    """The coefficients of the whole grid."""
    partition, backend = Partition(problem.grid, (1, 1, 1), problem.periodic), load("numpy")
    box = partition[0].box
    arrays = {name: v.get() if hasattr(v, "get") else v for name, v in problem.coefficients.items()}
    own = {name: _lattice_order(np.asarray(values)) for name, values in arrays.items()}
    if isinstance(rule, Diffusion):
        for name, function in rule.functions.items():
            own[name] = _lattice_order(evaluated(np, name, function, rule.centers(np, box), box.shape))

    def patch(halos: dict[str, Any]) -> Patch:
        return Patch(backend=backend, partition=partition, number=0, own=own, halos=halos, offsets=problem.offsets)

    own |= {name: np.ascontiguousarray(rule.prepared(patch({}), name)) for name in rule.exchanged}
    own.pop(MASK, None)
    return patch({name: np.empty(0) for name in rule.exchanged})


def _lattice_order(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(values.T, dtype=np.float64)


def _inside(problem: Problem, offset: Triple) -> npt.NDArray[np.bool_]:
    """Points whose neighbor at an offset is in the grid, or around its end."""
    inside = np.ones(problem.grid, dtype=np.bool_)
    for axis, step in enumerate(offset):
        if step and not problem.periodic[axis]:
            at = np.arange(problem.grid[axis]) + step
            good = (at >= 0) & (at < problem.grid[axis])
            inside &= good.reshape([-1 if other == axis else 1 for other in range(3)])
    return inside
