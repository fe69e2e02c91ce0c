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

KINDS: Final = {
    "matrices": (
        *("block_slices/spmv.cu", "block_slices/build.cu", "csr/glance.cu"),
        *("amg/extended_interpolation.cu", "csr/rows.cu", "csr/look.cu", "sparse/starts.cu"),
        *(f"sparse/products/{name}.cu" for name in ("product", "alone", "alone_in_rooms", "mirrors")),
        *(f"amg/{name}.cu" for name in ("couplings", "pmis", "paths", "points")),
    ),
    "grids": (
        *("stencil/star.cu", "lattice/halving_slabs.cu", "lattice/halving_star.cu", "lattice/halving_interpolation.cu"),
        *("checkered/parities.cu", "sell/sweeps.cu", "lattice/halving_tiles.cu", "faces/passes.cu"),
        *("checkered/corners.cu", "stencil/stencil.cu", "faces/assembly.cu"),
        *("lattice/transfers.cu", "lattice/look.cu", "lattice/fluxes.cu"),
    ),
    "aggregates": (
        *("block_slices/spmv_blocks.cu", "sparse/blocks/products.cu"),
        *(f"amg/aggregation/{name}.cu" for name in ("tentative", "roots", "nodes", "spectrum", "smoothing")),
        *("sparse/blocks/rows.cu", "sparse/blocks/mirrors.cu"),
    ),
}
"""Sources of the kinds of solves, the longest first: where one has to be compiled, so have others of its kind soon."""

ALWAYS: Final = ("amg/dense.cu", "vectors.cu", "sell/assembly.cu", "sell/multigrid.cu")
"""Sources that every kind needs."""

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
    made = _from_source(file, dtype, width)
    first_use.compile_module(made, lambda: wanted_soon(file))
    return made


@cache
def _from_source(file: str, dtype: str, width: int | None) -> Any:
    import cupy

    text = source(file)
    return cupy.RawModule(code=text, options=options_for(text, dtype, width))


def wanted_soon(file: str) -> list[Any]:
    """Modules that are wanted soon where one of this source is: those of its kind, and of every one."""
    kind = next((files for files in KINDS.values() if file in files), ())
    return [module for name in (*kind, *ALWAYS) for module in _of_source(name)]


def _of_source(file: str) -> list[Any]:
    """The modules of a source, but those on several vectors."""
    return [_from_source(file, dtype, width) for dtype, width in variants(source(file)) if not width]
