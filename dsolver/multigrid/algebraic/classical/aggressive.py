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
from dsolver.multigrid.algebraic.classical.interpolation import interpolated
from dsolver.multigrid.algebraic.classical.strength import StrongCouplings
from dsolver.multigrid.algebraic.fine_level import FineLevel
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.ghost_rows import SentRows, around_it, sent
from dsolver.multigrid.algebraic.rows.global_rows import ROWS
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
    fewer, bounds_left, points, left = found
    make = partial(_to_fewer, bounds=bounds_left)
    among = shared(level, engine.per_chunk(make, level.rows, bits, fewer, couplings.own, left))
    p2 = interpolated(level, bits, most, among, points)
    p1 = engine.per_chunk(_tight, interpolated(level, bits, most, couplings))
    reach = reach_of(level.reach, level.reach)
    wanted = asked(engine, engine.per_chunk(partial(_columns, bounds=bounds), p1), reach)
    around = engine.deliver(engine.per_chunk(partial(_answers, bounds=bounds), p2, wanted), reach, ROWS)
    p = engine.per_chunk(partial(_product, most=most), level.rows, p1, p2, around)
    return fewer, bounds_left, p


def _on_lines(level: FineLevel, bounds: Bounds, couplings: Couplings) -> bool:
    """Whether strong couplings follow lines."""
    if bounds[-1] <= MANY * level.bounds[-1]:
        return False  # and no number is waited for
    counts = level.engine.per_chunk(_count, couplings.own)
    return sum(numbers_of(level.engine, counts)) <= LINES * bounds[-1]


def _second_pass(
    level: FineLevel, bits: PerChunk, numbers: PerChunk, bounds: Bounds, couplings: Couplings
) -> tuple[PerChunk, Bounds, PerChunk, PerChunk] | None:
    """The coarse points that a second pass leaves; None where these are too many.

    Returns:
        numbers and bounds of the points that are left, the rows of the level that the first pass's points are, and of
        these, in their own windows, the numbers of those that are left.
    """
    engine, rows = level.engine, level.rows
    make = partial(_second_graph, bounds=bounds)
    second = engine.per_chunk(make, rows, bits, numbers, couplings.around)
    reach = reach_of(level.reach, level.reach)
    points = engine.per_chunk(partial(_points, bounds=bounds), second, asked(engine, second.at("seen"), reach))
    among = GhostExchange(engine, points.at("plan"), reach, points)
    graph = second.at("graph")
    left, bounds_left = coarse_numbers(engine, points, graph, among, SALT + level.depth, lone=UNDECIDED)
    if bounds_left[-1] > WORTH * bounds[-1]:
        return None
    own = engine.per_chunk(_on_rows, rows, numbers, points, left)
    return level.exchange.in_window(own), bounds_left, second.at("points"), left


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
    made = DistributedRows(window=around.window, matrix=found).tight(amg)
    among, leads = amg.leads(found.start, found.values)
    return SecondGraph(
        matrix=made.matrix._replace(values=found.values[:0]),
        graph=StrongCouplings(bits=among, counts=leads),
        points=chosen,
        origin=amg.of_coarse(own, first, last - first, rows.origin),
        seen=Seen.of(bounds, made.window),
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


def _tight(backend: Backend, _: int, rows: DistributedRows) -> DistributedRows:
    return rows.tight(backend.amg)


def _columns(_: Backend, __: int, p: DistributedRows, *, bounds: Bounds) -> Seen:
    """The coarse points of the first pass that own rows of P₁ read."""
    return Seen.of(bounds, p.window)


def _answers(backend: Backend, number: int, p: DistributedRows, wanted: Messages, *, bounds: Bounds) -> Messages:
    """Rows of P₂ for the chunks that want them."""
    first = own_bounds(bounds, number)[0]
    return {reader: p.rows(backend.amg, numbers - first).message for reader, (numbers,) in wanted.items()}


def _product(
    backend: Backend,
    number: int,
    rows: LevelRows,
    p1: DistributedRows,
    p2: DistributedRows,
    around: Messages,
    *,
    most: int,
) -> SentRows:
    """Rows of P₁ P₂."""
    amg = backend.amg
    whole = p2.among(amg, *around_it(number, around))
    found = amg.kept_product(p1.matrix, whole.matrix, whole.window.size, most)
    return sent(amg, rows, DistributedRows(window=whole.window, matrix=found), tight=True)
