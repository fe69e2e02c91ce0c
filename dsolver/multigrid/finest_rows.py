"""The finest level's rows of the matrix, from which all levels follow."""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.box import Offsets
from dsolver.grid.coarse_grid import partition_of
from dsolver.grid.partition import Partition
from dsolver.kernels.deferred import Foresight, UnforeseenError
from dsolver.multigrid.geometric.assembly import chunk_matrix
from dsolver.multigrid.geometric.constant_stencil import look_at_rows
from dsolver.multigrid.geometric.matrix_statistics import ROUGH


@dataclass(frozen=True, kw_only=True)
class FinestRows:
    """The finest level's rows of the matrix."""

    partition: Partition
    offsets: Offsets  # of the columns
    # float64 (K rows,) of every chunk, offset after offset in lattice order, or (K,) for a constant stencil.
    weights: PerChunk
    # int32 (rows,) of every chunk, the numbers of the open cells that alone have rows here; None where every cell has.
    cells: PerChunk | None = None
    constant: bool  # whether it is one
    closed: PerChunk | None = None  # bool (rows,) of every chunk, the cells that are left out; None for none
    kept: tuple[int, ...] | None = None  # by chunk, how many are not; None where none are left out
    # whether the vector of ones on all rows is in the null space; if masked, on those of cells that are not left out.
    singular: bool = False
    # what the levels' diagonal is multiplied by, a block for each chunk, so that nothing of the kind is left of regions
    # of rows; None for ones. Of open cells alone those, as `kernels.amg.RaisedCells`.
    raised: PerChunk | None = None
    jumping: float | None = None  # what `matrix_statistics.jumping` has found, if it was asked
    lattice: bool = False  # whether it was found that the finest level need not follow couplings

    @cached_property
    def chunks(self) -> Partition:
        """The partition, in which an axis of one point is not periodic."""
        return partition_of(self.partition.grid, self.partition.sizes, self.partition.periodic)

    def foreseeing(self, engine: Engine, *what: Hashable) -> AbstractContextManager[Foresight]:
        """Context of a set-up of these rows: see `Engine.foreseeing`. Nothing is foreseen where cells are left out."""
        if self.masked:
            return nullcontext(Foresight())
        chunks, rough = self.chunks, None if self.jumping is None else self.jumping > ROUGH
        about = (self.constant, self.singular, self.raised is None, rough)  # all that decides beside answers
        return engine.foreseeing((*what, chunks.grid, chunks.sizes, chunks.periodic, self.offsets, about, self.lattice))

    def looked_at(self, engine: Engine, *, stored: bool = False) -> PerChunk:
        """The `constant_stencil.Finest` of every chunk; stored: whether rows are stored even if they are all the same.

        So are those whose diagonal is raised.
        """
        stored = stored or self.raised is not None
        look = partial(look_at_rows, partition=self.chunks, offsets=self.offsets, stored=stored)
        return engine.per_chunk(look, self.weights, *(() if self.closed is None else (self.closed,)))

    @property
    def masked(self) -> bool:
        """Whether cells are left out."""
        return self.kept is not None


def finest(engine: Engine, rows: FinestRows, *, stored: bool = False) -> PerChunk:
    """The finest level's `ChunkMatrix` of every chunk, in the order that suits its rows; stored: as of `looked_at`."""
    return foreseen(lambda: _finest(engine, rows, stored=stored))


def _finest(engine: Engine, rows: FinestRows, *, stored: bool) -> PerChunk:
    with rows.foreseeing(engine, "finest", stored) as foresight:
        found = rows.looked_at(engine, stored=stored)
        make = partial(chunk_matrix, depth=0, partition=rows.chunks, offsets=rows.offsets, swept=False)
        made = engine.per_chunk(make, found.at("layout"), rows.weights, found.at("stencil")).at(0)
        foresight.confirm()
    return made


T = TypeVar("T")


def foreseen(make: Callable[[], T]) -> T:
    """The result of a set-up, of a second attempt if the first one has foreseen what is not so."""
    try:
        return make()
    except UnforeseenError:
        pass  # what it has made goes with the exception
    return make()
