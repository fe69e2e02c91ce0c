"""Nannies, the processes that bring a lost Dask worker back: how long a cluster of this process bears with them.

Dask's `SpecCluster`, from which `LocalCluster` and `LocalCUDACluster` derive, looks 15 s after each loss of a worker
whether a worker of that name is there, and if none is, closes its nanny for good. That is too early where one takes
longer to start, as on a GPU or a busy machine; and where a worker is lost a second time, the look of the first loss
falls into the second absence, however short that is. Nannies that run elsewhere, as those of `dask worker` and
`dask-cuda-worker`, are never given up.
"""

from typing import Any, Final

NAME: Final = "distributed.deploy.lost-worker-timeout"
LOST_WORKER_TIMEOUT: Final = "10 minutes"
"""Time from the loss of a worker until its nanny is given up, unless the user has set another."""


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
