"""Aggressive coarsening across chunks: coarse points among the coarse points, where the graph allows it.

Of the coarse points of a first pass, one depends on another if at least two paths of at most two strong couplings lead
there, of which a direct coupling counts as two (Stüben, in Trottenberg, Oosterlee, Schüller, Multigrid, 2001, A.7.1). A
second pass among them leaves about a quarter as many points where all couplings are alike, and most of them where
couplings follow lines. Interpolation has two stages, P = P₁ P₂ (Yang, Numer. Linear Algebra Appl. 17, 2010): points of
the first pass from those of the second, through all others, and all points from those of the first.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.distributed.setup_exchange import GhostExchange, numbers_of, reach_of
from dsolver.engines.base import Messages, PerChunk
from dsolver.grid.halo import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.amg import UNDECIDED
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.classical.coarse_couplings import (
    CoarseCouplings,
    Couplings,
    CouplingsAround,
    coarse_couplings,
    shared,
)
from dsolver.multigrid.algebraic.classical.coarse_points import coarse_numbers
from dsolver.multigrid.algebraic.classical.interpolation import begun_interpolation
from dsolver.multigrid.algebraic.classical.strength import StrongCouplings
from dsolver.multigrid.algebraic.fine_level import FineLevel
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.ghost_rows import LeavingRows, SentRows, around_it, ghost_rows, sent
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.seen import Seen, asked
from dsolver.multigrid.algebraic.rows.window import I64, Bounds, own_bounds, received, window_of

PATHS: Final = 2  # paths that couple two coarse points
WORTH: Final = 0.5
"""Part of the first pass's points that the second one may leave. Beyond it there is little to save: with layers of flat
cells 2 % of all entries for 11 iterations in place of 9, with a coefficient of each cell's own 12 % for 16 in place of
12."""
MANY: Final = 0.4
"""Part of the rows that a first pass leaves, beyond which couplings may follow lines: these leave 0.42 to 0.45."""
LINES: Final = 2.2
"""Strong couplings of a coarse point of the first pass, in the mean, up to which they follow lines, where no two paths
lead to the same point. It has 1.96 to 2.13 in layers of flat cells and in trees, of whose points a second pass would
leave 0.98 and more, and at least 2.4 wherever it leaves less than half: 3 in strips of two cells, 5.9 on lattices."""
SALT: Final = 1 << 20  # added to a level's number for the hashes of the second pass


@dataclass(frozen=True, kw_only=True)
class SecondGraph:
    """Couplings among a chunk's coarse points of the first pass: a row for each of `points`, columns as of `seen`."""

    matrix: Csr
    graph: StrongCouplings
    points: I64
    origin: I64
    seen: Seen


@dataclass(frozen=True, kw_only=True)
class TwoStages:
    """A chunk's rows of P₁ and of P₂."""

    first: DistributedRows
    second: SentRows


def aggressive(
    level: FineLevel, bits: PerChunk, numbers: PerChunk, bounds: Bounds, most: int, couplings: Couplings
) -> tuple[PerChunk, Bounds, PerChunk] | None:
    """A second pass, and interpolation in two stages; None where the second pass leaves too many points, or would.

    Args:
        most: entries of a row of P₁, P₂ and P.
        couplings: of all points to these coarse points, in both directions.

    Returns:
        numbers and bounds of the coarse points that are left, and the `SentRows` of P of every chunk.
    """
    if _on_lines(level, bounds, couplings):
        return None
    engine, found = level.engine, _second_pass(level, bits, numbers, bounds, couplings)
    if found is None:
        return None
    fewer, bounds_left, chosen, points, left = found
    make = partial(_to_fewer, bounds=bounds_left)
    among = shared(level, engine.per_chunk(make, level.rows, bits, fewer, couplings.own, left))
    both = partial(_stages, most=most)
    stages = engine.per_chunk(both, level.rows, bits, couplings.around, among.around, chosen, points)
    around = ghost_rows(engine, reach_of(level.reach, level.reach), stages.at("second"))
    p = engine.per_chunk(partial(_product, most=most), level.rows, stages, around)
    return fewer, bounds_left, p


def _on_lines(level: FineLevel, bounds: Bounds, couplings: Couplings) -> bool:
    """Whether strong couplings follow lines."""
    if bounds[-1] <= MANY * level.bounds[-1]:
        return False  # and no number is waited for
    counts = level.engine.per_chunk(_count, couplings.own)
    return sum(numbers_of(level.engine, counts)) <= LINES * bounds[-1]


def _second_pass(
    level: FineLevel, bits: PerChunk, numbers: PerChunk, bounds: Bounds, couplings: Couplings
) -> tuple[PerChunk, Bounds, PerChunk, PerChunk, PerChunk] | None:
    """The coarse points that a second pass leaves; None where these are too many.

    Returns:
        numbers and bounds of the points that are left; the rows of the level that the first pass's points are, these as
        rows, and, in their own windows, the numbers of those that are left.
    """
    engine, rows = level.engine, level.rows
    make = partial(_second_graph, bounds=bounds)
    second = engine.per_chunk(make, rows, bits, numbers, couplings.around)
    reach = reach_of(level.reach, level.reach)
    points = engine.per_chunk(partial(_points, bounds=bounds), second, asked(engine, second.at("seen"), reach))
    among, graph = GhostExchange(engine, points.at("plan"), reach, points), second.at("graph")
    left, bounds_left = coarse_numbers(engine, points, graph, among, SALT + level.depth, lone=UNDECIDED)
    if bounds_left[-1] > WORTH * bounds[-1]:
        return None
    own = engine.per_chunk(_on_rows, rows, numbers, points, left)
    return level.exchange.in_window(own), bounds_left, second.at("points"), points, left


def _count(_: Backend, __: int, couplings: CoarseCouplings) -> float:
    """The number of strong couplings of own points to coarse ones."""
    return float(couplings.rows.matrix.start[-1])  # a chunk that is alone has room for more of them


def _to_fewer(
    backend: Backend,
    number: int,
    rows: LevelRows,
    bits: Any,
    fewer: I64,
    couplings: CoarseCouplings,
    left: I64,
    *,
    bounds: Bounds,
) -> CoarseCouplings:
    """Strong couplings of own points to those that are left, of which a chunk that is alone knows all."""
    if not rows.window.whole:
        return coarse_couplings(backend, number, rows, bits, fewer, bounds=bounds)
    states, places = backend.amg.states_of(fewer)
    window = window_of(backend.amg, bounds, number, fewer)
    found = DistributedRows(window=window, matrix=backend.amg.renamed(couplings.rows.matrix, left))
    return CoarseCouplings(rows=found, lists={}, numbers=fewer, states=states, places=places)


def _second_graph(
    backend: Backend, number: int, rows: LevelRows, bits: Any, numbers: I64, coupled: CouplingsAround, *, bounds: Bounds
) -> SecondGraph:
    window, amg, around = rows.window, backend.amg, coupled.rows
    (first, last), own = own_bounds(bounds, number), window.own_of(numbers)
    chosen = amg.of_coarse(own, first, last - first, np.arange(rows.rows, like=rows.origin))
    found = amg.paths(rows.matrix, chosen, window.below, bits, coupled.places, around.matrix, around.window.size, PATHS)
    among, leads = amg.leads(found.start, found.values)
    return SecondGraph(
        matrix=found._replace(values=found.values[:0]),
        graph=StrongCouplings(bits=among, counts=leads),
        points=chosen,
        origin=amg.of_coarse(own, first, last - first, rows.origin),
        seen=Seen.of(bounds, around.window),
    )


def _points(_: Backend, __: int, second: SecondGraph, wanted: Messages, *, bounds: Bounds) -> LevelRows:
    """The coarse points of the first pass as rows, whose values are not read."""
    window = second.seen.window
    sends = tuple((reader, numbers - window.first) for reader, (numbers,) in sorted(wanted.items()))
    plan = HaloPlan(sends=sends, receives=received(bounds, window))
    near = np.empty((window.rows, 0), like=second.origin)
    return LevelRows(window=window, matrix=second.matrix, origin=second.origin, near=near, plan=plan, bounds=bounds)


def _on_rows(backend: Backend, _: int, rows: LevelRows, numbers: I64, points: LevelRows, left: I64) -> Any:
    """The numbers of the points that are left, -1 for other rows."""
    own, kept = rows.window.own_of(numbers), points.window.own_of(left)
    return backend.amg.through(own, points.window.first, kept)


def _stages(
    backend: Backend,
    _: int,
    rows: LevelRows,
    bits: Any,
    all_: CouplingsAround,
    fewer: CouplingsAround,
    chosen: I64,
    points: LevelRows,
    *,
    most: int,
) -> TwoStages:
    """Rows of P₂, which others are sent, and of P₁. A device is waited for once, for the sizes of all."""
    amg, leaving = backend.amg, LeavingRows(backend.amg, points)
    begun = begun_interpolation(amg, rows, bits, fewer, most, chosen, leaving.count)
    first = begun_interpolation(amg, rows, bits, all_, most)
    second = begun()
    return TwoStages(first=first(), second=SentRows(rows=second, lists=leaving.lists(second)))


def _product(
    backend: Backend, number: int, rows: LevelRows, stages: TwoStages, around: Messages, *, most: int
) -> SentRows:
    """Rows of P₁ P₂: P₁ has the window of the first pass's points, of which all rows of P₂ are here."""
    amg, p2 = backend.amg, stages.second.rows.among(backend.amg, *around_it(number, around))
    found = amg.kept_product(stages.first.matrix, p2.matrix, p2.window.size, most)
    return sent(amg, rows, DistributedRows(window=p2.window, matrix=found), tight=True)
