"""Small problems on CPUs: what Python, imports and threads cost beside the arithmetic.

    python bench/small.py [--runs 20]

Milliseconds of this process, processor and wall: of the imports, of the first solve of a process (kernels are compiled
before, by another one), and the least of --runs first and later solves. Default M, relative residual 1e-8. Last the
processor time of 50 solves with one matrix, set-up included, over that of SciPy's splu: M becomes factors on the way.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

CASES = ("64^2", "128^2", "32^3", "csr 1024", "csr 4096")
MANY = 50  # solves with one matrix


def clocks() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def took(work: Callable[[], Any], runs: int = 1) -> str:
    """The least processor and wall milliseconds."""
    found = []
    for _ in range(runs):
        began = clocks()
        work()
        found.append([1e3 * (now - then) for now, then in zip(clocks(), began, strict=True)])
    return " / ".join(f"{min(each):6.1f}" for each in zip(*found, strict=True))


def over_splu(solver: Any, problem: Any, b: Any) -> float:
    """Processor time of many solves over that of splu, in turns, the least of three each."""
    from scipy.sparse.linalg import splu

    a = problem if hasattr(problem, "tocsc") else problem.to_scipy()

    def ours() -> None:
        with solver(problem) as made:
            for _ in range(MANY):
                made.solve(b)

    def factors() -> None:
        made = splu(a.tocsc())
        for _ in range(MANY):
            made.solve(b.ravel())

    least = [math.inf, math.inf]
    for _ in range(3):
        for place, work in enumerate((ours, factors)):
            began = time.process_time()
            work()
            least[place] = min(least[place], time.process_time() - began)
    return least[0] / least[1]


def case(name: str, runs: int) -> None:
    began = clocks()
    import numpy as np
    import scipy.sparse as sp

    numpy = 1e3 * (clocks()[0] - began[0])
    began = clocks()
    import dsolver

    named = dsolver.solve, dsolver.Solver
    imports = 1e3 * (clocks()[0] - began[0])
    rng = np.random.default_rng(0)
    if name.startswith("csr"):
        side = round(int(name.split()[1]) ** 0.5)
        line = sp.diags_array([-np.ones(side - 1), 2.0 * np.ones(side), -np.ones(side - 1)], offsets=[-1, 0, 1])
        problem: Any = (sp.kron(line, sp.eye(side)) + sp.kron(sp.eye(side), line)).tocsr()
        b = rng.standard_normal(side * side)
    else:
        side, dimensions = map(int, name.split("^"))
        kappa = np.exp(rng.standard_normal((side,) * dimensions))
        problem, b = dsolver.problems.diffusion(kappa.shape, kappa), rng.standard_normal(kappa.shape)
    solve, solver = named
    of_process = took(lambda: solve(problem, b))
    first = took(lambda: solve(problem, b), runs)
    with solver(problem) as made:
        later = took(lambda: made.solve(b), runs)
    print(f"{name:9} numpy, scipy {numpy:4.0f}  dsolver {imports:4.0f}  in a new process {of_process}  ", end="")
    print(f"first {first}  later {later}  {MANY} over splu {over_splu(solver, problem, b):.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--case", choices=CASES, help="in this process")
    options = parser.parse_args()
    if options.case:
        case(options.case, options.runs)
        return
    for name in CASES:
        command = [sys.executable, __file__, "--case", name]
        subprocess.run([*command, "--runs", "1"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*command, "--runs", str(options.runs)], check=True)


if __name__ == "__main__":
    main()
