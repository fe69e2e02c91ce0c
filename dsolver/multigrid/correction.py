"""The coarse-grid correction of a level whose restriction and prolongation are stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dsolver.distributed.matrix import ChunkMatrix, Matrix
from dsolver.engines.base import Engine, Field, PartialSums
from dsolver.grid.box import BOX_OFFSETS
from dsolver.kernels.contract import MOVE, PROLONG_ADD, PROLONG_SUM, RESTRICT_FULL
from dsolver.kernels.formats.layout import Layout
from dsolver.multigrid.level import Level, Step, Transfer


@dataclass(frozen=True, kw_only=True)
class ChunkTransfer:
    """Restriction and prolongation of one chunk."""

    restriction: ChunkMatrix
    # P; its columns are coarse points, all of them where the coarser level lives whole on every owner.
    prolongation: ChunkMatrix
    columns: Layout
    # float64 (K coarse rows,), the coarser level's matrix rows, offset after offset; None once they have been used.
    weights: Any = None

    @property
    def coarse(self) -> Layout:
        """The storage order of the restricted residual: the coarser level's; lattice order where that is replicated."""
        return self.restriction.layout


@dataclass(frozen=True, kw_only=True)
class StoredTransfer(Transfer):
    """R and P that are stored, `ChunkTransfer`s; the chunks whose points R and P read, where no lattice says so."""

    restricted: Sequence[Sequence[int]] | None = None
    prolonged: Sequence[Sequence[int]] | None = None

    def step(self, fine: Level, coarse: Level, sweeps: int) -> "CorrectionStep":
        return CorrectionStep(self, fine, coarse, sweeps)


class Correction:
    """Restriction to the coarser level, with right-hand side rc and solution xc, and prolongation.

    Exchanges start as soon as what they send is there, and are waited for behind the work inside the chunk.
    """

    rc: Field
    xc: Field

    def __init__(self, transfer: StoredTransfer, fine: Level, coarse: Level) -> None:
        engine, chunks = fine.engine, transfer.chunks
        restricted, prolonged = transfer.restricted, transfer.prolonged
        self._engine = engine
        self._coarse = CoarseVectors(transfer, engine, coarse)
        self.rc, self.xc = self._coarse.rc, self._coarse.xc
        self._r = Matrix(
            engine, chunks.at("restriction"), fine.senders(BOX_OFFSETS) if restricted is None else restricted
        )
        self._p = Matrix(
            engine,
            chunks.at("prolongation"),
            coarse.senders(BOX_OFFSETS) if prolonged is None else prolonged,
            ghosts=self._coarse.distributed,
        )

    def restrict(self, y: Field) -> None:
        """rc = R y."""
        self._r.multiply(y, self._coarse.restricted, RESTRICT_FULL)
        self._coarse.collect()

    def correct(self, x: Field, y: Field) -> None:
        """y = x + P xc; y may be x."""
        self._p.ghost.exchange(self.xc)
        if y is x:
            self._engine.run(PROLONG_ADD, self._p.local, self._coarse.columns(), x)
        else:
            self._engine.run(PROLONG_SUM, self._p.local, self._coarse.columns(), x, y)
        self._p.ghost.add(y)


class CorrectionStep(Correction, Step):
    """Smoothing, and a correction by the coarser level."""

    def __init__(self, transfer: StoredTransfer, fine: Level, coarse: Level, sweeps: int) -> None:
        super().__init__(transfer, fine, coarse)
        self._smoother = fine.smoother(sweeps)

    def descend(self, r: Field, x: Field) -> None:
        self.restrict(self._smoother.before(r, x))

    def ascend(self, r: Field, x: Field) -> None:
        self.correct(x, self._smoother.corrected(x))
        self._smoother.after(r, x)

    def ascend_dot(self, r: Field, x: Field, parts: PartialSums) -> bool:
        self.correct(x, self._smoother.corrected(x))
        return self._smoother.after_dot(r, x, parts)


class CoarseVectors:
    """The next coarser level's right-hand side and solution, as a level writes and reads them.

    `restricted`: what the residual is restricted to: rc, or the chunks' parts of it where that is replicated.
    `distributed`: whether xc has parts that other chunks own.
    """

    def __init__(self, transfer: Transfer, engine: Engine, coarse: Level) -> None:
        self._engine, self._coarse = engine, coarse.engine
        self.rc, self.xc = (coarse.engine.field(coarse.layout) for _ in range(2))
        self._order, self._replication = transfer.order, transfer.replication
        self.distributed = engine.coupled and transfer.replication is None
        self.restricted = self.rc
        if transfer.replication is not None:
            self.restricted = engine.field(transfer.chunks.at("coarse"))
            self._halo = engine.halo(transfer.replication.plan, transfer.replication.senders)
        if transfer.order is not None:
            self._columns = coarse.engine.field(transfer.chunks.at("columns"))

    def collect(self) -> None:
        """rc = all chunks' parts of it, where it is replicated."""
        if self._replication is not None:
            self._engine.exchange(self.restricted, self._halo)
            self._coarse.run(MOVE, self._replication.own, self.restricted, self.rc)
            self._coarse.run(MOVE, self._replication.others, self._halo, self.rc)

    def columns(self) -> Field:
        """xc as the finer level's chunks read it, in the order of their columns."""
        found = self.xc
        if self._order is not None:
            self._coarse.run(MOVE, self._order, self.xc, self._columns)
            found = self._columns
        return found if self._replication is None else self._engine.shared(found)
