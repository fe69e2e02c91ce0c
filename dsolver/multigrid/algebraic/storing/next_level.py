"""Levels of a hierarchy as cycles use them, made when their rows are stored."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.box import BOX_OFFSETS
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.multigrid.algebraic.finest import FinestGrid
from dsolver.multigrid.algebraic.methods import Smoothing
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import Bounds
from dsolver.multigrid.algebraic.storage import in_turns, swept_ghosts, with_smoother
from dsolver.multigrid.level import Level
from dsolver.multigrid.smoothers import ChebyshevSmoother, JacobiSmoother, PostSmoother, Smoother, SweptPoints


@dataclass(frozen=True, kw_only=True)
class NextLevel:
    """A level whose rows are stored."""

    engine: Engine  # of the set-up
    view: Engine  # in the value type of what is stored
    rows: PerChunk  # the `LevelRows` of every chunk
    layout: PerChunk
    chunks: PerChunk  # the `ChunkMatrix` of every chunk
    bounds: Bounds
    reads: Senders
    grid: FinestGrid | None
    depth: int

    def smoothed(self, smoothing: Smoothing, share: PerChunk, smoother: str) -> Level:
        """The level with its smoother; share: of every chunk, of the `Measures`."""
        chebyshev = smoother == "chebyshev"
        factor = 1.0 if smoother == "l1-jacobi" else smoothing.scale * (smoothing.bound if chebyshev else 1.0)
        lessened, swept = smoothing.damped and smoother == "jacobi", self.view.coupled and not chebyshev
        make = partial(with_smoother, depth=self.depth, factor=factor, lessened=lessened, wait=swept)
        share = share if self.grid is None else self.grid.rows.boxes.at("share")
        made = self.view.per_chunk(make, self.chunks, share).at(self.depth)
        scaled = made.at("scaled")
        make_smoother: Callable[..., Smoother] = partial(
            ChebyshevSmoother if chebyshev else JacobiSmoother, scaled=scaled
        )
        level = self.level(make_smoother=make_smoother, aggregated=smoothing.largest is not None)
        if swept:
            ghosts = swept_ghosts(level.matrix, scaled, self.view, self.depth)
            level = replace(level, make_smoother=partial(make_smoother, ghosts=ghosts))
        return level

    def swept_in_turns(self, coarse: PerChunk) -> Level:
        """The level, whose fine points are smoothed after its coarse correction, then its coarse points."""
        swept = self.view.coupled
        make = partial(in_turns, depth=self.depth, wait=swept)
        made = self.view.per_chunk(make, self.chunks, coarse).at(self.depth)
        level = self.level()
        parts = [made.at("fine"), made.at("coarse")]
        ghosts = [swept_ghosts(level.matrix, part, self.view, self.depth) if swept else None for part in parts]
        fine, others = (SweptPoints(scaled=part, ghosts=each) for part, each in zip(parts, ghosts, strict=True))
        return replace(level, make_smoother=partial(PostSmoother, fine=fine, coarse=others))

    def level(self, **more: Any) -> Level:
        """The level, with what else it has."""
        if self.grid is None:
            sizes = tuple(last - first for first, last in pairwise(self.bounds))
            more |= {"partition": Partition((self.bounds[-1], 1, 1), (sizes, (1,), (1,))), "offsets": BOX_OFFSETS}
            more |= {"reads": self.reads}
        else:
            grid = self.grid
            more |= {"partition": grid.partition, "offsets": grid.offsets}
        return Level(
            engine=self.view,
            layout=self.layout,
            chunks=self.chunks,
            algebraic=True,
            entries=self.engine.per_chunk(_entries, self.rows),
            **more,
        )


def _entries(_: Backend, __: int, rows: LevelRows) -> int:
    return len(rows.matrix.values)
