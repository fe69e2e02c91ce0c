"""Loads the package's CUDA sources: machine code that came with the package, or what NVRTC makes on first use.

Nothing here asks for a GPU before a kernel is wanted, so the sources and options can be checked anywhere.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from dsolver.kernels.cuda.launch import cubins, first_use

OPTIONS = ("--std=c++17",)
"""Options of NVRTC for the sources, next to the architecture. They include no header but their own."""

AHEAD = {
    "lattice/halving.cu": (
        "stencil/star.cu",
        "faces/passes.cu",
        "sell/sweeps.cu",
        "sell/multigrid.cu",
        "checkered/parities.cu",
        "vectors.cu",
        "amg/dense.cu",
    ),
    "amg/couplings.cu": (
        "amg/extended_interpolation.cu",
        "amg/products/alone.cu",
        "amg/products/alone_in_rooms.cu",
        "amg/products/product.cu",
        "amg/paths.cu",
        "amg/pmis.cu",
        "amg/products/mirrors.cu",
        "amg/dense.cu",
        "vectors.cu",
    ),
    "amg/aggregation/spectrum.cu": (
        "amg/aggregation/nodes.cu",
        "amg/aggregation/roots.cu",
        "amg/aggregation/tentative.cu",
        "amg/aggregation/smoothing.cu",
        "amg/blocks/rows.cu",
        "amg/blocks/products.cu",
        "amg/blocks/mirrors.cu",
        "amg/products/alone.cu",
        "amg/products/product.cu",
        "amg/products/mirrors.cu",
        "amg/dense.cu",
        "vectors.cu",
    ),
}
"""Sources, and those that are compiled beside them because the same set-up, or the solve after it, needs them soon."""

WIDTHS = tuple(range(2, 9))
"""Numbers of vectors for which there are kernels: as many as are solved together."""

VALUE_TYPES = {"float64": "double", "float32": "float"}
"""The type `real` of the sources, by the name of the NumPy type."""

_BY_BYTES = {8: "float64", 4: "float32"}

_INCLUDE = re.compile(r'^#include "([\w/]+\.cuh)"$', re.MULTILINE)


FOLDER: Final = Path(__file__).resolve().parents[1]


@cache
def all_sources() -> tuple[str, ...]:
    """The names of the source files."""
    return tuple(sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.cu")))


@cache
def source(name: str) -> str:
    """The text of a source file with its headers pasted in.

    CuPy's cache on disk is keyed by the text that it gets: with headers read by the compiler, it would not notice
    that one of them has changed.
    """
    text = (FOLDER / name).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: (FOLDER / match[1]).read_text(encoding="utf-8"), text)


def options_for(text: str, dtype: str, width: int | None = None) -> tuple[str, ...]:
    """Options of NVRTC for a source and a value type, and for kernels on several vectors for their number."""
    real = (f"-DREAL={VALUE_TYPES[dtype]}",) if "REAL" in text else ()
    return (*OPTIONS, *real, *(() if width is None else (f"-DWIDTH={width}",)))


def variants(text: str) -> list[tuple[str, int | None]]:
    """The value types, of a text that depends on them, and numbers of vectors that a source is compiled for."""
    dtypes = list(VALUE_TYPES)[: None if "REAL" in text else 1]
    return [(dtype, width) for dtype in dtypes for width in (WIDTHS if "WIDTH" in text else (None,))]


@cache
def kernel(file: str, name: str, dtype: str, width: int | None = None) -> Any:
    """A kernel of a source for a value type (and a number of vectors): ``kernel(grid, block, arguments)`` runs it."""
    return _module(file, dtype, width).get_function(name)


def type_of(values: Any) -> str:
    """The name of the value type of an array; NumPy takes 5 us to write it."""
    return _BY_BYTES[values.itemsize]


def loaded() -> int:
    """Number of kernels that this process has asked for so far."""
    return kernel.cache_info().currsize


@cache
def _module(file: str, dtype: str, width: int | None) -> Any:
    """The machine code that came with the package, where it is of this very text, or what is compiled now.

    CuPy compiles a text once per process, device and value type, and keeps the result on disk between processes.
    """
    import cupy

    text = source(file)
    options = options_for(text, dtype, width)
    if path := cubins.shipped(file, text, options):
        return cupy.RawModule(path=str(path))
    made = cupy.RawModule(code=text, options=options)
    beside = [(source(name), options_for(source(name), dtype)) for name in AHEAD.get(file, ())]
    first_use.compile_all([made, *(cupy.RawModule(code=code, options=given) for code, given in beside)])
    return made
