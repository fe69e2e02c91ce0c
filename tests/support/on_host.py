"""CUDA kernels compiled for the host, to be run thread by thread where there is no GPU."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.sell import Slices

ASSEMBLY = (
    "sell/assembly/assembly.cu",
    "sell/assembly/assembly.cuh",
    "range.cuh",
    "slices.cuh",
    "hpcg/assembly.cu",
    "hpcg/header.cuh",
)
"""Sources of the set-up of run slices, with those of the benchmark's matrix and what they include."""

FIBERS = """
#include <cmath>
#include <cstring>
#include <ucontext.h>
#include <vector>
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __cvta_generic_to_shared(where) 0
struct uint4 { unsigned x, y, z, w; };
struct int2 { int x, y; };
static int2 make_int2(int x, int y) { return {x, y}; }
struct Index { unsigned x, y, z; };
static Index threadIdx, blockIdx, blockDim, gridDim;
constexpr int MOST_WARPS = 9, MOST_THREADS = 32 * MOST_WARPS;
static ucontext_t scheduler, fibers[MOST_THREADS];
static int current, left, threads;
static bool done[MOST_THREADS];
static long arrived[MOST_WARPS + 1], turn[MOST_WARPS + 1];   // of each warp, and of the block
static double values_of[MOST_THREADS];
static void yield() { swapcontext(&fibers[current], &scheduler); }
static void barrier(int which, int count) {
    const long mine = turn[which];
    if (++arrived[which] == count) { arrived[which] = 0; ++turn[which]; return; }
    while (turn[which] == mine) yield();
}
static int lanes(int warp) { return threads - 32 * warp < 32 ? threads - 32 * warp : 32; }
template <typename T> static T shuffled(T value, int from) {
    const int me = current, warp = me / 32;
    std::memcpy(&values_of[me], &value, sizeof value);
    barrier(warp, lanes(warp));
    T found;
    std::memcpy(&found, &values_of[32 * warp + from], sizeof found);
    barrier(warp, lanes(warp));
    return found;
}
template <typename T> static T __shfl_sync(unsigned, T value, int from) { return shuffled(value, from); }
template <typename T> static T __shfl_xor_sync(unsigned, T value, int distance) {
    return shuffled(value, (current % 32) ^ distance);
}
static bool __any_sync(unsigned, bool value) {
    bool any = false;
    for (int lane = 0; lane < 32; ++lane) any |= shuffled(int(value), lane) != 0;
    return any;
}
static int __reduce_add_sync(unsigned, int value) {
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}
static int __reduce_max_sync(unsigned, int value) {
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = shuffled(value, (current % 32) ^ distance);
        value = value > other ? value : other;
    }
    return value;
}
static unsigned __ballot_sync(unsigned, bool value) {
    unsigned found = 0;
    for (int lane = 0; lane < 32; ++lane) found |= unsigned(shuffled(int(value), lane)) << lane;
    return found;
}
static bool __all_sync(unsigned, bool value) { return __ballot_sync(~0u, value) == ~0u; }
static int __ffs(unsigned value) { return __builtin_ffs(value); }
static void __syncthreads() { barrier(MOST_WARPS, threads); }
static void __syncwarp() { barrier(current / 32, lanes(current / 32)); }
static void __threadfence() {}
template <typename T> static T __ldg(const T* from) { return *from; }
template <typename T> static T __ldcs(const T* from) { return *from; }
template <typename T> static T __ldcg(const T* from) { return *from; }
template <typename T> static void __stcs(T* to, T value) { *to = value; }
static int atomicMax(int* to, int value) { const int old = *to; *to = value > old ? value : old; return old; }
static int atomicMin(int* to, int value) { const int old = *to; *to = value < old ? value : old; return old; }
static unsigned atomicAdd(unsigned* to, unsigned value) { const unsigned old = *to; *to += value; return old; }
template <typename T> static T max(T a, T b) { return a > b ? a : b; }
template <typename T> static T min(T a, T b) { return a < b ? a : b; }
static void (*body)();
static void entry() { body(); done[current] = true; --left; yield(); }
static void run(void (*kernel)(), int blocks, int wide) {
    static std::vector<char> stacks(MOST_THREADS << 16);
    body = kernel;
    gridDim = {unsigned(blocks), 1, 1}; blockDim = {unsigned(wide), 1, 1};
    for (int block = 0; block < blocks; ++block) {
        threads = left = wide;
        std::memset(arrived, 0, sizeof arrived);
        for (int t = 0; t < wide; ++t) {
            getcontext(&fibers[t]);
            fibers[t].uc_stack.ss_sp = &stacks[t << 16];
            fibers[t].uc_stack.ss_size = 1 << 16;
            fibers[t].uc_link = &scheduler;
            done[t] = false;
            makecontext(&fibers[t], entry, 0);
        }
        while (left) for (int t = 0; t < wide; ++t) if (!done[t]) {
            current = t; threadIdx = {unsigned(t), 0, 0}; blockIdx = {unsigned(block), 0, 0};
            swapcontext(&scheduler, &fibers[t]);
        }
    }
}
"""
"""What CUDA defines and a host does not: `run` calls a kernel for each thread of each block. A block's threads, 288 at
most, are fibers that take turns; a shuffle or a barrier is a point where they wait for each other."""


def without_assembly(text: str) -> str:
    """A source without its assembly: none of it is run here."""
    return re.sub(r"asm(?: volatile)?\([^;]*\);", ";", text)


@contextmanager
def gpu_modules(cupy: Any) -> Iterator[None]:
    """Modules of dsolver.kernels.cuda are imported anew meanwhile, with this in place of CuPy, and forgotten then."""
    package = "dsolver.kernels.cuda"

    def taken() -> dict[str, Any]:
        return {name: sys.modules.pop(name) for name in list(sys.modules) if f"{name}.".startswith(f"{package}.")}

    known, before = taken(), sys.modules.get("cupy")
    sys.modules["cupy"] = cupy
    try:
        yield
    finally:
        taken()
        sys.modules.update(known)
        if package in known:
            vars(sys.modules["dsolver.kernels"])["cuda"] = known[package]
        if before is None:
            del sys.modules["cupy"]
        else:
            sys.modules["cupy"] = before


def compiled(
    folder: Path, host: str, *options: str, sources: tuple[str, ...], edited: Callable[[str], str] = lambda text: text
) -> ctypes.CDLL:
    """A library of a C++ text that includes some of dsolver's CUDA sources; the test is skipped without a compiler.

    Args:
        folder: where it is made.
        host: the text, which defines what CUDA does and the host does not.
        options: of the compiler.
        sources: names in kernels/cuda.
        edited: makes of a source what a host compiler can read.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    for name in sources:
        text = (resources.files("dsolver.kernels") / "cuda" / name).read_text(encoding="utf-8")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(edited(text), encoding="utf-8")
    (folder / "host.cpp").write_text(host, encoding="utf-8")
    always = ("-std=c++17", "-w", "-shared", "-fPIC", "-I.")
    subprocess.run([compiler, *always, *options, "-o", "host.so", "host.cpp"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "host.so"))


def packed(s: Slices, order: Any = None, coarse: Any = None) -> npt.NDArray[np.uint32]:
    """The headers of the slices, at a multiple of 16 bytes.

    Of `Header` in slices.cuh or, with where the entries at coarse points begin, of `SmoothedHeader` in hpcg/header.cuh.
    """
    width = (s.start[1:] - s.start[:-1]) // SLICE
    run = ((s.column_start[1:] - s.column_start[:-1]) == width).astype(np.int64)
    shape = s.upper | width << 15 | run << 30
    if coarse is not None:
        shape = s.upper | coarse << 10 | width << 20 | run << 30
    number = np.arange(len(width))
    table = np.stack([s.start[:-1] // SLICE, s.column_start[:-1], number, shape], axis=1).astype(np.uint32)
    table = table if order is None else table[order]
    room = np.zeros(table.size + 4, dtype=np.uint32)
    first = -room.ctypes.data % 16 // 4
    room[first : first + table.size] = table.reshape(-1)
    return room[first : first + table.size]
