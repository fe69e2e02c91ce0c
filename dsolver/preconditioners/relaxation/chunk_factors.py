"""Triangular factors of one chunk's own part: how they are made, and what they are stored in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dsolver.distributed.row_order import own_part
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.colorings import colored
from dsolver.kernels.colorings.factors import BreakdownError, TriangularFactors
from dsolver.kernels.colorings.setup import SweepSetup
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE, Layout, Route
from dsolver.kernels.formats.sell import WIDEST
from dsolver.matrices.chunks.row_block import RowBlock

PADDED: Final = 8
"""Places of a vector in the order of the colors for each row, at most: every color is padded to whole slices."""
LONG: Final = 16
"""Times the mean length of rows that the longest one has, at most, where they are tabled on the way to slices."""
FIRST_SHIFT: Final = 1e-3  # the first shift that is tried where "auto" needs one
LARGEST_SHIFT: Final = 1e3


@dataclass(frozen=True, kw_only=True)
class ChunkFactors:
    """Factors of one chunk's own part, and the ways between the order of A's vectors and theirs."""

    layout: Layout  # the rows color after color
    lower: Any  # I + L for forward half sweeps, in the backend's form
    upper: Any  # D + U for backward ones; the same entries
    there: Route
    back: Route


@dataclass(frozen=True, kw_only=True)
class MakeFactors:
    """Makes the factors of a chunk."""

    label: ClassVar[str] = "setup-levels"
    factors: Callable[[SweepSetup, Csr, Any], TriangularFactors]  # makes them of the own part and the rows' colors
    # puts the rows of the own part in another order before: see `Sweeps.arranged`.
    arranged: Callable[[Backend, Csr], tuple[Csr, Any]]
    coloring: str
    name: str
    partition: Partition

    def __call__(self, backend: Backend, number: int, block: RowBlock) -> tuple[ChunkFactors]:
        """The factors, for the finest level. InputError: a pivot vanishes, a row is far too long, or many colors."""
        a, first = own_part(backend.xp, backend.amg.on_device(block.csr), block.plan), self.partition[number].box.lo[0]
        self._check_lengths(a)
        a, moved = self.arranged(backend, a)
        color = colored(backend.sweeps, backend.sweeps.graph_of(a), self.coloring, first)
        colors = int(color.max()) + 1
        layout = backend.layouts.colored(color, colors, (a.size, 1, 1))
        if layout.size > max(FEW, PADDED * a.size):
            raise InputError(
                f"coloring={self.coloring!r} has {colors} colors for {a.size} rows, each padded to {SLICE}: use "
                f"coloring='greedy'"
            )
        try:
            rows, diagonal = self.factors(backend.sweeps, a, color)
        except BreakdownError as error:
            row = error.row if moved is None else int(moved[error.row])
            row = first + (row if block.order is None else int(block.order[row]))
            raise InputError(self._breakdown(row, error.pivot)) from None
        entries = backend.amg.table(rows, rows.width)
        lower = backend.format("sell").matrix(layout, entries)
        plain = backend.layouts.plain((a.size, 1, 1)).position
        made = ChunkFactors(
            layout=layout,
            lower=lower,
            upper=lower.scaled(diagonal.reshape(-1, 1, 1)),
            there=backend.layouts.route(plain if moved is None else plain[backend.asarray(moved)], layout.position),
            back=backend.layouts.route(layout.position, plain),
        )
        backend.synchronize()  # kernels read these before they wait for earlier launches
        return (made,)

    def _check_lengths(self, a: Csr) -> None:
        if a.width * a.size > max(FEW, LONG * len(a.columns)) or a.width > WIDEST:
            raise InputError(
                f"M={self.name!r} is not for matrices in which few rows are far longer than the others ({a.width} "
                f"entries in a row, {len(a.columns) / a.size:.0f} on average): use M='chebyshev' or 'block-jacobi'"
            )

    def _breakdown(self, row: int, pivot: float) -> str:
        advice = {
            "symgs": "use M='ilu0' with a shift, or None",
            "ic0": "use M=dsolver.preconditioners.IC0(shift='auto') or 'chebyshev' with a positive diagonal",
            "ilu0": "use M=None or, with a diagonal without zeros, dsolver.preconditioners.ILU0(shift='auto')",
        }
        return f"M={self.name!r} breaks down in row {row}, where the pivot is {pivot:.3g}: {advice[self.name]}"


FEW: Final = 2**20  # places that are never too many
