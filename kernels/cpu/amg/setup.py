"""Set-up of levels without a lattice: what algebraic multigrid does with rows, where their arrays lie."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dsolver.kernels.amg import EVERY, BlockSizes, Counted, Cut, Places, uncounted
from dsolver.kernels.cpu.amg import (
    box_rows,
    couplings,
    extended_interpolation,
    halves,
    open_rows,
    pmis,
    points,
    products,
    selection,
    transposes,
    windows,
)
from dsolver.kernels.cpu.amg.aggregation.setup import AggregationSetup
from dsolver.kernels.cpu.csr import ranges
from dsolver.kernels.cpu.csr.rows import parted, tabulated
from dsolver.kernels.cpu.loops.team import Team, of_team
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.ell import Ell
from dsolver.kernels.general.rows import SplitRows


class AmgKernels:
    """Set-up of levels without a lattice, on the host.

    Methods are the functions of their names; a device binds its own in their places.

    `asarray` makes an array of this set-up of one that may lie elsewhere; no copy where it does not.
    """

    aggregation: AggregationSetup  # what smoothed aggregation needs beside this

    def __init__(self, team: Team, asarray: Callable[[Any], Any] = np.asarray) -> None:
        self.team, self.asarray = team, asarray
        self.aggregation = AggregationSetup(team)

    def leave(self) -> None:
        """Let go of the memory that loops of a set-up have left to each other."""
        self.team.clear()

    # -- coarse points -------------------------------------------------------------------------------------------------

    box_rows = of_team(box_rows.box_rows)
    raised = staticmethod(open_rows.raised)
    open_rows = of_team(open_rows.open_rows)

    def row_measures(self, a: Csr, below: int) -> tuple[Any, Any, Any]:
        """See `couplings.row_measures`; in place of the sums of sizes `points.shares` of them."""
        largest, diagonal, sizes = couplings.row_measures(a, below, self.team)
        return largest, diagonal, points.shares(diagonal, sizes, self.team)

    paths = of_team(couplings.paths)
    couplings = of_team(couplings.couplings)
    begun = of_team(pmis.begun)

    def settled(self, a: Csr, below: int, bits: Any, key: Any, origin: Any, state: Any, opened: Any = None) -> Any:
        """See `pmis.settle`; a device may leave more open, waits for nothing, and goes on with what it `opened`."""
        return pmis.settle(a, below, bits, key, origin, state, self.team, opened)

    def counted(self, states: Any, opened: Any) -> tuple[int, int, Any]:
        """Numbers of own points that are left and that are coarse, of these states; and `points.coarse_before`."""
        before = points.coarse_before(states, self.team)
        return len(opened.points), int(before[-1]), before

    # -- points ------------------------------------------------------------------------------------------------------

    damped = of_team(points.damped)
    numbered = of_team(points.numbered)
    states_of = of_team(points.states_of)
    through = of_team(points.through)
    leads = of_team(points.leads)
    of_coarse = of_team(points.of_coarse)

    # -- windows -------------------------------------------------------------------------------------------------------

    outside = of_team(ranges.outside)
    others = staticmethod(windows.others)
    distinct = staticmethod(windows.distinct)

    def ghosts(self, parts: Sequence[Any], first: int, last: int, end: int = 0) -> tuple[Any, int]:
        """See `windows.ghosts`; end: behind the last number that there may be, 0 where that is not known."""
        return windows.ghosts(parts[0] if len(parts) == 1 else np.concatenate(parts), first, last, self.team)

    def sees_all(self, end: int) -> bool:
        """Whether chunks see all numbers up to the end, in rows on their way: to find those that they need waits."""
        return False

    places = of_team(windows.places)
    relabeled = of_team(windows.relabeled)
    slots = of_team(windows.slots)

    def named(self, numbers: Any, first: int, rows: int) -> Deferred[Any]:
        """See `windows.named`; a device is waited for when it is called."""
        return Deferred(partial(windows.named, numbers, first, rows))

    used = of_team(windows.used)
    numbered_ghosts = staticmethod(windows.numbered_ghosts)
    stacked = of_team(windows.stacked)
    around = staticmethod(windows.around)
    selected = of_team(selection.selected)

    def begun_selection(self, a: Csr, rows: Any = None, columns: tuple[int, int] = EVERY) -> Deferred[Csr]:
        """`selected` rows; a device is waited for when it is called."""
        return Deferred(partial(self.selected, a, rows, columns))

    def begun_rows(self, _: Any, rows: Any) -> Callable[[Csr], Csr]:
        """Some rows of a matrix of which the row pointer is there, to be called with it: a device waits then."""
        return lambda a: self.selected(a, rows)

    def parted(self, a: Csr, low: int, high: int, _: Any = None) -> Deferred[SplitRows]:
        """See `dsolver.kernels.cpu.csr.rows.parted`; a device is waited for when it is called, for `part_sizes`."""
        return Deferred(partial(parted, a, low, high, self.team))

    def part_sizes(self, _: Csr, __: int, ___: int) -> Any:
        """Sizes of the parts on their way from a device, which may be those of the same rows in another window."""
        return None

    def begun_nonempty(self, start: Any) -> Deferred[tuple[Any, Any]]:
        """See `selection.nonempty`; a device is waited for when it is called."""
        return Deferred(partial(selection.nonempty, start))

    # -- interpolation -------------------------------------------------------------------------------------------------

    def coarse_couplings(
        self,
        a: Csr,
        bits: Any,
        state: Any,
        below: int,
        names: Callable[[], Any],
        counted: Counted = uncounted,
        *,
        every: bool = False,
        loose: bool = False,
    ) -> Csr:
        """See `extended_interpolation.coarse_couplings`; loose: whether arrays may be longer than rows are together.

        counted: takes the row pointer before a device is waited for, which may do so for what follows from it, too.
        """
        made = extended_interpolation.coarse_couplings(a, bits, state, below, names(), self.team, every=every)
        counted(made.start)
        return made

    interpolation = of_team(extended_interpolation.interpolation)

    def begun_interpolation(self, *arguments: Any, counted: Counted = uncounted) -> Deferred[Csr]:
        """`interpolation`; a device is waited for when it is called. counted: as of `coarse_couplings`."""
        made = self.interpolation(*arguments)
        counted(made.start)
        return Deferred(lambda: made)

    renamed = of_team(extended_interpolation.renamed)
    kept_product = of_team(extended_interpolation.kept_product)

    # -- coarse rows ---------------------------------------------------------------------------------------------------

    def product(self, a: Csr, b: Csr, columns: int, *, ascending: bool = True, blocks: BlockSizes | None = None) -> Csr:
        """See `products.product`; blocks: of both factors, as a rule; that may save time."""
        return products.product(a, b, columns, self.team, ascending=ascending)

    def numeric(
        self,
        pattern: Csr,
        a: Csr,
        b: Csr,
        columns: int,
        *,
        ascending: bool = True,
        blocks: BlockSizes | None = None,
        places: Places | None = None,
    ) -> Csr:
        """See `products.numeric`; ascending: as of `product` when it made the pattern; blocks: as of `product`.

        places: of this pattern alone, for the next product.
        """
        return products.numeric(pattern, a, b, columns, self.team)

    def galerkin(
        self, a: Csr, p: Csr, columns: int, diagonal: Any, *, symmetric: bool = False, blocks: BlockSizes | None = None
    ) -> tuple[Csr, Csr]:
        """R, the transpose of P, which has so many columns, and R A P.

        Rows of which only rounding is left are filled, with the diagonal of A: see `fill_lost`. Columns are in the
        order of `product`; of a symmetric A they ascend, and entries below the diagonal are the mirror images of those
        above it. blocks: as of `product`, of A P.
        """
        if symmetric:
            whole = Cut(fine=p, rows=columns, width=columns)
            r, half = self.half_galerkin(self.begun_galerkin(a, p, columns), whole, diagonal)
            return r, self.completed(half)
        r = self.transposed(p, columns)
        restricted = None if blocks is None else blocks.restricted
        ap = self.product(a, p, columns, ascending=False, blocks=blocks)
        coarse = self.product(r, ap, columns, ascending=False, blocks=restricted)
        self.fill_lost(coarse, 0, r, diagonal)
        return r, coarse

    def begun_galerkin(self, a: Csr, p: Csr, columns: int) -> Any:
        """A P on its way to R A P, which `half_galerkin` makes of it; P has so many columns."""
        return self.product(a, p, columns, ascending=False)

    def rows_of_ap(self, begun: Any, rows: Any, least: int) -> Deferred[Csr]:
        """Some rows of A P, without entries in columns before `least`, if those take no time; begun, and then made."""
        return self.begun_selection(begun, rows, (least, EVERY[1]))

    def half_galerkin(self, begun: Any, cut: Cut, diagonal: Any) -> tuple[Csr, Any]:
        """R, and of symmetric R A P a chunk's `halves.Halves` or a device's, filled with the diagonal where lost."""
        r = self.transposed(cut.fine, cut.rows)
        ap = begun if cut.stacked is None else cut.stacked(begun)
        upper = products.upper_product(r, ap, cut.width, cut.below, self.team)
        self.fill_lost(upper, 0, r, diagonal)
        return r, halves.Halves(upper, self.team)

    def halved(self, upper: Csr) -> Any:
        """The half of a matrix of which entries from the diagonal on are there, as of `half_galerkin`."""
        return halves.Halves(upper, self.team)

    completed = of_team(halves.completed)
    transposed = of_team(transposes.transposed)
    fill_lost = of_team(products.fill_lost)
    symmetrize = staticmethod(products.symmetrize)

    mirrored = of_team(products.mirrored)

    def same(self, one: Any, other: Any) -> bool:
        """Whether two arrays of integers are of one type, as long as each other, and equal."""
        return one.dtype == other.dtype and np.array_equal(one, other)

    # -- storage -------------------------------------------------------------------------------------------------------

    def on_device(self, rows: Csr) -> Csr:
        """A matrix, wherever it lies, in arrays of this device."""
        return rows

    def table(self, rows: Csr, width: int) -> Ell:
        """The entries of a matrix as a table; width: entries of its longest row."""
        return tabulated(rows, width, self.team)
