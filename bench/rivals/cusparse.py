"""Products of sparse matrices by NVIDIA's cuSPARSE, as its documentation says they are fastest: with preprocessing.

CuPy's own binding has neither `cusparseSpMV_preprocess` nor sliced ELL, so the library that CuPy has loaded is called
here directly.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np

INT32, BASE_ZERO, PLAIN, ROW_MAJOR = 2, 0, 0, 2
REALS = {"float64": 1, "float32": 0}
ALGORITHMS = {"CSR 1": 2, "CSR 2": 3, "sliced ELL": 5, "BSR": 6}
SLICE = 32

Pointer, Long = ctypes.c_void_p, ctypes.c_int64


class VendorError(Exception):
    """Answer of the library when it did not do what it was asked."""


@cache
def library() -> ctypes.CDLL:
    cupy.cuda.device.get_cusparse_handle()
    lines = Path("/proc/self/maps").read_text().splitlines()
    found = [line.split()[-1] for line in lines if "libcusparse.so" in line]
    return ctypes.CDLL(found[0] if found else "libcusparse.so.12")


def call(name: str, *arguments: Any) -> None:
    status = getattr(library(), name)(*arguments)
    if status != 0:
        raise VendorError(f"{name}: status {status}")


def address(array: Any) -> Pointer:
    return Pointer(array.data.ptr)


class Product:
    """y = A x by one algorithm, ready to be called on the current stream.

    Args:
        algorithm: of `ALGORITHMS`.
        start: int32 (rows + 1,), or of block rows.
        columns: int32.
        values: of the entries.
        shape: of the matrix.
        block: B of BSR.
    """

    def __init__(
        self,
        algorithm: str,
        start: Any,
        columns: Any,
        values: Any,
        shape: tuple[int, int],
        x: Any,
        y: Any,
        block: int = 1,
    ) -> None:
        self.kept = [start, columns, values, x, y]
        real = REALS[str(values.dtype)]
        scalar = ctypes.c_double if real else ctypes.c_float
        self._one, self._zero = scalar(1.0), scalar(0.0)
        self._matrix, self._x, self._y = Pointer(), Pointer(), Pointer()
        rows, wide = shape
        ints = (ctypes.c_int(INT32), ctypes.c_int(INT32), ctypes.c_int(BASE_ZERO), ctypes.c_int(real))
        if algorithm == "sliced ELL":
            start, columns, values = sliced(start, columns, values, rows)
            self.kept += [start, columns, values]
            call(
                "cusparseCreateSlicedEll",
                ctypes.byref(self._matrix),
                Long(rows),
                Long(wide),
                Long(len(self.kept[1])),
                Long(len(values)),
                Long(SLICE),
                address(start),
                address(columns),
                address(values),
                *ints,
            )
        elif algorithm == "BSR":
            call(
                "cusparseCreateBsr",
                ctypes.byref(self._matrix),
                Long(rows // block),
                Long(wide // block),
                Long(len(columns)),
                Long(block),
                Long(block),
                address(start),
                address(columns),
                address(values),
                *ints,
                ctypes.c_int(ROW_MAJOR),
            )
        else:
            call(
                "cusparseCreateCsr",
                ctypes.byref(self._matrix),
                Long(rows),
                Long(wide),
                Long(len(columns)),
                address(start),
                address(columns),
                address(values),
                *ints,
            )
        for vector, into in ((x, self._x), (y, self._y)):
            call("cusparseCreateDnVec", ctypes.byref(into), Long(len(vector)), address(vector), ctypes.c_int(real))
        self._handle = Pointer(cupy.cuda.device.get_cusparse_handle())
        self._rest = (
            self._handle, ctypes.c_int(PLAIN), ctypes.byref(self._one), self._matrix, self._x,
            ctypes.byref(self._zero), self._y, ctypes.c_int(real), ctypes.c_int(ALGORITHMS[algorithm]),
        )  # fmt: skip
        size = ctypes.c_size_t()
        self._on_stream()
        call("cusparseSpMV_bufferSize", *self._rest, ctypes.byref(size))
        self._buffer = cupy.empty(max(1, size.value), dtype=np.uint8)
        self.prepare()

    def prepare(self) -> None:
        """Preprocessing of the matrix before the first product."""
        self._on_stream()
        call("cusparseSpMV_preprocess", *self._rest, address(self._buffer))

    def __call__(self) -> None:
        self._on_stream()
        call("cusparseSpMV", *self._rest, address(self._buffer))

    def _on_stream(self) -> None:
        call("cusparseSetStream", self._handle, Pointer(cupy.cuda.get_current_stream().ptr))


def sliced(start: Any, columns: Any, values: Any, rows: int) -> tuple[Any, Any, Any]:
    """Slices of `SLICE` rows as the library wants them: columns -1 where a row has ended."""
    count = -(-rows // SLICE)
    length = cupy.zeros(count * SLICE, dtype=np.int64)
    length[:rows] = cupy.diff(start)
    width = length.reshape(count, SLICE).max(axis=1)
    begins = cupy.zeros(count + 1, dtype=np.int64)
    cupy.cumsum(width * SLICE, out=begins[1:])
    row = cupy.searchsorted(start, cupy.arange(len(columns)), side="right") - 1
    k = cupy.arange(len(columns)) - start[row]
    place = begins[row // SLICE] + k * SLICE + row % SLICE
    into, entries = cupy.full(int(begins[-1]), -1, dtype=np.int32), cupy.zeros(int(begins[-1]), dtype=values.dtype)
    into[place], entries[place] = columns, values
    return begins.astype(np.int32), into, entries


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Median time of some work until the device is done, launches included."""
    times = []
    for _ in range(repeats):
        cupy.cuda.Device().synchronize()
        began = time.perf_counter()
        work()
        cupy.cuda.Device().synchronize()
        times.append(time.perf_counter() - began)
    return float(np.median(times))
