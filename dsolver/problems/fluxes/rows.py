"""Rows of a diffusion problem from its fluxes, as a matrix of SciPy: complex ones, those of a flow and of tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError
from dsolver.kernels.general.look import CANCELED
from dsolver.problems.coefficient_names import HELD, LEAST_KAPPA, MASK, SIGMA
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.fluxes.coefficients import field_of, kappa_of
from dsolver.problems.fluxes.form import FluxForm
from dsolver.problems.fluxes.tensors import tensor_couplings

if TYPE_CHECKING:
    from dsolver.problems.fluxes.slabs import Slab
    from dsolver.problems.problem import Problem

ROUNDING: Final = 2.0**-46  # part of its terms that the diagonal of a full tensor's row cannot be told from zero below


@dataclass(frozen=True, kw_only=True)
class Anchors:
    """Findings about rows, for those who do not have them."""

    feeds: bool  # whether something is added to right-hand sides
    anchored: bool  # whether a column adds up to more than zero, by σ, a face of the grid or a fixed cell
    balanced: bool  # whether every row adds up to zero
    alone: int  # cells without a neighbor, where nothing fixes u


@dataclass(frozen=True, kw_only=True)
class FluxRows:
    """Rows of a problem on a grid, or of a slab of it."""

    matrix: Any  # a CSR array of SciPy
    # float64 (rows,), by which sources are multiplied: zero where cells are no unknowns, or alone.
    volumes: npt.NDArray[np.float64]
    right: npt.NDArray[Any] | None  # (rows,), what is added to right-hand sides; None for nothing
    loose: npt.NDArray[np.bool_]  # bool (rows,), whether nothing but couplings of unknowns is in a row's diagonal
    alone: npt.NDArray[np.bool_]  # bool (rows,), cells without a neighbor, where nothing fixes u: it is 0 there

    def of_slab(self, slab: Slab) -> FluxRows:
        """A slab's own rows, with the numbers of the whole grid for columns."""
        own = slice(slab.own.start, slab.own.stop)
        numbers = (slab.layers[:, None] * slab.layer + np.arange(slab.layer)).ravel()
        rows = self.matrix[own]
        places = (rows.data, numbers[rows.indices], rows.indptr)
        made = import_module("scipy.sparse").csr_array(places, shape=(len(slab.own), math.prod(slab.grid)))
        made.sum_duplicates()
        right = None if self.right is None else self.right[own]
        loose, alone = self.loose[own], self.alone[own]
        return FluxRows(matrix=made, volumes=self.volumes[own], right=right, loose=loose, alone=alone)

    @property
    def has_closed_pieces(self) -> bool:
        """Whether some unknowns are coupled with each other alone, and nothing fixes them."""
        count, piece = import_module("scipy.sparse.csgraph").connected_components(abs(self.matrix), directed=False)
        return len(np.unique(piece[~self.loose | (self.volumes == 0.0)])) < count

    @property
    def anchors(self) -> Anchors:
        """Findings about them."""
        sums, sizes = (np.asarray(each.sum(axis=1)).ravel() for each in (self.matrix, abs(self.matrix)))
        unknown = self.volumes > 0.0
        return Anchors(
            feeds=self.right is not None and bool(self.right.any()),
            anchored=bool((unknown & ~self.loose).any()),
            balanced=bool((abs(sums) <= CANCELED * sizes)[unknown].all()),
            alone=int(self.alone.sum()),
        )


def flux_rows(problem: Problem) -> FluxRows:
    """The rows of a problem on a grid. InputError: a coefficient makes no sense."""
    assert isinstance(problem.rule, Diffusion)
    form, kappa, sigma = FluxForm(problem, np, np.asarray), kappa_of(problem), problem.rule.sigma
    sigma = field_of(problem, SIGMA) if sigma is None else sigma
    if not problem.complex:
        _check_signs(problem, kappa, sigma)
    numbers = np.complex128 if problem.complex else np.float64
    volumes = np.broadcast_to(form.volumes(), problem.grid)
    with np.errstate(all="ignore"):
        added = np.where(volumes > 0.0, volumes * sigma, 0.0).astype(numbers)
        right: Any = None
        couplings: _Couplings | None
        if problem.rule.cross:
            couplings, fed = _of_tensors(problem, added)
            right = fed if form.fed else None
        else:
            right = form.right_hand_side(kappa, np.zeros(problem.grid, dtype=numbers)) if form.fed else None
            for where, faces in form.ends(kappa):
                added[where] += faces
            couplings = None if _is_star(problem) else _of_faces(form, kappa, added.copy())
        unheld: Any = True
        if couplings is None:
            rows, closed = _star_rows(form, kappa, added.copy())
        else:
            unheld = True if form.held is None else ~couplings.beside(form.held)
            rows, right, closed = _rows(problem, form.held, couplings, right)
    alone = closed & (volumes > 0.0)
    volumes = np.where(alone, 0.0, volumes)
    right = None if right is None else np.where(alone, 0.0, right)
    if not np.isfinite(rows.data).all() or (right is not None and not np.isfinite(right).all()):
        raise InputError(
            "kappa and sigma must be finite, and kappa such that none of it, nor the sum of two neighbors, "
            "is 0: mend their values, or leave such cells out with mask="
        )
    loose = unheld & ~alone & (abs(added) <= CANCELED * abs(rows.diagonal()).reshape(problem.grid))
    if form.held is not None:
        volumes = np.where(form.held, 0.0, volumes)
    return FluxRows(
        matrix=rows,
        volumes=np.ascontiguousarray(volumes).ravel(),
        right=None if right is None else right.ravel(),
        loose=loose.ravel(),
        alone=alone.ravel(),
    )


@dataclass(frozen=True, kw_only=True)
class _Couplings:
    """Entries of rows beside the diagonal, which is of the grid's shape, as are cells left out or closed all around."""

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    entries: npt.NDArray[Any]
    diagonal: npt.NDArray[Any]
    closed: npt.NDArray[np.bool_]

    def beside(self, held: Any) -> npt.NDArray[np.bool_]:
        """Cells with a neighbor where u is held."""
        found = np.zeros(held.size, dtype=np.bool_)
        found[self.rows[held.ravel()[self.columns]]] = True
        return found.reshape(held.shape)


def _of_faces(form: FluxForm, kappa: Any, diagonal: Any) -> _Couplings:
    """Couplings through faces; diagonal: what σ and faces of the grid have added to it, which becomes the whole."""
    numbers = np.arange(diagonal.size).reshape(diagonal.shape)
    none = np.zeros(0, dtype=np.int64)  # all that a single cell has
    here, there, values = [none], [none], [none.astype(diagonal.dtype)]
    for low, high, a, b in form.couplings(kappa):
        diagonal[low] += a
        diagonal[high] += b
        for one, other, coupling in ((low, high, b), (high, low, a)):
            here.append(numbers[one].ravel())
            there.append(numbers[other].ravel())
            values.append(-np.broadcast_to(coupling, numbers[one].shape).ravel())
    rows, columns, entries = (np.concatenate(parts) for parts in (here, there, values))
    closed = diagonal == 0.0
    closed.reshape(-1)[rows[entries != 0.0]] = False  # couplings of a flow may cancel on a diagonal
    return _Couplings(rows=rows, columns=columns, entries=entries, diagonal=diagonal, closed=closed)


def _is_star(problem: Problem) -> bool:
    """Whether a row's columns have one order in all of the grid: nothing goes around, and no u is known."""
    rule = problem.rule
    assert isinstance(rule, Diffusion)
    return not (rule.fixed or rule.cross or any(rule.boundary.periodic))


def _star_rows(form: FluxForm, kappa: Any, diagonal: Any) -> tuple[Any, npt.NDArray[np.bool_]]:
    """Rows of A, a CSR array of SciPy, of such a problem, and where cells are closed; diagonal: as of `_of_faces`.

    Entries lie in the order of columns as they are made: sorting those of all rows takes as long as making them.
    """
    grid, size = diagonal.shape, diagonal.size
    strides = np.array([grid[1] * grid[2], grid[2], 1])
    offsets = np.concatenate([-strides, [0], strides[::-1]])
    entries = np.zeros((len(offsets), *grid), dtype=diagonal.dtype)
    axes = [axis for axis, n in enumerate(grid) if n > 1]
    for axis, (low, high, a, b) in zip(axes, form.couplings(kappa), strict=True):
        diagonal[low] += a
        diagonal[high] += b
        entries[-1 - axis][low] = -b
        entries[axis][high] = -a
    closed = (diagonal == 0.0) & ~entries.any(axis=0)  # as in `_of_faces`
    diagonal[closed] = 1.0
    entries[3] = diagonal
    entries = entries.reshape(len(offsets), size).T
    kept = entries != 0.0
    kind = np.int32 if entries.size < 2**31 else np.int64
    columns = np.arange(size, dtype=kind)[:, None] + offsets.astype(kind)
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(kind)
    return import_module("scipy.sparse").csr_array((entries[kept], columns[kept], starts), shape=(size, size)), closed


def _of_tensors(problem: Problem, added: Any) -> tuple[_Couplings, npt.NDArray[np.float64]]:
    """Couplings of full tensors, and what faces add to b; `added` by σ becomes what does not cancel in a row's sum."""
    found = tensor_couplings(problem)
    numbers = np.arange(added.size).reshape(added.shape)
    parts = []
    diagonal = found.weights[0, 0, 0] + added
    diagonal[abs(diagonal) <= ROUNDING * found.sizes] = 0.0  # of a cell without a neighbor
    added += sum(found.weights.values())
    for offset, weights in found.weights.items():
        if any(offset):
            there = np.roll(numbers, [-step for step in offset], axis=(0, 1, 2))
            kept = weights != 0.0
            parts.append((numbers[kept], there[kept], weights[kept]))
    rows, columns, entries = (np.concatenate(each) for each in zip(*parts, strict=True))
    closed = diagonal == 0.0
    return _Couplings(rows=rows, columns=columns, entries=entries, diagonal=diagonal, closed=closed), found.right


def _rows(problem: Problem, held_at: Any, couplings: _Couplings, right: Any) -> tuple[Any, Any, npt.NDArray[np.bool_]]:
    """Rows of A, a CSR array of SciPy, what is added to right-hand sides, None for nothing, and where cells are closed.

    Cells that are left out, held or closed all around have a row of their diagonal alone.
    """
    numbers, diagonal = np.arange(math.prod(problem.grid)).reshape(problem.grid), couplings.diagonal
    rows, columns, entries, closed = couplings.rows, couplings.columns, couplings.entries, couplings.closed
    diagonal[closed] = 1.0
    if held_at is not None:
        closed &= ~held_at
        right = np.zeros_like(diagonal) if right is None else right
        held, known = held_at.ravel(), np.where(held_at, _held_values(problem), 0.0)
        fed = held[columns] & ~held[rows]
        np.add.at(right.reshape(-1), rows[fed], -entries[fed] * known.ravel()[columns[fed]])
        beside = np.zeros(diagonal.shape)  # of the size of neighbors, so that b is
        np.add.at(beside.reshape(-1), columns[fed], abs(entries[fed]))
        beside = np.ldexp(1.0, np.frexp(beside)[1]) * (beside > 0.0)  # powers of two, which rounding spares
        diagonal[held_at] = np.where(beside == 0.0, 1.0, beside)[held_at]
        right[held_at] = (diagonal * known)[held_at]
        open_too = ~(held[rows] | held[columns])
        rows, columns, entries = rows[open_too], columns[open_too], entries[open_too]
    entries = np.concatenate([entries, diagonal.ravel()])
    places = (np.concatenate([rows, numbers.ravel()]), np.concatenate([columns, numbers.ravel()]))
    made = import_module("scipy.sparse").csr_array((entries, places), shape=(numbers.size, numbers.size))
    made.sum_duplicates()
    made.eliminate_zeros()
    return made, right, closed


def _held_values(problem: Problem) -> Any:
    assert isinstance(problem.rule, Diffusion)
    return field_of(problem, HELD) if problem.rule.held is None else problem.rule.held


def _check_signs(problem: Problem, kappa: Any, sigma: Any) -> None:
    """Refuse κ that is not positive and σ that is negative, outside of cells that are left out; raises InputError."""
    assert isinstance(problem.rule, Diffusion)
    solid = field_of(problem, MASK) != 0.0 if problem.rule.mask else np.zeros(1, dtype=np.bool_)
    for what, good in (
        (f"kappa must be positive, {LEAST_KAPPA:g} or more", [np.asarray(along) >= LEAST_KAPPA for along in kappa]),
        ("sigma must not be negative", [np.asarray(sigma) >= 0.0]),
    ):
        if not all((each | solid).all() for each in good):
            raise InputError(f"{what}: mend its values, or leave such cells out with mask=")
