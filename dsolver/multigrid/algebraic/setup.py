"""Set-up of an algebraic hierarchy across chunks: the same one, bit for bit, for any number of chunks and workers.

Coarse points and roots of aggregates are maximal independent sets whose keys follow from the finest rows' numbers,
coarse rows are numbered in the order of fine ones, and every sum is made by one chunk in ascending global order. Levels
that are small are gathered, and the rest is made whole on every owner by the same steps on one chunk. Set-up is in
float64, as a whole on the chunks' devices or on their hosts: where the arrays of the first rows are.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from dsolver.distributed.setup_exchange import GhostExchange, senders_of
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels.deferred import Deferred, Foresight
from dsolver.multigrid.algebraic.fine_level import FineLevel
from dsolver.multigrid.algebraic.finest import FinestLevel, with_constants
from dsolver.multigrid.algebraic.galerkin import coarsened
from dsolver.multigrid.algebraic.galerkin_numeric import Again, coarse_again
from dsolver.multigrid.algebraic.methods import Smoothing
from dsolver.multigrid.algebraic.options import HierarchyOptions
from dsolver.multigrid.algebraic.placement import Place, place_of
from dsolver.multigrid.algebraic.requirements import check_diagonal
from dsolver.multigrid.algebraic.reuse import KeptLevel, found_in, mirrors_of, rows_again
from dsolver.multigrid.algebraic.rows.finished import finished_rows
from dsolver.multigrid.algebraic.rows.measures import measured, wrong_diagonals
from dsolver.multigrid.algebraic.rows.unsymmetric import as_brought, with_symmetric_part
from dsolver.multigrid.algebraic.rows.window import Bounds
from dsolver.multigrid.algebraic.storage import finished, measured_prolongation, tidied
from dsolver.multigrid.algebraic.storing.deferred import measures_ahead, storing_of, storing_of_rows
from dsolver.multigrid.algebraic.storing.next_level import NextLevel
from dsolver.multigrid.algebraic.storing.postponed import Postponed
from dsolver.multigrid.coarse_solve import rows_inverse
from dsolver.multigrid.level import Level
from dsolver.multigrid.reuse import Reuse

T = TypeVar("T")

LATE: Final = 1 << 25
"""Rows of a chunk from which on nothing is stored before its coarse rows are there: what makes these is twice as much
memory as what is stored. With fewer rows it is stored while a GPU makes them, and the host does not wait."""

MANY: Final = 32
"""Chunks beyond which all are asked whom they read: of 512, each would expect messages of all on the fourth level."""


class HierarchySetup:
    """A hierarchy under way: `descend` until there is no coarser level.

    Args:
        dtype: the value type of what is stored.
        reuse: where it leaves what a matrix with new values needs, and finds what the one before has left: then P and
            R of that one serve, if entries are in the same places. None where no other matrix is expected.
        foresight: of the finest level, which ranks confirm together while their devices look for its coarse points.

    Attributes:
        levels: finest first; the last one has no transfer.
        rows: the `LevelRows` of every chunk of the level that is next.
    """

    def __init__(
        self,
        engine: Engine,
        first: FinestLevel,
        options: HierarchyOptions,
        dtype: str,
        reuse: Reuse | None = None,
        foresight: Foresight | None = None,
    ) -> None:
        self._foresight = foresight or Foresight()
        self._options, self._dtype, self._singular = options, dtype, first.singular
        self._engine, self._view = engine, engine if dtype == "float64" else engine.lowered(dtype)
        self._bounds, self._senders, self._grid, self._reach = first.bounds, first.senders, first.grid, first.reach
        self._layout, self._stored, self.rows = first.layout, first.chunks, first.rows
        self._reads, self._symmetric, self._positive = first.senders, first.symmetric, first.positive
        self._above = first.depth  # number of levels above the first one, of a lattice
        self._measures = first.measures
        if not first.symmetric:
            self.rows = with_symmetric_part(engine, engine.per_chunk(as_brought, self.rows), self._reach, first.bounds)
            self._senders = engine.partners(self.rows.at("neighbors"))
        if first.size:
            self.rows = engine.per_chunk(partial(with_constants, size=first.size), self.rows)
        self._reuse, self._kept = reuse, None if reuse is None else found_in(reuse, engine, self.rows, self._layout)
        self._steps: list[KeptLevel] = []
        self._later = Postponed()
        self.levels: list[Level] = []

    @property
    def _depth(self) -> int:
        """The number of the level that is next."""
        return self._above + len(self.levels)

    def descend(self) -> bool:
        """Add the level of the rows that are there; whether they were coarsened. InputError for a bad diagonal."""
        if self._descend():
            return True
        self._finish()
        return False

    def _descend(self) -> bool:
        engine, depth = self._engine, len(self.levels)
        if depth and len(self._bounds) == 2 and self._bounds[-1] <= self._options.coarse_rows:
            self._add_coarsest()
            return False
        level, kept = self._fine_level(depth), () if self._kept is None else self._kept.steps
        smoothing = self._options.method.smoothing(level, kept[depth].coarse if depth < len(kept) else None)
        late, split = self._late, smoothing.splitting
        adding = self._put_off_adding(smoothing, level.measures)
        if engine.coupled:  # chunks exchange in it: at one place on all ranks, which a wait is not
            level = replace(level, beside=partial(self._beside, adding))
        self._later.put_off_last(self._waiting)
        if kept:
            self._catch_up()
            return self._descend_again(kept, level.measures.at("diagonal"))
        space = self._options.method.coarse_space(level, smoothing)
        if space is None:
            return False
        diagonal = level.measures.at("diagonal")
        del level, adding  # and what nothing but coarse points follows from
        self._tidy()
        sizes = self._ask_ahead(space.p, space.bounds)
        symmetric, keep = self._symmetric, self._reuse is not None
        made = coarsened(
            engine, self.rows, diagonal, space, self._senders, reach=self._reach, keep=keep, symmetric=symmetric
        )
        if not late:
            self._catch_up()
        again = Again(products=made.chunks.at("products") if keep else None, restricted=made.partners)
        waits = self._waits and sizes is None and not late
        if self._grid is not None:
            made = self._grid.rows.transfer(made, space.reach, space.bounds)
        rows = self._options.gathered_rows
        place, parts = place_of(engine, self._view, made, space.bounds, dtype=self._dtype, gathered_rows=rows)
        coarse, halves = made.chunks.at("coarse"), made.halves
        store = (made, place, parts, space.bounds, again, sizes, None if split is None else split.coarse)
        storing = storing_of(self._view, self._layout, self._above + depth, *store)
        step = Deferred(storing) if waits else self._put_off(storing, first=True)
        del storing, space, made, store, sizes, smoothing, split  # R and P in float64 end with their storing
        self._coarsen(depth, place, coarse, step, last=waits, halves=halves)
        return True

    def _fine_level(self, depth: int) -> FineLevel:
        """The level that is next. InputError: the first one has a bad diagonal."""
        engine, exchange = self._engine, GhostExchange(self._engine, self.rows.at("plan"), self._senders, self.rows)
        measures = measured(engine, self.rows) if self._measures is None else self._measures
        self._measures = None
        if not (depth or self._positive):
            check_diagonal(wrong_diagonals(engine, measures))
        return FineLevel(
            engine=engine,
            rows=self.rows,
            exchange=exchange,
            senders=self._senders,
            reach=self._reach,
            bounds=self._bounds,
            depth=depth,
            measures=measures,
        )

    def _put_off_adding(self, smoothing: Smoothing, measures: PerChunk) -> Deferred[None]:
        """Put off adding the level that is next, with its smoother."""
        if smoothing.splitting is None:
            add = partial(self._add, NextLevel.smoothed, smoothing, measures.at("share"), self._options.smoother)
        else:
            add = partial(self._add, NextLevel.swept_in_turns, smoothing.splitting.coarse)
        return self._later.put_off(add, None if self._engine.coupled else self._waiting)

    def _descend_again(self, steps: Sequence[KeptLevel], diagonal: PerChunk) -> bool:
        """Make the coarser level with the P and R that there are; whether there is one."""
        if len(self.levels) > len(steps):
            return False
        step = steps[len(self.levels) - 1]
        made = coarse_again(self._engine, self.rows, diagonal, step.again)
        self._connect(len(self.levels) - 1, step)
        self._take(step.place, made, step.mirrors, step.choices)
        return True

    def _beside(self, adding: Callable[[], None]) -> None:
        self._foresight.confirm()
        if not self._late:
            adding()

    @property
    def _late(self) -> bool:
        """Whether nothing of the level that is next is stored before its coarse rows are there."""
        return self._grid is None and self._bounds[-1] >= LATE * (len(self._bounds) - 1)

    def _put_off(self, make: Callable[[], T], **how: bool) -> Deferred[T]:
        """Put work off: done in order, while a device is waited for or by `_catch_up`; how: as of `Postponed`."""
        return self._later.put_off(make, self._waiting, **how)

    def _catch_up(self) -> None:
        """Do what was put off."""
        self._later.catch_up(self._waiting)

    @property
    def _waiting(self) -> Engine | None:
        """The engine that does what was put off while it waits; None where nothing is to be done then."""
        return None if self._late else self._engine

    def _ask_ahead(self, p: PerChunk, bounds: Bounds) -> Deferred[PerChunk] | None:
        """Ask a GPU what storing P takes, before R A P, behind which a host would wait; None where it does not wait."""
        if self._grid is not None or not self._waits or len(self._bounds) > 2:
            return None
        view, layout, make = self._view, self._layout, partial(measured_prolongation, columns=bounds[-1])
        return self._put_off(lambda: view.per_chunk(make, layout, p))

    @property
    def _waits(self) -> bool:
        """Whether the host waits for numbers of a device."""
        return self._engine.kernels == "cuda"

    def _tidy(self) -> None:
        """Give free memory back before arrays that stay are cut from it, of levels that are so large that it counts."""
        if self._late:
            self._engine.per_chunk(partial(tidied, rows=self._bounds[-1]))

    @property
    def _next(self) -> NextLevel:
        """The level that is next, whose rows are stored."""
        return NextLevel(
            engine=self._engine,
            view=self._view,
            rows=self.rows,
            layout=self._layout,
            chunks=self._stored(),
            bounds=self._bounds,
            reads=self._reads,
            grid=self._grid,
            depth=self._depth,
        )

    def _add(self, make: Callable[..., Level], *arguments: object) -> None:
        self.levels.append(make(self._next, *arguments))

    def _add_coarsest(self) -> None:
        make = partial(rows_inverse, depth=self._depth, singular=self._singular)
        inverse = self._view.per_chunk(make, self._layout, self.rows).at(self._depth)
        self._catch_up()
        self._add(partial(NextLevel.level, inverse=inverse))

    def _finish(self) -> None:
        """Wait for what was made."""
        self._catch_up()
        self._engine.per_chunk(finished)
        if self._reuse is not None and self._kept is not None:
            self._reuse.kept = replace(self._kept, steps=self._kept.steps or tuple(self._steps))

    def _coarsen(
        self, number: int, place: Place, made: PerChunk, step: Deferred[KeptLevel], *, last: bool, halves: bool
    ) -> None:
        """Go from the level of this number to the rows of the coarser one.

        `step`: the transfer, made when it is called for. `last`: whether that waits for a device, so that what does not
        is done before.
        """
        if last:
            self._later.last = lambda: self._connect(number, step())
        else:
            self._put_off(lambda: self._connect(number, step()))
        if self._late:
            step()
            self._tidy()
            self._catch_up()
        made = self._take(place, made, halves=halves)
        if self._reuse is not None:
            mirrors = self._engine.per_chunk(mirrors_of, made, self.rows) if self._symmetric and place.alone else None
            self._steps.append(replace(step(), mirrors=mirrors, choices=self._stored().at("local", "choice")))

    def _connect(self, number: int, step: KeptLevel) -> None:
        """Give a level its transfer."""
        self.levels[number] = replace(self.levels[number], transfer=step.transfer)

    def _take(
        self,
        place: Place,
        made: PerChunk,
        mirrors: PerChunk | None = None,
        choices: PerChunk | Deferred[PerChunk] | None = None,
        *,
        halves: bool = False,
    ) -> PerChunk:
        """Go to a place with the rows of a coarser level (`HalfRows` if so), which are returned as they come there."""
        made = made if place.gather is None else place.gather(made)
        self._engine, self._view, self._layout, self._grid = place.engine, place.view, place.layout, None
        self._bounds, self._reach = place.bounds, place.reach
        if mirrors is not None:
            self.rows = self._engine.per_chunk(rows_again, made, mirrors)
        else:
            halves, symmetric = halves and not place.alone, self._symmetric
            self.rows = finished_rows(self._engine, made, self._reach, self._bounds, halves=halves, symmetric=symmetric)
        self._reads = self._senders = self._engine.partners(self.rows.at("neighbors"))
        if len(self._reach) > MANY:
            self._reach = senders_of(self._engine, self.rows.at("neighbors"))
        if choices is None and place.alone and self._waits:
            choices = self._put_off(measures_ahead(place.view, self.rows), brief=True)
        storing = storing_of_rows(place.view, self.rows, self._layout, self._depth, choices)
        self._stored = self._put_off(storing, brief=place.alone)
        return made
