"""Compile every CUDA kernel with NVRTC for each supported architecture, without a GPU or a driver.

Values are double for all architectures and float for one: what does not compile for float does so nowhere.

No kernel may read early what the launch before it writes (early_loads.py).

Usage: python .ci/compile_kernels.py [FOLDER]      (default: kernels/cuda)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from cuda.bindings import nvrtc
from early_loads import moved

VALUE_TYPES = {"sm_80": ("double",), "sm_90": ("double", "float"), "sm_100": ("double",)}
OPTIONS = ("--std=c++17", "--ptxas-options=-v")
FUNCTION = re.compile(r"Compiling entry function '(\w+)'")
INCLUDE = re.compile(r'^#include "([\w/]+\.cuh)"', re.MULTILINE)
REGISTERS = re.compile(r"Used (\d+) registers")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


class CompilationError(Exception):
    """A kernel that NVRTC refuses; the message is the compiler's log."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Registers and memory of one kernel, as ptxas tells them."""

    kernel: str
    registers: int
    spilled_bytes: int


def checked(answer: tuple[Any, ...]) -> Any:
    """The value of an NVRTC call, or an exception."""
    status, *values = answer
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompilationError(f"NVRTC: {status!r}")
    return values[0] if values else None


def include_options(path: Path) -> Iterator[str]:
    """The folder of all sources, and the toolkit's headers where wheels have brought some."""
    yield f"--include-path={next(folder for folder in path.parents if folder.name == 'cuda')}"
    for site in map(Path, sys.path):
        yield from (f"--include-path={folder}" for folder in sorted(site.glob("nvidia/cu*/include")))


def names_a_value_type(path: Path, folder: Path) -> bool:
    """Whether a source, or a header of it, depends on the type of values."""
    texts = [path.read_text(encoding="utf-8")]
    for text in texts:
        texts += [(folder / name).read_text(encoding="utf-8") for name in INCLUDE.findall(text)]
    return any("REAL" in text for text in texts)


def log_of(program: Any) -> str:
    log: bytes = b" " * checked(nvrtc.nvrtcGetProgramLogSize(program))
    checked(nvrtc.nvrtcGetProgramLog(program, log))  # fills the buffer in place
    return log.rstrip(b"\0 \n").decode()


def compile_for(path: Path, architecture: str, value_type: str) -> str:
    """The compiler's log of `path`; raises with it if `path` does not compile to machine code."""
    program = checked(nvrtc.nvrtcCreateProgram(path.read_bytes(), path.name.encode(), 0, [], []))
    options = [f"--gpu-architecture={architecture}", f"-DREAL={value_type}", *OPTIONS, *include_options(path)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    log = log_of(program)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompilationError(log)
    if checked(nvrtc.nvrtcGetCUBINSize(program)) == 0:
        raise CompilationError("no machine code came out")
    cubin = b" " * checked(nvrtc.nvrtcGetCUBINSize(program))
    ptx = b" " * checked(nvrtc.nvrtcGetPTXSize(program))
    checked(nvrtc.nvrtcGetCUBIN(program, cubin))  # fill the buffers in place
    checked(nvrtc.nvrtcGetPTX(program, ptx))
    if early := moved(cubin, ptx.rstrip(b"\0").decode()):
        raise CompilationError(
            f"{', '.join(early)}: the assembler moved loads of constant memory in front of the wait for the launch "
            f"before: read what launches write without __ldg and `const __restrict__`"
        )
    return log


def usages(log: str) -> Iterator[Usage]:
    """The kernels of a ptxas log, which names a kernel first and its properties after it."""
    kernel, spilled = "", 0
    for line in log.splitlines():
        if match := FUNCTION.search(line):
            kernel = match[1]
        elif match := SPILLS.search(line):
            spilled = int(match[1]) + int(match[2])
        elif match := REGISTERS.search(line):
            yield Usage(kernel=kernel, registers=int(match[1]), spilled_bytes=spilled)


def report(path: Path, architecture: str, value_type: str) -> bool:
    """Compile one file for one architecture and value type and print what came out; False if it did not compile."""
    try:
        log = compile_for(path, architecture, value_type)
    except CompilationError as error:
        print(f"{path.name} does not compile for {architecture}, {value_type}:\n{error}")
        return False
    found = sorted(usages(log), key=lambda usage: usage.kernel)
    print(f"{path.name} {architecture} {value_type}: {len(found)} kernels")
    for usage in found:
        spills = f", spills {usage.spilled_bytes} bytes" if usage.spilled_bytes else ""
        print(f"    {usage.kernel}: {usage.registers} registers{spills}")
    if not found:
        print("    a file without kernels: has it lost its __global__ functions?")
    return bool(found)


def main(arguments: list[str]) -> int:
    """0 if every file of the folder compiles for every architecture and value type."""
    folder = Path(arguments[0] if arguments else "kernels/cuda").resolve()
    paths = sorted(folder.rglob("*.cu"))
    if not paths:
        print(f"no *.cu file under {folder}")
        return 1
    results = [
        report(path, architecture, value_type)
        for path, (architecture, value_types) in product(paths, VALUE_TYPES.items())
        for value_type in value_types[: None if names_a_value_type(path, folder) else 1]
    ]
    print(f"{results.count(True)} of {len(results)} compilations succeeded")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
