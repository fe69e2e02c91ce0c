"""Vector kernels on a GPU: launches of vectors.cu, complex.cu and scalars.cu on CuPy's current stream.

A kernel that runs in every iteration allocates nothing, waits for nothing and copies nothing to the host once it has
run on its device, so iterations can be captured in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import cupy
import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.launch.batched import BatchedLaunches, length
from dsolver.kernels.cuda.launch.loader import NOTHING, THREADS, for_each, kernel, type_of
from dsolver.kernels.cuda.launch.scratch import Scratch
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.cuda.vectors.columns import combine, gram, residuals, times
from dsolver.kernels.cuda.vectors.groups import group_sums, less_means, less_means_going_on
from dsolver.kernels.formats.layout import SLICE, Array, HaloLayout, Layout, Route
from dsolver.kernels.lattice.sources import Source
from dsolver.kernels.vectors import Vectors

MOST_BLOCKS = 2048
"""Blocks of a vector kernel: two waves on a large device, and as many partial sums as one block adds quickly."""
ITEMS_OF_BLOCK = THREADS * 4
TILE = 32  # items along x and z that a block of `load_turned` turns, as vectors.cu says too


def _on_scalars(name: str, file: str = "scalars") -> Callable[..., None]:
    """A kernel on scalars alone, as a method."""

    def launch(self: CudaVectors, *scalars: Array) -> None:
        launch_early(self._function(name, file), (1,), (1,), scalars)

    return launch


def _on_items(name: str) -> Callable[..., None]:
    """A kernel on arrays alone that fills the last of them item by item, as a method."""

    def launch(self: CudaVectors, *arrays: Array) -> None:
        self.items(name, len(arrays[-1]), *arrays)

    return launch


class CudaVectors(Vectors):
    """Vector kernels, and room (`scratch`) for a dot product's partial sums on each stream, for formats too."""

    def __init__(self, dtype: str) -> None:
        super().__init__(dtype)
        self.scratch = Scratch(2 * MOST_BLOCKS)  # of both parts of a complex one

    def __reduce__(self) -> Any:
        return vectors, (self.type_name,)

    def batched(self, width: int) -> Columns:
        return _VectorColumns(self, width)

    def load(self, layout: Layout, block: Any, x: Array) -> None:
        values = cupy.asarray(block, dtype=np.float64).reshape(layout.shape)
        strides = [np.int64(stride // values.itemsize) for stride in values.strides]
        nx, ny, nz = layout.shape
        if nx > 1 and nz > 1 and strides[2] < strides[0]:
            tiles = -(-nx // TILE) * -(-nz // TILE) * ny
            end = np.int32(layout.size - SLICE)
            arguments = (layout.position, values, *(np.int64(n) for n in layout.shape), *strides, x, end)
            launch_early(self._function("load_turned"), (tiles,), (THREADS,), arguments)
            return
        self.items("load", layout.size, layout.row, values, np.int64(nx), np.int64(ny), *strides, x)

    def unload(self, layout: Layout, x: Array) -> Array:
        rows = layout.position
        block = cupy.empty(len(rows), dtype=x.dtype)
        if size := len(rows):
            gather = kernel("vectors/vectors.cu", "gather", type_of(x))
            launch_early(gather, *grid_of(size), (rows, x, block, np.int64(size)))
        return block.reshape(layout.shape, order="F")

    def unload_turned(self, layout: Layout, x: Array) -> Array:
        long = [n for n in layout.shape if n > 1]
        if len(long) < 2:  # there is one order
            return self.unload(layout, x)
        nx, ny, nz = layout.shape if len(long) > 2 else (long[0], 1, long[1])
        block = cupy.empty(layout.shape, dtype=x.dtype)
        if tiles := -(-nx // TILE) * -(-nz // TILE) * ny:
            arguments = (layout.position, x, *(np.int64(n) for n in (nx, ny, nz)), block)
            launch_early(kernel("vectors/vectors.cu", "unload_turned", type_of(x)), (tiles,), (THREADS,), arguments)
        return block

    def assemble(self, layout: Layout, source: Source, x: Array) -> None:
        solid, ends = NOTHING if source.solid is None else source.solid, product(range(3), (0, 1))
        faces, sizes = (source.faces.get(end, NOTHING) for end in ends), map(np.int32, layout.shape)
        self.items("assemble", layout.size, layout.row, *source.sizes, solid, *faces, *sizes, x)
        for cells, values in source.feeds:
            self.scatter_add(layout.position[cells], 1.0, values.astype(self.dtype, copy=False), x)

    def fill(self, layout: Layout, value: float, x: Array) -> None:
        self.items("fill", layout.size, layout.row, np.float64(value), x)

    def pack(self, plan: HaloLayout, x: Array, buffer: Array) -> None:
        values = x if x.dtype == buffer.dtype else x.astype(buffer.dtype)
        self.items("gather", len(plan.send_rows), plan.send_rows, values, buffer)

    def dot(self, x: Array, y: Array, dot: Array) -> None:
        self._summed("dot", len(x), x, y, dot)

    def dot_narrowed(self, x: Array, y: Array, dot: Array) -> None:
        self._summed("dot_narrowed", len(x), x, y, dot)

    def dot_plus(self, x: Array, y: Array, sign: float, u: Array, v: Array, dot: Array) -> None:
        self._summed("dot_plus", len(x), x, y, np.float64(sign), u, v, dot)

    def complex_dot(self, x: Array, xi: Array, sign: float, y: Array, yi: Array, dot: Array, doti: Array) -> None:
        arguments = (x, xi, np.float64(sign), y, yi, np.int64(len(x)), *self.scratch.here(), dot, doti)
        launch_early(self._function(_for("complex_dot", x, y), "complex"), *grid_of(len(x)), arguments)

    def total(self, parts: Array, total: Array) -> None:
        launch_early(self._function("total"), (1,), (1,), (parts, total, np.int32(len(parts))))

    def waxpby(self, a: float, x: Array, b: float, y: Array, w: Array) -> None:
        self.items("waxpby", len(w), np.float64(a), x, np.float64(b), y, w)

    def axpby(self, sign: float, a: Array, x: Array, b: Array, y: Array) -> None:
        self.items("axpby", len(y), np.float64(sign), a, x, b, y)

    def complex_axpby(
        self, sign: float, a: Array, ai: Array, x: Array, xi: Array, b: Array, bi: Array, y: Array, yi: Array
    ) -> None:
        arguments = (np.float64(sign), a, ai, x, xi, b, bi, y, yi)
        self.items(_for("complex_axpby", x, y), len(y), *arguments, file="complex")

    def complex_update_x_r(self, *arrays: Array) -> None:
        size = len(arrays[2])
        arguments = (*arrays, np.int64(size), *self.scratch.here())
        launch_early(self._function("complex_update_x_r", "complex"), *grid_of(size), arguments)

    def complex_step(self, keep: float, w: Array, wi: Array, r: Array, ri: Array, x: Array, xi: Array) -> None:
        self.items("complex_step", len(x), np.int32(keep != 0.0), w, wi, r, ri, x, xi, file="complex")

    def update_x_r(self, *arrays: Array) -> None:
        size = len(arrays[0])
        arguments = (*arrays, np.int64(size), *self.scratch.here())
        launch_early(self._function("update_x_r"), *grid_of(size), arguments)

    def copy(self, x: Array, y: Array) -> None:
        """The contract's `COPY`; numbers of set-up are float64 whatever the vectors are."""
        if size := len(y):
            launch_early(kernel("vectors/vectors.cu", "copy", type_of(y)), *grid_of(size), (x, y, np.int64(size)))

    narrow = _on_items("narrow")
    widen = _on_items("widen")
    update_p = _on_items("update_p")
    update_p_narrowed = _on_items("update_p_narrowed")
    jacobi_step = _on_items("jacobi_step")

    unscale = _on_scalars("unscale", "vectors")
    quotient = _on_scalars("quotient")
    complex_quotient = _on_scalars("complex_quotient", "complex")
    rotation = _on_scalars("rotation")
    half_step = _on_scalars("half_step")
    bidiagonal_rotations = _on_scalars("bidiagonal_rotations")
    normal_step = _on_scalars("normal_step")
    settle = _on_scalars("settle")

    def move(self, route: Route, x: Array, y: Array) -> None:
        if size := len(route.source):
            grid = (-(-size // THREADS),)
            move = kernel("sell/multigrid.cu", "move", self.type_name)
            launch_early(move, grid, (THREADS,), (route.source, route.target, x, y, np.int64(size)))

    def jacobi(self, diagonal: Array, r: Array, scale: float, z: Array) -> None:
        self.items("jacobi", len(z), diagonal, r, np.float64(scale), z)

    def chebyshev(self, diagonal: Array, r: Array, w: Array, keep: float, gain: float, d: Array, z: Array) -> None:
        self.items("chebyshev", len(z), diagonal, r, w, np.float64(keep), np.float64(gain), d, z)

    def scatter_add(self, places: Array, sign: float, values: Array, y: Array) -> None:
        self.items("scatter_add", len(places), places, np.float64(sign), values, y)

    def gathered_dot(self, places: Array, x: Array, values: Array, dot: Array) -> None:
        if size := len(places):
            self._summed("gathered_dot", size, places, x, values, dot)

    gram = staticmethod(gram)
    residuals = staticmethod(residuals)
    combine = staticmethod(combine)
    times = staticmethod(times)
    group_sums = staticmethod(group_sums)
    less_means = staticmethod(less_means)
    less_means_going_on = staticmethod(less_means_going_on)

    def scaled(self, layout: Layout, diagonal: Array, factors: Array) -> tuple[Array, Array]:
        out, weights = cupy.empty_like(diagonal), cupy.empty_like(diagonal)
        self._scale(layout, diagonal, factors, np.int32(1), out, weights)
        return out, weights

    def scaled_late(self, layout: Layout, diagonal: Array, factors: Array) -> Array:
        """The diagonal of `scaled`, as products in float64 that are rounded; of any rows."""
        out = cupy.empty_like(diagonal)
        self._scale(layout, diagonal, factors, np.int32(0), out, NOTHING)
        return out

    def _scale(self, layout: Layout, *arguments: Any) -> None:
        """Launch `scaled`, which reads what the launch before it has made."""
        size = layout.size
        self._function("scaled")(*grid_of(size), (layout.row, *arguments, np.int64(size)))

    def items(self, name: str, size: int, *arguments: Any, file: str = "vectors") -> None:
        """A vector kernel on so many items."""
        if size:
            launch_early(self._function(name, file), *grid_of(size), (*arguments, np.int64(size)))

    def _function(self, name: str, file: str = "vectors") -> Any:
        return kernel(f"vectors/{file}.cu", name, self.type_name)

    def sum(self, parts: Array, size: int, dot: Array) -> None:
        """dot = the sum of so many parts."""
        self._summed("sum", size, parts, dot)

    def _summed(self, name: str, size: int, *arguments: Any) -> None:
        """A vector kernel that adds up what it makes of so many items; the last argument is where their sum comes."""
        given = (*arguments[:-1], np.int64(size), *self.scratch.here(), arguments[-1])
        launch_early(self._function(name), *grid_of(size), given)


class _VectorColumns(BatchedLaunches):
    """Vector kernels for several columns: indices are read once."""

    def move(self, route: Route, x: Array, y: Array) -> None:
        if size := len(route.source):
            apart = (np.int64(stride // x.itemsize) for stride in x.strides)
            arguments = (route.source, route.target, x, y, *apart, length(y), np.int64(size))
            self.launch_early("move", (-(-size // THREADS),), (THREADS,), arguments)


@cache
def vectors(dtype: str) -> CudaVectors:
    """The vector kernels of a value type, one object in a process."""
    return CudaVectors(dtype)


def _for(name: str, x: Array, y: Array) -> str:
    """The kernel of this name for vectors of one type, or of two."""
    return name if x.itemsize == y.itemsize else f"{name}_narrowed"


def grid_of(size: int) -> tuple[tuple[int], tuple[int]]:
    """Grid and block of a vector kernel. They follow from the length alone, since the bits of a dot depend on them."""
    return (min(MOST_BLOCKS, max(1, -(-size // ITEMS_OF_BLOCK))),), (THREADS,)


def narrowed(values: Array, dtype: np.dtype[Any]) -> Array:
    """See `dsolver.kernels.casts.narrowed`, whose bits these are: of float64, in one launch and little Python."""
    return values if values.dtype == dtype else cast(values, dtype)


def cast(wide: Array, dtype: np.dtype[Any], *, checked: bool = False) -> Array:
    """float64 in another type; checked: as a diagonal, with NaN where it leaves the type's range."""
    out = cupy.empty(wide.shape, dtype)
    arguments = wide, np.int64(wide.size), np.int32(checked), out
    for_each("vectors/vectors.cu", "cast", wide.size, *arguments, dtype=type_of(out))
    return out
