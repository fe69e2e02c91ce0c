"""Names of Dask's types in annotations. Dask itself is loaded where it is used: that takes half a second."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client, Scheduler, Worker
else:
    Client = Scheduler = Worker = Any

__all__ = ["Client", "Scheduler", "Worker"]
