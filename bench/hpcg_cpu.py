"""HPCG's procedure on the CPUs of this machine, in one process, beside what its memory can do.

    python bench/hpcg_cpu.py                     # 104 x 104 x 104, 10 seconds of timed sets
    python bench/hpcg_cpu.py --grid 64 64 64 --seconds 5

Prints the speed in GF/s, the copy bandwidth in GB/s (bytes read and bytes written, all CPUs at once, measured before
and after; the better one counts) and their ratio in flop a byte: the arithmetic waits for memory, so the ratio says how
good the program is and the bandwidth how good the machine. Run it on an idle machine.
"""

from __future__ import annotations

import argparse

from dsolver.benchmarks import hpcg
from dsolver.cluster.runtime import connect
from dsolver.cost import bandwidth
from dsolver.kernels import usable_cpus

COPIED = 2**28  # bytes, all threads together: beyond any cache
ROUNDS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description="HPCG's procedure on this machine's CPUs, in one process.")
    parser.add_argument("--grid", nargs=3, type=int, default=(104, 104, 104), metavar=("NX", "NY", "NZ"))
    parser.add_argument("--seconds", type=float, default=10.0, help="of timed sets (default: 10)")
    arguments = parser.parse_args()
    nx, ny, nz = arguments.grid
    threads = usable_cpus()

    before = bandwidth.measured(threads, COPIED, ROUNDS)
    result = hpcg.run(connect(device="cpu"), hpcg.HpcgOptions(grid=(nx, ny, nz), seconds=arguments.seconds))
    copied = max(before, bandwidth.measured(threads, COPIED, ROUNDS)) / 1e9

    speed = result.gflops
    assert speed.raw is not None
    print(f"grid {nx} x {ny} x {nz}, {threads} threads, {result.iterations} iterations a set, valid: {result.valid}")
    for name in ("raw", "rating", "spmv", "mg", "ddot", "waxpby"):
        print(f"{name:12}{getattr(speed, name):8.2f} GF/s")
    print(f"{'copy':12}{copied:8.2f} GB/s")
    print(f"{'raw / copy':12}{speed.raw / copied:8.3f} flop a byte")


if __name__ == "__main__":
    main()
