"""Set-up of layouts on a GPU: a handful of launches, no loop over rows on the host."""

import math
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import TypeVar

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.launch.tables import kept, table
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.layout_setup import LayoutSetup

T = TypeVar("T")

FILE = "sell/assembly/assembly.cu"


class CudaLayoutSetup(LayoutSetup):
    """Storage orders of CuPy arrays."""

    def colored(self, color: Array, colors: int, shape: tuple[int, int, int]) -> Layout:
        rows, color = len(color), cupy.asarray(color, dtype=np.int32)
        if colors == 1:
            return self.plain(shape)
        narrow = color.astype(np.uint8) if colors < 256 else color  # a radix sort takes a pass for each byte
        order = cupy.argsort(narrow, kind="stable")
        first = cupy.searchsorted(narrow[order], cupy.arange(colors + 1, dtype=narrow.dtype)).get()
        color_slices = _color_slices(np.diff(first))
        size = int(color_slices[-1] + 1) * SLICE
        position = cupy.empty(rows, dtype=np.int32)
        row = none_of(size)
        shift = cupy.asarray(color_slices[:-1] * SLICE - first[:-1])
        places = order.astype(np.int64, copy=False), color, shift, position, row
        for_each(FILE, "storage_order", rows, *places, np.int32(rows))
        return Layout(
            rows=rows, size=size, color_slices=color_slices, position=position, row=row, color=color, shape=shape
        )

    def kept(self, kind: str, rows: int, key: Hashable, make: Callable[[], T]) -> T:
        return kept(kind, rows, key, make)

    def plain(self, shape: tuple[int, int, int]) -> Layout:
        return kept("plain order", math.prod(shape), shape, lambda: _plain(shape))

    def lattice(
        self, classes: Sequence[npt.NDArray[np.int_]], colors: npt.NDArray[np.int32], shape: tuple[int, int, int]
    ) -> Layout:
        of_axes = tuple(np.asarray(axis, dtype=np.int64).tobytes() for axis in classes)
        of_classes = np.asarray(colors, dtype=np.int32).tobytes()
        key = of_axes, of_classes
        return kept("lattice order", math.prod(shape), key, lambda: _lattice(of_axes, of_classes, len(colors), shape))

    def _places_of(self, kept: Array, rows: int, size: int) -> tuple[Array, Array]:
        position, row = cupy.full(rows, size - SLICE, dtype=np.int32), none_of(size)
        for_each(FILE, "some_order", len(kept), kept, np.int32(len(kept)), position, row)
        return position, row


def _plain(shape: tuple[int, int, int]) -> Layout:
    rows = math.prod(shape)
    color_slices = _color_slices(np.array([rows]))
    size = int(color_slices[-1] + 1) * SLICE
    position, row = cupy.empty(rows, dtype=np.int32), cupy.empty(size, dtype=np.int32)
    for_each(FILE, "plain_order", size, np.int32(rows), np.int32(size), position, row)
    return Layout(
        rows=rows,
        size=size,
        color_slices=color_slices,
        position=position,
        row=row,
        color=cupy.zeros(rows, dtype=np.int32),
        shape=shape,
        in_order=True,
    )


def _lattice(of_axes: tuple[bytes, ...], colors: bytes, kinds: int, shape: tuple[int, int, int]) -> Layout:
    rows = math.prod(shape)
    numbers, color_slices = _lattice_tables(of_axes, colors, kinds)
    count = len(color_slices) - 1
    size = int(color_slices[-1] + 1) * SLICE
    tables = table(numbers)
    color, position = cupy.empty(rows, dtype=np.int32), cupy.empty(rows, dtype=np.int32)
    row = none_of(size)
    sizes = map(np.int32, (*shape, kinds, count))
    for_each(FILE, "lattice_order", rows, tables, *sizes, color, position, row)
    return Layout(
        rows=rows,
        size=size,
        color_slices=color_slices,
        position=position,
        row=row,
        color=color,
        shape=shape,
        checkered=_checkered(of_axes, colors, kinds),
        parities=_parities(of_axes, colors, kinds),
    )


def _checkered(classes: tuple[bytes, ...], colors: bytes, kinds: int) -> int | None:
    """See `Layout.checkered`; classes, colors and kinds as of `_lattice_tables`."""
    of_class = np.frombuffer(colors, dtype=np.int32)
    if kinds != 2 or of_class.tolist() not in ([0, 1, 1, 0, 1, 0, 0, 1], [1, 0, 0, 1, 0, 1, 1, 0]):
        return None
    along = [np.frombuffer(axis, dtype=np.int64) for axis in classes]
    if not all(len(axis) and (np.diff(axis) != 0).all() for axis in along):
        return None
    x, y, z = (int(axis[0]) for axis in along)
    return int(of_class.reshape(2, 2, 2)[z, y, x])


def _parities(classes: tuple[bytes, ...], colors: bytes, kinds: int) -> tuple[int, ...] | None:
    """See `Layout.parities`; classes, colors and kinds as of `_lattice_tables`."""
    of_class = np.frombuffer(colors, dtype=np.int32)
    if kinds != 2 or sorted(of_class.tolist()) != list(range(8)):
        return None
    along = [np.frombuffer(axis, dtype=np.int64) for axis in classes]
    if not all(len(axis) and (axis == np.arange(len(axis)) % 2).all() for axis in along):
        return None
    return tuple(of_class.tolist())


@lru_cache(maxsize=64)
def _lattice_tables(
    classes: tuple[bytes, ...], colors: bytes, kinds: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The numbers that `lattice_order` reads, and the first slices of the colors: the same for every grid's set-up."""
    of_class = np.frombuffer(colors, dtype=np.int32).reshape(kinds, kinds, kinds)
    along = [np.frombuffer(axis, dtype=np.int64) for axis in classes]
    within = [axis[:, None] == np.arange(kinds) for axis in along]  # of each axis, (n, kinds)
    nx, ny, nz = (axis.sum(axis=0) for axis in within)
    count = int(of_class.max()) + 1
    lines = (of_class == np.arange(count)[:, None, None, None]) @ nx  # (colors, class of z, class of y)
    planes = lines @ ny
    color_slices = _color_slices(planes @ nz)
    before = [np.column_stack([axis.argmax(axis=1), axis.cumsum(axis=0) - axis]) for axis in within]
    parts = (SLICE * color_slices[:-1], planes, lines, of_class, *before)
    return np.concatenate([part.ravel() for part in parts]).astype(np.int32), color_slices


def _color_slices(rows: npt.NDArray[np.int_]) -> npt.NDArray[np.int64]:
    """First slices of the colors, from the numbers of their rows."""
    return np.concatenate([[1], 1 + np.cumsum(-(-rows // SLICE))]).astype(np.int64)


def none_of(size: int) -> Array:
    """int32 (size,), all -1: bytes that the driver sets, where CuPy would compile a kernel."""
    out = cupy.empty(size, dtype=np.int32)
    cupy.cuda.runtime.memsetAsync(out.data.ptr, 0xFF, out.nbytes, cupy.cuda.get_current_stream().ptr)
    return out
