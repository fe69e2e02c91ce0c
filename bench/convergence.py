"""Iterations of multigrid-preconditioned conjugate gradients to 1e-9, for the kinds of problems that people have.

    python bench/convergence.py --sizes 64 128
    python bench/convergence.py --sizes 256 --rows poisson27 dirichlet --device cuda
    python bench/convergence.py --sizes 64 --chunks 1 1 1 --chunks 2 1 1 --chunks 2 2 2
    python bench/convergence.py --sizes 64 128 --x0 fmg --b smooth
    python bench/convergence.py --sizes 256 1024 --planes --rtol 1e-8

One row for each problem, size and cut: iterations for a rough right-hand side (uniform random) or a smooth one,
the true residual, and seconds of set-up and solve. Coefficients are made on each chunk's owner. Sizes are
edges of a cube, or of a square; --odd adds one to each, so that no two levels have even extents.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import dsolver
from dsolver import Problem, problems
from dsolver.multigrid import hierarchy
from dsolver.preconditioners import Multigrid

BLOCK = 8
"""Edge of the blocks between which κ jumps, in cells."""
CONTRAST = 1e4
GOOD = (dsolver.Status.CONVERGED, dsolver.Status.INCOMPATIBLE_RHS)
"""Ends of a solve for what x can reach of b."""


def mixed(x: Any, y: Any, z: Any) -> Any:
    """A rough number in 0 .. 1 for each triple of integers: an integer hash, the same on every device."""
    h = (x * 73856093 ^ y * 19349663 ^ z * 83492791) + 0x9E3779B9 & 0xFFFFFFFF
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39)):
        h = (h ^ (h >> shift)) * factor & 0xFFFFFFFF
    return (h ^ (h >> 15)) / 2.0**32


def blocks(x: Any, y: Any, z: Any) -> Any:
    """κ = 1 or 10⁴ at random in blocks of cells."""
    i, j, k = (v.astype(np.int64) // BLOCK for v in (x, y, z))
    return 1.0 + (CONTRAST - 1.0) * (mixed(i, j, k) < 0.5)


def lognormal(x: Any, y: Any, z: Any) -> Any:
    """κ = exp(2 g) with g a standard normal number for each cell, without correlation (Box and Muller)."""
    i, j, k = (v.astype(np.int64) for v in (x, y, z))
    radius = (-2.0 * np.log(mixed(i, j, k) + 2.0**-33)) ** 0.5
    return np.exp(2.0 * radius * np.cos(2.0 * np.pi * mixed(i + 7919, j + 104729, k + 1299709)))


def pores(n: int, part: float) -> Problem:
    """Cells that are solid at random with a probability, between two open faces; sources in pockets are balanced."""

    def solid(x: Any, y: Any, z: Any) -> Any:
        i, j, k = (v.astype(np.int64) for v in (x, y, z))
        return mixed(i, j, k) < part

    return problems.diffusion((n, n, n), mask=solid, bc={"x": "dirichlet", "y": "neumann", "z": "neumann"})


def stretched(n: int) -> Problem:
    """Cells that grow by the same factor from one to the next along each axis, 340 times in all."""
    sizes = 340.0 ** (np.arange(n) / (n - 1))
    return problems.diffusion((n, n, n), spacing=(sizes, sizes, sizes), bc="neumann")


ROWS: dict[str, Callable[[int], Problem]] = {
    "poisson27": lambda n: problems.poisson27((n, n, n)),
    "dirichlet": lambda n: problems.diffusion((n, n, n)),
    "neumann": lambda n: problems.diffusion((n, n, n), bc="neumann"),
    "periodic": lambda n: problems.diffusion((n, n, n), bc="periodic"),
    "blocks": lambda n: problems.diffusion((n, n, n), blocks),
    "lognormal": lambda n: problems.diffusion((n, n, n), lognormal),
    "pores 30 %": lambda n: pores(n, 0.3),
    "pores 45 %": lambda n: pores(n, 0.45),
    "pores 66 %": lambda n: pores(n, 0.66),
    "1:1:100": lambda n: problems.diffusion((n, n, n), spacing=(1.0, 1.0, 100.0)),
    "1:100:100": lambda n: problems.diffusion((n, n, n), spacing=(1.0, 100.0, 100.0)),
    "stretched": stretched,
}


def in_plane(kappa: Callable[..., Any]) -> Callable[..., Any]:
    """Coefficients of a plane: those of a layer of cells in space."""
    return lambda x, y: kappa(x, y, np.zeros_like(x))


PLANES: dict[str, Callable[[int], Problem]] = {
    "5 points": lambda n: problems.poisson5((n, n)),
    "9 points": lambda n: problems.stencil((n, n), np.where(np.arange(9) == 4, 8.0, -1.0).reshape(3, 3)),
    "neumann 2D": lambda n: problems.diffusion((n, n), bc="neumann"),
    "1:100": lambda n: problems.diffusion((n, n), spacing=(1.0, 100.0)),
    "blocks 2D": lambda n: problems.diffusion((n, n), in_plane(blocks)),
    "lognormal 2D": lambda n: problems.diffusion((n, n), in_plane(lognormal)),
    "pores 2D": lambda n: problems.diffusion(
        (n, n), mask=in_plane(lambda *at: mixed(*(v.astype(int) for v in at)) < 0.3)
    ),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", type=int, nargs="+", default=(64,))
    options.add_argument("--rows", nargs="+", choices=(*ROWS, *PLANES))
    options.add_argument("--planes", action="store_true", help="the rows in planes, by default those in space")
    options.add_argument("--chunks", type=int, nargs=3, action="append", help="a cut; may be given several times")
    options.add_argument("--odd", action="store_true", help="sizes n + 1")
    options.add_argument("--device", default="auto", choices=("auto", "cuda", "cpu"))
    options.add_argument("--precond-dtype", default="float64", choices=("float64", "float32"))
    options.add_argument("--sweeps", type=int, help="of dsolver.preconditioners.Multigrid")
    options.add_argument("--visits", type=int, help="of dsolver.preconditioners.Multigrid")
    options.add_argument("--b", default="rough", choices=("rough", "smooth"))
    options.add_argument("--x0", choices=("fmg",), help="the first guess; zero by default")
    options.add_argument("--rtol", type=float, default=1e-9)
    options.add_argument(
        "--lattice",
        action="store_true",
        help="what is coarsened by couplings from the first level on is so along the lattice",
    )
    arguments = options.parse_args()
    if arguments.lattice:
        hierarchy.leaves_lattice_at_once = never
    print(f"{'problem':12} {'n':>5} {'chunks':>7} {'iterations':>10} {'residual':>9} {'set-up':>7} {'solve':>7}")
    for name in arguments.rows or (PLANES if arguments.planes else ROWS):
        for size in arguments.sizes:
            for chunks in arguments.chunks or [(1, 1, 1)]:
                print(row(name, size + arguments.odd, tuple(chunks), arguments), flush=True)


def never(*_: Any, **__: Any) -> bool:
    return False


def smooth(n: int) -> Any:
    """A few waves across the unit cube."""
    t = (np.arange(n) + 0.5) / n
    x, y, z = np.meshgrid(t, t, t, indexing="ij", sparse=True)
    return np.cos(np.pi * x) * np.sin(2.0 * np.pi * y) * np.cos(2.0 * np.pi * z) + (x - 0.5) ** 3


def row(name: str, n: int, chunks: tuple[int, int, int], arguments: argparse.Namespace) -> str:
    """A line of the table."""
    problem = replace((ROWS | PLANES)[name](n), chunks=chunks)
    b: Any = smooth(n) if arguments.b == "smooth" else np.random.default_rng(1).random(problem.shape) - 0.5
    if problem.singular:
        b -= b.mean()
    warnings.simplefilter("ignore", dsolver.InconsistentWarning)
    solution = dsolver.solve(
        problem,
        b,
        x0=arguments.x0,
        rtol=arguments.rtol,
        maxiter=1000,
        device=arguments.device,
        precond_dtype=arguments.precond_dtype,
        M=Multigrid(sweeps=arguments.sweeps, visits=arguments.visits),
    )
    found = str(solution.iterations) + ("" if solution.status in GOOD else " !")
    seconds = solution.timings
    return (
        f"{name:12} {n:5} {'x'.join(map(str, chunks)):>7} {found:>10} {solution.true_residual / solution.b_norm:9.1e} "
        f"{seconds['setup']:7.2f} {seconds['solve']:7.2f}"
    )


if __name__ == "__main__":
    main()
