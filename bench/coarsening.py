"""Time of interpolation and Galerkin operators, level by level, as far as the lattice goes.

    python bench/coarsening.py --size 512                  constant 7-point rows
    python bench/coarsening.py --size 512 --rows star      7-point rows that differ
    python bench/coarsening.py --size 256 --rows box       27-point rows that differ
    python bench/coarsening.py --size 96 --device cpu --threads 2

Each kernel runs twice, the second run counts (wall time). Storing a level's matrix is not in it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dsolver.kernels import Backend, load
from dsolver.kernels.lattice.coarsening import COARSE_OFFSETS, GHOST, Coarsening

STAR = tuple(o for o in COARSE_OFFSETS if sum(map(abs, o)) <= 1)
SMALLEST = 8


def ghosted(backend: Backend, rows: Any, n: int) -> Any:
    """Rows (K, n, n, n) with ghost layers outside the domain."""
    out = backend.xp.zeros((len(rows), *(n + 2 * GHOST,) * 3))
    inner = slice(GHOST, -GHOST)
    out[:, inner, inner, inner] = rows.reshape(-1, n, n, n)
    return out


def timed(backend: Backend, work: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the milliseconds of a second run."""
    work()
    backend.synchronize()
    began = time.perf_counter()
    result = work()
    backend.synchronize()
    return result, 1e3 * (time.perf_counter() - began)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, default=128, help="edge of the cube")
    options.add_argument("--rows", choices=("constant", "star", "box"), default="constant")
    options.add_argument("--device", choices=("cuda", "cpu", "numpy"), default="cuda")
    options.add_argument("--threads", type=int, default=1)
    chosen = options.parse_args()
    backend = load(chosen.device, chosen.threads)
    n, offsets = chosen.size, COARSE_OFFSETS if chosen.rows == "box" else STAR
    weights = backend.asarray(np.array([float(len(offsets) - 1) if o == (0, 0, 0) else -1.0 for o in offsets]))
    if chosen.rows != "constant":
        rows = -backend.xp.random.random((len(offsets), n, n, n))
        rows[offsets.index((0, 0, 0))] = len(offsets) - 1.0
        weights = ghosted(backend, rows, n)
        del rows
    total = 0.0
    while n >= SMALLEST:
        whole = (n, n, n)
        c = Coarsening(lo=(0, 0, 0), shape=whole, grid=whole, periodic=(False,) * 3, factors=(2, 2, 2))
        p, first = timed(backend, partial(backend.interpolation, c, offsets, weights))
        coarse, second = timed(backend, partial(backend.galerkin, c, offsets, weights, p))
        print(f"{n:4}³ {len(offsets):2} entries   interpolation {first:8.2f} ms   galerkin {second:8.2f} ms")
        total += first + second
        del p
        n, offsets = n // 2, COARSE_OFFSETS
        weights = ghosted(backend, coarse, n)
    print(f"in all {total:.1f} ms")


if __name__ == "__main__":
    main()
