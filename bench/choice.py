"""The choice of M="auto" for hard coefficients, beside the others: iterations and seconds of a first solve on CPUs.

    python bench/choice.py --size 64
    python bench/choice.py --size 64 --hypre /usr/bin/python3 --petsc FOLDER_THAT_HAS_PETSC4PY

Fields of `coefficients.py` on n³ cells, b standard normal, relative residual 1e-8, this process. `lattice` is "mg" that
never leaves the lattice on its finest level. Processor seconds, the best of several runs that take turns: they hardly
depend on what else the machine does. hypre, on two ranks of MPI, is asked for iterations alone.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from amg import theirs
from coefficients import FIELDS, HARD, Field, made

import dsolver
from dsolver.multigrid import hierarchy

AT_ONCE = hierarchy.leaves_lattice_at_once


def never(*_: Any, **__: Any) -> bool:
    return False


def solved(field: Field, b: Any, name: str) -> tuple[float, Any]:
    """Processor seconds, and the solution."""
    hierarchy.leaves_lattice_at_once = never if name == "lattice" else AT_ONCE
    began = time.process_time()
    solution = dsolver.solve(field.problem(), b, M="mg" if name == "lattice" else name, device="cpu")
    return time.process_time() - began, solution


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--fields", nargs="+", default=list(HARD), choices=list(FIELDS))
    parser.add_argument("--M", nargs="+", default=["auto", "mg", "amg"], choices=["auto", "mg", "amg", "lattice"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--hypre", help="a Python that has petsc4py; without it hypre is left out")
    parser.add_argument("--petsc", default="", help="where that one finds petsc4py")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in ("noise", "pores", "smooth"):  # compiles
        for m in options.M:
            solved(made(name, 20), np.ones((20, 20, 20)), m)
    for name in options.fields:
        field = made(name, options.size, options.seed)
        b = np.random.default_rng(1).standard_normal(field.kappa.shape)
        if field.solid is not None:
            b[field.solid] = 0.0
        x, y, z = field.sizes
        f = b / np.multiply.outer(np.multiply.outer(x, y), z)  # rows are multiplied by the volumes of cells
        best: dict[str, tuple[float, Any]] = {}
        for _ in range(options.runs):
            for m in options.M:
                best[m] = min(best.get(m, (np.inf, None)), solved(field, f, m), key=lambda run: run[0])
        found = [f"{m} {s.iterations:3}{'' if s.converged else '!'} {seconds:5.2f}" for m, (seconds, s) in best.items()]
        if "auto" in best and len(best) > 1:
            least = min(seconds for m, (seconds, _) in best.items() if m != "auto")
            found.append(f"auto / best {best['auto'][0] / least:.2f}")
        if options.hypre:
            own = b.ravel() if field.solid is None else b[~field.solid]
            found.append(f"hypre {theirs(options.hypre, options.petsc, field.matrix(), own)[2]}")
        notes = " ".join(best["auto"][1].notes) if "auto" in best else ""
        print(f"{name:10} {'   '.join(found)}  {notes}", flush=True)


if __name__ == "__main__":
    main()
