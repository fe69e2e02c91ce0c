"""CUDA kernels compiled for the host, to be run thread by thread where there is no GPU."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.sell import Slices
from tests.emulated.compiler import HERE

ASSEMBLY = (
    "sell/assembly/assembly.cu",
    "sell/assembly/assembly.cuh",
    "range.cuh",
    "slices.cuh",
    "hpcg/assembly.cu",
    "hpcg/header.cuh",
)
"""Sources of the set-up of run slices, with those of the benchmark's matrix and what they include."""

FIBERS: Final = """
#include <cstring>
#include "cuda.h"
static void run(void (*kernel)(), int blocks, int wide) {
    static char* stacks;
    const unsigned grid[] = {unsigned(blocks), 1, 1}, block[] = {unsigned(wide), 1, 1};
    char* const shared = __start_emulated_shared;
    if (const char* why = emulated::run(kernel, grid, block, shared, __stop_emulated_shared - shared, 0, 0, &stacks)) {
        puts(why);
        __builtin_abort();
    }
}
"""
"""Definitions of CUDA that a host lacks, the emulator's: `run` calls a kernel for each thread of each block."""


def without_assembly(text: str) -> str:
    """A source without its assembly: none of it is run here."""
    return re.sub(r"asm(?: volatile)?\([^;]*\);", ";", text)


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
    for name in ("device.cuh", *sources):
        text = (resources.files("dsolver.kernels") / "cuda" / name).read_text(encoding="utf-8")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(edited(text), encoding="utf-8")
    (folder / "host.cpp").write_text(host, encoding="utf-8")
    always = ("-std=c++17", "-w", "-shared", "-fPIC", "-I.", f"-I{HERE}")
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
