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
import numpy as np

from dsolver import kernels, problems
from dsolver.engines.resident import ResidentEngine
from dsolver.levels import Hierarchy
from dsolver.multigrid import VCycle
from dsolver.ordering import Order
from dsolver.programs import Solve, SolveSpec

REPEATS = 30


def timed(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median seconds of some work on the current stream."""
    stream = cupy.cuda.get_current_stream()
    work()
    events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(repeats)]
    for start, end in events:
        start.record(stream)
        work()
        end.record(stream)
    stream.synchronize()
    return float(np.median([cupy.cuda.get_elapsed_time(*pair) for pair in events])) / 1e3


def in_graph(stream: Any, work: Callable[[], object]) -> Callable[[], object]:
    """The work as one CUDA graph launch."""
    work()
    stream.begin_capture()
    work()
    graph = stream.end_capture()
    return lambda: graph.launch(stream)


def copy_bandwidth() -> float:
    """Bytes a second of a device-to-device copy, read and written."""
    source = cupy.random.default_rng(0).random(1 << 28)  # 2 GiB
    target = cupy.empty_like(source)
    return 2.0 * int(source.nbytes) / timed(lambda: target.data.copy_from_device_async(source.data, source.nbytes))


def tail_bytes(matrix: Any) -> int:
    """Bytes of the entries whose column is an upper coarse point."""
    s = matrix.local
    width = (s.start[1:] - s.start[:-1]) // 32
    return int((width - s.coarse).sum()) * 32 * int(s.values.itemsize)


def coarse_row_bytes(matrix: Any, transfer: Any) -> int:
    """Bytes of the lower entries of the slices that hold coarse points."""
    first, last = transfer.slices
    return int(matrix.local.upper[first - 1 : last - 1].sum()) * 32 * int(matrix.local.values.itemsize)


def vector_bytes(level: Any) -> int:
    """Bytes of a vector, without padding."""
    return int(level.layout.rows) * int(level.matrix.diagonal.itemsize)


def level_bytes(level: Any) -> int:
    """Bytes that a V-cycle must move on one level: smoothers, residual and correction, or one SymGS."""
    a, t, n8 = level.matrix, level.transfer, vector_bytes(level)
    entries = int(a.local.values.nbytes + a.local.columns.nbytes)
    if t is None:
        return entries + 6 * n8  # r, d, x forward; d, x, x backward
    smoothers: int = entries + 7 * n8 + entries + tail_bytes(a) + 8 * n8 + n8 // 8
    coarse_points = int(level.layout.rows) // 8
    return smoothers + restrict_bytes(level) + coarse_points * 4 + n8 // 8 * 2  # an index, xc and c for each


def iteration_bytes(level: Any) -> int:
    """Bytes that an iteration must move beside the V-cycle: r . z, p = z + beta p, SpMV and the update of x and r."""
    n8 = int(level.layout.rows) * 8
    return int(level.matrix.local.values.nbytes + level.matrix.local.columns.nbytes) + (2 + 3 + 3 + 6) * n8


def restrict_bytes(level: Any) -> int:
    """Lower entries of the coarse rows, e, the map and rc."""
    n8, rows = vector_bytes(level), int(level.layout.rows)
    return coarse_row_bytes(level.matrix, level.transfer) + n8 + n8 // 8 + rows // 8 * 4


def kernel_rows(backend: Any, level: Any, coarse: Any) -> dict[str, tuple[Callable[[], object], int]]:
    """Each kernel of one level: the call and the bytes that it must move."""
    a, t, size, n8 = level.matrix, level.transfer, level.layout.size, vector_bytes(level)
    r, x, e, c, w, y = (backend.zeros(size) for _ in range(6))
    r[level.layout.position] = cupy.random.default_rng(1).random(level.layout.rows)
    rc = backend.zeros(coarse.layout.size)
    dot, zero, tiny, one = backend.sums(1), backend.sums(1), cupy.full(1, 1e-300), cupy.ones(1)
    entries = a.local.values.nbytes + a.local.columns.nbytes
    return {
        "spmv": (lambda: backend.spmv(a, r, y), entries + 3 * n8),
        "spmv_dot": (lambda: backend.spmv_dot(a, r, y, dot), entries + 3 * n8),
        "presmooth": (lambda: backend.presmooth(a, r, x, e), entries + 7 * n8),
        "restrict": (lambda: backend.restrict(a, t, r, x, e, rc), restrict_bytes(level)),
        "postsmooth": (lambda: backend.postsmooth(a, r, c, e, x, w), entries + tail_bytes(a) + 8 * n8 + n8 // 8),
        "update_x_r": (lambda: backend.update_x_r(r, y, tiny, one, one, zero, one, x, w, dot), 6 * n8),
        "dot": (lambda: backend.dot(r, x, dot), 2 * n8),
    }


def coarse_cycle(engine: ResidentEngine, hierarchy: Hierarchy) -> Callable[[], None]:
    """The V-cycle from the second level on, on levels of its own."""
    below = replace(hierarchy, partitions=hierarchy.partitions[1:])
    levels = engine.per_chunk(below.build)
    cycle = VCycle(engine, [levels.at(depth) for depth in range(below.depth)])
    r, x = (engine.field(levels.at(0, "layout")) for _ in range(2))
    engine.fill(levels.at(0, "layout"), 1.0, r)
    return lambda: cycle.apply(r, x)


def report(result: dict[str, Any], name: str, seconds: float, size: int, copy: float, how: str = "") -> None:
    """Print a line and keep its figures."""
    share = size / seconds / copy
    result["kernels"][name] = {"ms": seconds * 1e3, "bytes": size, "share_of_copy": share}
    print(f"{name:12s} {seconds * 1e3:8.3f} ms {size / 1e9:7.3f} GB {100 * share:6.1f} % of copy{how}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--grid", type=int, nargs=3, default=(256, 256, 256))
    options.add_argument("--order", default="color8")
    options.add_argument("--json", type=Path)
    arguments = options.parse_args()
    grid = tuple(arguments.grid)
    hierarchy = Hierarchy.plan(problems.hpcg(grid), (1, 1, 1), Order.parse(arguments.order))
    backend = kernels.load("cuda")
    hierarchy.build(backend, 0)  # compile the kernels
    cupy.get_default_memory_pool().free_all_blocks()
    backend.synchronize()
    began = time.perf_counter()
    levels = hierarchy.build(backend, 0)
    backend.synchronize()
    setup = time.perf_counter() - began
    copy = copy_bandwidth()
    print(f"{cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}, grid {grid}")
    print(f"copy {copy / 1e9:.0f} GB/s; set-up of {len(levels)} levels {setup:.3f} s")
    result: dict[str, Any] = {"grid": grid, "copy_gbs": copy / 1e9, "setup_s": setup, "kernels": {}}
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for name, (work, size) in kernel_rows(backend, levels[0], levels[1]).items():
            report(result, name, timed(in_graph(stream, work)), size, copy)
    coarse_bytes = sum(level_bytes(level) for level in levels[1:])
    cycle_bytes = coarse_bytes + level_bytes(levels[0])
    step_bytes = cycle_bytes + iteration_bytes(levels[0])
    del levels

    engine = ResidentEngine(hierarchy.partitions[0], "cuda")
    with engine.scope():
        solve = Solve(engine, SolveSpec(hierarchy=hierarchy))
        solve.fill("b", 1.0)
        solve.start()
        assert solve.preconditioner is not None
        cycle = solve.preconditioner
        below = coarse_cycle(engine, hierarchy)
        steps: dict[str, tuple[Callable[[], object], int]] = {
            "v-cycle": (lambda: cycle.apply(solve.cg.r, solve.cg.x), cycle_bytes),
            "its coarse": (below, coarse_bytes),
            "iteration": (solve.cg.step, step_bytes),
        }
        for name, (step, size) in steps.items():
            seconds = timed(in_graph(engine.scope(), step))
            report(result, name, seconds, size, copy, " in a CUDA graph")
        shares = [result["kernels"]["its coarse"][key] / result["kernels"]["v-cycle"][key] for key in ("ms", "bytes")]
        print(f"coarse levels: {100 * shares[0]:.1f} % of the V-cycle's time, {100 * shares[1]:.1f} % of its bytes")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
