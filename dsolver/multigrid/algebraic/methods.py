"""Coarsening methods: classical, by coarse points, and smoothed aggregation."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dsolver.distributed.setup_exchange import Senders, reach_of
from dsolver.engines.base import PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg import BlockSizes
from dsolver.multigrid.algebraic.aggregation.aggregates import leaders, node_graph
from dsolver.multigrid.algebraic.aggregation.smoothing import OVER, smoothed
from dsolver.multigrid.algebraic.aggregation.spectrum import largest_eigenvalue
from dsolver.multigrid.algebraic.aggregation.tentative import tentative
from dsolver.multigrid.algebraic.classical.aggressive import aggressive
from dsolver.multigrid.algebraic.classical.coarse_couplings import couplings_to
from dsolver.multigrid.algebraic.classical.coarse_points import coarse_numbers
from dsolver.multigrid.algebraic.classical.ideal_restriction import ideal_transfers
from dsolver.multigrid.algebraic.classical.interpolation import interpolated
from dsolver.multigrid.algebraic.classical.strength import strong_graph
from dsolver.multigrid.algebraic.fine_level import FineLevel
from dsolver.multigrid.algebraic.rows.ghost_rows import sent_rows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Bounds, own_bounds
from dsolver.multigrid.smoothers import SAFETY

SLOW: Final = 0.95  # part of a level's rows: a coarser level that has more of them is not worth its work
STRONG: Final = 0.25  # part of its row's largest coupling that one must exceed to be strong (Ruge and Stüben)
MOST: Final = 4  # entries of a row of P
FLOWS: Final = 0.3
"""Part of the largest coupling for flows. With 0.15, 0.25 and 0.35 BiCGStab took 12 to 17, 11 to 15 and 10 to 13
iterations for 256² cells at cell Péclet numbers from 0.1 to 10,000."""
GERSHGORIN: Final = 2.0
"""Largest eigenvalue of D⁻¹A that the diagonal of `Measures.share` leaves, by Gershgorin's circles."""


@dataclass(frozen=True, kw_only=True)
class CoarseSpace:
    """The coarse space of a level: P, and the rows of the coarser level before they have entries."""

    p: PerChunk  # the rows of P of every chunk, `SentRows`
    bounds: Bounds
    origin: PerChunk
    near: PerChunk
    reach: Senders  # the chunks whose coarse rows P of each may read, or that its rows may be restricted to
    blocks: BlockSizes | None = None
    restriction: PerChunk | None = None  # `DistributedRows` of every chunk, the rows of Rᵀ; None where R is Pᵀ


@dataclass(frozen=True, kw_only=True)
class TurnedPoints:
    """Coarse and fine points of a level, where its smoother goes over them in turn."""

    coarse: PerChunk  # bool on every chunk, which own rows are coarse points
    # int64 on every chunk, the numbers of the coarse points of its window, -1 for fine ones; None where transfers are
    # there already.
    numbers: PerChunk | None = None
    bounds: Bounds = ()


@dataclass(frozen=True, kw_only=True)
class Smoothing:
    """A level's smoother."""

    scale: float = 1.0  # of the diagonal that `Measures.share` makes, for Jacobi's method
    damped: bool = False  # whether that method takes `dsolver.kernels.cpu.amg.points.damped` in its place
    bound: float = GERSHGORIN  # the largest eigenvalue of A divided by that diagonal, at most
    largest: float | None = None  # the largest eigenvalue of D⁻¹A, where it was asked for
    # the points, where fine and coarse ones are smoothed in turn; the diagonal is A's then.
    splitting: TurnedPoints | None = None


class Method(ABC):
    """A method of coarsening."""

    @abstractmethod
    def smoothing(self, level: FineLevel, coarse: PerChunk | None = None) -> Smoothing:
        """The smoother of a level; coarse: as of `TurnedPoints`, where points were chosen before."""

    @abstractmethod
    def coarse_space(self, level: FineLevel, smoothing: Smoothing) -> CoarseSpace | None:
        """The coarse space of a level with this smoother; None where there is none that is worth its work."""


@dataclass(frozen=True, kw_only=True)
class CoarsePoints(Method):
    """Coarse points by PMIS, and interpolation "extended+i" from them."""

    theta: float = STRONG
    max_elements: int = MOST  # entries of a row of P, at most
    aggressive_levels: int = 0

    def smoothing(self, level: FineLevel, coarse: PerChunk | None = None) -> Smoothing:
        """The diagonal of `Measures`."""
        return Smoothing(damped=True)

    def coarse_space(self, level: FineLevel, smoothing: Smoothing) -> CoarseSpace | None:
        """The values at coarse points."""
        engine, rows, exchange, most = level.engine, level.rows, level.exchange, self.max_elements
        graph = strong_graph(engine, rows, level.measures, exchange, self.theta)
        numbers, bounds = coarse_numbers(engine, rows, graph, exchange, level.depth, beside=level.beside)
        if not _worth(bounds, level.bounds):
            return None
        reach = reach_of(level.reach, level.reach)
        bits, fewer, twice = graph.at("bits"), None, level.depth < self.aggressive_levels
        del graph  # and the numbers of rows that depend on each
        couplings = couplings_to(level, bits, numbers, bounds, every=twice)
        if twice:
            fewer = aggressive(level, bits, numbers, bounds, most, couplings)
        if fewer is None:
            p = engine.per_chunk(partial(interpolated, most=most), rows, bits, couplings.around)
            p = engine.per_chunk(sent_rows, rows, p)
        else:
            numbers, bounds, p = fewer
            reach = reach_of(reach, reach)  # by two stages
        kept = engine.per_chunk(partial(_kept, bounds=bounds), rows, numbers)
        return CoarseSpace(p=p, bounds=bounds, origin=kept.at(0), near=kept.at(1), reach=reach)


@dataclass(frozen=True, kw_only=True)
class IdealRestriction(Method):
    """Coarse points by PMIS, nearly ideal restriction to them, and interpolation from one each: for flows."""

    theta: float = FLOWS

    def smoothing(self, level: FineLevel, coarse: PerChunk | None = None) -> Smoothing:
        """Fine points, and coarse ones, which are chosen here."""
        if coarse is not None:
            return Smoothing(splitting=TurnedPoints(coarse=coarse))
        engine, rows = level.engine, level.rows
        graph = strong_graph(engine, rows, level.measures, level.exchange, self.theta)
        numbers, bounds = coarse_numbers(engine, rows, graph, level.exchange, level.depth)
        coarse = engine.per_chunk(_coarse, rows, numbers)
        return Smoothing(splitting=TurnedPoints(coarse=coarse, numbers=numbers, bounds=bounds))

    def coarse_space(self, level: FineLevel, smoothing: Smoothing) -> CoarseSpace | None:
        """The coarse points."""
        split = smoothing.splitting
        assert split is not None
        assert split.numbers is not None
        engine, rows, bounds = level.engine, level.rows, split.bounds
        if not _worth(bounds, level.bounds):
            return None
        made = ideal_transfers(engine, rows, level.measures, split.numbers, level.senders, bounds)
        kept = engine.per_chunk(partial(_kept, bounds=bounds), rows, split.numbers)
        return CoarseSpace(
            p=made.p,
            bounds=bounds,
            origin=kept.at(0),
            near=kept.at(1),
            reach=reach_of(level.reach, level.reach),
            restriction=made.restriction,
        )


@dataclass(frozen=True, kw_only=True)
class Aggregation(Method):
    """Smoothed aggregation."""

    # nodes i and j are coupled strongly if |a_ij| > theta √(a_ii a_jj) on the finest level; half of it on each further
    # one.
    theta: float
    omega: float  # damping of the smoother of P, times the largest eigenvalue of D⁻¹A; 0 for none
    size: int
    vectors: int  # of the near-null space, and so unknowns of a node on the others

    def smoothing(self, level: FineLevel, coarse: PerChunk | None = None) -> Smoothing:
        """The diagonal of `Measures`, scaled so that ω of Jacobi's method is 4/3 / λ."""
        depth, total = level.depth, level.bounds[-1]
        size = self._size(depth)
        largest = largest_eigenvalue(level.engine, level.rows, level.measures, level.exchange, depth, total, size)
        return Smoothing(scale=largest / OVER, bound=SAFETY * OVER, largest=largest)

    def coarse_space(self, level: FineLevel, smoothing: Smoothing) -> CoarseSpace | None:
        """A node for each aggregate."""
        assert smoothing.largest is not None
        engine, rows, exchange = level.engine, level.rows, level.exchange
        size = self._size(level.depth)
        theta = self.theta * 0.5**level.depth
        graph = node_graph(engine, rows, level.measures.at("diagonal"), exchange, size, theta)
        led_by = leaders(engine, graph, level.senders, level.depth)
        made = tentative(engine, rows, led_by, size, self.vectors, level.bounds)
        if made is None or not _worth(made[2], level.bounds):
            return None
        p, blocks, bounds, read = made
        sizes = BlockSizes(size, size, self.vectors)
        if self.omega:
            filtered = graph if theta and size == 1 and self.vectors == 1 else None
            p = smoothed(
                engine,
                rows,
                level.measures,
                p,
                filtered,
                exchange,
                level.senders,
                self.omega / smoothing.largest,
                sizes,
            )
        return CoarseSpace(
            p=p,
            bounds=bounds,
            origin=blocks.at("origin"),
            near=blocks.at("near"),
            reach=reach_of(level.reach, read),
            blocks=sizes,
        )

    def _size(self, depth: int) -> int:
        """Unknowns of a node."""
        return self.vectors if depth else self.size


def _worth(bounds: Bounds, finer: Bounds) -> bool:
    return 0 < bounds[-1] <= SLOW * finer[-1]


def _coarse(_: Backend, __: int, rows: LevelRows, numbers: I64) -> Any:
    """Flags of own rows that are coarse points."""
    return rows.window.own_of(numbers) >= 0


def _kept(backend: Backend, number: int, rows: LevelRows, numbers: I64, *, bounds: Bounds) -> tuple[I64, F64]:
    """Origins and the near-null space of own coarse points, which are those of their rows."""
    own, (first, last) = rows.window.own_of(numbers), own_bounds(bounds, number)
    of_coarse = backend.amg.of_coarse
    return of_coarse(own, first, last - first, rows.origin), of_coarse(own, first, last - first, rows.near)
