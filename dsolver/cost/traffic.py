"""Bytes that an iteration must move between memory and arithmetic, counted from the shapes of the chunks.

Each stored value and column counts once for each pass that uses it, and each vector once for each operation that reads
or writes it, as in `bench/gpu.py`: what arrays in cache spare is not counted, nor what is read twice. Halos are left
out.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from dsolver.cluster import devices
from dsolver.cluster.runtime import Runtime
from dsolver.cost import bandwidth
from dsolver.cost.memory import part_of
from dsolver.distributed.forecast import F64
from dsolver.errors import DsolverError
from dsolver.grid.box import three
from dsolver.grid.cut import owners_of
from dsolver.grid.partition import Partition
from dsolver.kernels import usable_cpus
from dsolver.monitor.events import has_subscribers
from dsolver.program.spec import SolveSpec

logger = logging.getLogger(__name__)


def of_iteration(spec: SolveSpec) -> int:
    """Bytes of one iteration of the method, of all chunks together; a user's function counts as none."""
    partition = spec.partition
    if not spec.problem.lattice:
        return sum(of_chunk(spec, chunk.number) for chunk in partition)
    # Chunks of the same shape move as much: of each kind one is looked at, however many there are.
    along = [Counter(extents).items() for extents in partition.sizes]
    total = 0
    for kinds in product(*along):
        first = [extents.index(n) for extents, (n, _) in zip(partition.sizes, kinds, strict=True)]
        number = partition.number(three("place", first))
        total += math.prod(count for _, count in kinds) * of_chunk(spec, number)
    return total


def of_chunk(spec: SolveSpec, number: int) -> int:
    """Bytes of one iteration of the method in a chunk, with the levels that its worker has whole."""
    part = part_of(spec, number, cuda=True)
    made = spec.preconditioner.forecast(part)
    a, value = made.levels[0], part.value
    traits = spec.traits
    parts = 1 + spec.problem.complex
    vectors = parts * (traits.moved + traits.moved_each * spec.restart)
    stored = part.given if spec.problem.complex else a.stored(F64)  # of both parts
    moved = int(F64 * vectors) * a.rows + traits.products * (stored + made.moved)
    if value != F64:  # r is narrowed, and z is read as it is
        moved += parts * ((F64 + value) - 2 * (F64 - value)) * a.rows
    return moved


def description(runtime: Runtime, spec: SolveSpec, moved: Callable[[SolveSpec], int] = of_iteration) -> dict[str, Any]:
    """Arguments of `dsolver.monitor.events.SolveEvents.start`: where a system is solved and what an iteration moves.

    Args:
        moved: `of_iteration`, or a function that knows what this has counted.

    The copy bandwidth is measured where it is not known, so no device should work meanwhile. Without listeners
    it is not, nor are bytes counted.
    """
    about = place(runtime, spec.partition, spec.problem.places)
    if runtime.client is not None or has_subscribers():
        about |= {"iteration_bytes": moved(spec), "copy_bandwidth": _bandwidth(runtime, about["workers"])}
    return about


def place(runtime: Runtime, partition: Partition, places: Sequence[str] = ()) -> dict[str, Any]:
    """The part of `description` that says where chunks are; places: as of `owners_of`."""
    owners = owners_of(partition, runtime.workers, places) or ("",) * len(partition)
    ranks = list(dict.fromkeys(owners))
    return {
        "grid": partition.grid,
        "chunks": partition.counts,
        "engine": runtime.engine,
        "device": runtime.device,
        "kernels": runtime.kernels,
        "workers": [worker for worker in ranks if worker],
        "owners": [ranks.index(owner) for owner in owners],
    }


def _bandwidth(runtime: Runtime, workers: Sequence[str]) -> float | None:
    """Copy bandwidth in bytes/s of these workers' devices together, or of this process's; None where not known."""
    try:
        if runtime.client is not None:
            return bandwidth.of_workers(runtime.client, workers, runtime.device)
        return devices.copy_bandwidth() if runtime.device == "cuda" else bandwidth.of_cpu(usable_cpus())
    except (DsolverError, OSError, MemoryError) as error:  # a solve does not depend on it
        logger.info("the copy bandwidth is not known: %s", error)
        return None
