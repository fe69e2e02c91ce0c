"""CUDA kernels compiled for the host, to be run thread by thread where there is no GPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest


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
        (folder / name).write_text(edited(text), encoding="utf-8")
    (folder / "host.cpp").write_text(host, encoding="utf-8")
    always = ("-std=c++17", "-w", "-shared", "-fPIC")
    subprocess.run([compiler, *always, *options, "-o", "host.so", "host.cpp"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "host.so"))
