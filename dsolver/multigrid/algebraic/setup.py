"""Set-up of an algebraic hierarchy across chunks: the same one, bit for bit, for any number of chunks and workers.

Coarse points and roots of aggregates are maximal independent sets whose keys follow from the finest rows' numbers,
coarse rows are numbered in the order of fine ones, and every sum is made by one chunk in ascending global order. Levels
that are small are gathered, and the rest is made whole on every owner by the same steps on one chunk. Set-up is in
float64, as a whole on the chunks' devices or on their hosts: where the arrays of the first rows are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeVar, final

from dsolver.distributed.setup_exchange import GhostExchange
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.box import BOX_OFFSETS
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.deferred import Deferred
from dsolver.multigrid.algebraic.coarser_level import CoarserLevel
from dsolver.multigrid.algebraic.fine_level import FineLevel
from dsolver.multigrid.algebraic.finest import FinestLevel, with_constants
from dsolver.multigrid.algebraic.galerkin import coarsened
from dsolver.multigrid.algebraic.galerkin_numeric import Again, coarse_again
from dsolver.multigrid.algebraic.methods import Smoothing
from dsolver.multigrid.algebraic.options import HierarchyOptions
from dsolver.multigrid.algebraic.placement import Place, place_of
from dsolver.multigrid.algebraic.requirements import check_diagonal
from dsolver.multigrid.algebraic.reuse import Kept, KeptLevel, mirrors_of, rows_again, same_places, without_values
from dsolver.multigrid.algebraic.rows.half_rows import completed_rows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.measures import measured, wrong_diagonals
from dsolver.multigrid.algebraic.rows.symmetric import symmetric_rows
from dsolver.multigrid.algebraic.rows.unsymmetric import as_brought, with_symmetric_part
from dsolver.multigrid.algebraic.rows.window import Bounds
from dsolver.multigrid.algebraic.storage import (
    asked_rows,
    in_turns,
    measured_prolongation,
    measured_rows,
    stored_rows,
    stored_transfer,
    swept_ghosts,
    with_smoother,
)
from dsolver.multigrid.coarse_solve import rows_inverse
from dsolver.multigrid.correction import StoredTransfer
from dsolver.multigrid.level import Level
from dsolver.multigrid.replicate import row_replication
from dsolver.multigrid.reuse import Reuse
from dsolver.multigrid.smoothers import ChebyshevSmoother, JacobiSmoother, PostSmoother, Smoother, SweptPoints

T = TypeVar("T")

LATE: Final = 1 << 25
"""Rows of a chunk from which on nothing is stored before its coarse rows are there: what makes these is twice as much
memory as what is stored. With fewer rows it is stored while a GPU makes them, and the host does not wait."""


@final
class HierarchySetup:
    """A hierarchy under way: `descend` until there is no coarser level.

    Args:
        dtype: the value type of what is stored.
        reuse: where it leaves what a matrix with new values needs, and finds what the one before has left: then P and
            R of that one serve, if entries are in the same places. None where no other matrix is expected.

    Attributes:
        levels: finest first; the last one has no transfer.
        rows: the `LevelRows` of every chunk of the level that is next.
    """

    def __init__(
        self, engine: Engine, first: FinestLevel, options: HierarchyOptions, dtype: str, reuse: Reuse | None = None
    ) -> None:
        self._options, self._dtype, self._singular = options, dtype, first.singular
        self._engine, self._view = engine, engine if dtype == "float64" else engine.lowered(dtype)
        self._bounds, self._senders, self._grid = first.bounds, first.senders, first.grid
        self._reach = first.reach
        self._layout, self._stored, self.rows = first.layout, first.chunks, first.rows
        self._reads, self._symmetric, self._positive = first.senders, first.symmetric, first.positive
        self._above = first.depth  # number of levels above the first one, of a lattice
        self._measures = first.measures
        if not first.symmetric:
            self.rows = with_symmetric_part(engine, as_brought(engine, self.rows), self._reach, first.bounds)
            self._senders = engine.partners(self.rows.at("neighbors"))
        if first.size:
            self.rows = with_constants(engine, self.rows, first.size)
        self._reuse, self._kept = reuse, None if reuse is None else self._found(reuse)
        self._steps: list[KeptLevel] = []
        self._later: deque[Deferred[Any]] = deque()
        self._ahead: Deferred[PerChunk] | None = None  # the `Ahead` of the level that is next
        self._last: Callable[[], None] | None = None  # what is put off behind all else of that level
        self.levels: list[Level] = []

    def _found(self, reuse: Reuse) -> Kept | None:
        """The `Kept` of the set-up before, where its P and R serve again; else a new one."""
        found, reuse.kept = reuse.kept, None
        reuse.outcome = "first"
        if isinstance(found, Kept):
            reuse.outcome = "used" if same_places(self._engine, self.rows, self._layout, found) else "pattern"
            if reuse.outcome == "used":
                return found
        return Kept(first=without_values(self._engine, self.rows), layout=self._layout, steps=())

    @property
    def _depth(self) -> int:
        """The number of the level that is next."""
        return self._above + len(self.levels)

    @property
    def _total(self) -> int:
        return self._bounds[-1]

    @property
    def _chunks(self) -> PerChunk:
        """The `ChunkMatrix` of every chunk of the level that is next."""
        return self._stored()

    def descend(self) -> bool:
        """Add the level of the rows that are there; whether they were coarsened. InputError for a bad diagonal."""
        if self._descend():
            return True
        self._finish()
        return False

    def _descend(self) -> bool:
        engine, options, depth = self._engine, self._options, len(self.levels)
        if depth and len(self._bounds) == 2 and self._total <= options.coarse_rows:
            self._add_coarsest()
            return False
        exchange = GhostExchange(engine, self.rows.at("plan"), self.rows, self._senders)
        measures = measured(engine, self.rows) if self._measures is None else self._measures
        self._measures = None
        if not (depth or self._positive):
            check_diagonal(wrong_diagonals(engine, measures))
        level = FineLevel(
            engine=engine,
            rows=self.rows,
            exchange=exchange,
            senders=self._senders,
            reach=self._reach,
            bounds=self._bounds,
            depth=depth,
            measures=measures,
        )
        kept = () if self._kept is None else self._kept.steps
        smoothing = options.method.smoothing(level, kept[depth].coarse if depth < len(kept) else None)
        late = self._late
        split = smoothing.splitting
        if split is None:
            self._put_off(partial(self._add_smoothed, smoothing, measures.at("share")))
        else:
            self._put_off(partial(self._add_swept_in_turns, split.coarse))
        self._put_off_last()
        if kept:
            self._catch_up()
            return self._descend_again(kept, measures.at("diagonal"))
        space = options.method.coarse_space(level, smoothing)
        if space is None:
            return False
        diagonal = measures.at("diagonal")
        del level, measures, exchange  # and what nothing but coarse points follows from
        self._tidy()
        sizes = self._ask_ahead(space.p, space.bounds)
        made = coarsened(
            engine,
            self.rows,
            diagonal,
            space.p,
            space.origin,
            space.near,
            self._senders,
            space.bounds,
            reach=self._reach,
            of_transfers=space.reach,
            keep=self._reuse is not None,
            symmetric=self._symmetric,
            blocks=space.blocks,
            restriction=space.restriction,
        )
        if not late:
            self._catch_up()
        products = None if self._reuse is None else made.chunks.at("products")
        again = Again(products=products, restricted=made.partners)
        waits = self._waits and sizes is None and not late
        if self._grid is not None:
            made = self._grid.rows.transfer(made, space.reach, space.bounds)
            self._grid = None
        place, parts = place_of(
            engine, self._view, made, space.bounds, dtype=self._dtype, gathered_rows=options.gathered_rows
        )
        coarse, halves = made.chunks.at("coarse"), made.halves
        coarse_points = None if split is None else split.coarse
        store = (depth, made, place, parts, space.bounds, again, sizes, coarse_points)
        storing = self._storing(*store)
        step = Deferred(storing) if waits else self._put_off(storing, first=True)
        del storing, space, made, store, sizes, smoothing, split  # R and P in float64 end with their storing
        self._coarsen(depth, place, coarse, step, last=waits, halves=halves)
        return True

    def _descend_again(self, steps: Sequence[KeptLevel], diagonal: PerChunk) -> bool:
        """Make the coarser level with the P and R that there are; whether there is one."""
        if len(self.levels) > len(steps):
            return False
        step, self._grid = steps[len(self.levels) - 1], None
        made = coarse_again(self._engine, self.rows, diagonal, step.again)
        self._connect(len(self.levels) - 1, step)
        self._take(step.place, made, step.mirrors, step.choices)
        return True

    @property
    def _late(self) -> bool:
        """Whether nothing of the level that is next is stored before its coarse rows are there."""
        return self._grid is None and self._total >= LATE * (len(self._bounds) - 1)

    def _put_off(self, make: Callable[[], T], *, first: bool = False) -> Deferred[T]:
        """Put work off: done in order, while a device is waited for or by `_catch_up`; first: before all others."""
        work = Deferred(make)
        (self._later.appendleft if first else self._later.append)(work)
        if not self._late:
            self._engine.defer(work)
        return work

    def _ask_ahead(self, p: PerChunk, bounds: Bounds) -> Deferred[PerChunk] | None:
        """Ask a GPU what storing P takes, before R A P, behind which a host would wait; None where it does not wait."""
        if self._ahead is not None:
            self._ahead()
        if self._grid is not None or not self._waits or len(self._bounds) > 2:
            return None
        view, layout, make = self._view, self._layout, partial(measured_prolongation, columns=bounds[-1])
        return self._put_off(lambda: view.per_chunk(make, layout, p))

    @property
    def _waits(self) -> bool:
        """Whether the host waits for numbers of a device."""
        return self._engine.kernels == "cuda"

    def _put_off_last(self) -> None:
        if self._last is not None:
            last, self._last = self._last, None
            self._put_off(last)

    def _catch_up(self) -> None:
        """Do what was put off."""
        self._put_off_last()
        while self._later:
            self._later.popleft()()

    def _tidy(self) -> None:
        """Give free memory back before arrays that stay are cut from it, of levels that are so large that it counts."""
        if self._late:
            self._engine.per_chunk(partial(_tidied, rows=self._total))

    def _add_smoothed(self, smoothing: Smoothing, share: PerChunk) -> None:
        smoother = self._options.smoother
        chebyshev = smoother == "chebyshev"
        factor = 1.0 if smoother == "l1-jacobi" else smoothing.scale * (smoothing.bound if chebyshev else 1.0)
        lessened, swept = smoothing.damped and smoother == "jacobi", self._view.coupled and not chebyshev
        make = partial(with_smoother, depth=self._depth, factor=factor, lessened=lessened, wait=swept)
        share = share if self._grid is None else self._grid.rows.boxes.at("share")
        made = self._view.per_chunk(make, self._chunks, share).at(self._depth)
        scaled = made.at("scaled")
        make_smoother: Callable[..., Smoother] = partial(
            ChebyshevSmoother if chebyshev else JacobiSmoother, scaled=scaled
        )
        level = self._level(self._chunks, make_smoother=make_smoother)
        if swept:
            ghosts = swept_ghosts(level.matrix, scaled, self._view, self._depth)
            level = replace(level, make_smoother=partial(make_smoother, ghosts=ghosts))
        self.levels.append(level)

    def _add_swept_in_turns(self, coarse: PerChunk) -> None:
        """Add a level whose fine points are smoothed after its coarse correction, then its coarse points."""
        swept = self._view.coupled
        make = partial(in_turns, depth=self._depth, wait=swept)
        made = self._view.per_chunk(make, self._chunks, coarse).at(self._depth)
        level = self._level(self._chunks)
        parts = [made.at("fine"), made.at("coarse")]
        ghosts = [swept_ghosts(level.matrix, part, self._view, self._depth) if swept else None for part in parts]
        fine, others = (SweptPoints(scaled=part, ghosts=each) for part, each in zip(parts, ghosts, strict=True))
        self.levels.append(replace(level, in_turns=True, make_smoother=partial(PostSmoother, fine=fine, coarse=others)))

    def _add_coarsest(self) -> None:
        make = partial(rows_inverse, depth=self._depth, singular=self._singular)
        inverse = self._view.per_chunk(make, self._layout, self.rows).at(self._depth)
        self._catch_up()
        self.levels.append(self._level(self._chunks, inverse=inverse))

    def _level(self, chunks: PerChunk, **more: Any) -> Level:
        if self._grid is None:
            sizes = tuple(last - first for first, last in pairwise(self._bounds))
            more |= {"partition": Partition((self._total, 1, 1), (sizes, (1,), (1,))), "offsets": BOX_OFFSETS}
            more |= {"reads": self._reads}
        else:
            grid = self._grid
            more |= {"partition": grid.partition, "offsets": grid.offsets}
        return Level(
            engine=self._view,
            layout=self._layout,
            chunks=chunks,
            algebraic=True,
            entries=self._engine.per_chunk(_entries, self.rows),
            **more,
        )

    def _finish(self) -> None:
        """Wait for what was made."""
        self._catch_up()
        self._engine.per_chunk(_waited)
        if self._reuse is not None and self._kept is not None:
            self._reuse.kept = replace(self._kept, steps=self._kept.steps or tuple(self._steps))

    def _storing(
        self,
        number: int,
        made: CoarserLevel,
        place: Place,
        parts: PerChunk,
        bounds: Bounds,
        again: Again,
        sizes: Deferred[PerChunk] | None,
        coarse: PerChunk | None,
    ) -> Callable[[], KeptLevel]:
        """Storing of the transfer from the level of this number. Only here R and P are kept in float64."""
        view, layout, depth, gathered = self._view, self._layout, self._above + number, place.gather is not None
        store = partial(stored_transfer, depth=depth, bounds=bounds, replicated=gathered)

        def stored() -> KeptLevel:
            measured = () if sizes is None else (sizes(),)
            chunks = view.per_chunk(store, layout, parts, made.chunks, *measured).at(depth)
            replication = row_replication(view, place.view, bounds, parts, place.layout) if gathered else None
            return KeptLevel(
                transfer=StoredTransfer(
                    chunks=chunks, replication=replication, restricted=made.partners, prolonged=made.partners
                ),
                place=place,
                again=again,
                coarse=coarse,
            )

        return stored

    def _coarsen(
        self, number: int, place: Place, made: PerChunk, step: Deferred[KeptLevel], *, last: bool, halves: bool
    ) -> None:
        """Go from the level of this number to the rows of the coarser one.

        `step`: the transfer, made when it is called for. `last`: whether that waits for a device, so that what does not
        is done before.
        """
        if last:
            self._last = lambda: self._connect(number, step())
        else:
            self._put_off(lambda: self._connect(number, step()))
        if self._late:
            step()
            self._tidy()
            self._catch_up()
        brought = self._take(place, made, halves=halves)
        if self._reuse is not None:
            mirrors = mirrors_of(self._engine, brought, self.rows) if self._symmetric and place.alone else None
            self._steps.append(replace(step(), mirrors=mirrors, choices=self._chunks.at("local", "choice")))

    def _connect(self, number: int, step: KeptLevel) -> None:
        """Give a level its transfer."""
        self.levels[number] = replace(self.levels[number], transfer=step.transfer)

    def _take(
        self,
        place: Place,
        made: PerChunk,
        mirrors: PerChunk | None = None,
        choices: PerChunk | None = None,
        *,
        halves: bool = False,
    ) -> PerChunk:
        """Go to a place with the rows of a coarser level (`HalfRows` if so), which are returned as they come there."""
        made = made if place.gather is None else place.gather(made)
        self._engine, self._view, self._layout = place.engine, place.view, place.layout
        self._bounds, self._reach = place.bounds, place.reach
        if mirrors is not None:
            self.rows = rows_again(self._engine, made, mirrors)
        elif halves and not place.alone:
            self.rows = completed_rows(self._engine, made, self._reach, self._bounds)
        elif self._symmetric:
            self.rows = symmetric_rows(self._engine, made, self._reach, self._bounds)
        else:
            self.rows = with_symmetric_part(self._engine, made, self._reach, self._bounds)
        self._reads = self._senders = self._engine.partners(self.rows.at("neighbors"))
        store, depth, rows, layout = partial(stored_rows, depth=self._depth), self._depth, self.rows, self._layout
        ahead = self._ahead = None
        if choices is None and place.alone and self._waits:
            asked = place.view.per_chunk(asked_rows, rows)
            ahead = self._ahead = Deferred(lambda: place.view.per_chunk(measured_rows, rows, asked))

        def stored() -> PerChunk:
            found = choices if ahead is None else ahead()
            return place.view.per_chunk(store, rows, layout, *(() if found is None else (found,))).at(depth)

        self._stored = self._put_off(stored)
        return made


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _entries(_: Backend, __: int, rows: LevelRows) -> int:
    return len(rows.matrix.values)


def _tidied(backend: Backend, _: int, *, rows: int) -> None:
    backend.tidy(rows, always=True)


def _waited(backend: Backend, _: int) -> None:
    backend.synchronize()  # kernels read what a level has before they wait for earlier launches
    backend.amg.leave()
