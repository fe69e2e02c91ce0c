"""Coarser levels: a chunk's rows of R, P and R A P, and those of A P that are on their way to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Messages, PerChunk
from dsolver.grid.halo import HaloPlan
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.general.rows import SplitRows
from dsolver.multigrid.algebraic.galerkin_numeric import Products
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.half_rows import HalfRows
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows
from dsolver.multigrid.algebraic.rows.window import I64, Window


@dataclass(frozen=True, kw_only=True)
class Coarsened:
    """A chunk's rows of the coarser level, and of R and P."""

    restriction: Deferred[Csr]  # R, own coarse rows; columns are own fine rows from 0, then halo slots
    restriction_plan: HaloPlan  # the exchange of a fine vector for it
    prolongation: DistributedRows
    prolongation_plan: HaloPlan  # the exchange of a coarse vector for it
    coarse: BroughtRows | HalfRows  # own rows of the coarser level; in a single chunk their columns do not ascend
    restriction_parts: Deferred[SplitRows] | None = None  # R by own fine rows and slots, where it is split already
    prolongation_parts: SplitRows | None = None  # the same of P
    products: Products | None = None  # what makes them again of other values; None where that is not wanted

    @property
    def neighbors(self) -> tuple[int, ...]:
        """The chunks that vectors are exchanged with for R or P, ascending."""
        return tuple(sorted({*self.restriction_plan.neighbors, *self.prolongation_plan.neighbors}))


@dataclass(frozen=True, kw_only=True)
class CoarserLevel:
    """A coarser level."""

    chunks: PerChunk
    partners: Senders  # the chunks that each one exchanges vectors with for R or P
    reach: Senders  # of its rows
    halves: bool = False  # whether coarse rows are `HalfRows`


@dataclass(frozen=True, kw_only=True)
class ApRows:
    """A chunk's rows of A P, columns not ascending, and what others get of them."""

    window: Window
    made: Any  # the rows; where halves are made of them, what `AmgKernels.begun_galerkin` has made
    parts: SplitRows  # of Rᵀ, by own coarse points and those of other chunks
    # for each owner of coarse points that own rows are restricted to a message: these rows of Rᵀ, of A P, and their
    # diagonal.
    lists: Messages
    sent: Mapping[int, I64]  # for each of them, the numbers of the rows within this chunk, ascending
    factor: Csr
