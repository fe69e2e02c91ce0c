"""Room for a system: what GPUs or workers cannot hold is refused before anything is started."""

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from dsolver.cluster import devices, host_memory
from dsolver.cluster.runtime import Runtime
from dsolver.cost.forecast import of_spec
from dsolver.errors import DeviceMemoryError
from dsolver.matrices.problem import MatrixProblem
from dsolver.program.spec import SolveSpec

SMALL: Final = 1 << 28  # bytes of a system for whose sake no CPU is asked what memory it has
ROW_BYTES: Final = 1024
"""Bytes of a row of a grid: with 27 points 600 to 1100, set-up included, where chunks are not tiny."""
ENTRY_BYTES: Final = 128
"""Bytes of an entry of a matrix beside `ROW_BYTES` of its row: with algebraic multigrid 0.6 to 0.8 of both are counted,
and on several GPUs up to 1.5 times as much where chunks are tiny."""
PLENTY: Final = 4  # times as much that a GPU must have free, to be asked no more


def check_memory(spec: SolveSpec, runtime: Runtime, old: SolveSpec | None = None) -> None:
    """Refuse what GPUs or workers could not hold before anything is started, or given up of the system it replaces.

    What an old system that needed as much has been given is not asked for again. A system of few rows is not looked at
    more closely. DeviceMemoryError: the memory of a GPU, or of a worker, will not suffice.
    """
    problem = spec.problem
    entries = problem.entries if isinstance(problem, MatrixProblem) else 0
    rough = ROW_BYTES * math.prod(problem.grid) + ENTRY_BYTES * entries + spec.preconditioner.beside(problem)
    on_gpus = runtime.device == "cuda"
    known = min(runtime.free, default=0) if old is None else 0  # without asking
    if (rough <= SMALL and not on_gpus) or SMALL + PLENTY * rough <= known:
        return
    held: Sequence[int] = ()
    if old is not None:
        there = of_spec(old, runtime)
        if of_spec(spec, runtime).bytes <= there.bytes:
            return
        held = [worker.resident for worker in there.workers]
    if on_gpus:
        for reclaim in (False, True):  # what nothing uses any more is given back first
            free = devices.free_memory_of(runtime.client, runtime.workers, reclaim=reclaim)
            if SMALL + PLENTY * rough <= min(free):
                return
            free = tuple(left + own for left, own in zip_longest(free, held, fillvalue=0))
            wanted = of_spec(spec, runtime, available=free)
            if wanted.fits:
                return
    else:
        if sum(worker.total for worker in of_spec(spec, runtime).workers) <= SMALL:  # with less a row than is usual
            return
        wanted = of_spec(spec, runtime, supplies=host_memory.supplies_of(runtime.client, runtime.workers), held=held)
    if wanted.shortage is not None:
        raise DeviceMemoryError(wanted.shortage)
