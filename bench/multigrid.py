"""General multigrid (M="mg") on one GPU: set-up by its steps, an iteration, a V-cycle, and every kernel of it by level.

    python bench/multigrid.py --grid 256 256 256 --problem poisson27
    python bench/multigrid.py --grid 512 512 512 --problem blocks --precond-dtype float32
    python bench/multigrid.py --check

Problems are those of bench/convergence.py. --check compares with the CPU kernels on a small grid instead: iterations,
and how far residuals differ. Kernel times are those of a measured iteration, which is slower than a replayed one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import cupy
import numpy as np

import dsolver
from dsolver import problems
from dsolver.engines.eager.resident import ResidentEngine
from dsolver.kernels import DENSE_ROWS
from dsolver.kernels.cuda.lattice.setup import CudaLattice
from dsolver.kernels.cuda.layout_setup import CudaLayoutSetup
from dsolver.kernels.cuda.sell.setup import CudaSell
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec

sys.path.insert(0, str(Path(__file__).parent))
from convergence import ROWS

STEPS = 20
PARTS: dict[Any, tuple[str, ...]] = {
    CudaLayoutSetup: ("colored",),
    CudaLattice: ("star", "framed", "numbers", "interpolation", "galerkin", "restriction", "prolongation"),
    CudaSell: ("matrix", "product", "halo_product"),
}
"""Functions by which a set-up is timed; these call one another nowhere."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--grid", type=int, nargs=3, default=(256, 256, 256))
    options.add_argument("--problem", default="blocks", choices=tuple(ROWS))
    options.add_argument("--precond-dtype", default="float64", choices=("float64", "float32"))
    options.add_argument("--rtol", type=float, default=1e-8)
    options.add_argument("--check", action="store_true")
    arguments = options.parse_args()
    if arguments.check:
        check()
        return
    problem = replace(ROWS[arguments.problem](arguments.grid[0]), chunks=(1, 1, 1))
    if problem.grid != tuple(arguments.grid):
        raise SystemExit("the problems of bench/convergence.py are cubes: give three equal numbers")
    whole(problem, arguments)
    steps(problem, arguments)
    iteration(problem, arguments)


def check() -> None:
    """The GPU against the CPU, with as many levels."""
    DENSE_ROWS["cuda"] = DENSE_ROWS["cpu"]
    rng = np.random.default_rng(0)
    grid = (50, 41, 36)
    kappa = np.exp(rng.standard_normal(grid))
    jumps = np.kron(np.where(rng.random((25, 21, 18)) < 0.5, 1e4, 1.0), np.ones((2, 2, 2)))[:, :41]
    cases = {
        "27 points": problems.poisson27(grid),
        "rough": problems.diffusion(grid, kappa),
        "blocks": problems.diffusion(grid, jumps),
        "periodic": problems.diffusion(grid, kappa, bc="periodic"),
    }
    b = rng.standard_normal(grid)
    b -= b.mean()
    for name, problem in cases.items():
        for chunks in ((1, 1, 1), (2, 2, 2)):
            for dtype in ("float64", "float32"):
                case: Any = replace(problem, chunks=chunks)
                cpu, gpu = (
                    dsolver.solve(case, b, rtol=1e-9, device=device, precond_dtype=dtype) for device in ("cpu", "cuda")
                )
                pairs = zip(cpu.residuals, gpu.residuals, strict=False)
                off = max(abs(x - y) / y for x, y in pairs)
                print(f"{name:10} {chunks} {dtype}: {cpu.iterations} and {gpu.iterations} iterations, off by {off:.1e}")


def right_hand_side(grid: Any) -> Any:
    """Rough values whose sum is zero, on the GPU."""
    b = cupy.random.default_rng(0).standard_normal(grid)
    b -= b.mean()
    return b


def whole(problem: Any, arguments: argparse.Namespace) -> None:
    """From nothing to the tolerance, twice: the first run compiles."""
    b = right_hand_side(problem.grid)
    for turn in ("first", "second"):
        solution = dsolver.solve(problem, b, rtol=arguments.rtol, device="cuda", precond_dtype=arguments.precond_dtype)
        seconds = {name: round(took, 4) for name, took in solution.timings.items()}
        residual = solution.true_residual / solution.b_norm
        memory = cupy.get_default_memory_pool().total_bytes() / 1e9
        print(f"{turn}: {solution.iterations} iterations to {residual:.1e}, s {seconds}, at most {memory:.1f} GB")
        del solution
        cupy.get_default_memory_pool().free_all_blocks()


def steps(problem: Any, arguments: argparse.Namespace) -> None:
    """Time of a set-up by its steps. The device is awaited around each step, so that the sum is more than the whole."""
    with timed() as took:
        dsolver.solve(problem, right_hand_side(problem.grid), maxiter=0, precond_dtype=arguments.precond_dtype)
    print("set-up, s:", {name: round(seconds, 4) for name, seconds in took.items()})
    cupy.get_default_memory_pool().free_all_blocks()


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Seconds of every call of `PARTS` meanwhile."""
    took: dict[str, float] = defaultdict(float)
    before = [(owner, name, getattr(owner, name)) for owner, names in PARTS.items() for name in names]

    def around(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **named: Any) -> Any:
            cupy.cuda.Device().synchronize()
            began = time.perf_counter()
            try:
                return function(*values, **named)
            finally:
                cupy.cuda.Device().synchronize()
                took[name] += time.perf_counter() - began

        return call

    for owner, name, function in before:
        setattr(owner, name, around(name, function))
    try:
        yield took
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def iteration(problem: Any, arguments: argparse.Namespace) -> None:
    """Replayed iterations and V-cycles, and the kernels of a measured iteration."""
    spec = SolveSpec.plan(problem, (1, 1, 1), precond_dtype=arguments.precond_dtype)
    engine = ResidentEngine(spec.partition, "cuda")
    with engine.scope():
        program = Solve(engine, spec)
        program.set_b({0: right_hand_side(problem.grid)})
        program.columns.start({0: 0.0})
        cycle = program.preconditioner
        assert cycle is not None
        r, z = program.method.r, engine.field(program.layout)

        def apply() -> None:
            cycle.apply(r, z)

        for name, run in (
            ("iteration", lambda: program.columns.advance(STEPS)),
            ("V-cycle", lambda: engine.repeat(apply, STEPS, ())),
        ):
            run()
            began = time.perf_counter()
            run()
            print(f"{name}: {1e3 * (time.perf_counter() - began) / STEPS:.3f} ms")
        program.columns.advance(2, True)
        sums: dict[Any, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for span in engine.spans():
            sums[-1 if span.level is None else span.level][span.name] += 1e3 * span.seconds
        for level, kernels in sorted(sums.items()):
            line = ", ".join(f"{name} {ms:.3f}" for name, ms in kernels.items())
            print(f"  level {level}: {sum(kernels.values()):.3f} ms: {line}")
    engine.close()


if __name__ == "__main__":
    main()
