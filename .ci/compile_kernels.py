"""Compile every CUDA kernel with NVRTC, without a GPU or a driver.

    python .ci/compile_kernels.py            as a check
    python .ci/compile_kernels.py --keep     the machine code of a wheel, before `python -m build`

As a check, values are double for two architectures and float for one: what does not compile for float does so nowhere,
and no source tells the third architecture from the second. Sources that tell none apart and have no assembly are
compiled for the oldest alone: what it has, the others have. Where a source is compiled several times, double for sm_90
becomes machine code; the others stop behind the front end, in a twentieth of the time: value types and architectures
are told apart there.

No kernel may read early what the launch before it writes (early_loads.py).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from cuda.bindings import nvrtc
from early_loads import moved

from dsolver.kernels.cuda.launch import loader
from dsolver.kernels.cuda.launch.compiling import cubins

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
CHECKED = {"sm_80": ("float64",), "sm_90": ("float64", "float32"), "sm_100": ()}
OLDEST = ARCHITECTURES[0]
CHECKED_CODE = "sm_90"
"""Whose machine code a check looks at."""
TELLS_APART = re.compile(r"__CUDA_ARCH__|\basm\b")
OPTIONS = ("-ftz=true", "--device-as-default-execution-space", "--ptxas-options=-v")
"""Besides the loader's: what CuPy adds, and a log."""
FRONT_END = (*OPTIONS[:-1], "-dlto")
"""The compiler ends with a program for a linker, neither optimized nor assembled."""
FUNCTION = re.compile(r"Compiling entry function '(\w+)'")
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


def log_of(program: Any) -> str:
    log: bytes = b" " * checked(nvrtc.nvrtcGetProgramLogSize(program))
    checked(nvrtc.nvrtcGetProgramLog(program, log))  # fills the buffer in place
    return log.rstrip(b"\0 \n").decode()


def compile_for(
    file: str, architecture: str, dtype: str, width: int | None, into: Path | None, *, assembled: bool
) -> str:
    """The compiler's log of a source, whose machine code is kept in a folder; raises with it if it does not compile."""
    text = loader.text_of(file, dtype, width)
    program = checked(nvrtc.nvrtcCreateProgram(text.encode(), file.encode(), 0, [], []))
    target = architecture if assembled else architecture.replace("sm", "compute")
    options = [f"--gpu-architecture={target}", *loader.OPTIONS, *(OPTIONS if assembled else FRONT_END)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    log = log_of(program)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompilationError(log)
    if not assembled:
        checked(nvrtc.nvrtcDestroyProgram(program))
        return log
    if checked(nvrtc.nvrtcGetCUBINSize(program)) == 0:
        raise CompilationError("no machine code came out")
    cubin = b" " * checked(nvrtc.nvrtcGetCUBINSize(program))
    ptx = b" " * checked(nvrtc.nvrtcGetPTXSize(program))
    checked(nvrtc.nvrtcGetCUBIN(program, cubin))  # fill the buffers in place
    checked(nvrtc.nvrtcGetPTX(program, ptx))
    checked(nvrtc.nvrtcDestroyProgram(program))
    if early := moved(cubin, ptx.rstrip(b"\0").decode()):
        raise CompilationError(
            f"{', '.join(early)}: the assembler moved loads of constant memory in front of the wait for the launch "
            f"before: read what launches write without __ldg and `const __restrict__`"
        )
    if into is not None:
        status, toolkit, _ = nvrtc.nvrtcVersion()
        folder = into / cubins.target(toolkit, architecture)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / cubins.file_name(file, text, loader.OPTIONS)).write_bytes(cubin)
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


def report(
    file: str, architecture: str, dtype: str, width: int | None, into: Path | None, *, assembled: bool = True
) -> bool:
    """Compile a source for one architecture and value type and print what came out; False if it did not compile."""
    what = f"{file} {architecture} {dtype}{'' if width is None else f', {width} vectors'}"
    try:
        log = compile_for(file, architecture, dtype, width, into, assembled=assembled)
    except CompilationError as error:
        print(f"{what} does not compile:\n{error}")
        return False
    if not assembled:
        print(f"{what}: compiles")
        return True
    found = sorted(usages(log), key=lambda usage: usage.kernel)
    print(f"{what}: {len(found)} kernels")
    for usage in found:
        spills = f", spills {usage.spilled_bytes} bytes" if usage.spilled_bytes else ""
        print(f"    {usage.kernel}: {usage.registers} registers{spills}")
    if not found:
        print("    a file without kernels: has it lost its __global__ functions?")
    return bool(found)


def wanted(file: str, architecture: str, *, everything: bool) -> Iterator[tuple[str, int | None]]:
    """The value types and numbers of vectors for which a source is compiled."""
    text = loader.source(file)
    needless = architecture != OLDEST and not TELLS_APART.search(text)
    for dtype, width in loader.variants(text):
        if everything or (dtype in CHECKED[architecture] and width in (None, max(loader.WIDTHS)) and not needless):
            yield dtype, width


def assembled(file: str, architecture: str, dtype: str) -> bool:
    """Whether a check makes machine code of a source for an architecture and a value type."""
    tells = TELLS_APART.search(loader.source(file)) is not None
    return (architecture, dtype) == (CHECKED_CODE if tells else OLDEST, "float64")


def main() -> int:
    """0 if every source compiles for every architecture and value type."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--keep",
        type=Path,
        nargs="?",
        const=cubins.FOLDER,
        metavar="FOLDER",
        help="keep the machine code, of all value types, in the package or there",
    )
    parser.add_argument("--architectures", nargs="+", choices=ARCHITECTURES, help="of these, all value types")
    parser.add_argument(
        "--sources", nargs="+", choices=loader.all_sources(), default=loader.all_sources(), metavar="FILE"
    )
    given = parser.parse_args()
    everything = given.keep is not None or given.architectures is not None
    results = [
        report(
            file, architecture, dtype, width, given.keep, assembled=everything or assembled(file, architecture, dtype)
        )
        for file, architecture in product(given.sources, given.architectures or ARCHITECTURES)
        for dtype, width in wanted(file, architecture, everything=everything)
    ]
    print(f"{results.count(True)} of {len(results)} compilations succeeded")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
