"""Products of matrices of full blocks on a GPU, with the bits of `dsolver.kernels.cpu.amg.products`.

Blocks that a row of the product has follow from the nodes' graphs, by the product of other matrices: of 3 x 3 and 3 x 6
entries one table look serves 54 products of numbers. Only the values are made here.
"""

import math
from typing import Final

import cupy
import numpy as np

from dsolver.kernels.amg import BlockSizes
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.sparse.blocks.rows import BlockRows, in_blocks
from dsolver.kernels.cuda.sparse.products import long_rows
from dsolver.kernels.cuda.sparse.products import product as scalar
from dsolver.kernels.cuda.sparse.stages.stages import SHARED, WARP, Stages
from dsolver.kernels.formats.csr import Csr

FILE, DTYPE = "sparse/blocks/products.cu", "float64"
LEAST: Final = 1 << 24
"""Products of numbers from which on blocks are worth more launches and waits: 0.38 ms in place of 0.22 for 6 million of
them, 0.37 in place of 0.34 for 26 million."""
ROWS: Final = {2: (3, 2), 3: (3,), 6: (3,)}
"""Rows that a group of lanes makes, best first, by the columns of a block of A: for these there are kernels. With six
rows of R A P all took 12.5 in place of 11.6 ms: fewer groups found room."""
WIDE: Final = {2: 1, 3: 2, 6: 2}  # columns of a lane, at most, by the columns of a block of A
WIDEST: Final = 64  # columns of a block of B, at most: shared memory has room for sums of some blocks
NARROW: Final = 8
"""Columns of a row of blocks of B up to which each has a lane: 0.65 ms in place of 0.81 with two for rows of 6."""
SPANS: Final = 8, 20
"""Columns, divided by those of a lane, of a row of blocks of B up to which 8 and 16 lanes make a row of blocks."""
ROOMS: Final = (1.3, 1.6, 2.0)
"""Blocks of rows of the product for which stages have room, for each one in the mean: the less, the more rows are under
way."""
BYTES_OF_SLOT: Final = 8


def product(a: Csr, b: Csr, columns: int, blocks: BlockSizes, *, ascending: bool = True) -> Csr:
    """A B, which has so many columns: by blocks where they are full and there are many, else by numbers.

    `ascending`: whether columns ascend in each row; they are in the order of `products.product` otherwise.
    """
    left, right = factors(a, b, columns, blocks)
    if left is None or right is None:
        return scalar.product(a, b, columns, ascending=ascending)
    made, plain = block_product(left, right, columns, ascending=ascending)
    return plain or made.plain


def numeric(pattern: Csr, a: Csr, b: Csr, columns: int, blocks: BlockSizes, *, ascending: bool = True) -> Csr | None:
    """A B again, of new values in the same places: see `products.numeric`; None where `product` makes it by numbers."""
    left, right, known = factors(a, b, columns, blocks, pattern)
    if left is None or right is None or known is None:
        return None
    made, _ = values(left, right, columns, known.nodes, ascending=ascending)
    return pattern._replace(values=made.nodes.values)


def factors(a: Csr, b: Csr, columns: int, blocks: BlockSizes, *pattern: Csr) -> tuple[BlockRows | None, ...]:
    """A, B, and A B where its places are known, by blocks; None for each not full, or all if few. It waits."""
    rows, inner, width = blocks
    some = any(rows % each == 0 for each in ROWS.get(inner, ())) and 1 < width <= WIDEST and columns % width == 0
    if not some or len(a.columns) * b.mean < LEAST:
        return (None,) * (2 + len(pattern))
    return in_blocks((a, rows, inner), (b, inner, width), *((each, rows, width) for each in pattern))


def block_product(a: BlockRows, b: BlockRows, columns: int, *, ascending: bool) -> tuple[BlockRows, Csr | None]:
    """A B, which has so many columns, and its compressed rows if some were too long to be made by blocks."""
    pattern = scalar.product(a.nodes, b.nodes, columns // b.columns, ascending=ascending)  # of values without meaning
    return values(a, b, columns, pattern, ascending=ascending)


def values(a: BlockRows, b: BlockRows, columns: int, pattern: Csr, *, ascending: bool) -> tuple[BlockRows, Csr | None]:
    """See `block_product`; pattern: the nodes of A B, whose values are not read."""
    width = b.columns
    nodes = pattern._replace(values=cupy.empty(len(pattern.columns) * a.rows * width))
    out = BlockRows(nodes, a.rows, width)
    rows = next(some for some in ROWS[a.columns] if a.rows % some == 0)
    parts, mean = a.rows // rows, pattern.mean
    span = b.nodes.mean * width
    paired = span > NARROW and width % 2 == 0 and b.nodes.values.data.ptr % 16 == 0
    wide = WIDE[a.columns] if paired else 1
    lanes = next((lanes for lanes, most in zip((8, 16), SPANS, strict=True) if span <= wide * most), WARP)
    most = 4
    while _shared(rows, width, 2 * most) <= SHARED:
        most *= 2
    stages = Stages(a.nodes.size * parts)
    usual = [room for room in (4 * math.ceil(times * mean / 4.0) for times in ROOMS) if room < most]
    for room in (*usual, most):
        sizes = np.int32(parts), np.int32(width), np.uint32(-(-(1 << 32) // width))
        arguments = (*sizes, *a.nodes, *b.nodes, np.int32(_bits(room)), np.int32(room), *nodes)
        group = lanes if room < most else WARP
        function = kernel(FILE, f"add_{rows}_{a.columns}_{wide}_{group}", DTYPE)
        stages.launch(function, group, arguments, _shared(rows, width, room))
    left = stages.left()
    if not len(left):
        return out, None
    plain = out.plain
    of_nodes = cupy.unique(left // np.int32(parts))
    every = (of_nodes[:, None] * np.int32(a.rows) + cupy.arange(a.rows, dtype=np.int32)[None]).ravel()
    long_rows.fill(every, a.plain, b.plain, columns, plain, ascending=ascending)
    return out, plain


def _bits(nodes: int) -> int:
    """Bits of a table for so many nodes."""
    return max(4, math.ceil(math.log2(1.5 * nodes)))


def _shared(rows: int, width: int, nodes: int) -> int:
    """Bytes of shared memory of a group: sums of so many rows, and a table of nodes."""
    return 8 * rows * width * nodes + (BYTES_OF_SLOT << _bits(nodes))
