"""HPCG's procedure on the CPUs of this machine, in one process, beside what its memory can do.

    python bench/hpcg_cpu.py                     # 104 x 104 x 104, 10 seconds of timed sets
    python bench/hpcg_cpu.py --grid 64 64 64 --seconds 5

Prints the speed in GF/s, the copy bandwidth in GB/s (bytes read and bytes written, all CPUs at once, measured before
and after; the better one counts) and their ratio in flop a byte: the arithmetic waits for memory, so the ratio says how
good the program is and the bandwidth how good the machine. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dsolver import hpcg
from dsolver.runtime import connect, usable_cpus

COPIED = 2**28  # bytes, all threads together: beyond any cache
ROUNDS = 10


def copy_bandwidth(threads: int) -> float:
    """GB/s of the fastest of several copies, each thread with arrays of its own."""
    sources = [np.ones(COPIED // 8 // threads) for _ in range(threads)]
    targets = [np.zeros_like(source) for source in sources]
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(ROUNDS):
            began = time.perf_counter()
            list(pool.map(np.copyto, targets, sources))  # NumPy copies without the interpreter's lock
            best = max(best, 2 * COPIED / (time.perf_counter() - began) / 1e9)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description="HPCG's procedure on this machine's CPUs, in one process.")
    parser.add_argument("--grid", nargs=3, type=int, default=(104, 104, 104), metavar=("NX", "NY", "NZ"))
    parser.add_argument("--seconds", type=float, default=10.0, help="of timed sets (default: 10)")
    arguments = parser.parse_args()
    nx, ny, nz = arguments.grid
    threads = usable_cpus()

    before = copy_bandwidth(threads)
    result = hpcg.run(connect(device="cpu"), hpcg.HpcgOptions(grid=(nx, ny, nz), seconds=arguments.seconds))
    bandwidth = max(before, copy_bandwidth(threads))

    speed = result.gflops
    assert speed.raw is not None
    print(f"grid {nx} x {ny} x {nz}, {threads} threads, {result.iterations} iterations a set, valid: {result.valid}")
    for name in ("raw", "rating", "spmv", "mg", "ddot", "waxpby"):
        print(f"{name:12}{getattr(speed, name):8.2f} GF/s")
    print(f"{'copy':12}{bandwidth:8.2f} GB/s")
    print(f"{'raw / copy':12}{speed.raw / bandwidth:8.3f} flop a byte")


if __name__ == "__main__":
    main()
