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
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from dsolver import kernels, problems
from dsolver.engines.resident import ResidentEngine
from dsolver.levels import Hierarchy
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
    return 2 * source.nbytes / timed(lambda: target.data.copy_from_device_async(source.data, source.nbytes))


def tail_bytes(matrix: Any) -> int:
    """Bytes of the entries whose column is an upper coarse point."""
    s = matrix.local
    width = (s.start[1:] - s.start[:-1]) // 32
    return int((width - s.coarse).sum()) * 32 * 8


def coarse_row_bytes(matrix: Any, transfer: Any) -> int:
    """Bytes of the lower entries of the slices that hold coarse points."""
    first, last = transfer.slices
    return int(matrix.local.upper[first - 1 : last - 1].sum()) * 32 * 8


def kernel_rows(backend: Any, level: Any, coarse: Any) -> dict[str, tuple[Callable[[], object], int]]:
    """Each kernel of one level: the call and the bytes that it must move."""
    a, t, size, n8 = level.matrix, level.transfer, level.layout.size, level.layout.rows * 8
    r, x, e, c, w, y = (backend.zeros(size) for _ in range(6))
    r[level.layout.position] = cupy.random.default_rng(1).random(level.layout.rows)
    rc = backend.zeros(coarse.layout.size)
    dot, zero, one = backend.zeros(1), backend.zeros(1), cupy.ones(1)
    entries = a.local.values.nbytes + a.local.columns.nbytes
    return {
        "spmv": (lambda: backend.spmv(a, r, y), entries + 3 * n8),
        "spmv_dot": (lambda: backend.spmv_dot(a, r, y, dot), entries + 3 * n8),
        "presmooth": (lambda: backend.presmooth(a, r, x, e), entries + 7 * n8),
        "restrict": (lambda: backend.restrict(a, t, r, x, e, rc), coarse_row_bytes(a, t) + n8 + n8 // 8 + n8 // 16),
        "postsmooth": (lambda: backend.postsmooth(a, r, c, e, x, w), entries + tail_bytes(a) + 8 * n8 + n8 // 8),
        "update_x_r": (lambda: backend.update_x_r(r, y, zero, one, one, zero, x, w, dot), 6 * n8),
        "dot": (lambda: backend.dot(r, x, dot), 2 * n8),
    }


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
    for name, (work, size) in kernel_rows(backend, levels[0], levels[1]).items():
        seconds = timed(work)
        share = size / seconds / copy
        result["kernels"][name] = {"ms": seconds * 1e3, "bytes": size, "share_of_copy": share}
        print(f"{name:12s} {seconds * 1e3:8.3f} ms {size / 1e9:7.3f} GB {100 * share:6.1f} % of copy")
    del levels

    engine = ResidentEngine(hierarchy.partitions[0], "cuda")
    with engine.scope():
        solve = Solve(engine, SolveSpec(hierarchy=hierarchy))
        solve.fill("b", 1.0)
        solve.start()
        assert solve.preconditioner is not None
        cycle = solve.preconditioner
        work = {
            "v-cycle": in_graph(engine.scope(), lambda: cycle.apply(solve.cg.r, solve.cg.x)),
            "iteration": in_graph(engine.scope(), solve.cg.step),
        }
        for name, call in work.items():
            seconds = timed(call)
            result["kernels"][name] = {"ms": seconds * 1e3}
            print(f"{name:12s} {seconds * 1e3:8.3f} ms in a CUDA graph")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
