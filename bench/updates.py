"""Updates by matrices with entries in the same places: seconds beside a set-up, and iterations while A changes.

    python bench/updates.py --size 64 --chunks 1 4 [--grid] [--device cuda]
    python bench/updates.py --size 48 --aging
    python bench/updates.py --size 48 --steps 200 [--device cuda]

Fields of `lib.coefficients` with `M="amg"`, as compressed rows, or with --grid as κ on a grid, in this process. The
clock runs from a problem to a solver that is ready: for a new `Solver`, for `update(problem)`, and for `update(problem,
reuse="interpolation")` after one that has set up anew. Processor seconds of all threads, and seconds by the clock, each
the best of several that take turns.

--steps takes so many implicit steps of u' = ∇·(κ(u) ∇u), each with another κ, by default and as one might choose by
hand: processor seconds on CPUs, seconds by the clock on GPUs, after a few steps that compile.

--aging counts iterations to 1e-8 after a change of κ: with the interpolation of the κ before, and with one of its own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from lib.coefficients import FIELDS, Field, made

import dsolver
from dsolver.problems import diffusion

USUAL = ("constant", "channels", "chip", "pores", "fractal")
Seconds = tuple[float, float]


def problem_of(field: Field, factor: float, chunks: int, *, grid: bool) -> Any:
    """The system of a field, times a factor."""
    if not grid:
        return dsolver.matrix(factor * field.matrix(), chunks=chunks)
    return Field(kappa=factor * field.kappa, sizes=field.sizes, solid=field.solid).problem((1, 1, chunks))


def timed(run: Callable[[], Any]) -> tuple[Seconds, Any]:
    """Processor seconds and seconds by the clock of a call, and what it returns."""
    busy, began = time.process_time(), time.perf_counter()
    made_here = run()
    return (time.process_time() - busy, time.perf_counter() - began), made_here


def least(one: Seconds, other: Seconds) -> Seconds:
    return min(one[0], other[0]), min(one[1], other[1])


def updates(name: str, size: int, chunks: int, rounds: int, device: str, *, grid: bool) -> None:
    """Print what a new solver, an update and one with reuse take."""
    field = made(name, size)
    found: dict[str, Seconds] = dict.fromkeys(("new", "update", "reuse"), (np.inf, np.inf))
    for _ in range(rounds):
        first, second = (problem_of(field, factor, chunks, grid=grid) for factor in (1.0, 1.5))
        took, solver = timed(partial(dsolver.Solver, first, M="amg", device=device))
        found["new"] = least(took, found["new"])
        with solver:
            found["update"] = least(timed(partial(solver.update, second))[0], found["update"])
            again = partial(solver.update, reuse="interpolation")
            again(second)
            found["reuse"] = least(timed(partial(again, first))[0], found["reuse"])
            notes = solver.solve(np.ones(first.shape), maxiter=1).notes
            assert any("interpolation of an earlier matrix" in note for note in notes), notes
    (busy, wall), parts = found["new"], []
    for key, (own_busy, own_wall) in found.items():
        parts.append(
            f"{key} {own_busy:.3f} s, {own_wall:.3f} s by the clock ({own_busy / busy:.2f}, {own_wall / wall:.2f})"
        )
    print(f"{name}, {size}³, {chunks} chunks: " + "; ".join(parts), flush=True)


def iterations(solver: Any, problem: Any, b: Any, reuse: str | None) -> int:
    solver.update(problem, reuse=reuse)
    solution = solver.solve(b, rtol=1e-8)
    assert solution.converged
    assert reuse is None or "interpolation of an earlier matrix" in solution.notes[0], solution.notes
    return int(solution.iterations)


def aging(title: str, before: Any, after: dict[str, Any]) -> None:
    """Print iterations after changes from one system to others."""
    b = np.random.default_rng(1).standard_normal(before.shape)
    parts = []
    with dsolver.Solver(before, M="amg", device="cpu") as solver:
        own = solver.solve(b, rtol=1e-8).iterations
        for name, problem in after.items():
            solver.update(before)
            solver.update(before, reuse="interpolation")
            kept = iterations(solver, problem, b, "interpolation")
            parts.append(f"{name}: {kept}, {iterations(solver, problem, b, None)}")
    print(f"{title} ({own}): " + "; ".join(parts), flush=True)


def all_changes(n: int) -> None:
    """Changes of several kinds."""
    rng, shape = np.random.default_rng(0), (n, n, n)
    x, y, z = np.meshgrid(*[(np.arange(n) + 0.5) / n] * 3, indexing="ij")

    def system(kappa: Any, sigma: float = 0.0) -> Any:
        return diffusion(shape, kappa, sigma, spacing=1.0 / n)

    def ball(center: float, contrast: float) -> Any:
        return np.where((x - center) ** 2 + (y - 0.5) ** 2 + (z - 0.5) ** 2 < 0.06, contrast, 1.0)

    hill = np.exp(-20.0 * ((x - 0.4) ** 2 + (y - 0.5) ** 2 + (z - 0.6) ** 2))
    for name in ("constant", "channels", "chip", "fractal", "noise"):
        kappa = made(name, n).kappa * (1.0 + 1e-9 * hill)  # a constant one would be stored in another order
        hot = {f"times {times} in a hill": system(kappa * (1.0 + (times - 1.0) * hill)) for times in (3, 100)}
        rough = {
            f"each cell times exp({sigma} N(0, 1))": system(kappa * np.exp(sigma * rng.standard_normal(shape)))
            for sigma in (0.1, 0.3, 1.0)
        }
        aging(name, system(kappa), {**hot, **rough})
    for contrast in (10.0, 1e3, 1e-3):
        moved = {f"moved by {cells} cells": system(ball(0.4 + cells / n, contrast)) for cells in (1, 2, 4, 8)}
        aging(f"ball of {contrast:g}", system(ball(0.4, contrast)), moved)
    steps = {f"σ = {sigma:g}": system(np.ones(shape), sigma) for sigma in (1e4, 1e3, 10.0, 1.0)}
    aging("σ = 100", system(np.ones(shape), 1e2), steps)
    turned = {f"1:1:{ratio:g}": system((1.0, 1.0, ratio)) for ratio in (2.0, 4.0, 10.0, 100.0)}
    aging("1:1:1", system((1.0, 1.0, 1.0)), turned)


BY_HAND = (
    ("mg", None),
    ("mg", "preconditioner"),
    ("amg", None),
    ("amg", "interpolation"),
    ("amg", "preconditioner"),
    ("chebyshev", None),
    ("jacobi", None),
)
"""M and `reuse` that one might choose for time steps."""
REACHES = (0.1, 1.0, 10.0, 100.0)
"""κ Δt / h², the cells squared that diffusion crosses in a step."""


def steps(size: int, count: int, reach: float, device: str, m: str, reuse: str | None) -> tuple[float, float]:
    """Seconds of so many steps from a problem on, and iterations of one on average."""
    n = np.arange(size)
    x, y, z = np.meshgrid(*[(n + 0.5) / size] * 3, indexing="ij")
    u, sigma, done = np.exp(-20.0 * ((x - 0.4) ** 2 + (y - 0.5) ** 2 + (z - 0.6) ** 2)), 1.0 / reach, 0
    base = 1.0 + 0.3 * np.sin(6.0 * np.pi * x) * np.cos(4.0 * np.pi * y)
    clock = time.perf_counter if device == "cuda" else time.process_time
    began = clock()
    with dsolver.Solver(diffusion(u.shape, base * (1.0 + 0.5 * u**2), sigma), M=m, device=device) as solver:
        for step in range(count):
            if step:
                solver.update(kappa=base * (1.0 + 0.5 * u**2), reuse=reuse)
            solution = solver.solve(sigma * u, x0=u)
            assert solution.converged
            u, done = solution.x, done + solution.iterations
    return clock() - began, done / count


def time_steps(size: int, count: int, device: str) -> None:
    """Print seconds of time steps by default, and over those of the best choice by hand."""
    for reach in REACHES:
        ways, found = (("auto", "auto"), *BY_HAND), {}
        for way in ways:
            steps(size, 3, reach, device, *way)
        for way in ways:
            found[way] = steps(size, count, reach, device, *way)
        best = min(seconds for way, (seconds, _) in found.items() if way in BY_HAND)
        parts = [f"{m} {reuse}: {seconds:.2f} s, {each:.1f}" for (m, reuse), (seconds, each) in found.items()]
        print(f"{size}³, {count} steps, κ Δt / h² = {reach:g}: " + "; ".join(parts), flush=True)
        print(f"auto over the best by hand: {found[ways[0]][0] / best:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--fields", nargs="+", default=USUAL, choices=list(FIELDS))
    parser.add_argument("--chunks", type=int, nargs="+", default=[1])
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--aging", action="store_true")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args()
    if options.steps:
        time_steps(options.size, options.steps, options.device)
        return
    if options.aging:
        all_changes(options.size)
        return
    updates("constant", 24, 1, 1, options.device, grid=options.grid)  # compiles
    for chunks in options.chunks:
        for name in options.fields:
            updates(name, options.size, chunks, options.rounds, options.device, grid=options.grid)


if __name__ == "__main__":
    main()
