"""Compiles the package's CUDA sources with NVRTC when they are first used.

Nothing here asks for a GPU before a kernel is launched, so the sources and options can be checked anywhere.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

OPTIONS = ("--std=c++17",)
"""Options of NVRTC for the sources, next to the architecture. They include no header but their own."""

SOURCES = (
    "block_slices/build.cu",
    "block_slices/spmv.cu",
    "csr/chunks.cu",
    "csr/ell.cu",
    "csr/look.cu",
    "csr/rows.cu",
    "csr/starts.cu",
    "sell/assembly.cu",
    "sell/batched.cu",
    "sell/multigrid.cu",
    "hpcg/assembly.cu",
    "hpcg/batched.cu",
    "hpcg/flow.cu",
    "hpcg/smoother.cu",
    "amg/box_rows.cu",
    "amg/couplings.cu",
    "amg/dense.cu",
    "amg/extended_interpolation.cu",
    "amg/paths.cu",
    "amg/points.cu",
    "amg/pmis.cu",
    "lattice/fluxes.cu",
    "lattice/galerkin.cu",
    "lattice/halving.cu",
    "lattice/look.cu",
    "peer/writes.cu",
    "stencil/march.cu",
    "amg/mirrors.cu",
    "amg/products.cu",
    "amg/setup.cu",
    "stencil/star.cu",
    "stencil/stencil.cu",
    "sell/sweeps.cu",
    "lattice/transfers.cu",
    "vectors.cu",
)

VALUE_TYPES = {"float64": "double", "float32": "float"}
"""The type `real` of the sources, by the name of the NumPy type."""

_INCLUDE = re.compile(r'^#include "([\w/]+\.cuh)"$', re.MULTILINE)


@cache
def source(name: str) -> str:
    """The text of a source file with its headers pasted in.

    CuPy's cache on disk is keyed by the text that it gets: with headers read by the compiler, it would not notice
    that one of them has changed.
    """
    folder = resources.files("dsolver.kernels") / "cuda"
    text = (folder / name).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: (folder / match[1]).read_text(encoding="utf-8"), text)


def options_for(dtype: str, width: int | None = None) -> tuple[str, ...]:
    """Options of NVRTC for a value type, and for kernels on several vectors for their number."""
    return (*OPTIONS, f"-DREAL={VALUE_TYPES[dtype]}", *(() if width is None else (f"-DWIDTH={width}",)))


@cache
def kernel(file: str, name: str, dtype: str, width: int | None = None) -> Any:
    """A kernel of a source file for a value type (and a number of vectors): ``kernel(grid, block, arguments)`` runs it.

    CuPy compiles a text once per process, device and value type, at the first launch, and keeps the result on disk
    between processes.
    """
    import cupy

    return cupy.RawKernel(source(file), name, options=options_for(dtype, width))
