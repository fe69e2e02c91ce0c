"""Products y = A x on a CPU in every format over many matrices, against SciPy's compressed rows and oneMKL's.

    pip install mkl
    python bench/spmv_cpu.py [FOLDER] [--scale 0.1] [--only NAME ...] [--threads 2] [--mkl lib/libmkl_rt.so.3]

Matrices come from lib/matrices.py. Times are the least of many rounds in which formats, SciPy, oneMKL and a copy take
turns, so that what else the machine does meets all of them. Threads keep to a core each: a busy system leaves two of
them on one. With one thread, times are its processor time, which a busy system lengthens less. Results are compared
with SciPy's. "of copy" is the part of a copy's bytes a second at which the chosen format's entries, x and y (once each)
come and go.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from operator import matmul
from pathlib import Path
from typing import Any

import numpy as np
from lib.matrices import MATRICES, all_made
from scipy import sparse

from dsolver.kernels.cpu import octets
from dsolver.kernels.cpu.block_slices import products as block_slices
from dsolver.kernels.cpu.csr import products as compressed
from dsolver.kernels.cpu.csr.statistics import statistics
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.cpu.vectors import vectors
from dsolver.kernels.formats.choice import cpu_choice
from dsolver.kernels.formats.csr import Csr

COPIED = 1 << 23
"""Numbers that a copy reads and writes: more than caches hold."""


def kept_apart(team: Team) -> Team:
    """The team with its threads on a core each."""

    def stay(first: int, _: int) -> None:
        os.sched_setaffinity(0, {sorted(cores)[first % len(cores)]})

    cores = os.sched_getaffinity(0)
    team.run(stay, 0, team.threads, worth=1)
    os.sched_setaffinity(os.getpid(), cores)
    return team


def copy(team: Team) -> Callable[[], object]:
    source, target = np.ones(COPIED), np.empty(COPIED)

    def part(first: int, last: int) -> None:
        target[first:last] = source[first:last]

    return lambda: team.run(part, 0, COPIED)


def products(host: Any, threads: int) -> tuple[str, dict[str, Any]]:
    """The name of the format that is chosen, and the formats."""
    matrix, shared = Csr(host.indptr.astype(np.int64), host.indices, host.data), vectors(threads, "float64")
    kept_apart(shared.team)
    known = statistics(matrix, host.shape[1])
    made: dict[str, Any] = {"rows": compressed.CpuRows(shape=host.shape, entries=matrix, vectors=shared)}
    made["chunks"] = compressed.chunks(matrix, host.shape[1], shared)
    if known.stored[1].octets < 2.0:
        made["octets"] = octets.made(matrix, host.shape[1], shared)
    if known.longest < 500 and known.stored[1].padding < 2.0:
        made["slices"] = block_slices.made(matrix, host.shape[1], shared)
    return cpu_choice(known).name, made


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, nargs="?", default=Path(tempfile.gettempdir()) / "dsolver-small-matrices")
    options.add_argument("--scale", type=float, default=0.1)
    options.add_argument("--only", nargs="+", default=tuple(MATRICES), choices=tuple(MATRICES))
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--rounds", type=int, default=25)
    options.add_argument("--mkl", type=Path, help="path of libmkl_rt, to compare with")
    chosen = options.parse_args()
    missing = [name for name in chosen.only if not (chosen.folder / f"{name}.npz").exists()]
    list(all_made(missing, chosen.scale, chosen.folder, chosen.processes))
    team = kept_apart(Team(chosen.threads))
    clock = time.perf_counter if chosen.threads > 1 else time.thread_time
    gains: dict[str, list[float]] = {"SciPy": [], "MKL": []}
    print(f"{'':17} {'entries':>10} {'SciPy ms':>9}  times faster with {chosen.threads} threads")
    for name in chosen.only:
        host = sparse.load_npz(chosen.folder / f"{name}.npz").tocsr()
        x, y = np.random.default_rng(1).standard_normal(host.shape[1]), np.empty(host.shape[0])
        format_name, made = products(host, chosen.threads)
        stored = made[format_name].nbytes
        if chosen.mkl:
            from rivals.mkl import MklRows

            made["MKL"] = MklRows(chosen.mkl, host, chosen.threads)
        work: dict[str, Callable[[], object]] = {kind: partial(one.spmv, x, y) for kind, one in made.items()}
        work |= {"SciPy": partial(matmul, host, x), "copy": copy(team)}
        want, size = host @ x, abs(host) @ abs(x)
        least = dict.fromkeys(work, float("inf"))
        for _ in range(chosen.rounds):
            for kind, call in work.items():
                began = clock()
                call()
                least[kind] = min(least[kind], clock() - began)
                if kind in made:
                    assert (abs(y - want) <= 1e-12 * size).all(), (name, kind)
        ours, copied = least[format_name], 16 * COPIED / least["copy"]
        for other, ratios in gains.items():
            ratios.append(least.get(other, float("nan")) / ours)
        cells = "  ".join(f"{kind} {least['SciPy'] / least[kind]:.2f}" for kind in made)
        moved = (stored + 8 * sum(host.shape)) / ours
        print(
            f"{name:17} {host.nnz:>10} {least['SciPy'] * 1e3:>9.2f}  {cells}  chosen: {format_name}, "
            f"{moved / copied:.0%} of copy ({copied / 1e9:.0f} GB/s), {gains['MKL'][-1]:.2f} x MKL",
            flush=True,
        )
    for other, found in gains.items():
        print(f"chosen against {other}: geometric mean {np.exp(np.mean(np.log(found))):.2f}, worst {min(found):.2f}")


if __name__ == "__main__":
    main()
