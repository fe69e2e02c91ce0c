"""A chunk's rows of an algebraic level during set-up.

Arrays are of the chunk's device.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dsolver.grid.halo import HaloPlan
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Bounds, Window, received


@dataclass(frozen=True, kw_only=True)
class BroughtRows:
    """A chunk's rows of a level, brought from elsewhere, before others know which of them they read."""

    rows: DistributedRows
    origin: I64
    near: F64
    mirrored: bool = False  # whether columns ascend, and mirrored entries are equal; of the only chunk

    def rows_to_send(self, amg: AmgKernels) -> Csr:
        """The rows with global columns."""
        return self.rows.rows(amg)

    def level_rows(self, bounds: Bounds, read: Mapping[int, I64]) -> "LevelRows":
        """The rows as they are; read: for each chunk that reads own rows, these, ascending."""
        return LevelRows(
            window=self.rows.window,
            matrix=self.rows.matrix,
            origin=self.origin,
            near=self.near,
            plan=HaloPlan(sends=tuple(read.items()), receives=received(bounds, self.rows.window)),
            bounds=bounds,
        )


@dataclass(frozen=True, kw_only=True)
class LevelRows:
    """One chunk's rows of a level."""

    window: Window
    matrix: Csr  # its rows, columns as places in the window, ascending; the symmetric part where A is not symmetric
    origin: I64
    near: F64  # float64 (rows, k), vectors of the near-null space; k is 0 where they are not needed
    plan: HaloPlan  # the exchange of a vector of the level, its ghosts in ascending order
    bounds: Bounds
    full: Csr | None = None  # A where it is not symmetric, with the columns of `matrix`; else None

    @property
    def neighbors(self) -> tuple[int, ...]:
        """The chunks whose rows the columns name, ascending: the same that read own rows, as places are mirrored."""
        return self.plan.neighbors

    @property
    def a(self) -> Csr:
        """The rows of A."""
        return self.matrix if self.full is None else self.full

    @property
    def rows(self) -> int:
        """Number of own rows."""
        return self.window.rows
