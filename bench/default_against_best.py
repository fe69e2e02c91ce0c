"""Processor time of a default call against the best of all methods and preconditioners, on a folder of matrices.

    python bench/default_against_best.py FOLDER [--only NAME ...] [--methods cg ...] [--M amg ...] [--repeat 3]
        [--maxiter 1000]

FOLDER has matrices of `scipy.sparse.save_npz`; those that are not square or not real are left out. b = A x with a
random x (seed 0). A call counts if its true residual, worked out here, is at most rtol ‖b‖, or 1.01 times what least
squares leave where A is singular. The others have `--maxiter` iterations at most. Each call is made once before it is
timed, and the quickest of `--repeat` counts; the default and the best of the others are then made five times more in
turns, and the quickest of these counts.
Prints a line for each matrix, worst last, then the geometric mean of default / best, and the worst.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy import sparse

import dsolver
from dsolver.errors import DsolverError
from dsolver.krylov.methods import METHODS
from dsolver.preconditioners.registry import AUTO, NAMED

GRIDS = (AUTO, "mg", "hpcg")
"""Preconditioners that are for grids, or stand for others."""
DENSE = 3000
"""Rows up to which least squares are solved to judge an answer."""
SLOWEST = 20.0
"""Times the default call's time from which on a call is not made again: it cannot be the best."""


IN_TURNS: Final = 5
"""Times that the default and the best of the others are made again, one after the other."""


@dataclass(frozen=True)
class Call:
    """A call of `dsolver.solve`, and the seconds that it took; infinite without an answer."""

    name: str
    seconds: float


def least_residual(a: Any, b: Any) -> float:
    """‖b - A x‖ / ‖b‖ of least squares; 0 for a large matrix."""
    if a.shape[0] > DENSE:
        return 0.0
    x = np.linalg.lstsq(a.toarray(), b, rcond=None)[0]
    return float(np.linalg.norm(b - a @ x) / np.linalg.norm(b))


def timed(a: Any, b: Any, most: float, repeat: int, name: str, **options: Any) -> Call:
    """The quickest of some calls.

    Args:
        a: the matrix.
        b: right-hand side.
        most: seconds from which on a call is not made again.
        repeat: calls that are timed.
        name: of the call.
        options: as of `dsolver.solve`.
    """
    least = math.inf
    for number in range(repeat + 1):
        began = time.process_time()
        try:
            x = np.asarray(dsolver.solve(a, b, **options).x)
        except (DsolverError, ValueError):
            return Call(name, math.inf)
        seconds = time.process_time() - began
        if not np.isfinite(x).all() or np.linalg.norm(b - a @ x) > answer(a, b, options["rtol"]):
            return Call(name, math.inf)
        if number:  # the first may have compiled
            least = min(least, seconds)
        if seconds > most and (number or seconds > SLOWEST * most):
            return Call(name, min(least, seconds))
    return Call(name, least)


def answer(a: Any, b: Any, rtol: float) -> float:
    """‖b - A x‖ up to which x is an answer."""
    norm, limit = float(np.linalg.norm(b)), 1.01 * rtol
    key = id(a)
    if key not in LEAST:
        LEAST.clear()
        LEAST[key] = least_residual(a, b)
    return norm * max(limit, 1.01 * LEAST[key])


LEAST: dict[int, float] = {}
"""Least residual of the matrix at hand."""


def compared(a: Any, repeat: int, rtol: float, methods: list[str], names: list[str], maxiter: int) -> tuple[Call, Call]:
    """The default call, and the quickest of all."""
    b = a @ np.random.default_rng(0).standard_normal(a.shape[0])
    default = timed(a, b, math.inf, repeat, "default", rtol=rtol)
    best = default
    for method in methods:
        for m in names:
            most = min(SLOWEST * default.seconds, best.seconds)
            call = timed(a, b, most, repeat, f"{method} {m}", rtol=rtol, method=method, M=m, maxiter=maxiter)
            best = min(best, call, key=lambda each: each.seconds)
    if best is default or math.isinf(default.seconds):
        return default, best
    method, m = best.name.split()
    ways = {"default": {}, best.name: {"method": method, "M": m}}
    took = dict.fromkeys(ways, math.inf)
    for _ in range(IN_TURNS):
        for name, options in ways.items():
            took[name] = min(took[name], timed(a, b, 0.0, 1, name, rtol=rtol, **options).seconds)
    return Call("default", took["default"]), Call(best.name, took[best.name])


def main() -> None:
    """Compare on all matrices of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--M", nargs="+", default=[name for name in NAMED if name not in GRIDS])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--maxiter", type=int, default=1000)
    parser.add_argument("--rtol", type=float, default=1e-8)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines, ratios, none = [], [], []
    for path in sorted(options.folder.glob("*.npz")):
        if path.stem.endswith(".extra") or (options.only and path.stem not in options.only):
            continue
        a = sparse.csr_array(sparse.load_npz(path))
        if a.shape[0] != a.shape[1] or np.iscomplexobj(a.data) or (np.diff(a.indptr) == 0).any():
            continue
        default, best = compared(a, options.repeat, options.rtol, options.methods, options.M, options.maxiter)
        if math.isinf(best.seconds):
            none.append(path.stem)
            continue
        ratio = default.seconds / best.seconds
        ratios.append(ratio)
        what = f"{1e3 * default.seconds:9.1f} {1e3 * best.seconds:9.1f} ms  {best.name}"
        lines.append((ratio, f"{path.stem:44} {a.shape[0]:7} {ratio:7.2f} {what}"))
        print(lines[-1][1], flush=True)
    print()
    for _, line in sorted(lines)[-20:]:
        print(line)
    answered = [ratio for ratio in ratios if math.isfinite(ratio)]
    mean = math.exp(sum(map(math.log, answered)) / max(1, len(answered)))
    print(
        f"{len(ratios)} matrices, {len(ratios) - len(answered)} without an answer of the default call; "
        f"{len(none)} without any: {', '.join(none) or '-'}"
    )
    print(f"default / best: geometric mean {mean:.2f}, worst {max(answered, default=math.nan):.2f}")


if __name__ == "__main__":
    main()
