"""Compiles CUDA sources for this machine's CPU, and runs their kernels there (cuda.h, threads.h)."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dsolver" / "emulated"
seed = 0
"""The order of threads where several can go on: 0 ascending, 1 descending, other numbers shuffle them."""
_stacks: Final = ctypes.c_void_p()
"""The stacks of a block's threads, which all libraries share."""
FLAGS: Final = (
    *("-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-fno-strict-aliasing", "-fno-gnu-unique", f"-I{HERE}"),
    "-Wl,-Bsymbolic",  # a kernel called compress is ours, also where Python brings zlib's
    *("-mfma", "-fexpensive-optimizations", "-ffp-contract=fast"),  # a * b + c is one operation, as NVRTC makes it
)
ASSEMBLY: Final = re.compile(r'\basm\b\s*(?:volatile)?\s*\((?:"[^"]*"|[^"])*?\)\s*;')
DIVISION: Final = re.compile(r'asm\("div\.full\.f32 %0, %1, %2;" : "=f"\((\w+)\) : "f"\((.*?)\), "f"\((.*?)\)\);')
PRODUCTS: Final = re.compile(
    r'asm volatile\("mma\.[^"]*" : "\+d"\((.*?)\), "\+d"\((.*?)\) : "d"\((.*?)\), "d"\((.*?)\)\);'
)
DYNAMIC: Final = re.compile(r"extern\s+__shared__\s+(?:__align__\s*\([^)]*\)\s*)?(\w+)\s+(\w+)\s*\[\s*\]\s*;")
KERNEL: Final = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(')
CALLS: Final = """
extern "C" void call_{0}() {{ emulated::apply(&{0}); }}
extern "C" const char* signature_{0}() {{ return emulated::signature(&{0}); }}
"""
RUN: Final = """
extern "C" const char* run(void (*call)(), const unsigned* grid, const unsigned* block, void** given, size_t dynamic,
    unsigned seed, char** stacks) {
    emulated::arguments = given;
    const size_t shared = __stop_emulated_shared - __start_emulated_shared;
    return emulated::run(call, grid, block, __start_emulated_shared, shared, dynamic, seed, stacks);
}
"""


class EmulationError(RuntimeError):
    """A kernel that cannot be compiled, or did what a kernel must not do."""


def missing() -> str:
    """The emulator's lack on this machine in words, "" for none."""
    if platform.machine() != "x86_64":
        return "the emulator switches threads on x86-64 alone"
    return "" if shutil.which("g++") else "the emulator needs g++"


def _output(*command: str, text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EmulationError(f"compiling for the CPU failed:\n{done.stderr[:5000]}")
    return done.stdout


@cache
def _parts() -> str:
    """All that a library depends on but its source."""
    return "\0".join([*FLAGS, *(HERE.joinpath(name).read_text() for name in ("cuda.h", "threads.h", "compiler.py"))])


@cache
def _headers() -> Path:
    """A folder with `cuda.h` compiled ahead, which takes half of what a source does."""
    key = hashlib.sha256(_parts().encode()).hexdigest()[:32]
    made = CACHE / f"headers-{key}"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            ahead = Path(folder) / "headers"
            ahead.mkdir()
            _output("g++", *FLAGS, "-c", "-x", "c++-header", "-o", f"{ahead}/cuda.h.gch", f"{HERE}/cuda.h")
            with contextlib.suppress(OSError):  # another process may have been first
                ahead.rename(made)
    return made


def _built(text: str, definitions: tuple[str, ...]) -> Path:
    """A source's library, from the cache or made now."""
    key = hashlib.sha256("\0".join([_parts(), text, *definitions]).encode()).hexdigest()[:32]
    made = CACHE / f"{key}.so"
    if made.exists():
        return made
    CACHE.mkdir(parents=True, exist_ok=True)
    plain = _output("g++", "-E", "-std=c++17", *definitions, "-x", "c++", "-", text=text)
    names = dict.fromkeys(KERNEL.findall(plain))
    plain = DIVISION.sub(r"\1 = \2 / \3;", plain)  # which is exact here
    plain = PRODUCTS.sub(r"emulated::multiply(\1, \2, \3, \4);", plain)
    plain = ASSEMBLY.sub('emulated::fail("assembly, which the emulator has not");', plain)
    plain = DYNAMIC.sub(r"\1* const \2 = reinterpret_cast<\1*>(emulated::dynamic_shared);", plain)
    calls = "".join(CALLS.format(name) for name in names)
    # A namespace of its own, for names that the C library has too.
    whole = f'#include "cuda.h"\nnamespace {{\n{plain}\n}}\n{calls}{RUN}'
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        output = f"{folder}/made.so"
        _output("g++", f"-I{_headers()}", *FLAGS, "-o", output, "-x", "c++", "-", text=whole)
        Path(output).replace(made)
    return made


@cache
def _library(text: str, definitions: tuple[str, ...]) -> ctypes.PyDLL:
    library = ctypes.PyDLL(str(_built(text, definitions)))  # holds the interpreter's lock: one launch at a time
    library.run.restype = ctypes.c_char_p
    library.run.argtypes = (*(ctypes.c_void_p,) * 4, ctypes.c_size_t, ctypes.c_uint, ctypes.c_void_p)
    return library


class Kernel:
    """A kernel of a source: its parameters, and its runs.

    Args:
        text: the source, with its headers pasted in.
        definitions: options of the compiler, ``-DNAME=VALUE``.
        name: the kernel's.

    Raises:
        EmulationError: the source cannot be compiled, or has no such kernel.
    """

    def __init__(self, text: str, definitions: tuple[str, ...], name: str) -> None:
        self._library = _library(text, definitions)
        self._name = name
        try:
            self._call = ctypes.cast(getattr(self._library, f"call_{name}"), ctypes.c_void_p)
            signature: Any = getattr(self._library, f"signature_{name}")
        except AttributeError:
            raise EmulationError(f"no kernel {name} in the source") from None
        signature.restype = ctypes.c_char_p
        self.parameters: tuple[str, ...] = tuple(signature().decode().split())

    def run(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: list[bytes], dynamic: int) -> None:
        """Run all blocks, one after the other.

        Args:
            grid: blocks along three axes.
            block: threads of a block along three axes.
            arguments: the bytes of each.
            dynamic: bytes of dynamic shared memory.

        Raises:
            EmulationError: threads wait for ever, read or write where no memory is, or divide by zero.
        """
        kept = [(ctypes.c_char * (len(one) + 64)).from_buffer_copy(one + bytes(64)) for one in arguments]
        places = [-(-ctypes.addressof(one) // 64) * 64 for one in kept]
        for place, one in zip(places, arguments, strict=True):
            ctypes.memmove(place, one, len(one))
        three = ctypes.c_uint * 3
        given = (ctypes.c_void_p * len(places))(*places)
        failed = self._library.run(self._call, three(*grid), three(*block), given, dynamic, seed, ctypes.byref(_stacks))
        if failed:
            raise EmulationError(f"kernel {self._name}: {failed.decode()}")
