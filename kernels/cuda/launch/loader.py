"""Loader of the package's CUDA sources: machine code that came with the package, or what NVRTC makes on first use.

Nothing here asks for a GPU before a kernel is wanted, so the sources and options can be checked anywhere.
"""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from dsolver.kernels.cuda.launch.compiling import cubins, first_use, kinds
from dsolver.kernels.cuda.launch.compiling.kinds import Program

OPTIONS = ("--std=c++17",)
"""Options of NVRTC for the sources, next to the architecture. They include no header but their own.

All have the same: with the first module of each set of options CuPy compiles an empty text.
"""

WIDTHS = tuple(range(2, 9))  # numbers of vectors for which there are kernels: as many as are solved together

VALUE_TYPES = {"float64": "double", "float32": "float"}  # the type `real` of the sources, by the name of the NumPy type

_BY_BYTES = {8: "float64", 4: "float32"}

_INCLUDE = re.compile(r'^#include "([\w/]+\.cuh)"$', re.MULTILINE)
_EACH: Final = re.compile(r"^EACH\((\w+), ([\w, ]+)\) (.*?^\}\n)", re.MULTILINE | re.DOTALL)
_HEAD: Final = re.compile(r"\bENTRY((?: __launch_bounds__\((?:[^()]|\([^()]*\))*\))?) (?!extern\b)([\w#]+)")
_CHOICE: Final = """\
#define DSOLVER_SECOND(one, other, ...) other
#define DSOLVER_CHOSEN(...) DSOLVER_SECOND(__VA_ARGS__, )
#define DSOLVER_HEAD(NAME) DSOLVER_CHOSEN(DSOLVER_WANTED_##NAME extern "C", template <int>)
"""
"""A kernel that is not wanted becomes a template without instances. A macro chooses, since macros make kernels, too."""

FOLDER: Final = Path(__file__).resolve().parents[1]

NOTHING: Final = np.uint64(0)  # the address of an array that is not there

THREADS: Final = 256  # threads of a block in `for_each`


@cache
def all_sources() -> tuple[str, ...]:
    """The names of the source files."""
    return tuple(sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.cu")))


@cache
def source(name: str) -> str:
    """The text of a source file with its headers pasted in, each of them once, and a kernel for each value of `EACH`.

    CuPy's cache on disk is keyed by the text that it gets: with headers read by the compiler, it would not notice
    that one of them has changed.
    """
    pasted: set[str] = set()

    def text_with(name: str) -> str:
        if name in pasted:
            return ""
        pasted.add(name)
        text = (FOLDER / name).read_text(encoding="utf-8").replace("#pragma once\n", "")
        return _INCLUDE.sub(lambda match: text_with(match[1]), text)

    text, count = text_with(name), 1
    while count:
        text, count = _EACH.subn(_for_each_value, text)
    return text


def _for_each_value(family: re.Match[str]) -> str:
    """A kernel's text for each value of a name."""
    name, values, text = family.groups()
    return "".join(re.sub(rf"(?:##)?\b{name}\b(?:##)?", value, text) for value in values.split(", "))


def text_of(file: str, dtype: str, width: int | None = None, names: Sequence[str] = ()) -> str:
    """The text that NVRTC compiles.

    `width`: the number of vectors, for kernels on several. `names`: of the kernels that are wanted; all, where there is
    none. NVRTC spends no time on the others.
    """
    text = source(file)
    if names:
        text = _CHOICE + _HEAD.sub(r"DSOLVER_HEAD(\2) __global__ void\1 \2", text)
    real = f"#define REAL {VALUE_TYPES[dtype]}\n" if "REAL" in text else ""
    wide = "" if width is None else f"#define WIDTH {width}\n"
    return "".join([real, wide, *(f"#define DSOLVER_WANTED_{name} ,\n" for name in names), text])


def variants(text: str) -> list[tuple[str, int | None]]:
    """The value types, of a text that depends on them, and numbers of vectors that a source is compiled for."""
    dtypes = list(VALUE_TYPES)[: None if "REAL" in text else 1]
    return [(dtype, width) for dtype in dtypes for width in (WIDTHS if "WIDTH" in text else (None,))]


@cache
def kernel(file: str, name: str, dtype: str, width: int | None = None) -> Any:
    """A kernel of a source for a value type (and a number of vectors): ``kernel(grid, block, arguments)`` runs it."""
    of_values = dtype if "REAL" in source(file) else "float64"
    module = _shipped(file, of_values, width) or _compiled(program_of(file, name, of_values), width)
    return module.get_function(name)


def for_each(
    file: str, name: str, count: int, *arguments: Any, lanes: int = 1, dtype: str = "float64", most: int | None = None
) -> None:
    """Launch a kernel with some lanes for each of so many items, if there are any.

    most: blocks at most, of a kernel whose threads go on to further items.
    """
    if count:
        blocks = -(-count * lanes // THREADS)
        kernel(file, name, dtype)((blocks if most is None else min(blocks, most),), (THREADS,), arguments)


def program_of(file: str, name: str, dtype: str) -> Program:
    """The program that a kernel is compiled in, with others of its kind of solve; alone, if no kind has it."""
    alone = Program(file, dtype, (name,))
    return next((made for made in kinds.programs_of(file) if made.dtype == dtype and name in made.names), alone)


def type_of(values: Any) -> str:
    """The name of the value type of an array; NumPy takes 5 us to write it."""
    return _BY_BYTES[values.itemsize]


def device_property(name: str) -> int:
    """A property of the current device."""
    import cupy

    return int(_properties(cupy.cuda.runtime.getDevice())[name])


def loaded() -> int:
    """Number of kernels that this process has asked for so far."""
    return kernel.cache_info().currsize


@cache
def begin(kind: str) -> None:
    """Have the programs of a kind of solves compiled beside what goes on, where they are not in the cache.

    Its longest program tells; none where the package has machine code for the device.
    """
    if cubins.of_devices() is None:
        first = kinds.KINDS[kind][0]
        first_use.begin(_from_source(first), lambda: wanted_soon(first))


@cache
def _properties(device: int) -> Any:
    import cupy

    return cupy.cuda.runtime.getDeviceProperties(device)


@cache
def _shipped(file: str, dtype: str, width: int | None) -> Any | None:
    """All kernels of a source as machine code that came with the package; None where it is not of this very text."""
    path = cubins.shipped(file, text_of(file, dtype, width), OPTIONS)
    if path is None:
        return None
    import cupy

    return cupy.RawModule(path=str(path))


@cache
def _compiled(made: Program, width: int | None) -> Any:
    """A program as NVRTC compiles it, or has before."""
    module = _from_source(made, width)
    first_use.compile_module(module, lambda: wanted_soon(made))
    return module


@cache
def _from_source(made: Program, width: int | None = None) -> Any:
    """A module of CuPy, which compiles a text once per process and device, and keeps the result between processes."""
    import cupy

    return cupy.RawModule(code=text_of(made.file, made.dtype, width, made.names), options=OPTIONS)


def wanted_soon(made: Program) -> list[Any]:
    """Modules that are wanted soon where a program is."""
    return [_from_source(other) for other in kinds.wanted_with(made)]
