"""First use on a machine: what commands take without compiled kernels, and their longest time without a word.

    python bench/cold_start.py [CHECKOUT ...] [--repeat 3] [--device cuda] [--terminal] [--cases poisson7]
    python bench/cold_start.py --sources

Checkouts take turns, each command with a cache folder of its own; by default it is this one alone. Processor seconds
are those of the command and of the processes that compiled beside it, if they ended before. The machine's load is told.
"warm" finds what the first case has compiled, and so does "second", another kind of solve.

--sources: processor seconds of NVRTC for each program of kernels, for sm_90, without a GPU.
"""

from __future__ import annotations

import argparse
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

CASES = {
    "poisson7 64³": ["solve", "--problem", "poisson7", "--grid", "64", "64", "64"],
    "hpcg 32³": ["hpcg", "--grid", "32", "32", "32", "--iterations", "5"],
    "matrix, amg": ["solve", "--matrix", "{folder}/A.npz", "--precond", "amg"],
    "warm, poisson7 64³": ["solve", "--problem", "poisson7", "--grid", "64", "64", "64"],
    "second, matrix, amg": ["solve", "--matrix", "{folder}/A.npz", "--precond", "amg"],
}
FIRST = "poisson7 64³"
"""The case whose cache those of later kinds find."""


def matrix():
    """A symmetric matrix of 4096 rows: a lattice of two dimensions."""
    line = sp.diags_array([-np.ones(63), 2.0 * np.ones(64), -np.ones(63)], offsets=[-1, 0, 1])
    return sp.csr_array(sp.kron(line, sp.eye_array(64)) + sp.kron(sp.eye_array(64), line))


def run(checkout, command, cache, terminal):
    """Wall and processor seconds, and the longest time without output; None where the command fails."""
    path = os.pathsep.join([str(checkout), os.environ.get("PYTHONPATH", "")])
    caches = {"XDG_CACHE_HOME": str(cache), "CUPY_CACHE_DIR": str(cache / "cupy")}
    environment = {**os.environ, **caches, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    began = said = time.perf_counter()
    silence = 0.0
    heard, written = os.openpty() if terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "dsolver", *command], cwd=checkout, env=environment, stdout=written, stderr=written
    )
    os.close(written)
    while True:
        select.select([heard], [], [])
        now = time.perf_counter()
        silence, said = max(silence, now - said), now
        try:
            text = os.read(heard, 65536)
        except OSError:  # how a terminal ends
            text = b""
        if not text:
            break
    os.close(heard)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    return None if status else (time.perf_counter() - began, used.ru_utime + used.ru_stime, silence)


def sources():
    """Processor seconds of each program, the longest first, and their sums."""
    from cuda.bindings import nvrtc

    from dsolver.kernels.cuda.launch import loader
    from dsolver.kernels.cuda.launch.compiling import kinds

    options = [option.encode() for option in ("--gpu-architecture=sm_90", "-ftz=true", *loader.OPTIONS)]

    def seconds(text):
        _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"", 0, [], [])
        began = time.process_time()
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
        return time.process_time() - began

    seconds("")  # the first one begins slowly
    for kind, programs in (*kinds.KINDS.items(), ("always", kinds.ALWAYS)):
        found = [(seconds(loader.text_of(made.file, made.dtype, names=made.names)), made) for made in programs]
        print(f"{kind}: {sum(took for took, _ in found):.1f} s")
        for took, made in sorted(found, reverse=True):
            print(f"    {took:.2f} {made.file} {made.dtype} {' '.join(made.names)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path(__file__).resolve().parents[1]])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--terminal", action="store_true", help="as seen on a terminal, where there is a bar")
    parser.add_argument("--cases", nargs="*", default=[""], help="parts of their names")
    parser.add_argument("--sources", action="store_true", help="what NVRTC takes for each program")
    args = parser.parse_args()
    if args.sources:
        sources()
        return
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sp.save_npz(folder / "A.npz", matrix())
        for turn in range(args.repeat):
            for case, command in CASES.items():
                if not any(part in case for part in args.cases):
                    continue
                for number, checkout in enumerate(args.checkouts):
                    words = [*(word.format(folder=folder) for word in command), "--device", args.device]
                    cache = folder / f"{number} {turn} {FIRST if case.startswith(('warm', 'second')) else case}"
                    if result := run(checkout.resolve(), words, cache, args.terminal):
                        found.setdefault((case, number), []).append(result)
    print(f"best of {args.repeat}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} at the end")
    print("| | checkout | wall s | processor s | longest silence s |\n|---|---|---|---|---|")
    for (case, number), results in found.items():
        wall, used, silence = (min(values) for values in zip(*results, strict=True))
        print(f"| {case} | {args.checkouts[number].name} | {wall:.1f} | {used:.1f} | {silence:.1f} |")


if __name__ == "__main__":
    main()
