"""Groups of right-hand sides that are solved together: as many as there are kernels and memory for.

Complex ones of real matrices are two real ones each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Final

from dsolver.cluster import devices
from dsolver.cost.forecast import of_spec
from dsolver.errors import InputError
from dsolver.program.batches.batch import AT_ONCE, most_columns
from dsolver.session.options import Options
from dsolver.session.session import Session
from dsolver.session.user_arrays import is_complex
from dsolver.session.user_arrays.several import Pairs
from dsolver.solution import Solution
from dsolver.units import amount

ALONE: Final = ("callback", "progress", "spans", "checkpoint", "resume")
"""Options that look into one solve."""
SPARE: Final = 0.9
"""Part of the free memory that may be taken."""


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


LOOKING: Final = ("callback", "checkpoint", "resume")
"""Options that look into one solve."""


def in_parts(values: Any) -> tuple[Any, Any]:
    """The real and the imaginary part of an array of any kind; of a name or None itself, twice."""
    if values is None or isinstance(values, str):
        return values, values
    return (values.real, values.imag) if is_complex(values) else (values, values * 0)


def solved_in_parts(
    solve: Callable[[Pairs, Options], list[Solution]], pairs: Pairs, options: Options
) -> list[Solution]:
    """Solutions for complex right-hand sides by those of their parts. InputError: an option looks into one solve."""
    asked = [name for name in LOOKING if getattr(options, name) is not None]
    if asked:
        raise InputError(
            f"b is complex and A real: its parts are two right-hand sides, and {asked[0]}= looks into one solve; solve "
            f"with b.real and b.imag, or leave it out"
        )
    of_each = options
    if options.atol > 0.0:  # so that both parts together stay within the limit
        of_each = replace(options, rtol=options.rtol / math.sqrt(2.0), atol=options.atol / math.sqrt(2.0))
    split = [(in_parts(b), in_parts(x0)) for b, x0 in pairs]
    found = solve([(b[part], x0[part]) for b, x0 in split for part in (0, 1)], of_each)
    return [_joined(re, im, options) for re, im in zip(found[::2], found[1::2], strict=True)]


def _joined(re: Solution, im: Solution, options: Options) -> Solution:
    """One solution of those for both parts; where one has not converged, its status."""
    worse = next((part for part in (re, im) if not part.converged), re)
    b_norm = math.hypot(re.b_norm, im.b_norm)
    ends = (re.residuals[-1], im.residuals[-1])
    steps = zip_longest(re.residuals, im.residuals)
    return replace(
        worse,
        x=_whole(re.x, im.x),
        iterations=max(re.iterations, im.iterations),
        residuals=tuple(
            math.hypot(*(end if each is None else each for each, end in zip(step, ends, strict=True))) for step in steps
        ),
        true_residual=math.hypot(re.true_residual, im.true_residual),
        b_norm=b_norm,
        limit=options.limit(b_norm),
        notes=(
            "b is complex and A real: the parts of b were two right-hand sides",
            *dict.fromkeys((*re.notes, *im.notes)),
        ),
    )


def _whole(re: Any, im: Any) -> Any:
    if type(re).__module__.partition(".")[0] == "xarray":
        return re.copy(data=re.data + 1j * im.data)
    return re + 1j * im
