"""LSMR for tomography: dsolver beside SciPy's lsmr on CPUs, or CuPy's on one GPU.

    python bench/lsmr.py [--size 256] [--angles 180] [--iterations 100] [--device cpu]
    python bench/lsmr.py --device cuda
    python bench/lsmr.py --transposes

An image of size² pixels under parallel rays, one a pixel of a detector as wide as its diagonal, at angles over half a
turn; A has the length of each ray in each pixel (Siddon 1985). b is the sum of some discs with noise of 1 %. Both make
so many iterations from b on the device, without a limit that would end them before; the second of each counts. Seconds
on CPUs are those of processors: "reference" has one thread, "resident" as many as there are processors. After some 20
iterations rounding decides, as in SciPy's when rows are permuted, so that x differs by 1e-3 at the same residuals.
--transposes: Aᵀu on a CPU by rows of Aᵀ, and by scattered sums over rows of A, by one thread.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

import dsolver

NEVER: dict[str, Any] = {"atol": 0.0, "btol": 0.0, "conlim": 0.0}


def rays(size: int, angle: float) -> tuple[Any, Any, Any]:
    """The detector pixel, the image pixel and the length of each crossing."""
    half, count = size / 2.0, int(np.ceil(np.sqrt(2.0) * size))
    offsets = np.arange(count) - (count - 1) / 2.0
    along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    start = offsets[:, None] * across - size * along
    grid = np.arange(size + 1) - half
    axes = [axis for axis in range(2) if abs(along[axis]) > 1e-12]
    crossings = [(grid[None] - start[:, axis : axis + 1]) / along[axis] for axis in axes]
    places = np.sort(np.concatenate(crossings, axis=1), axis=1)
    lengths, middles = np.diff(places, axis=1), 0.5 * (places[:, 1:] + places[:, :-1])
    x, y = (np.floor(start[:, axis : axis + 1] + middles * along[axis] + half).astype(np.int64) for axis in range(2))
    inside = (x >= 0) & (x < size) & (y >= 0) & (y < size) & (lengths > 1e-12)
    detector = np.broadcast_to(np.arange(count)[:, None], inside.shape)
    return detector[inside], (x * size + y)[inside], lengths[inside]


def tomography(size: int, angles: int) -> sp.csr_array:
    """Lengths of rays in pixels, float64 (angles times detector pixels, size²)."""
    count = int(np.ceil(np.sqrt(2.0) * size))
    found = [rays(size, np.pi * number / angles) for number in range(angles)]
    row = np.concatenate([part[0] + number * count for number, part in enumerate(found)])
    column, length = (np.concatenate([part[item] for part in found]) for item in (1, 2))
    made = sp.csr_array((length, (row, column)), shape=(angles * count, size * size))
    made.sum_duplicates()
    return made


def discs(size: int) -> Any:
    """An image of some discs."""
    x, y = np.ogrid[-1.0 : 1.0 : 1j * size, -1.0 : 1.0 : 1j * size]
    image = np.zeros((size, size))
    for a, b, r, value in ((0.0, 0.0, 0.8, 1.0), (0.3, 0.2, 0.25, 0.6), (-0.35, 0.1, 0.2, -0.5), (0.0, -0.5, 0.1, 1.0)):
        image += value * ((x - a) ** 2 + (y - b) ** 2 < r * r)
    return image.ravel()


def second(work: Callable[[], Any], clock: Callable[[], float]) -> tuple[Any, float]:
    """The result of some work, and the seconds of its second run."""
    work()
    began = clock()
    return work(), clock() - began


def on_cpu(a: sp.csr_array, b: Any, iterations: int) -> None:
    from scipy.sparse.linalg import lsmr

    theirs, seconds = second(lambda: lsmr(a, b, maxiter=iterations, **NEVER), time.process_time)
    print(f"SciPy    {seconds:8.3f} s of one processor")
    for engine in ("reference", "resident"):
        more: dict[str, Any] = {"engine": engine, "client": False, "device": "cpu", "maxiter": iterations, **NEVER}
        found, took = second(partial(dsolver.lsmr, a, b, **more), time.process_time)
        print(f"dsolver  {took:8.3f} s of processors, {engine}: {seconds / took:.2f} times SciPy's speed")
        print(f"         x differs by {apart(found.x, theirs[0]):.1e}, ‖Aᵀr‖ is {found[4] / theirs[4]:.4f} of SciPy's")


def on_gpu(a: sp.csr_array, b: Any, iterations: int) -> None:
    import cupy
    from cupyx.scipy.sparse import csr_matrix
    from cupyx.scipy.sparse.linalg import lsmr

    def clock() -> float:
        cupy.cuda.Device().synchronize()
        return time.perf_counter()

    there, right = csr_matrix(sp.csr_matrix(a)), cupy.asarray(b)
    theirs, seconds = second(lambda: lsmr(there, right, maxiter=iterations, **NEVER), clock)
    print(f"CuPy     {seconds:8.3f} s")
    found, took = second(lambda: dsolver.lsmr(there, right, maxiter=iterations, device="cuda", **NEVER), clock)
    timings = ", ".join(f"{name} {value:.3f}" for name, value in found.timings.items())
    print(f"dsolver  {took:8.3f} s ({timings})")
    print(f"         {seconds / took:8.2f} times CuPy's speed; {seconds / found.timings['solve']:.2f} without set-up")
    print(f"         x differs by {apart(found.x.get(), theirs[0].get()):.1e}")

    def brought() -> Any:
        rows = csr_matrix(sp.csr_matrix(a))
        return lsmr(rows, cupy.asarray(b), maxiter=iterations, **NEVER)[0].get()

    _, seconds = second(brought, clock)
    _, took = second(lambda: dsolver.lsmr(a, b, maxiter=iterations, device="cuda", **NEVER), clock)
    print(f"from SciPy's A and NumPy's b to NumPy's x: CuPy {seconds:.3f} s, dsolver {took:.3f} s")


def apart(x: Any, y: Any) -> float:
    return float(np.linalg.norm(x - y) / np.linalg.norm(y))


@njit
def scattered(start: Any, columns: Any, values: Any, u: Any, v: Any) -> None:
    v[:] = 0.0
    for row in range(len(start) - 1):
        for i in range(start[row], start[row + 1]):
            v[columns[i]] += values[i] * u[row]


def transposes(a: sp.csr_array) -> None:
    u, v = np.ones(a.shape[0]), np.zeros(a.shape[1])
    of = a.T.tocsr()
    for name, work in (
        ("rows of Aᵀ (SciPy)", lambda: of @ u),
        ("scattered sums (SciPy)", lambda: a.T @ u),
        ("scattered sums (numba)", lambda: scattered(a.indptr, a.indices, a.data, u, v)),
        ("A (SciPy)", lambda: a @ v),
    ):
        work()
        times = []
        for _ in range(5):
            began = time.process_time()
            work()
            times.append(time.process_time() - began)
        print(f"{name:24} {min(times) * 1e3:8.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--angles", type=int, default=180)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--transposes", action="store_true")
    given = parser.parse_args()
    a = tomography(given.size, given.angles)
    print(f"{a.shape[0]} rays, {a.shape[1]} pixels, {a.nnz} crossings; {os.cpu_count()} processors")
    clean = a @ discs(given.size)
    noise = np.random.default_rng(0).standard_normal(len(clean))
    b = clean + 0.01 * np.linalg.norm(clean) / np.sqrt(len(clean)) * noise
    if given.transposes:
        transposes(a)
    elif given.device == "cuda":
        on_gpu(a, b, given.iterations)
    else:
        on_cpu(a, b, given.iterations)


if __name__ == "__main__":
    main()
