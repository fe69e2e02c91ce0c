"""Kernels, V-cycle and iteration on one GPU against the copy bandwidth measured in the same run.

    python bench/gpu.py [--grid 256 256 256] [--json FILE]

Bytes are those that must move: every matrix value and column that a pass uses once, and each vector that it reads or
writes once. A pass that reads an array again, as the sweeps do with x of earlier colors, moves more than is counted.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cupy
from lib.timing import copy_bandwidth, in_graph, timed

from dsolver import Solver, kernels, problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.benchmarks.hpcg.levels import MakeLevels, coarse_rows, partitions
from dsolver.benchmarks.hpcg.preconditioner import cycle
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.eager.resident import ResidentEngine
from dsolver.grid.numbering import stencil_rows
from dsolver.kernels.cuda.hpcg import matrix as hpcg
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec

TOLERANCE = 1e-9


def tail_bytes(matrix: Any) -> int:
    """Bytes of the entries whose column is an upper coarse point."""
    s = matrix.local
    width = (s.start[1:] - s.start[:-1]) // 32
    return int((width - matrix.coarse).sum()) * 32 * int(s.values.itemsize)


def coarse_row_bytes(matrix: Any, transfer: Any) -> int:
    """Bytes of the lower entries of the slices that hold coarse points."""
    first, last = transfer.slices
    return int(matrix.local.upper[first - 1 : last - 1].sum()) * 32 * int(matrix.local.values.itemsize)


def vector_bytes(level: Any) -> int:
    """Bytes of a vector, without padding."""
    return int(level.layout.rows) * int(level.local.diagonal.itemsize)


def level_bytes(level: Any) -> int:
    """Bytes that a V-cycle must move on one level: smoothers, residual and correction, or one SymGS."""
    a, t, n8 = level.local, level.transfer, vector_bytes(level)
    entries = int(a.local.values.nbytes + a.local.columns.nbytes)
    if t is None:
        return entries + 6 * n8  # r, d, x forward; d, x, x backward
    smoothers: int = entries + 7 * n8 + entries + tail_bytes(a) + 8 * n8 + n8 // 8
    coarse_points = int(level.layout.rows) // 8
    return smoothers + restrict_bytes(level) + coarse_points * 4 + n8 // 8 * 2  # an index, xc and c for each


def iteration_bytes(a: Any, lowered: bool) -> int:
    """Bytes that an iteration must move beside the V-cycle: SpMV, r . z, p = z + beta p and the update of x and r.

    With a V-cycle in float32, r is narrowed for it, and z is read as it is.
    """
    rows, z = int(a.layout.rows), 4 if lowered else 8
    products = int(a.local.values.nbytes + a.local.columns.nbytes) + 3 * 8 * rows
    return products + (8 + z) * rows + (z + 2 * 8) * rows + 6 * 8 * rows + ((8 + z) * rows if lowered else 0)


def restrict_bytes(level: Any) -> int:
    """Lower entries of the coarse rows, e, the map and rc."""
    n8, rows = vector_bytes(level), int(level.layout.rows)
    return coarse_row_bytes(level.local, level.transfer) + n8 + n8 // 8 + rows // 8 * 4


def kernel_rows(backend: Any, level: Any, coarse: Any) -> dict[str, tuple[Callable[[], object], int]]:
    """Each kernel of one level: the call and the bytes that it must move."""
    a, t, size, n8 = level.local, level.transfer, level.layout.size, vector_bytes(level)
    r, x, e, c, w, y = (backend.zeros(size) for _ in range(6))
    r[level.layout.position] = cupy.random.default_rng(1).random(level.layout.rows)
    rc = backend.zeros(coarse.layout.size)
    dot, zero, tiny, one = backend.scalars(1), backend.scalars(1), cupy.full(1, 1e-300), cupy.ones(1)
    entries = a.local.values.nbytes + a.local.columns.nbytes
    return {
        "spmv": (lambda: a.spmv(r, y), entries + 3 * n8),
        "spmv_dot": (lambda: a.spmv_dot(r, y, dot), entries + 3 * n8),
        "presmooth": (lambda: a.presmooth(r, x, e), entries + 7 * n8),
        "restrict": (lambda: a.restrict(t, r, x, e, rc), restrict_bytes(level)),
        "postsmooth": (lambda: a.postsmooth(r, c, e, x, w), entries + tail_bytes(a) + 8 * n8 + n8 // 8),
        "update_x_r": (lambda: backend.vectors.update_x_r(r, y, tiny, one, one, zero, one, x, w, dot), 6 * n8),
        "dot": (lambda: backend.vectors.dot(r, x, dot), 2 * n8),
    }


def explicit_rows(backend: Any, spec: SolveSpec, level: Any, coarse: Any) -> dict[str, Any]:
    """SpMV and the pre-smoother with a column index for every entry, as a matrix without structure needs them."""
    points = cupy.zeros(level.layout.rows, dtype=bool)
    points[coarse_rows(cupy, level.layout.shape, coarse.layout.shape)] = True
    rows = stencil_rows(backend, spec.partition, 0, spec.problem.offsets, spec.problem.values(cupy))
    matrix = hpcg.matrix(level.layout, rows, points, backend.dtype, runs=False)
    found = kernel_rows(backend, replace(level, local=matrix), coarse)
    return {f"{name}, explicit": found[name] for name in ("spmv", "presmooth")}


def cycle_rows(
    result: dict[str, Any], spec: SolveSpec, make: MakeLevels, dtype: str, sizes: tuple[int, int], copy: float
) -> None:
    """The V-cycle and an iteration in one value type of the preconditioner."""
    engine = ResidentEngine(spec.partition, "cuda")
    with engine.scope():
        solve = Solve(engine, replace(spec, precond_dtype=dtype))
        solve.fill("b", 1.0)
        solve.columns.start({0: 0.0})
        view = engine.lowered(dtype)
        steps: dict[str, tuple[Callable[[], object], int]] = {
            "v-cycle": (cycle_of(view, make), sum(sizes)),
            "its coarse": (cycle_of(view, replace(make, partitions=make.partitions[1:])), sizes[1]),
            "iteration": (solve.method.step, sum(sizes) + iteration_bytes(matrix_of(solve), dtype != "float64")),
        }
        end = "" if dtype == "float64" else f", {dtype}"
        for name, (step, size) in steps.items():
            report(result, name + end, timed(in_graph(engine.scope(), step)), size, copy, " in a CUDA graph")
        shares = [
            result["kernels"]["its coarse" + end][k] / result["kernels"]["v-cycle" + end][k] for k in ("ms", "bytes")
        ]
        print(f"coarse levels: {100 * shares[0]:.1f} % of the V-cycle's time, {100 * shares[1]:.1f} % of its bytes")
    engine.close()
    cupy.get_default_memory_pool().free_all_blocks()


def matrix_of(solve: Solve) -> Any:
    """The finest matrix that SpMV reads."""
    matrix: Any = solve.operator.local
    return matrix.items[0]


def time_to(tolerance: float, grid: Any, dtype: str) -> tuple[float, int]:
    """Seconds and iterations of a solve of A x = A 1 after set-up, the second one of two."""
    counts = [cupy.full(n, 3.0) for n in grid]
    for count in counts:
        count[0] -= 1.0
        count[-1] -= 1.0
    b = 27.0 - counts[0][:, None, None] * counts[1][None, :, None] * counts[2][None, None, :]
    with Solver(problems.hpcg(grid), device="cuda", M="hpcg", precond_dtype=dtype) as solver:
        solver.solve(b, rtol=tolerance)
        solution = solver.solve(b, rtol=tolerance)
    assert solution.converged
    return solution.timings["solve"], solution.iterations


def cycle_of(engine: EagerEngine, make: MakeLevels) -> Callable[[], None]:
    """The V-cycle on levels of its own."""
    levels = engine.per_chunk(make)
    made = cycle(engine, [levels.at(depth) for depth in range(len(make.partitions))])
    r, x = (engine.field(levels.at(0, "layout")) for _ in range(2))
    engine.fill(levels.at(0, "layout"), 1.0, r)
    return lambda: made.apply(r, x)


def report(result: dict[str, Any], name: str, seconds: float, size: int, copy: float, how: str = "") -> None:
    """Print a line and keep its figures."""
    share = size / seconds / copy
    result["kernels"][name] = {"ms": seconds * 1e3, "bytes": size, "share_of_copy": share}
    print(f"{name:28s} {seconds * 1e3:8.3f} ms {size / 1e9:7.3f} GB {100 * share:6.1f} % of copy{how}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--grid", type=int, nargs=3, default=(256, 256, 256))
    options.add_argument("--order", default="color8")
    options.add_argument("--json", type=Path)
    arguments = options.parse_args()
    grid = tuple(arguments.grid)
    spec = SolveSpec.plan(problems.hpcg(grid), (1, 1, 1), arguments.order, Hpcg())
    make = MakeLevels(problem=spec.problem, partitions=partitions(spec.partition), order=spec.order)
    backend = kernels.load("cuda")
    make(backend, 0)  # compile the kernels
    cupy.get_default_memory_pool().free_all_blocks()
    backend.synchronize()
    began = time.perf_counter()
    levels = make(backend, 0)
    backend.synchronize()
    setup = time.perf_counter() - began
    copy = copy_bandwidth()
    print(f"{cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}, grid {grid}")
    print(f"copy {copy / 1e9:.0f} GB/s; set-up of {len(levels)} levels {setup:.3f} s")
    result: dict[str, Any] = {"grid": grid, "copy_gbs": copy / 1e9, "setup_s": setup, "kernels": {}}
    stream = cupy.cuda.Stream(non_blocking=True)
    for dtype in kernels.DTYPES:
        backend = kernels.load("cuda", dtype=dtype)
        levels = make(backend, 0)
        end = "" if dtype == "float64" else f", {dtype}"
        with stream:
            for name, (work, size) in kernel_rows(backend, levels[0], levels[1]).items():
                report(result, name + end, timed(in_graph(stream, work)), size, copy)
            for name, (work, size) in explicit_rows(backend, spec, levels[0], levels[1]).items():
                report(result, name + end, timed(in_graph(stream, work)), size, copy)
        sizes = level_bytes(levels[0]), sum(level_bytes(level) for level in levels[1:])
        del levels, work
        cycle_rows(result, spec, make, dtype, sizes, copy)
    if arguments.order == "color8":
        for dtype in kernels.DTYPES:
            seconds, iterations = time_to(TOLERANCE, grid, dtype)
            result[f"to_{TOLERANCE:g}_{dtype}"] = {"seconds": seconds, "iterations": iterations}
            print(f"to {TOLERANCE:g} with a V-cycle in {dtype}: {iterations} iterations, {seconds:.4f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
