"""Jobs: commands that run on a cluster after their client has gone.

A submitted command is a Dask task. `client` submits it and asks for it by its name, `task` runs its process beside a
worker, `supervisor` ends that process with the worker, and `files` travel both ways. The process is a client of the
same scheduler like any other, and its solve runs on all workers.
"""

from dsolver.cluster.jobs.client import UNDER_WAY, Job, cancel, fetch, find, jobs, log_of, submit
from dsolver.cluster.jobs.task import PYTHON

__all__ = ["PYTHON", "UNDER_WAY", "Job", "cancel", "fetch", "find", "jobs", "log_of", "submit"]
