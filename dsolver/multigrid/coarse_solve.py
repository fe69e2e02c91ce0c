"""The coarsest level of a hierarchy: solved with a stored inverse."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dsolver.engines.base import Field
from dsolver.grid.box import Offsets
from dsolver.grid.numbering import stencil_rows
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend
from dsolver.kernels.contract import DENSE_SOLVE
from dsolver.kernels.formats.dense import DenseInverse
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.lattice.coarsening import NEGLIGIBLE
from dsolver.multigrid.level import AtLevel, Level, at_level

if TYPE_CHECKING:
    from dsolver.multigrid.algebraic.rows.level_rows import LevelRows

NULL: Final = 1e-12
"""Eigenvalue of a matrix with ones on the diagonal below which its vector counts as one of the null space."""
TRUSTED: Final = 1e-4  # part of 1 / `NULL` up to which a sum of reciprocal eigenvalues is believed


class Coarsest(ABC):
    """The end of a cycle, on its coarsest level."""

    @abstractmethod
    def apply(self, r: Field, x: Field) -> None:
        """x = A⁻¹ r, or what takes its place."""


class CoarseSolve(Coarsest):
    """The solution on a level that has an inverse."""

    def __init__(self, level: Level) -> None:
        assert level.inverse is not None
        self._engine, self._inverse = level.engine, level.inverse

    def apply(self, r: Field, x: Field) -> None:
        """x = A⁻¹ r."""
        self._engine.run(DENSE_SOLVE, self._inverse, r, x)


class CoarseSweeps(Coarsest):
    """Smoothing in place of a solution, on a last level that has no inverse: one whose rows are hardly coupled."""

    def __init__(self, level: Level) -> None:
        self._engine, self._smoother = level.engine, level.smoother()

    def apply(self, r: Field, x: Field) -> None:
        """x = S r, and Sᵀ after it."""
        self._smoother.before(r, x)
        y = self._smoother.corrected(x)
        if y is not x:
            self._engine.copy(x, y)
        self._smoother.after(r, x)


def coarsest(level: Level) -> Coarsest:
    """Solution, or what takes its place, on the last level."""
    return CoarseSweeps(level) if level.inverse is None else CoarseSolve(level)


def lattice_inverse(
    backend: Backend,
    _: int,
    layout: Layout,
    weights: Any,
    *,
    depth: int,
    partition: Partition,
    offsets: Offsets,
    singular: bool,
) -> AtLevel:
    """The `DenseInverse` of a level that is one chunk; singular: whether constants are in its null space."""
    matrix = backend.dense.matrix(stencil_rows(backend, partition, 0, offsets, weights))
    inverse = _told(backend.dense.inverse(layout, regularized(matrix) if singular else matrix), matrix)
    backend.synchronize()
    return at_level(depth, inverse)


def rows_inverse(backend: Backend, _: int, layout: Layout, rows: "LevelRows", *, depth: int, singular: bool) -> AtLevel:
    """The `DenseInverse` of a level of one chunk; singular: constants are in its null space, where rows say nothing."""
    dense, symmetric = backend.dense.of_rows(rows.a), rows.full is None
    if not rows.near.shape[1]:
        made = regularized(dense) if singular else dense
        inverse = backend.dense.inverse(layout, made, symmetric=symmetric)
        # Without symmetry scales of rows and columns make small pivots, too.
        return at_level(depth, _told(inverse, dense) if symmetric else inverse)
    told = None
    if symmetric:
        inverse = _told(backend.dense.inverse(layout, dense), dense)
        if surely_definite(dense, inverse.values):
            return at_level(depth, inverse)
        told = inverse.diagonals
    made = without_null_vectors(backend.to_host(dense))
    return at_level(depth, replace(backend.dense.inverse(layout, made, symmetric=symmetric), diagonals=told))


def _told(inverse: DenseInverse, matrix: Any) -> DenseInverse:
    """An inverse with its diagonal and its matrix', where these lie: none of a set-up waits for what they tell."""
    return replace(inverse, diagonals=(matrix.diagonal().copy(), inverse.values.diagonal().copy()))


def regularized(matrix: Any) -> Any:
    """A matrix A with A 1 = 0 and d dᵀ / Σd added to it, where d is its diagonal.

    It can be inverted, to QᵀGQ + 1 1ᵀ / Σd with A G A = A and Q = I - d 1ᵀ / Σd. A residual of a singular system sums
    to zero but for rounding, which rows with large entries make: Q takes it from these. Were one unknown set to zero
    instead, or the same taken from all rows, those with couplings 10⁶ times smaller would make a large solution of it,
    and conjugate gradients would end far from what float64 can reach.

    Rows without couplings, of cells that are left out, have no part in that.
    """
    diagonal = matrix.diagonal()
    coupled = abs(matrix).sum(axis=1) - abs(diagonal) > NEGLIGIBLE * abs(diagonal)
    if bool(coupled.any()):
        diagonal = diagonal * coupled
    root = diagonal / diagonal.sum() ** 0.5
    return matrix + root[:, None] * root


def surely_definite(matrix: Any, inverse: Any) -> bool:
    """Whether D^-½ A D^-½ certainly has no eigenvalue below `NULL`, D being the diagonal of A.

    Each is more than one over the sum of their reciprocals, which is the trace of D^½ A⁻¹ D^½. To find them would take
    longer. The sum is believed as long as rounding cannot be much of it.

    `inverse`: (n, n) of `dsolver.kernels.formats.dense.DenseInverse`, where the matrix lies. Zero in rows of which that
    made nothing.
    """
    parts = matrix.diagonal() * inverse.diagonal()
    return bool((parts > 0.0).all() & (parts.sum() < TRUSTED / NULL))


def without_null_vectors(matrix: Any) -> Any:
    """A matrix A with D^½ N Nᵀ D^½ added, where N is the null space of D^-½ A D^-½; without symmetry, singular vectors.

    The inverse acts on what A reaches as that of A does. Vectors whose eigenvalues are less than `NULL` count as null:
    the sum gives them 1 instead, and conjugate gradients find each of them in an iteration.
    """
    root = np.sqrt(matrix.diagonal())
    scaled = matrix / root[:, None] / root
    if (matrix == matrix.T).all():
        values, left = np.linalg.eigh(scaled)
        right = left.T
    else:
        left, values, right = np.linalg.svd(scaled)
    null = values < NULL
    return matrix + (root[:, None] * left[:, null]) @ (right[null] * root)
