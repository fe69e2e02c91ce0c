"""Several right-hand sides at once against one after the other: seconds, and on a GPU the matrix passes' bytes.

    python bench/batched.py --grid 256 256 256 --device cuda
    python bench/batched.py --grid 96 96 96 --device cpu

Problems: diffusion with a coefficient that varies smoothly, and 27 constant points, whose finest level is not stored,
so that there is less to share. b are random, and the same for both ways. Solves are timed on a set-up Solver after one
that compiles; whether the residuals agree to the bit is told.
Bytes are those that must move: matrix values and columns once for all columns, each vector once a column.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import dsolver
from dsolver import problems
from dsolver.benchmarks.hpcg.levels import MakeLevels, partitions
from dsolver.grid.coloring import Order
from dsolver.grid.partition import Partition
from dsolver.kernels import load

sys.path.insert(0, str(Path(__file__).parent))


def smooth(x: Any, y: Any, z: Any) -> Any:
    """κ between 1/10 and 10."""
    return 10.0 ** (np.sin(x / 17.0) * np.cos(y / 13.0) * np.sin(z / 11.0))


ROWS: dict[str, Any] = {
    "27 points": problems.poisson27,
    "variable": lambda grid: problems.diffusion(grid, smooth),
}


def solves(name: str, arguments: argparse.Namespace) -> None:
    """k at once against k one after the other."""
    rng = np.random.default_rng(0)
    bs = [rng.standard_normal(arguments.grid) for _ in range(max(arguments.counts))]
    if arguments.device == "cuda":
        import cupy

        bs = [cupy.asarray(b) for b in bs]
    setup: Any = {"device": arguments.device, "M": arguments.M, "precond_dtype": arguments.precond_dtype}
    with dsolver.Solver(ROWS[name](tuple(arguments.grid)), **setup) as solver:
        solver.solve(bs[0], rtol=arguments.rtol)
        alone = [solver.solve(b, rtol=arguments.rtol) for b in bs]
        one = float(np.median([solution.timings["solve"] for solution in alone]))
        for count in arguments.counts:
            together: Any = None
            for _ in range(2):  # the first compiles
                together = solver.solve(bs[:count], rtol=arguments.rtol)
            if any(solution.notes for solution in together):
                raise SystemExit(together[0].notes[0])
            same = all(a.residuals == b.residuals for a, b in zip(together, alone, strict=False))
            seconds = together[0].timings["solve"]
            print(
                f"{name:10} k={count}: {alone[0].iterations} iterations, {seconds:.4f} s together, "
                f"{seconds / count:.4f} s each, {one:.4f} s alone: "
                f"{count * one / seconds:.2f}x, {'the same bits' if same else 'OTHER BITS'}",
                flush=True,
            )


def passes(arguments: argparse.Namespace) -> None:
    """The matrix passes of a 27-point level on a GPU."""
    import cupy
    from gpu import copy_bandwidth, in_graph, timed

    grid = tuple(arguments.grid)
    backend = load("cuda")
    level = MakeLevels(
        problem=problems.hpcg(grid), partitions=partitions(Partition(grid)), order=Order.parse("color8")
    )(backend, 0)[0]
    a, copy = level.local, copy_bandwidth()
    stored = a.local.values.nbytes + a.local.columns.nbytes
    with cupy.cuda.Stream(non_blocking=True):
        for count in arguments.counts:
            kernels = backend.batched(count)
            x, y, w = (cupy.ones((count, level.layout.size)) for _ in range(3))
            dot = cupy.zeros((count, 1))
            rows: dict[str, tuple[Any, int, int]] = {
                "spmv_dot": (lambda k=kernels, x=x, y=y, d=dot: k.kernel("spmv_dot")(a, x, y, d), stored, 2),
                "forward": (lambda k=kernels, x=x, y=y: k.kernel("forward")(a, x, y), stored // 2, 2),
                "upper_residual": (lambda k=kernels, x=x, y=y: k.kernel("upper_residual")(a, x, y), stored // 2, 2),
                "lower_residual": (
                    lambda k=kernels, x=x, y=y, w=w: k.kernel("lower_residual")(a, x, y, w),
                    stored // 2,
                    3,
                ),
                "backward": (lambda k=kernels, x=x, y=y: k.kernel("backward")(a, x, y), stored // 2, 2),
            }
            for name, (work, matrix, vectors) in rows.items():
                work()
                size = matrix + (count * vectors + (name not in ("upper_residual", "lower_residual"))) * x[0].nbytes
                seconds = timed(in_graph(cupy.cuda.get_current_stream(), work))
                share = 100.0 * size / seconds / copy
                print(f"{name:15} k={count}: {1e3 * seconds:.3f} ms, {size / 1e9:.3f} GB, {share:.1f} % of copy")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--grid", type=int, nargs=3, default=(256, 256, 256))
    options.add_argument("--counts", type=int, nargs="+", default=(1, 2, 4, 8))
    options.add_argument("--rows", nargs="+", choices=tuple(ROWS), default=tuple(ROWS))
    options.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options.add_argument("--M", default="mg", choices=("mg", "hpcg", "jacobi", "chebyshev"))
    options.add_argument("--precond-dtype", default="float64", choices=("float64", "float32"))
    options.add_argument("--rtol", type=float, default=1e-8)
    options.add_argument(
        "--passes", action=argparse.BooleanOptionalAction, default=True, help="time matrix passes, too"
    )
    arguments = options.parse_args()
    for name in arguments.rows:
        solves(name, arguments)
    if arguments.device == "cuda" and arguments.passes:
        passes(arguments)


if __name__ == "__main__":
    main()
