"""Tortuosity of a random porous image: dsolver and PoreSpy, which solves by PyAMG, in one run on this machine's CPUs.

python bench/rivals/tortuosity.py                   100³ cells, 60 % pores (pip install porespy openpnm pyamg)
python bench/rivals/tortuosity.py --grid 64 --porosity 0.4
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import dsolver

warnings.simplefilter("ignore")  # of PoreSpy's dependencies
import porespy  # noqa: E402


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Result of a call, seconds of the clock and of processors."""
    began, used = time.perf_counter(), time.process_time()
    return call(), time.perf_counter() - began, time.process_time() - used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=100)
    parser.add_argument("--porosity", type=float, default=0.6)
    parser.add_argument("--tol", type=float, default=1e-11)
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    shape = [asked.grid] * 3
    image = porespy.generators.blobs(shape, porosity=asked.porosity, blobiness=2, seed=1)

    def ours() -> Any:
        return dsolver.tortuosity(image, "x", ends="cells", rtol=asked.tol, device=asked.device)

    dsolver.tortuosity(image[:16, :16, :16], "x", device=asked.device)  # kernels are compiled
    found, ours_s, ours_cpu = timed(ours)
    theirs, theirs_s, theirs_cpu = timed(lambda: porespy.simulations.tortuosity_fd(image, axis=0, tol=asked.tol))
    default, default_s, default_cpu = timed(lambda: porespy.simulations.tortuosity_fd(image, axis=0))
    conduction = found.conduction
    print(f"{asked.grid}³ cells, porosity {found.porosity:.4f}, passed {found.passed:.4f}")
    print(f"dsolver          {found.tortuosity:.10f}  {ours_s:7.2f} s, {ours_cpu:7.2f} s of processors", end="")
    print(f", {conduction.solution.iterations} iterations on {conduction.solution.engine}")
    print(f"  in and out differ by {abs(conduction.inflow / conduction.outflow - 1.0):.1e}")
    for name, result, seconds, cpu in (
        (f"PoreSpy, {asked.tol:.0e}", theirs, theirs_s, theirs_cpu),
        ("PoreSpy, default", default, default_s, default_cpu),
    ):
        apart = abs(found.tortuosity / result.tortuosity - 1.0)
        print(f"{name:16s} {result.tortuosity:.10f}  {seconds:7.2f} s, {cpu:7.2f} s of processors, {apart:.1e} apart")


if __name__ == "__main__":
    main()
