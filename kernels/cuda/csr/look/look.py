"""A look at all entries of a matrix on a GPU: two launches, three if it is not symmetric; 64 kB for the host."""

import math
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cpu.csr.look import columns_cancel
from dsolver.kernels.cuda.csr.statistics import LENGTH_WORDS, measure_lengths
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.general.look import CANCELED, Faults, Look

LOOK, GLANCE = "csr/look/look.cu", "csr/look/glance.cu"
THREADS: Final = 256
LANES: Final = (1, 2, 4, 8, 16, 32)  # threads of a row that there are kernels for
FEW: Final = 2
"""Threads of a row up to which each has at most four entries in the mean; more have up to seven each, since their
sums meet in many instructions: 27 entries a row took 4.9 ms with four threads, and 7.3 with eight."""
USUAL: Final = 8  # threads of a row in kernels that few matrices need
PARTS: Final = 528  # blocks at most: as many as run at a time on a large device
FIRSTS: Final = ("first_outside", "first_infinite", "first_empty", "first_hollow")
"""Places where things were found first, in words of 8 bytes: see `Firsts` of found.cuh."""
REALS: Final = ("largest", "difference", "skewness", "least", "positive", "positive_low", "dominance", "dominance_low")
"""Float64 numbers that each block has found behind them: see `Found`."""
MIXED: Final = 2  # numbers of 8 bytes behind them, sums of mixed entries: zeros of a symmetric matrix
COUNTS: Final = (
    *("pointers", "outside", "descending", "repeated", "infinite", "empty"),
    *("hollow", "negative", "opened", "unmatched", "upper", "lower"),
)
"""Counts behind these, in words of 4 bytes."""


def look(rows: Csr, allowed: float) -> Look:
    """Findings about the entries of a square matrix.

    `allowed`: difference of mirrored entries up to which its place is not asked for, as a part of the largest entry.
    """
    found = _found(rows, "glance")
    if not found["same"]:
        found = _found(rows, "look")
    faults = Faults(
        pointers=found["pointers"],
        outside=found["first_outside"],
        descending=found["descending"],
        repeated=found["repeated"],
        infinite=(found["infinite"], found["first_infinite"]),
    )
    if faults.some:
        return Look(faults=faults)
    matched, difference = found["upper"] - found["unmatched"], found["difference"]
    unmatched = found["upper"] + found["lower"] - 2 * matched
    if matched < found["lower"]:
        difference = max(difference, float(_number("widest_below", rows).view(np.float64)))
    rows_cancel = found["opened"] == 0
    return Look(
        empty=(found["empty"], found["first_empty"]),
        hollow=(found["hollow"], found["first_hollow"]),
        negative=found["negative"],
        opened=found["opened"],
        rows_cancel=rows_cancel,
        columns_cancel=rows_cancel and (difference == 0.0 or _columns_cancel(rows, mirrored=not unmatched)),
        largest=found["largest"],
        least=found["least"] if found["hollow"] < rows.size else math.inf,
        unmatched=unmatched,
        difference=difference,
        skewness=found["skewness"],
        place=_place(rows, difference) if difference > allowed * found["largest"] else None,
        positive=found["positive"],
        dominance=found["dominance"],
        squares=found["squares"],
    )


def _found(rows: Csr, name: str) -> dict[str, Any]:
    """Findings of all blocks together, by name; -1 where a first one is none.

    name: "look", or "glance", by which mirror images are right where entries are the "same" as these.
    """
    lanes = next(t for t in LANES if t == LANES[-1] or len(rows.columns) <= (4 if t <= FEW else 7) * t * rows.size)
    blocks, words = _blocks(rows, lanes), len(REALS) + MIXED + len(COUNTS) // 2
    last = len(FIRSTS) + blocks * words
    out = cupy.empty(last + LENGTH_WORDS, dtype=np.int64)
    cupy.cuda.runtime.memsetAsync(out.data.ptr, 0xFF, 8 * len(FIRSTS), cupy.cuda.get_current_stream().ptr)
    _launch(f"{name}_{lanes}", blocks, rows, np.float64(CANCELED), out)
    measure_lengths(rows, out[last:], "float64")
    told = read_back(out)
    parts, behind = told[len(FIRSTS) : last].reshape(blocks, words), len(REALS) + MIXED
    # Those of all blocks side by side, which NumPy adds up three times as fast.
    numbers = np.ascontiguousarray(parts[:, :behind].T)
    counts = np.ascontiguousarray(parts[:, behind:].view(np.int32).T).sum(axis=1, dtype=np.int64)
    largest, difference, skewness, least, *sums = numbers[: len(REALS)].view(np.float64)
    by_name = dict(zip(COUNTS, counts.tolist(), strict=True))
    return {
        **dict(zip(FIRSTS, told[: len(FIRSTS)].tolist(), strict=True)),
        **by_name,
        "same": by_name["upper"] == by_name["lower"] and not numbers[len(REALS) :].sum(axis=1).any(),
        "largest": float(largest.max()),
        "difference": float(difference.max()),
        "skewness": float(skewness.max()),
        "least": float(least.min()),
        "positive": math.fsum(sums[0].tolist() + sums[1].tolist()),
        "dominance": math.fsum(sums[2].tolist() + sums[3].tolist()),
        "squares": int(told[last::2].sum()),
    }


def _columns_cancel(rows: Csr, *, mirrored: bool) -> bool:
    """Whether the entries of each column add up to zero; where some have no mirror image it is told on the host."""
    if mirrored:
        return int(_number("count_open_columns", rows, np.float64(CANCELED))) == 0
    return columns_cancel(Csr(*(cupy.asnumpy(part) for part in rows)))


def _place(rows: Csr, difference: float) -> tuple[int, int]:
    """The first pair of entries, row after row, that differ by so much."""
    place = _number("find_difference", rows, np.float64(difference), nothing=np.iinfo(np.uint64).max)
    i, j = divmod(int(place), rows.size)
    return i, j


def _number(name: str, rows: Csr, *arguments: Any, nothing: int = 0) -> Any:
    """The number that a kernel finds, a NumPy scalar."""
    out = cupy.full(1, nothing, dtype=np.uint64)
    _launch(name, _blocks(rows, USUAL), rows, *arguments, out)
    return cupy.asnumpy(out)[0]


def _launch(name: str, blocks: int, rows: Csr, *arguments: Any) -> None:
    sizes = np.int64(rows.size), np.int64(len(rows.columns))
    file = GLANCE if name.startswith("glance") else LOOK
    kernel(file, name, "float64")((blocks,), (THREADS,), (*rows, *sizes, *arguments))


def _blocks(rows: Csr, lanes: int) -> int:
    return min(PARTS, -(-rows.size * lanes // THREADS))
