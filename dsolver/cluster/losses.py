"""Losses of workers: the runtime on those that are left, or on others that have come in their place."""

import logging
from dataclasses import replace

from dsolver.cluster import crew, devices
from dsolver.cluster.runtime import Runtime
from dsolver.engines.dask.connection import unanswered
from dsolver.errors import ClusterError, DeviceError, WorkerLostError

logger = logging.getLogger(__name__)


def on_workers_left(runtime: Runtime, error: ClusterError) -> Runtime:
    """The runtime on the workers that answer, when the error came of losing some.

    Waits a while for others to take the place of those that were lost. A worker that was silent may answer again, and
    ranks may have lost a connection while their workers are well: then it is the runtime as it was. ClusterError: the
    error itself, when no worker was lost, or none is left, or the scheduler is gone. DeviceError: the workers that are
    left have not all got a GPU.
    """
    client = runtime.client
    if client is None or client.status != "running" or unanswered(error):
        raise error
    wanted = len(runtime.workers)
    try:
        alive, silent = crew.answering(client, wanted)
    except Exception as problem:  # the scheduler, too, is gone: the first error tells more
        raise error from problem
    well = set(runtime.workers) <= set(alive)
    if not alive or (well and not isinstance(error, WorkerLostError)):
        raise error
    if well:
        logger.warning("%s; all workers answer: the solve begins anew on them", error)
        return runtime
    try:
        found = devices.of_cluster(client, runtime.device, workers=alive)
    except (ClusterError, DeviceError) as problem:
        raise problem from error
    without = f", without {', '.join(silent)}" if silent else ""
    logger.warning("%s; %s%s", error, left_of(len(found.workers), wanted), without)
    return replace(runtime, workers=found.workers, device=found.device, free=found.free)


def left_of(left: int, before: int) -> str:
    """Number of workers on which a solve goes on after a loss, in words."""
    if left < before:
        return f"the solve goes on with {left} of {before} workers"
    return f"others have taken the place of what was lost: the solve goes on with {left} worker{'s' * (left > 1)}"
