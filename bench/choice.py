"""The choice of M="auto" beside the others: iterations and seconds of a first solve, and how much it misses.

    python bench/choice.py --size 64
    python bench/choice.py --size 64 128 --device cuda
    python bench/choice.py --size 64 --hypre /usr/bin/python3 --petsc FOLDER_THAT_HAS_PETSC4PY

Fields of `lib.coefficients` on n³ cells, b standard normal, residual 1e-8, this process. `lattice` is "mg" that
never leaves the lattice on its finest level, `rows` is "amg" of the same rows, in the grid's order, brought as a matrix
of SciPy. The best of several runs that take turns: on CPUs processor seconds, which
hardly depend on what else the machine does, on a GPU seconds with κ and b there. Behind the fields stand the worst
ratio of "auto" to the best of the others, and the geometric mean. hypre, on two ranks of MPI, is asked for iterations.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product
from typing import Any

import numpy as np
from amg import theirs
from lib.coefficients import FIELDS, Field, made
from scipy import ndimage

import dsolver
from dsolver.multigrid import hierarchy

AT_ONCE = hierarchy.leaves_lattice_at_once


def never(*_: Any, **__: Any) -> bool:
    return False


def solved(field: Field, b: Any, name: str, device: str) -> tuple[float, Any]:
    """Seconds, and the solution."""
    hierarchy.leaves_lattice_at_once = never if name == "lattice" else AT_ONCE
    m = {"lattice": "mg", "rows": "amg"}.get(name, name)
    problem, wait, clock = field.problem(), None, time.process_time
    if device == "cuda":
        import cupy

        wait, clock = cupy.cuda.Device().synchronize, time.perf_counter
        solid = None if field.solid is None else cupy.asarray(field.solid)
        kappa, b, grid = cupy.asarray(field.kappa), cupy.asarray(b), field.kappa.shape
        problem = dsolver.problems.diffusion(grid, kappa, spacing=field.sizes, mask=solid)
        wait()
    if name == "rows":
        problem, b = rows_of(field, b)
    began = clock()
    solution = dsolver.solve(problem, b, M=m, device=device)
    if wait is not None:
        wait()
    return clock() - began, solution


def rows_of(field: Field, b: Any) -> tuple[Any, Any]:
    """Compressed rows of the open cells on the host, x fastest as on a grid, and b of them, multiplied by volumes."""
    opened = np.ones(field.kappa.shape, dtype=bool) if field.solid is None else ~field.solid
    number = np.full(opened.shape, -1)
    number[opened] = np.arange(opened.sum())
    order = number.T[opened.T]
    x, y, z = field.sizes
    own = (b * np.multiply.outer(np.multiply.outer(x, y), z))[opened]
    return field.matrix()[order][:, order].sorted_indices(), own[order]


def source(field: Field) -> tuple[Any, Any]:
    """b, and the source that it is of: rows are multiplied by the volumes of cells."""
    b = np.random.default_rng(1).standard_normal(field.kappa.shape)
    if field.solid is not None:
        b[field.solid] = 0.0
        part, count = ndimage.label(~field.solid)
        for number in set(range(1, count + 1)) - set(np.unique(faces(part))):
            b[part == number] -= b[part == number].mean()  # of cells of one size
    x, y, z = field.sizes
    return b, b / np.multiply.outer(np.multiply.outer(x, y), z)


def faces(part: Any) -> Any:
    """Numbers of cells at the faces of a box."""
    return np.concatenate([np.take(part, (0, -1), axis).ravel() for axis in range(3)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, nargs="+", default=[64])
    parser.add_argument("--fields", nargs="+", default=list(FIELDS), choices=list(FIELDS))
    parser.add_argument(
        "--M", nargs="+", default=["auto", "mg", "amg"], choices=["auto", "mg", "amg", "lattice", "rows"]
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--hypre", help="a Python that has petsc4py; without it hypre is left out")
    parser.add_argument("--petsc", default="", help="where that one finds petsc4py")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in ("noise", "pores", "smooth"):  # compiles
        for m in options.M:
            solved(made(name, 20), np.ones((20, 20, 20)), m, options.device)
    missed: dict[str, float] = {}
    for size, name in product(options.size, options.fields):
        field = made(name, size, options.seed)
        b, f = source(field)
        best: dict[str, tuple[float, Any]] = {}
        for _ in range(options.runs):
            for m in options.M:
                run = solved(field, f, m, options.device)
                best[m] = min(best.get(m, (np.inf, None)), run, key=lambda run: run[0])
        found = [f"{m} {s.iterations:3}{'' if s.converged else '!'} {took:6.3f}" for m, (took, s) in best.items()]
        if "auto" in best and len(best) > 1:
            least = min(seconds for m, (seconds, _) in best.items() if m != "auto")
            missed[f"{name} {size}"] = ratio = best["auto"][0] / least
            found.append(f"auto / best {ratio:.2f}")
        if options.hypre:
            own = b.ravel() if field.solid is None else b[~field.solid]
            found.append(f"hypre {theirs(options.hypre, options.petsc, 2, field.matrix(), own).iterations}")
        notes = " ".join(best["auto"][1].notes) if "auto" in best else ""
        print(f"{name:10} {size:4} {'   '.join(found)}  {notes}", flush=True)
    if missed:
        worst = max(missed, key=lambda each: missed[each])
        mean = np.exp(np.mean(np.log(list(missed.values()))))
        print(f"auto / best: worst {missed[worst]:.2f} ({worst}), mean {mean:.2f}")


if __name__ == "__main__":
    main()
