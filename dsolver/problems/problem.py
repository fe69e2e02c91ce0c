"""A linear system on a grid: what all kinds of it have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dsolver.errors import InputError
from dsolver.kernels.backend import StencilRows
from dsolver.numbering import numbering
from dsolver.partition import BOX_OFFSETS, Box, Cut, Flags, Offsets, Partition, Triple, cut_of, three
from dsolver.rules import CellRule, Patch, Rule


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A linear system on a grid. Make it with a function of `dsolver.problems`.

    Attributes:
        name: for reports.
        grid: points or cells along x, y, z. Arrays of the problem have this shape; ``b[i, j, k]`` belongs to (i, j, k).
        chunks: how many chunks along x, y, z, or their extents along each (as a Dask array's `chunks`), or None to let
            `dsolver.solve` choose one for each worker.
        offsets: the 7 or 27 offsets of a row's columns, (0, 0, 0) among them.
        weights: the value at each offset where all rows have the same, and zero Dirichlet values outside; else empty.
        periodic: along which axes the last point is followed by the first. An axis of one or two points never is: what
            goes around it is added to the weights.
        singular: whether constants solve A x = 0, so that the solution has mean zero and b must sum to zero; None where
            only the coefficients tell.
        rule: what makes rows that differ; None where weights are given.
        coefficients: what the rule reads, by name: arrays of the grid's shape.
    """

    name: str
    grid: Triple
    chunks: Cut | None = None
    offsets: Offsets = field(repr=False)
    weights: tuple[float, ...] = field(repr=False, default=())
    periodic: Flags = (False, False, False)
    singular: bool | None = False
    rule: Rule | None = field(repr=False, default=None)
    coefficients: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", three("grid", self.grid))
        if self.chunks is not None:
            object.__setattr__(self, "chunks", cut_of(self.chunks))
        Partition(self.grid, self.chunks or (1, 1, 1))
        if self.rule is None:
            self._check_weights()

    @property
    def masked(self) -> bool:
        """Whether cells are left out."""
        return isinstance(self.rule, CellRule) and self.rule.masked

    @property
    def recipe(self) -> Problem:
        """The same without the arrays, small enough to send anywhere."""
        return replace(self, coefficients={}) if self.coefficients else self

    def _check_weights(self) -> None:
        if len(self.offsets) != len(self.weights):
            raise InputError(f"{len(self.offsets)} offsets but {len(self.weights)} weights")
        if len(set(self.offsets)) != len(self.offsets) or not set(self.offsets) <= set(BOX_OFFSETS):
            raise InputError(f"offsets must be different from each other and in -1 .. 1, not {self.offsets}")
        if not np.isfinite(self.weights).all():
            raise InputError(f"the stencil has a weight that is not finite: {self.weights}")
        if (0, 0, 0) not in self.offsets or self.weights[self.offsets.index((0, 0, 0))] == 0.0:
            raise InputError("the stencil has a zero diagonal: Gauss-Seidel and multigrid divide by it")
        check_symmetry(dict(zip(self.offsets, self.weights, strict=True)))

    def rows(self, partition: Partition, number: int, xp: Any, patch: Patch | None = None) -> StencilRows:
        """The matrix rows of one chunk, on this problem's grid or on a coarser one with the same stencil.

        Args:
            partition: the chunks.
            number: of the chunk.
            xp: the array module.
            patch: its coefficients; where all rows have the same weights there are none.

        Raises:
            InputError: a coefficient makes no sense.
        """
        slots = [(box, 1) for _, box in partition.halo_boxes(number, self.offsets)]
        return self._rows(partition, number, slots, xp, self.values(xp, patch))

    def values(self, xp: Any, patch: Patch | None = None) -> Any:
        """The weights of a chunk's rows: float64 (K, rows), or (K,) for a constant stencil. Arguments as for `rows`."""
        if self.rule is None:
            return xp.asarray(self.weights, dtype=xp.float64)
        assert patch is not None
        return self.rule.weights(patch)

    def correction_rows(self, partition: Partition, number: int, xp: Any) -> StencilRows:
        """The same rows, with coarse points alone as halo, in the slots of `Partition.coarse_halo_plan`."""
        slots = []
        for piece in partition.halo_pieces(number, self.offsets):
            whole = partition[piece.source].box
            found = piece.box.halved(whole) if piece.source != number else None
            if found is not None:
                moved = three("moved", (a - b for a, b in zip(piece.seen.lo, piece.box.lo, strict=True)))
                lo, hi = (
                    tuple(base + 2 * i for base, i in zip(whole.lo, end, strict=True)) for end in (found.lo, found.hi)
                )
                slots.append((Box(lo=three("lo", lo), hi=three("hi", hi)).shifted(moved), 2))
        return self._rows(partition, number, slots, xp, xp.asarray(self.weights, dtype=xp.float64))

    def _rows(
        self, partition: Partition, number: int, slots: list[tuple[Box, int]], xp: Any, weights: Any
    ) -> StencilRows:
        box = partition[number].box
        return StencilRows(
            shape=box.shape,
            numbering=numbering(xp, box, slots, partition.wrapped(number, self.offsets)),
            offsets=self.offsets,
            weights=weights,
            halo=bool(slots),
        )


def check_symmetry(weights: Mapping[Triple, float]) -> None:
    """Refuse a stencil that is not symmetric under point reflection."""
    for (i, j, k), weight in weights.items():
        if weights.get((-i, -j, -k)) != weight:
            raise InputError(f"the stencil is not symmetric at {(i, j, k)}: conjugate gradients need A = Aᵀ")


def wrapping(grid: Triple, periodic: Flags) -> Flags:
    """The axes along which neighbors are found around the end: with one or two cells the weights hold it all."""
    x, y, z = (wraps and n > 2 for n, wraps in zip(grid, periodic, strict=True))
    return x, y, z


def check_problem(problem: Any) -> None:
    """Refuse what is no problem.

    Raises:
        InputError: it is none.
    """
    if not isinstance(problem, Problem):
        shown = repr(problem) if isinstance(problem, str) else f"a {type(problem).__name__}"  # arrays are long
        raise InputError(f"problem must come from dsolver.problems, as dsolver.problems.hpcg(grid) does, not {shown}")
