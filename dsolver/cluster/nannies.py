"""Nannies, which bring a lost Dask worker back: how long a cluster of this process bears with them, and workers' heaps.

Dask's `SpecCluster`, from which `LocalCluster` and `LocalCUDACluster` derive, looks 15 s after each loss of a worker
whether a worker of that name is there, and if none is, closes its nanny for good. That is too early where one takes
longer to start, as on a GPU or a busy machine; and where a worker is lost a second time, the look of the first loss
falls into the second absence, however short that is. Nannies that run elsewhere, as those of `dask worker` and
`dask-cuda-worker`, are never given up.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from dsolver.kernels.cpu.heap import KEPT

NAME: Final = "distributed.deploy.lost-worker-timeout"
LOST_WORKER_TIMEOUT: Final = "10 minutes"
"""Time from the loss of a worker until its nanny is given up, unless the user has set another."""

ENVIRONMENT: Final = "distributed.nanny.pre-spawn-environ"
HEAP: Final = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": str(KEPT)}
"""Variables of glibc for our own CPU workers, which keep what a set-up frees, as this process does; Dask's, by default,
give it back. A rank has a thread of its own, for which glibc maps heaps of 64 MiB, apart from the process's and from
each other, whose pages are found and cleared anew. Both together took a tenth to a third of the processor time of
set-ups of 64³ rows after the first, by the machine's load."""
OFFERED: Final = {"MALLOC_TRIM_THRESHOLD_": "65536"}  # Dask's own


@contextmanager
def with_heap() -> Iterator[None]:
    """Context in which nannies that begin have `HEAP`, where the user has not set its variables.

    A nanny leaves its variables in this process, where workers of the user's own would have them: they go again.
    """
    import dask

    given, before = dask.config.get(ENVIRONMENT), {name: os.environ.get(name) for name in HEAP}
    free = {name: value for name, value in HEAP.items() if str(given.get(name)) in ("None", OFFERED.get(name))}
    try:
        with dask.config.set({ENVIRONMENT: given | free}):
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def bear_with_nannies(cluster: Any) -> None:
    """Have Dask wait longer for workers that a nanny in this process brings back. What users have set stays.

    `cluster`: of a client, or None. One whose workers are others' jobs, as of SLURM, is left as it is: there a lost
    worker is only replaced once it has been given up.
    """
    from distributed import Nanny

    if any(isinstance(worker, Nanny) for worker in getattr(cluster, "workers", {}).values()):
        set_timeout()


def set_timeout() -> None:
    """Set the time in Dask's configuration, unless it has a value that was no default of Dask's or ours."""
    import dask

    if dask.config.get(NAME, None) == LOST_WORKER_TIMEOUT:
        return
    defaults = [dask.config.get(NAME, None, config=dict(offered)) for offered in dask.config.defaults]
    dask.config.update_defaults({"distributed": {"deploy": {"lost-worker-timeout": LOST_WORKER_TIMEOUT}}})
    if dask.config.get(NAME, None) in defaults:  # an older one comes back where a `with dask.config.set(...)` ends
        dask.config.set({NAME: LOST_WORKER_TIMEOUT})
