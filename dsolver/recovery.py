"""Lets a solve go on when the cluster has lost a worker: from a saved iterate, on the workers that are left.

Conjugate gradients can begin at any x; what a loss costs is the iterations since the last save, and what CG had learnt
of the system by then. The partition stays as it is, so the matrix of every chunk is the same; only owners change.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, final

import numpy as np

from dsolver import devices, rollcall
from dsolver.checkpoint import EVERY, Checkpoint
from dsolver.engines.job import Job
from dsolver.engines.pulse import pulse
from dsolver.errors import ClusterError, DeviceError
from dsolver.fetching import Fetched, fetched
from dsolver.iteration import Progress, State
from dsolver.notices import warn
from dsolver.partition import Partition, Triple
from dsolver.runtime import Runtime

logger = logging.getLogger(__name__)

ATTEMPTS: Final = 5
"""Losses that one solve bears."""
RETURN: Final = 6.0
"""Seconds that a lost worker's nanny, or whoever watches over it, has to bring another one."""
ANSWER: Final = 3.0
"""Seconds in which a worker that is to go on must answer."""
POLL: Final = 0.5
MEMORY: Final = 1 << 30
"""Bytes of an iterate up to which one is kept in this process when no checkpoint was asked for."""


@final
class Recent:
    """The newest iterate, in this process's memory: what a solve without checkpoint goes on from."""

    def __init__(self, every: float = EVERY) -> None:
        self._every = every
        self._last = time.monotonic()
        self._x: Any = None

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._last >= self._every

    def save(self, partition: Partition, blocks: Mapping[int, Any]) -> None:
        """Keep an iterate given as arrays by chunk number."""
        x = np.empty(partition.grid)
        for chunk in partition:
            x[chunk.box.slices] = blocks[chunk.number]
        self._x, self._last = x, time.monotonic()

    def newest(self) -> Any:
        """The iterate, or None."""
        return self._x


@final
class Keeper:
    """What one solve saves, and where it begins anew.

    Args:
        grid: of the problem.
        checkpoint: where iterates are saved on disk, or None.
        resume: where the first guess comes from, or None.
        cluster: whether workers can be lost at all.

    Attributes:
        notes: for `Solution.notes`, where there was nothing to resume from.

    Raises:
        InputError: the store to resume from holds another grid, or nothing that can be read.
    """

    def __init__(
        self, grid: Triple, checkpoint: Checkpoint | None, resume: Checkpoint | None, *, cluster: bool
    ) -> None:
        self._grid = grid
        self._checkpoint = checkpoint
        self._recent = Recent() if cluster and checkpoint is None and 8 * math.prod(grid) <= MEMORY else None
        self._resumed = None
        self._saved = False
        self._warned = False
        self.notes: tuple[str, ...] = ()
        if resume is not None:
            found = resume.newest(grid)
            if found is None:
                self.notes = (f"nothing was saved in {resume.path}: the solve began without",)
            else:
                saved, self._resumed = found
                logger.info("resuming at iteration %d with residual %.3e", saved.iteration, saved.residual)

    def guess(self, x0: Any) -> Any:
        """Where the solve begins, or begins anew: the newest save of this solve, what it resumes from, or x0."""
        if self._saved and self._checkpoint is not None:
            found = self._checkpoint.newest(self._grid)
            if found is not None:
                return found[1]
        if self._recent is not None and self._recent.newest() is not None:
            return self._recent.newest()
        return x0 if self._resumed is None else self._resumed

    def watching(
        self, job: Job, runtime: Runtime, partition: Partition, b_norm: float, progress: Progress | None
    ) -> Progress:
        """The progress function of a solve on this job: saves when it is time, then calls the one that is given."""

        def tell(state: State) -> None:
            if math.isfinite(state.residual):
                self._save(job, runtime, partition, b_norm, state)
            if progress is not None:
                progress(state)

        return tell

    def _save(self, job: Job, runtime: Runtime, partition: Partition, b_norm: float, state: State) -> None:
        if self._recent is not None and self._recent.due:
            self._recent.save(partition, fetched(runtime.client, job.unload("x", host=True), runtime.workers))
        if self._checkpoint is None or not self._checkpoint.due:
            return
        blocks = Fetched(runtime.client, job.unload("x", host=True), runtime.workers)  # one at a time
        try:
            self._checkpoint.save(partition, blocks, state.iteration, state.residual, b_norm)
            self._saved = True
        except OSError as error:
            if not self._warned:
                warn(
                    f"the checkpoint {self._checkpoint.path} could not be written: {error}; the solve goes on without",
                    RuntimeWarning,
                )
            self._warned = True


def without_the_lost(runtime: Runtime, error: ClusterError) -> Runtime:
    """The runtime on the workers that still answer, when the error came of losing some.

    Waits a while for others to take the place of those that were lost.

    Raises:
        ClusterError: the error itself, when no worker was lost, or none is left, or the scheduler is gone.
        DeviceError: the workers that are left have not all got a GPU.
    """
    client = runtime.client
    unanswered = type(error) is ClusterError and isinstance(error.__cause__, TimeoutError)
    if client is None or client.status != "running" or unanswered:  # whoever waited long for a scheduler asks no more
        raise error
    wanted, until = len(runtime.workers), time.monotonic() + RETURN
    while True:
        try:
            there = devices.present(client)
            answers, silent = rollcall.ask(client, pulse, there, ANSWER)
        except Exception as problem:  # the scheduler, too, is gone: the first error tells more
            raise error from problem
        lost = [worker for worker in runtime.workers if worker not in answers]
        if not lost:
            raise error
        if len(answers) >= wanted or time.monotonic() > until:
            break
        time.sleep(POLL)
    if not answers:
        raise error
    try:
        order, device = devices.of_cluster(client, runtime.device, workers=tuple(answers))
    except (ClusterError, DeviceError) as problem:
        raise problem from error
    logger.warning(
        "%s; the solve goes on with %d worker%s, where it had %d%s",
        error,
        len(order),
        "" if len(order) == 1 else "s",
        wanted,
        f", without {', '.join(silent)}" if silent else "",
    )
    return replace(runtime, workers=order, device=device)
