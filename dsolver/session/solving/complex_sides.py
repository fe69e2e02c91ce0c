"""Complex right-hand sides of a real matrix: two real ones each, the real and the imaginary part."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Final

from dsolver.errors import InputError
from dsolver.session.options import Options
from dsolver.session.user_arrays import is_complex
from dsolver.session.user_arrays.several import Pairs
from dsolver.solution import Solution

LOOKING: Final = ("callback", "checkpoint", "resume")  # options that look into one solve


def in_parts(values: Any) -> tuple[Any, Any]:
    """The real and the imaginary part of an array of any kind; of a name or None itself, twice."""
    if values is None or isinstance(values, str):
        return values, values
    return (values.real, values.imag) if is_complex(values) else (values, values * 0)


def solved_in_parts(run: Callable[[Pairs, Options], list[Solution]], pairs: Pairs, options: Options) -> list[Solution]:
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
    found = run([(b[part], x0[part]) for b, x0 in split for part in (0, 1)], of_each)
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
