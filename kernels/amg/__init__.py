"""Types and constants that algebraic set-up shares with its kernels, in `cpu.amg` and `cuda.amg`."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np

from dsolver.kernels.formats.csr import Csr

T = TypeVar("T")
Triple = tuple[int, int, int]

UNDECIDED, COARSE, FINE = 0, 1, 2  # states of a point (PMIS)
WORD: Final = 52  # bits of a word: float64 holds it, and travels between chunks
OUT, ROOT = 0.0, float(2 << WORD)  # states of a node that is decided; others have a word between them
Counted = Callable[[Any], object]
"""Takes the row pointer of a matrix whose entries have yet to be made."""
EVERY: Final = (-1, 2**62)  # a range of all columns


class LatticeBox(NamedTuple):
    """A box of a grid."""

    grid: Triple
    periodic: tuple[bool, bool, bool]  # whether the grid is, along x, y, z; an axis of one point is not
    lower: Triple  # the box's first point
    shape: Triple


class OpenBox(NamedTuple):
    """A box of a grid some of whose cells are left out."""

    shape: Triple  # its points along x, y, z
    # int32 (nz + 2, ny + 2, nx + 2), the numbers of its cells, x fastest, and behind them those of the cells around it
    # that other boxes have; -1 for none.
    numbering: Any
    position: Any  # int32, where vectors of the box have its cells: see `LayoutSetup.some`
    left_out: int  # the position of cells that are left out
    beyond: Any  # int32, the columns of the cells around it; -1 for those that are left out
    cells: Any  # int32 (rows,), the numbers of its open cells, ascending

    def steps(self, offsets: Sequence[Triple]) -> tuple[Any, Any, int]:
        """Offsets, ascending, int64 (K,): steps in `numbering`, places of weights; and the number of (0, 0, 0)."""
        order, (nx, ny, _) = ascending(offsets), self.shape
        ahead = [i + (nx + 2) * (j + (ny + 2) * k) for i, j, k in (offsets[slot] for slot in order)]
        return np.array(ahead, dtype=np.int64), np.array(order, dtype=np.int64), ahead.index(0)


class RaisedCells(NamedTuple):
    """Cells of a chunk in regions that nothing fixes, where a preconditioner is made of a larger diagonal."""

    cells: Any  # int32, their numbers in lattice order
    factors: Any  # float64, what the diagonal of each is multiplied by


def uncounted(_: Any) -> None:
    """A `Counted` without a use for it."""


def ascending(offsets: Sequence[Triple]) -> list[int]:
    """Numbers of the offsets in the order in which columns ascend."""
    return sorted(range(len(offsets)), key=lambda k: offsets[k][::-1])


class WindowNumbers(Protocol):
    """Numbers that a chunk sees of a level: see `dsolver.multigrid.algebraic.rows.window.Window`."""

    @property
    def first(self) -> int: ...

    @property
    def rows(self) -> int: ...

    @property
    def ghosts(self) -> Any: ...

    @property
    def below(self) -> int: ...


class Images(NamedTuple):
    """Entries of a chunk's rows before the diagonal whose mirror images are other chunks'."""

    rows: Any  # integers, the row of each
    columns: Any  # integers, places in the window, before those of own rows. In a row they ascend.
    values: Any  # float64


class BlockSizes(NamedTuple):
    """Sizes of the full blocks in which a product's factors come: rows × inner of A, inner × columns of B."""

    rows: int
    inner: int
    columns: int

    @property
    def restricted(self) -> "BlockSizes":
        """Sizes of the blocks of Bᵀ and A B."""
        return BlockSizes(self.columns, self.rows, self.columns)


class Cut(NamedTuple):
    """A chunk's part of R A P."""

    fine: Csr  # rows of P that are restricted to its rows, in the order of all rows; columns are its rows, from 0
    rows: int  # how many these are
    width: int  # number of columns of A P
    before: int = 0  # number of rows of A P of chunks before this one
    after: int = 0  # number of rows of A P of chunks behind it
    below: int = 0  # number of columns before those of its rows
    # puts rows with the columns of its own A P between these; None where there are none.
    stacked: Callable[[Csr], Csr] | None = None


def with_functions_of(*modules: ModuleType) -> Callable[[type[T]], type[T]]:
    """Decorator of a device's set-up: functions of these modules take the places of inherited methods."""

    def bound(kind: type[T]) -> type[T]:
        for module in modules:
            for name, function in vars(module).items():
                own = getattr(function, "__module__", None) == module.__name__
                if own and hasattr(kind, name) and name not in vars(kind):
                    setattr(kind, name, staticmethod(function))
        return kind

    return bound


class Places:
    """Places of a product's sums, which `AmgKernels.numeric` may keep for the same pattern; None before."""

    def __init__(self) -> None:
        self.found: Any = None
