"""Where slices begin and how wide they are, as assembly.cu finds it: its text on the host against NumPy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from dsolver.kernels.formats.layout import SLICE
from tests.support.on_host import FIBERS, compiled, without_assembly

HOST = (
    FIBERS
    + """
#define fma std::fma
#include "sell/assembly/assembly.cu"
static const int* ends;
static const unsigned char* runs;
static int sections, slices, upper[1 << 12];
static Counts sums[1 << 12];
static long long *start, *column_start;
static Found* found;
static void call_shapes() { shapes(ends, runs, sections, slices, upper, sums, found); }
static void call_begins() { begins(ends, runs, sums, sections, slices, start, column_start, found); }
extern "C" void starts(
    const int* e, const unsigned char* r, int k, int n, int wide, long long* s, long long* c, Found* f, int* u
) {
    ends = e; runs = r; sections = k; slices = n; start = s; column_start = c; found = f;
    run(call_shapes, (n + wide - 1) / wide, wide);
    run(call_begins, (n + wide - 1) / wide, wide);
    std::memcpy(u, upper, 4 * n);
}
"""
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    options, sources = (
        ("-O1", "-ffp-contract=off"),
        ("sell/assembly/assembly.cu", "sell/assembly/assembly.cuh", "range.cuh", "slices.cuh"),
    )
    return compiled(tmp_path_factory.mktemp("host"), HOST, *options, sources=sources, edited=without_assembly)


def addresses(*arrays: Any) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


@pytest.mark.parametrize("sections", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 31, 64, 65, 1000])
def test_slices_begin_where_those_before_them_end(host: ctypes.CDLL, count: int, sections: int) -> None:
    rng = np.random.default_rng(count)
    widths, runs = rng.integers(0, 9, (count, sections), dtype=np.int32), rng.integers(0, 2, count, dtype=np.uint8)
    start, column_start, found = np.full(count + 1, -1), np.full(count + 1, -1), np.zeros(3, dtype=np.int64)
    upper, ends = np.empty(count, dtype=np.int32), np.cumsum(widths, axis=1, dtype=np.int32)
    host.starts(*addresses(ends, runs), sections, count, 64, *addresses(start, column_start, found, upper))
    width = widths.sum(axis=1, dtype=np.int64)
    columns = np.where(runs, width, SLICE * width)
    assert (start == SLICE * np.cumsum([0, *width])).all()
    assert (column_start == np.cumsum([0, *columns])).all()
    assert found[:2].tolist() == [columns.sum(), width.sum()]
    assert found[2:].view(np.int32).tolist() == [0, width.max()]
    assert (upper == widths[:, 0]).all()
