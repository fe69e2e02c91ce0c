"""The modules that a solve in this process passes before set-up: few enough for a reader to follow it.

`python -m tests.test_path` prints them in their order, with the functions that run in each.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import numpy as np

import dsolver
from dsolver import problems
from dsolver.program.solve import Solve

MOST: Final = 37
"""Modules at most. Lower it where there are fewer; to raise it needs a reason. Of 22 it was raised for coordinates of
arrays, the client that is open, the basis of GMRES, factors, which count their fill before a method is chosen,
complex coefficients, whose rows become a matrix, arrays of users, one module before, that took all kinds, and the
program, which was one module: set-up, batches of right-hand sides, solves; signatures and boxes of points, apart from
options and partitions; the count of what solves with one matrix have cost; and recorded steps."""


class Reached(BaseException):
    """Set-up begins."""


def passed(solve: Callable[[], Any], last: Callable[..., Any]) -> dict[str, dict[str, None]]:
    """Modules of dsolver, without kernels, whose functions run before one of them is called, with these functions.

    What an import runs does not count.
    """
    found: dict[str, dict[str, None]] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code, module = frame.f_code, str(frame.f_globals.get("__name__"))
        if event != "call" or not module.startswith("dsolver.") or module.startswith("dsolver.kernels"):
            return
        if code is last.__code__:
            raise Reached
        if code.co_flags & inspect.CO_OPTIMIZED:  # no body of a module or of a class
            found.setdefault(module, {})[code.co_qualname] = None

    sys.setprofile(note)
    try:
        solve()
    except Reached:
        return found
    finally:
        sys.setprofile(None)
    raise AssertionError("set-up was not reached")


def before_set_up() -> dict[str, dict[str, None]]:
    """The modules that a solve for a grid of 32³ points passes."""
    problem = problems.poisson7((32, 32, 32))
    b = np.ones(problem.grid)
    dsolver.solve(problem, b, device="cpu", maxiter=1)  # modules are loaded when they are used for the first time
    return passed(lambda: dsolver.solve(problem, b, device="cpu"), Solve.set_up)


def test_few_modules_lie_between_a_call_and_its_set_up() -> None:
    found = before_set_up()
    assert len(found) <= MOST, "\n".join(found)
    assert "dsolver.session.session" in found


if __name__ == "__main__":
    modules = before_set_up()
    for name, functions in modules.items():
        sys.stdout.write(f"{name}: {', '.join(functions)}\n")
    sys.stdout.write(f"{len(modules)} modules\n")
