"""Finds loads that the assembler has moved in front of a kernel's wait for the launch before it.

A load of constant memory (ld.global.nc) may move across `griddepcontrol.wait`, for it promises no writes to
what it reads. So a kernel that reads a vector in this way right behind its wait may get what was there before. There is
no disassembler among the wheels; what is looked for in the machine code are the two instructions alone.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

INSTRUCTION = 16  # bytes, from compute capability 7.0 on
LOADS = (0x381, 0x981)  # LDG, with and without a uniform register: the low 12 bits
WAIT = 0x82E  # ACQBULK
ENTRY = re.compile(r"\.entry (\w+)")
LOAD = re.compile(r"\bld\.global\.(?:\w+\.)*nc\b")


def moved(cubin: bytes, ptx: str) -> list[str]:
    """The kernels with more loads of constant memory in front of their wait in the machine code than in the PTX."""
    asked = _asked(ptx)
    return sorted(
        name for name, code in _kernels(cubin) if (found := _constant_loads(code)) is not None and found > asked[name]
    )


def _asked(ptx: str) -> dict[str, int]:
    """For each kernel that waits, its loads of constant memory before it does."""
    asked: dict[str, int] = {}
    name, loads = "", 0
    for line in ptx.splitlines():
        if match := ENTRY.search(line):
            name, loads = match[1], 0
        elif "griddepcontrol.wait" in line:
            asked.setdefault(name, loads)
        loads += bool(LOAD.search(line))
    return asked


def _constant_loads(code: bytes) -> int | None:
    """Loads of constant memory before the wait; None where there is none."""
    loads = 0
    for low, high in struct.iter_unpack("<QQ", code[: len(code) // INSTRUCTION * INSTRUCTION]):
        if low & 0xFFF == WAIT:
            return loads
        loads += low & 0xFFF in LOADS and high >> 8 & 0xF0 == 0x90
    return None


def _kernels(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """The names and the machine code of the kernels in an ELF file of 64 bits."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    for start, _, _, _, offset, length in sections:
        first = sections[names][4] + start
        name = cubin[first : cubin.index(b"\0", first)].decode()
        if name.startswith(".text."):
            yield name.removeprefix(".text."), cubin[offset : offset + length]
