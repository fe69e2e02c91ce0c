"""Iterates that a solve saves, from which it begins anew where its cluster has lost a worker.

Conjugate gradients can begin at any x; what a loss costs is the iterations since the last save, and what CG had learnt
of the system by then. The partition stays as it is, so the matrix of every chunk is the same; only owners change.
"""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from dsolver.discretize.lifting import times
from dsolver.engines.dask.blocks import LazyBlocks, gather_blocks
from dsolver.errors import InputError, warn
from dsolver.grid.partition import Partition
from dsolver.monitor.state import Progress, State
from dsolver.problems import Problem
from dsolver.program.solve import Solve
from dsolver.session.checkpoints.checkpoint import EVERY, Checkpoint
from dsolver.session.checkpoints.saves import Saved
from dsolver.session.running import RunningSystem
from dsolver.session.user_arrays import assembled

logger = logging.getLogger(__name__)

MEMORY: Final = 1 << 30  # bytes of an iterate up to which one is kept in this process when no checkpoint was asked for


class Keeper:
    """Iterates that a solve saves, and where it begins anew.

    Args:
        problem: what is solved.
        columns: number of right-hand sides.
        checkpoint: where the iterate of a single one is saved on disk, or None.
        resume: where its first guess comes from, or None.
        cluster: whether workers can be lost at all.

    Attributes:
        notes: for `Solution.notes`, where there was nothing to resume from.

    Raises:
        InputError: the checkpoint cannot be written; or the store to resume from holds another grid, or nothing that
            can be read.
    """

    def __init__(
        self, problem: Problem, columns: int, checkpoint: Checkpoint | None, resume: Checkpoint | None, *, cluster: bool
    ) -> None:
        self._problem, self._columns = problem, columns
        self._dtype = "complex128" if problem.complex else "float64"
        self._checkpoint = checkpoint
        if checkpoint is not None:
            checkpoint.begin()
        size = np.dtype(self._dtype).itemsize * math.prod(problem.grid) * columns
        self._in_memory = cluster and checkpoint is None and size <= MEMORY
        self._kept: Sequence[Any] = ()
        self._kept_at = time.monotonic()
        self._resumed = None
        self._saved, self._shift = False, 0
        self._warned = False
        self.notes: tuple[str, ...] = ()
        if resume is not None:
            found = resume.newest(problem.grid, self._dtype)
            if found is None:
                self.notes = (f"nothing was saved in {resume.path}: the solve began without",)
            else:
                saved, self._resumed = found
                self._tell_of_damage(resume, saved)
                logger.info("resuming at iteration %d with residual %.3e", saved.iteration, saved.residual)

    def _tell_of_damage(self, store: Checkpoint, saved: Saved) -> None:
        if store.damaged:
            self._note(
                f"the checkpoint {store.path} is damaged: {'; '.join(store.damaged)}; the solve begins from the save "
                f"before, of iteration {saved.iteration}"
            )

    def _note(self, note: str) -> None:
        self.notes += (note,)
        warn(note, RuntimeWarning)

    def guess(self, column: int, x0: Any) -> Any:
        """First guess of a column, or where it begins anew: the newest save, what it resumes from, or x0."""
        if self._saved and self._checkpoint is not None:
            try:
                found = self._checkpoint.newest(self._problem.grid, self._dtype)
            except InputError as error:  # damaged since
                self._note(f"the solve begins anew: {error}")
                found = None
            if found is not None:
                return found[1]
        if self._kept:
            return self._kept[column]
        return x0 if self._resumed is None else self._resumed

    def watching(self, system: RunningSystem, b_norm: float, progress: Progress | None, shift: int) -> Progress:
        """Progress function of a solve by a system: saves when it is time, then calls the one that is given.

        `shift`: exponent of two by which the system's x is multiplied for users.
        """
        self._shift = shift

        def tell(state: State) -> None:
            if math.isfinite(state.residual):
                self._save(system, b_norm, state)
            if progress is not None:
                progress(state)

        return tell

    def _whole(self, partition: Partition, blocks: Mapping[int, Any]) -> Any:
        """An iterate as users know it, from its blocks."""
        return times(self._problem.from_grid(assembled(np, partition, blocks, np.dtype(self._dtype))), self._shift)

    @property
    def _due(self) -> bool:
        return self._in_memory and time.monotonic() - self._kept_at >= EVERY

    def _save(self, system: RunningSystem, b_norm: float, state: State) -> None:
        client, workers, partition = system.runtime.client, system.runtime.workers, system.plan.spec.partition
        if self._due:
            columns = (system.program.unload(Solve.solution, column, host=True) for column in range(self._columns))
            self._kept = [self._whole(partition, gather_blocks(client, each, workers)) for each in columns]
            self._kept_at = time.monotonic()
        if self._checkpoint is None or not self._checkpoint.due:
            return
        x = system.program.unload(Solve.solution, 0, host=True)
        blocks: Mapping[int, Any] = LazyBlocks(client, x, workers)
        if self._problem.reordered or self._shift:  # a save depends neither on how rows were cut nor on their scale
            whole = self._whole(partition, gather_blocks(client, x, workers))
            blocks = {chunk.number: whole.reshape(partition.grid)[chunk.box.slices] for chunk in partition}
        try:
            self._checkpoint.save(partition, blocks, state.iteration, state.residual, b_norm, self._dtype)
            self._saved = True
        except (OSError, InputError) as error:
            if not self._warned:
                warn(
                    f"the checkpoint {self._checkpoint.path} could not be written: {error}; the solve goes on without",
                    RuntimeWarning,
                )
            self._warned = True
