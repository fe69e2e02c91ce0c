"""The regression set that is run before a release: iterations and seconds of small solves of every kind, kept as JSON.

    python bench/regression                                        (--device cuda)
    python bench/regression --against bench/results/regression-cpu-2026-11-28-0123abcd.json

Solves run in this process. Each is set up anew --runs times; the least seconds count, of the processor on CPUs and by
the clock on a GPU. The file in bench/results is named after device, date and commit, and says on which machine it was
made. With --against, what takes other iterations, or longer than --slower times as long as in that file, is named, and
the command fails: seconds compare on one quiet machine alone.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

from lib.coefficients import made  # noqa: E402  # bench/ is no package

import dsolver  # noqa: E402

RESULTS = HERE / "results"
COEFFICIENTS = ("constant", "smooth", "bodies", "channels", "reservoir", "aquifer", "chip", "board", "rock")
FAST = 0.02
"""Seconds below which a difference is no finding."""

Case = Callable[[], tuple[Any, dict[str, Any]]]
"""A function that makes what `Solver` takes: a problem or a matrix, and options."""


def field(name: str, points: int, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Diffusion with coefficients of one kind."""
    found = made(name, points)
    grid: Any = found.kappa.shape
    return dsolver.problems.diffusion(grid, found.kappa, spacing=found.sizes, mask=found.solid), options


def rows(points: int, wind: float = 0.0, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Poisson's matrix in compressed rows, with upwind differences of a wind along x."""
    one = sp.eye_array(points)
    second = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(points, points))
    first = sp.diags_array([-1.0, 1.0], offsets=[-1, 0], shape=(points, points))
    axes = (second + wind * first, one, one), (one, second, one), (one, one, second)
    return sum(sp.kron(sp.kron(z, y), x) for x, y, z in axes).tocsr(), options


def cases(points: int) -> dict[str, Case]:
    """The set, by name."""
    shape, cut = (points, points, points), (2, 2, 2)
    poisson = dsolver.problems.poisson7
    found: dict[str, Case] = {
        "poisson, mg": lambda: (poisson(shape), {"M": "mg"}),
        "poisson, mg in float32": lambda: (poisson(shape), {"M": "mg", "precond_dtype": "float32"}),
        "poisson, jacobi": lambda: (poisson(shape), {"M": "jacobi"}),
        "poisson, minres": lambda: (poisson(shape), {"M": "jacobi", "method": "minres"}),
        "poisson, amg in eight chunks": lambda: (poisson(shape, chunks=cut), {"M": "amg"}),
        "rows, amg": lambda: rows(points, M="amg"),
        "rows, ic0": lambda: rows(points, M="ic0"),
        "rows with a wind, gmres": lambda: rows(points, wind=5.0, M="amg", method="gmres"),
        "rows with a wind, bicgstab": lambda: rows(points, wind=5.0, M="jacobi", method="bicgstab"),
    }
    return found | {f"{name}, auto": partial(field, name, points) for name in COEFFICIENTS}


def measured(case: Case, device: Any, runs: int) -> dict[str, Any]:
    """Iterations, and the least seconds of a set-up with its first solve and of a later solve."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    first, later, iterations = [], [], 0
    for _ in range(runs):
        system, options = case()
        rng, size = np.random.default_rng(1), getattr(system, "shape", None) or ()
        b = rng.standard_normal(size[0] if hasattr(system, "indptr") else size)
        if getattr(system, "mask", None) is not None:
            b = np.where(system.mask, 0.0, b)
        began = clock()
        with dsolver.Solver(system, device=device, **options) as solver:
            solution = solver.solve(b, rtol=1e-8, maxiter=4000)
            first.append(clock() - began)
            began = clock()
            solver.solve(b, rtol=1e-8, maxiter=4000)
            later.append(clock() - began)
        iterations = solution.iterations
        assert solution.converged, solution
    return {"iterations": iterations, "first": round(min(first), 4), "later": round(min(later), 4)}


def machine(device: str) -> str:
    """The machine, for the record."""
    here = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    if device == "cpu":
        return here
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    return f"{name}, CuPy {cupy.__version__}, {here}"


def worse(now: dict[str, Any], before: dict[str, Any], slower: float) -> list[str]:
    """Figures that are worse than those of a file."""
    told = []
    for name in now.keys() & before.keys():
        if now[name]["iterations"] != before[name]["iterations"]:
            told.append(f"{name}: {now[name]['iterations']} iterations, {before[name]['iterations']} before")
        for what in ("first", "later"):
            a, b = now[name][what], before[name][what]
            if a > slower * b and a - b > FAST:
                told.append(f"{name}: {what} {a:.3f} s, {b:.3f} before")
    return sorted(told)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--points", type=int, default=48, help="cells along an axis")
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="parts of cases' names")
    options.add_argument("--against", type=Path, help="a file of an earlier run")
    options.add_argument("--slower", type=float, default=1.1)
    given = options.parse_args()
    device, figures = given.device, {}
    for name, case in cases(given.points).items():
        if any(part in name for part in given.only):
            figures[name] = measured(case, device, given.runs)
            print(f"{name:40} {figures[name]}", flush=True)
    asked = ("git", "rev-parse", "--short", "HEAD")
    commit = subprocess.run(asked, cwd=HERE, capture_output=True, text=True, check=True)
    date = dt.date.today().isoformat()
    found = {"machine": machine(device), "date": date, "commit": commit.stdout.strip(), "points": given.points}
    path = RESULTS / f"regression-{device}-{date}-{found['commit']}.json"
    if given.only == [""]:
        path.write_text(json.dumps(found | {"figures": figures}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written to {path}")
    before = json.loads(given.against.read_text("utf-8"))["figures"] if given.against else {}
    told = worse(figures, before, given.slower)
    print("\n".join(told))
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
