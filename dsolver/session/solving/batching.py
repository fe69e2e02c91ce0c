"""Groups of right-hand sides that are solved together: as many as there are kernels and memory for."""

from collections.abc import Sequence
from typing import Final

from dsolver.cluster import devices
from dsolver.cost.forecast import of_spec
from dsolver.program.batches.batch import AT_ONCE, most_columns
from dsolver.session.options import Options
from dsolver.session.session import Session
from dsolver.session.user_arrays.several import Pairs
from dsolver.units import amount

ALONE: Final = ("callback", "progress", "spans", "checkpoint", "resume")  # options that look into one solve
SPARE: Final = 0.9  # part of the free memory that may be taken


def grouped(session: Session, pairs: Pairs, options: Options) -> tuple[list[Pairs], str]:
    """Right-hand sides that are solved together, and a note where each of several is solved alone.

    Kernels are compiled for each width, so groups are equal where that goes, else all but the last as wide as there is
    room for: that is one width, or two, and a single one that is left needs none.
    """
    if len(pairs) == 1:
        return [pairs], ""
    reason = why_not_together(session, options)
    at_once = 1 if reason else room(session, min(len(pairs), AT_ONCE))
    if at_once < 2:
        return [[pair] for pair in pairs], f"solved one after the other: {reason or lack_of_memory(session)}"
    groups = -(-len(pairs) // at_once)
    width = at_once if len(pairs) % groups else len(pairs) // groups
    return [pairs[first : first + width] for first in range(0, len(pairs), width)], ""


def why_not_together(session: Session, options: Options) -> str:
    """Why several right-hand sides cannot be solved at once; empty if they can."""
    if session.runtime.engine == "graph":
        return "engine='graph' has no kernels for several vectors"
    if session.problem.operator is not None:
        return "A is a function of one vector"
    if not session.spec.traits.batched:
        return f"method={session.spec.method!r} has no kernels for several vectors"
    if not session.wishes.m.can.batched:
        return f"M={session.wishes.m.asked} has no kernels for several vectors"
    asked = [name for name in ALONE if getattr(options, name) is not None]
    return f"{asked[0]}= looks into one solve" if asked else ""


def room(session: Session, wanted: int) -> int:
    """Number of the wanted right-hand sides that fit at once, by row numbers and GPU memory, before allocation."""
    wanted = min(wanted, _most(session))
    if session.runtime.device != "cuda" or wanted <= session.system.columns:
        return wanted
    for reclaim in (False, True):  # what nothing uses any more is given back before there are fewer
        free = devices.free_memory_of(session.runtime.client, session.runtime.workers, reclaim=reclaim)
        if _fits(session, wanted, free):
            return wanted
    more = range(wanted - 1, session.system.columns, -1)
    return next((count for count in more if _fits(session, count, free)), session.system.columns)


def bytes_of(session: Session, count: int) -> tuple[int, ...]:
    """Bytes of each worker that so many right-hand sides take beside the system when they are solved at once."""
    alone, together = (of_spec(session.spec, session.runtime, together=n).workers for n in (0, count))
    return tuple(more.resident + more.blocks - one.resident for one, more in zip(alone, together, strict=True))


def _most(session: Session) -> int:
    return most_columns(session.partition, 1 + session.problem.complex)


def _fits(session: Session, count: int, free: Sequence[int]) -> bool:
    return all(needed <= SPARE * left for needed, left in zip(bytes_of(session, count), free, strict=False))


def lack_of_memory(session: Session) -> str:
    """Why not even two of them have room, with the numbers."""
    if _most(session) < 2:
        return "their rows are more than can be numbered"
    free = devices.free_memory_of(session.runtime.client, session.runtime.workers)
    return f"memory is short: two together need {amount(max(bytes_of(session, 2)))} more, {amount(min(free))} are free"
