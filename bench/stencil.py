"""Constant stencils on one GPU: products and half sweeps without a matrix, against the copy bandwidth of the same run.

    python bench/stencil.py [--grid 512 512 512] [--dtype float64] [--json FILE]

Bytes are those that must move: x read once and y written once, and each further vector once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from lib.timing import copy_bandwidth, timed

from dsolver import kernels, problems
from dsolver.kernels.formats.stencil.constant import ConstantStencil
from dsolver.kernels.formats.stencil.rows import OFFSETS
from dsolver.kernels.lattice.star import Around, star_transfer


def stencil_of(problem: problems.Problem) -> ConstantStencil:
    """A problem's weights, with nothing around its grid."""
    by_offset = dict(zip(problem.offsets, problem.weights, strict=True))
    return ConstantStencil(
        shape=problem.grid,
        weights=tuple(by_offset.get(o, 0.0) for o in OFFSETS),
        faces=(0.0,) * 6,
        wraps=(False, False, False),
        lo=(0, 0, 0),
    )


def rows(backend: Any, layout: Any, a: Any) -> dict[str, tuple[Callable[[], object], int]]:
    """Each kernel of a stencil: the call and how many vectors it must read or write."""
    x, y, z = (backend.zeros(layout.size) for _ in range(3))
    x[backend.guard : -backend.guard] = cupy.random.default_rng(1).random(layout.size - 2 * backend.guard)
    dot = backend.scalars(1)
    return {
        "spmv": (lambda: a.spmv(x, y), 2),
        "spmv_dot": (lambda: a.spmv_dot(x, y, dot), 2),
        "forward": (lambda: a.forward(x, y), 2),
        "upper_residual": (lambda: a.upper_residual(x, y), 2),
        "lower_residual": (lambda: a.lower_residual(x, y, z), 3),
        "backward": (lambda: a.backward(x, y), 2),
    }


def level_rows(backend: Any, layout: Any, a: Any) -> dict[str, tuple[Callable[[], object], float]]:
    """A level of a V-cycle with a star: the two passes and how many vectors they must read or write."""
    nx, ny, nz = (n // 2 for n in layout.shape)
    k, j, i = (cupy.arange(n, dtype=np.int32) % 2 for n in (nz, ny, nx))
    color = (4 * k[:, None, None] + 2 * j[:, None] + i).reshape(-1)
    coarse = backend.layouts.colored(color, 8, (nx, ny, nz))
    lattice = backend.layouts.colored(cupy.zeros(nx * ny * nz, dtype=np.int32), 1, (nx, ny, nz))
    grids = (tuple(a.stencil.shape), (nx, ny, nz))
    alone = (Around(grid=grid, wraps=(False, False, False), lo=(0, 0, 0), shape=grid) for grid in grids)
    t = backend.stencil.transfer(star_transfer(a.stencil, *alone, coarse))
    r, x, rc, xc = (backend.zeros(where.size) for where in (layout, layout, coarse, lattice))
    r[backend.guard : -backend.guard] = cupy.random.default_rng(1).random(layout.size - 2 * backend.guard)
    h = backend.zeros(2 * backend.guard)  # no neighbors
    return {
        "star_down": (lambda: t.star_down(r, h, rc), 1 + 1.5 / 8),
        "star_up": (lambda: t.star_up(r, h, xc, x), 2 + 1 / 8),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--grid", type=int, nargs=3, default=(512, 512, 512))
    options.add_argument("--dtype", default="float64")
    options.add_argument("--json", type=Path)
    arguments = options.parse_args()
    grid = tuple(arguments.grid)
    backend = kernels.load("cuda", dtype=arguments.dtype)
    points = grid[0] * grid[1] * grid[2]
    copy = copy_bandwidth()
    print(f"{cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}, grid {grid}, {arguments.dtype}")
    print(f"copy {copy / 1e9:.0f} GB/s")
    result: dict[str, Any] = {"grid": grid, "dtype": arguments.dtype, "copy_gbs": copy / 1e9, "kernels": {}}
    layout = backend.layouts.colored(cupy.zeros(points, dtype=np.int32), 1, grid)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for problem in (problems.poisson7(grid), problems.poisson27(grid)):
            a = backend.stencil.matrix(stencil_of(problem))
            every: dict[str, tuple[Callable[[], object], float]] = {**rows(backend, layout, a)}
            if a.stencil.star:
                every |= level_rows(backend, layout, a)
            for name, (work, vectors) in every.items():
                seconds = timed(work)
                share = vectors * points * backend.dtype.itemsize / seconds / copy
                result["kernels"][f"{problem.name} {name}"] = {"ms": seconds * 1e3, "share_of_copy": share}
                print(f"{problem.name:10s} {name:15s} {seconds * 1e3:8.3f} ms {100 * share:6.1f} % of copy")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
