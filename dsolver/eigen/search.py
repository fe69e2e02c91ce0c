"""Search for eigenvalues at one end of the spectrum, in a session."""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from dsolver.cluster import devices, host_memory
from dsolver.cost.room import SMALL
from dsolver.eigen.vectors import brought, room_for
from dsolver.engines.running_program import RunningProgram
from dsolver.errors import DeviceMemoryError, InputError
from dsolver.kernels.cpu.loops.copying import HostRoom
from dsolver.krylov.blocks.block import WIDTH
from dsolver.monitor.watch import Watch
from dsolver.program.eigen import EigenProgram, EigenTerms, Found
from dsolver.session.session import Session
from dsolver.session.solving.batching import SPARE, bytes_of
from dsolver.session.user_arrays import Container, container_of
from dsolver.status import Status
from dsolver.units import amount

CALL_SECONDS: Final = 0.5  # seconds of iterations that a call of the program should take
MOST_STEPS: Final = 50


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Values that are sought; tol, offset, maxiter, highest, definite, plain, probed: as of `EigenTerms`."""

    count: int  # values
    tol: float
    maxiter: int
    offset: float = 0.0
    highest: bool = False
    definite: bool = False
    plain: bool = False
    # iterations after which the search ends where no value is negative; None for no such number.
    probed: int | None = None


@dataclass(frozen=True, kw_only=True)
class SpectrumEnd:
    """An end of the spectrum."""

    values: Any  # float64 (count,), ascending; of the program's matrix
    vectors: list[Any]  # the arrays of their vectors
    residuals: Any  # float64 (count,)
    limits: Any  # float64 (count,), of each residual
    rounding: float  # what it may add to a value
    iterations: int
    status: Status


def program_of(session: Session) -> RunningProgram[EigenProgram]:
    """The program of a session that was set up for eigenvalues."""
    return cast(RunningProgram[EigenProgram], session.program)


def search(session: Session, wanted: Wanted, guesses: Sequence[Any], mass: Any, like: Any) -> SpectrumEnd:
    """An end of the spectrum.

    `mass`: the diagonal of B, like a right-hand side; None where B is none, or a matrix beside A. `like`: an array of
    the kind that vectors are wanted in.
    """
    with session.in_use(), Watch(session.runtime.client, None, session.feed.begin()) as watch:
        end = session.with_recovery(lambda: _search(session, wanted, guesses, mass, like, watch))
        watch.end(str(end.status), end.iterations, float(max(end.residuals)))
        return end


def _search(
    session: Session, wanted: Wanted, guesses: Sequence[Any], mass: Any, like: Any, watch: Watch
) -> SpectrumEnd:
    program = program_of(session)
    partition, client = session.partition, session.runtime.client
    kind = container_of("v0", like, partition, client, session.given)
    room = room_for(session, kind, wanted.count)
    for number, values in enumerate(guesses):
        blocks = container_of("v0", values, partition, client, session.given).blocks()
        program.load("v0", blocks, EigenProgram.set_guess, number)
    if mass is not None:
        program.load("B", container_of("B", mass, partition, client, session.given).blocks(), EigenProgram.set_mass)
    known = 0 if wanted.highest else min(program.call(EigenProgram.null_vectors), wanted.count)
    count = wanted.count - known
    terms = EigenTerms(
        wanted=count,
        size=max(count + max(2, count // 4), len(guesses)),  # so that the last ones converge about as fast
        highest=wanted.highest,
        tol=wanted.tol,
        offset=wanted.offset,
        maxiter=wanted.maxiter,
        probed=wanted.probed,
        definite=wanted.definite,
        plain=wanted.plain,
    )
    check_memory(session, terms.size)
    found = program.call(EigenProgram.search, terms)
    steps = 1
    while found.status is None:
        began, before, measured = time.perf_counter(), found.iterations, watch.measures
        found = program.call(EigenProgram.advance, 1 if measured else steps, measured)
        if found.iterations > before:
            _tell(watch, found, count, wanted.maxiter)
        if measured:  # which takes longer than others
            watch.record(program.spans(), found.iterations)
            continue
        pace = (time.perf_counter() - began) / steps
        steps = max(1, min(MOST_STEPS, int(CALL_SECONDS / max(pace, 1e-6))))
    end = _end(session, found, known, count, kind, room)
    program.call(EigenProgram.end)
    return end


def _tell(watch: Watch, found: Found, count: int, most: int) -> None:
    """Tell those who watch of the residual that is farthest from what it should become."""
    pairs = zip(found.residuals[:count], found.limits[:count], strict=True)
    residual, limit = max(pairs, key=lambda pair: pair[0] / max(pair[1], sys.float_info.min), default=(0.0, 0.0))
    watch.advance(found.iterations, residual, limit, most, "LOBPCG")


def _end(session: Session, found: Found, known: int, count: int, kind: Container, room: HostRoom | None) -> SpectrumEnd:
    """The end that was found, with null vectors among it, in the order of the values."""
    every = [(0.0, 0.0, 0.0, True, number) for number in range(known)]
    every += [
        (value, residual, limit, False, number)
        for number, (value, residual, limit) in enumerate(
            zip(found.values[:count], found.residuals, found.limits, strict=False)
        )
    ]
    every.sort()
    numbers = np.array([row[:3] for row in every]).reshape(-1, 3)
    status = found.status or Status.STOPPED
    if status is Status.NOT_FINITE and not found.values:
        raise InputError(
            "NaN or infinity appeared at the begin: look for such values in v0, B and M; M=None does without the last"
        )
    if len(every) < known + count:
        raise InputError(f"only {len(every)} of {known + count} vectors are independent: ask for fewer")
    return SpectrumEnd(
        values=numbers[:, 0],
        vectors=brought(session, program_of(session), kind, [(number, null) for *_, null, number in every], room),
        residuals=numbers[:, 1],
        limits=numbers[:, 2],
        rounding=max(found.rounding[:count], default=0.0),
        iterations=found.iterations,
        status=status,
    )


def check_memory(session: Session, size: int) -> None:
    """Refuse what GPUs or workers have no room for: so many vectors. DeviceMemoryError: they have not."""
    runtime = session.runtime
    vectors = 6 * size * 8 * math.prod(session.problem.grid) / max(1, len(runtime.workers))
    needed = int(max(bytes_of(session, min(size, WIDTH))) + vectors)
    if runtime.device == "cuda":
        for reclaim in (False, True):  # as for several right-hand sides
            free = min(devices.free_memory_of(runtime.client, runtime.workers, reclaim=reclaim))
            if needed <= SPARE * free:
                return
        what, more = "free", "GPUs"
    else:
        if needed <= SMALL:
            return
        supplies = host_memory.supplies_of(runtime.client, runtime.workers)
        least = min(host_memory.shares(supplies, [needed] * len(supplies)), key=lambda share: share.free)
        free, what, more = least.free, least.what, "workers"
        if needed <= free:
            return
    raise DeviceMemoryError(
        f"{size} vectors beside the system need {amount(needed)} of memory, {amount(free)} are {what}: ask for fewer "
        f"values, or take more {more}"
    )
