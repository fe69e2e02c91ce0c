"""Division of each row of a matrix by the sum of its magnitudes."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from dsolver.distributed.forecast import F64, Part
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.formats.ell import Ell
from dsolver.krylov.method import ApproximateInverse
from dsolver.matrices.chunks.row_block import RowBlock
from dsolver.preconditioners.base import Built, Capabilities, Forecast, Preconditioner, Site
from dsolver.preconditioners.builder import Builder
from dsolver.preconditioners.relaxation.jacobi import DiagonalInverse
from dsolver.preconditioners.relaxation.sweeps import require_rows
from dsolver.problems import Problem


@final
@dataclass(frozen=True)
class L1Jacobi(Preconditioner):
    """Division of each row by the sum of its magnitudes: ``"l1-jacobi"``.

    As a smoother it converges for every symmetric positive definite matrix, where Jacobi's may diverge (Baker, Falgout,
    Kolev, Yang, SIAM J. Sci. Comput. 33, 2011, section 4).
    """

    setup_iterations: ClassVar[float] = 4.0
    can: ClassVar[Capabilities] = Capabilities(batched=True, lowered=True)

    def check(self, problem: Problem, partition: Partition) -> None:
        """Refuse a grid."""
        require_rows("l1-jacobi", problem)

    def build(self, builder: Builder) -> Built:
        """A for products, and the sums of each chunk."""
        return builder.products(), (builder.per_chunk(sums).at(0),)

    def on(self, site: Site) -> ApproximateInverse:
        """z_i = r_i / Σ_j |a_ij|."""
        return DiagonalInverse(site.engine, site.levels[0])

    def forecast(self, part: Part) -> Forecast:
        """Bytes of r and the sums, which are read, and of z."""
        a = replace(part, value=F64).stored()
        return Forecast(levels=(a,), shared=part.value * a.size, moved=3 * part.value * a.rows)


def sums(backend: Backend, _: int, block: RowBlock) -> tuple[Any]:
    """A diagonal matrix of the sums of the magnitudes of a chunk's rows, for the finest level; 1 of rows of zeros."""
    block = block.here
    rows = len(block.start) - 1
    row = np.repeat(np.arange(rows), np.diff(block.start))
    found = np.bincount(row, abs(block.values), rows)
    return (diagonal_matrix(backend, np.where(found > 0.0, found, 1.0)),)


def diagonal_matrix(backend: Backend, values: Any) -> Any:
    """A diagonal matrix in the backend's form, of its diagonal float64 (rows,)."""
    rows = len(values)
    own = backend.asarray(np.arange(rows, dtype=np.int32)[None, :])
    entries = Ell(columns=own, values=backend.asarray(values[None, :]), halo=False)
    made = backend.format("sell").matrix(backend.layouts.plain((rows, 1, 1)), entries)
    backend.synchronize()  # kernels read it before they wait for earlier launches
    return made
