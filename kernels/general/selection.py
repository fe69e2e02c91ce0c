"""Formats for the rows of a chunk: by their statistics, by name, or one of some that are measured."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal, get_args

import numpy as np

from dsolver.kernels.formats.choice import EVEN, LATTICE, Choice, cpu_choice, gpu_choice
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.formats.statistics import STRETCH, Statistics
from dsolver.kernels.general.operations import RowOperations

FormatName = Literal["slices", "blocks", "octets", "chunks", "rows"]
"""Formats as people name them: slices of blocks have a name of their own."""
MEASURE: Final = "measure"  # in place of a format's name: whichever is fastest
HALF: Final = 0.5  # fill from which blocks are worth a measurement
THREADS: Final = (1, 2, 4, 8, 16, 32)  # threads of a row that there are kernels for
TABLED: Final = 1.5  # padding up to which slices are worth a measurement


def chosen(formats: str | None, known: Statistics, *, gpu: bool) -> Choice:
    """The format asked for by name, else that for these statistics. ValueError: no such name here, or no blocks."""
    if not gpu and formats == "blocks":
        raise ValueError("blocks are a format for GPUs: on a CPU rows by themselves take a third to a half of the time")
    rule = gpu_choice(known) if gpu else cpu_choice(known)
    if formats is None:
        return rule
    if formats not in get_args(FormatName):
        raise ValueError(f"there is no format {formats!r}: choose one of {', '.join(get_args(FormatName))}")
    if gpu and formats == "octets":
        raise ValueError("octets are a format for CPUs: slices are what suits a GPU")
    if formats == ("blocks" if rule.block > 1 else rule.name):
        return rule
    return _named(formats, known, gpu=gpu)


def _named(formats: str, known: Statistics, *, gpu: bool) -> Choice:
    """A format that is asked for and not the best one, with what suits it: rows are sorted on GPUs alone."""
    if formats == "chunks":
        return Choice(name="chunks", why="asked for")
    if formats == "octets":
        return Choice(name="octets", why="asked for")
    if formats == "rows":
        fitting = [t for t in THREADS if 2 * t <= max(2.0, known.mean)]
        return Choice(name="rows", threads=fitting[-1], why="asked for")
    if formats == "slices":
        even = 1 not in known.stored or known.stored[1].runs >= LATTICE or known.stored[1].padding <= EVEN
        return Choice(name="slices", window=STRETCH if gpu and not even else 1, why="asked for")
    fill = {b: s.fill for b, s in known.stored.items() if b > 1}
    most = max(fill.values(), default=0.0)
    if most < HALF:
        raise ValueError("these rows have no blocks of 2, 3, 4 or 6 rows and columns that are at least half full")
    block = max(b for b in fill if fill[b] >= 0.99 * most)
    return Choice(name="slices", block=block, why="asked for")


def candidates(known: Statistics, *, gpu: bool) -> list[Choice]:
    """Formats that may be the fastest ones: the choice by statistics, and those that are not hopeless."""
    found = [chosen(None, known, gpu=gpu), Choice(name="chunks", why="")]
    even = known.longest <= 16 * known.mean + 64
    threads = [t for t in THREADS if known.mean / 8 <= t <= known.mean] if gpu and even else [1]
    found += [Choice(name="rows", threads=t, why="") for t in threads]
    if not gpu and even and known.stored and known.stored[1].octets <= TABLED:
        found.append(Choice(name="octets", why=""))
    for block, stored in known.stored.items():
        if stored.padding <= TABLED and (block == 1 or (gpu and stored.fill >= HALF)):
            windows = (1, STRETCH) if gpu and stored.padding > 1.0 else (1,)
            found += [Choice(name="slices", block=block, window=w, why="") for w in windows]
    return list({replace(choice, why=""): choice for choice in found}.values())


ENOUGH: Final = 1e-3  # seconds of products that tell formats apart
ROUNDS: Final = 3


def fastest(operations: RowOperations, rows: Csr, choices: Sequence[Choice], x: Array, y: Array) -> tuple[Choice, Any]:
    """The fastest of some formats here and now, with x and y of ones, and the rows in it. Two are held at a time."""
    best: tuple[float, Choice, Any] | None = None
    for choice in choices:
        product = operations.product(rows, rows.size, choice)
        took = _seconds(operations, product, x, y)
        if best is None or took < best[0]:
            best = took, choice, product
    assert best is not None
    why = f"the fastest of {len(choices)}, measured: {best[0] * 1e6:.0f} us"
    return replace(best[1], why=why), best[2]


def _seconds(operations: RowOperations, product: Any, x: Array, y: Array) -> float:
    """Seconds of a product, the least of some rounds; the first calls compile and are not counted."""
    times = 1
    found = []
    for _ in range(ROUNDS + 2):
        operations.wait()
        began = time.perf_counter()
        for _ in range(times):
            product.spmv(x, y)
        operations.wait()
        found.append((time.perf_counter() - began) / times)
        times = int(np.clip(ENOUGH / max(found[-1], 1e-7), 1, 100))
    return min(found[2:])
