"""The part of a constant star in a cycle: a pass over the right-hand side down to the next level, and one back up."""

from dataclasses import dataclass

from dsolver.engines.base import Field
from dsolver.kernels.contract import MOVE, STAR_DOWN, STAR_UP
from dsolver.kernels.lattice.star import COARSE_LAYERS, LAYERS
from dsolver.multigrid.correction import CoarseVectors
from dsolver.multigrid.geometric.star_layers import layer_offsets
from dsolver.multigrid.level import Level, Step, Transfer


@dataclass(frozen=True, kw_only=True)
class StarPasses(Transfer):
    """Passes over a star: chunks are of `ChunkPasses`."""

    def step(self, fine: Level, coarse: Level, sweeps: int) -> "StarStep":
        return StarStep(self, fine, coarse)


class StarStep(Step):
    """One Gauss-Seidel sweep down and one up, of which nothing is stored but r.

    Sweeps see other chunks' points as those of the whole grid: with neighbors, r of the layers around the chunk is
    exchanged once for both passes.
    """

    def __init__(self, transfer: Transfer, fine: Level, coarse: Level) -> None:
        engine, chunks = fine.engine, transfer.chunks
        self._engine, self._passes, self._received = engine, chunks.at("passes"), chunks.at("received")
        self._coarse = CoarseVectors(transfer, engine, coarse)
        self.rc, self.xc = self._coarse.rc, self._coarse.xc
        self._halo = engine.halo(chunks.at("halo"), fine.senders(layer_offsets(fine.partition, LAYERS)))
        if self._coarse.distributed:
            senders = coarse.senders(layer_offsets(coarse.partition, COARSE_LAYERS))
            self._solution_halo = engine.halo(chunks.at("solution_halo"), senders)

    def descend(self, r: Field, x: Field) -> None:
        if self._engine.coupled:
            self._engine.exchange(r, self._halo)
        self._engine.run(STAR_DOWN, self._passes, r, self._halo, self._coarse.restricted)
        self._coarse.collect()

    def ascend(self, r: Field, x: Field) -> None:
        if self._coarse.distributed:
            self._engine.exchange(self.xc, self._solution_halo)
        columns = self._coarse.columns()
        if self._coarse.distributed:
            self._engine.run(MOVE, self._received, self._solution_halo, columns)
        self._engine.run(STAR_UP, self._passes, r, self._halo, columns, x)
