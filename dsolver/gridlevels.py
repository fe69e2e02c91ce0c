"""A chunk of one level: its matrix in storage order, and what it exchanges for it; made from its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

from dsolver.grids import colored, halo_layout, own_number, stencil_rows
from dsolver.kernels.backend import Backend
from dsolver.kernels.coarsening import NEGLIGIBLE
from dsolver.kernels.layout import HaloLayout, Layout
from dsolver.kernels.stencil import ConstantStencil
from dsolver.partition import Offsets, Partition

AtLevel = tuple[Any, ...]
"""What is made for a level, at the level's number: engines tell people the number of what an operation belongs to."""


def at_level(depth: int, *made: Any) -> AtLevel:
    """What is made for a level and for those that follow it."""
    return (*(None,) * depth, *made)


@final
@dataclass(frozen=True, kw_only=True)
class GridLevel:
    """One level of one chunk.

    Attributes:
        layout: the storage order of its rows.
        matrix: the local part of its rows, in the backend's form.
        halo: what it exchanges when A is applied.
        halo_matrix: what multiplies that halo.
    """

    layout: Layout
    matrix: Any
    halo: HaloLayout
    halo_matrix: Any


@final
@dataclass(frozen=True, kw_only=True)
class MakeLayout:
    """Makes the storage order of a chunk's rows."""

    partition: Partition
    offsets: Offsets

    def __call__(self, backend: Backend, number: int) -> Layout:
        """The layout of a chunk; of the only one where a level lives whole on every owner."""
        return colored(backend, self.partition, self.partition[own_number(self.partition, number)].box, self.offsets)


@final
@dataclass(frozen=True, kw_only=True)
class MakeLevel:
    """Makes a level of a chunk from its rows."""

    depth: int
    partition: Partition
    offsets: Offsets

    def __call__(
        self, backend: Backend, number: int, layout: Layout, weights: Any, stencil: ConstantStencil | None = None
    ) -> AtLevel:
        """The `GridLevel` of a chunk: weights (K rows,), offset after offset, or (K,); what they are, if not stored."""
        backend.tidy()
        number = own_number(self.partition, number)
        rows = stencil_rows(backend, self.partition, number, self.offsets, weights)
        made = GridLevel(
            layout=layout,
            matrix=backend.matrix(layout, rows, None) if stencil is None else backend.constant_matrix(stencil),
            halo=halo_layout(backend, layout, self.partition, number, self.offsets),
            halo_matrix=backend.halo_matrix(layout, rows),
        )
        backend.synchronize()
        return at_level(self.depth, made)


@final
@dataclass(frozen=True, kw_only=True)
class RaisedRows:
    """Makes rows whose diagonal is multiplied by factors."""

    offsets: Offsets

    def __call__(self, _: Backend, __: int, weights: Any, factors: Any) -> Any:
        """float64 (K rows,), of weights likewise and a block of factors."""
        made = weights.copy()
        made.reshape(len(self.offsets), -1)[self.offsets.index((0, 0, 0))] *= factors.T.reshape(-1)
        return made


def raised_level(backend: Backend, _: int, level: GridLevel, factors: Any) -> AtLevel:
    """The finest level of a chunk likewise. The other entries are those of the level that is given."""
    return at_level(0, replace(level, matrix=backend.scale_diagonal(level.matrix, factors)))


@final
@dataclass(frozen=True, kw_only=True)
class MakeInverse:
    """Makes the inverse of a level that is one chunk; of a singular one, with the constant fixed."""

    depth: int
    partition: Partition
    offsets: Offsets
    singular: bool

    def __call__(self, backend: Backend, _: int, layout: Layout, weights: Any) -> AtLevel:
        """A `DenseInverse`."""
        rows = stencil_rows(backend, self.partition, 0, self.offsets, weights)
        matrix = backend.dense_matrix(rows)
        inverse = backend.dense_inverse(layout, fixed(matrix) if self.singular else matrix)
        backend.synchronize()
        return at_level(self.depth, inverse)


def fixed(matrix: Any) -> Any:
    """A matrix A with A 1 = 0 and d dᵀ / Σd added to it, where d is its diagonal.

    It can be inverted, to QᵀGQ + 1 1ᵀ / Σd with A G A = A and Q = I - d 1ᵀ / Σd. A residual of a singular system sums
    to zero but for rounding, which rows with large entries make: Q takes it from these. Were one unknown set to zero
    instead, or the same taken from all rows, those with couplings 10⁶ times smaller would make a large solution of it,
    and conjugate gradients would end far from what float64 can reach.

    Rows without couplings, of cells that are left out, have no part in that.

    Args:
        matrix: float64 (n, n), of NumPy or CuPy.
    """
    diagonal = matrix.diagonal()
    coupled = abs(matrix).sum(axis=1) - abs(diagonal) > NEGLIGIBLE * abs(diagonal)
    if bool(coupled.any()):
        diagonal = diagonal * coupled
    root = diagonal / diagonal.sum() ** 0.5
    return matrix + root[:, None] * root
