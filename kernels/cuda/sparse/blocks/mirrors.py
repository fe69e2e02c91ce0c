"""Transposes and mirror images of matrices of full blocks: the bits of `dsolver.kernels.cpu.amg.products`."""

from typing import Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.sparse.blocks.rows import BlockRows
from dsolver.kernels.cuda.sparse.products import mirrors as scalar
from dsolver.kernels.cuda.sparse.stages.stages import WARP
from dsolver.kernels.formats.csr import Csr

FILE: Final = "sparse/blocks/mirrors.cu"


def transposed(a: BlockRows, columns: int) -> BlockRows:
    """Aᵀ of a matrix with so many columns."""
    count = len(a.nodes.columns)
    numbers = cupy.arange(count, dtype=np.int64).view(np.float64)  # bits that are moved like values
    start, found, origins = scalar.transposed(a.nodes._replace(values=numbers), columns // a.columns)
    nodes = Csr(start, found, cupy.empty_like(a.nodes.values))
    sizes, places = map(np.int32, (nodes.size, a.rows, a.columns)), (start, found, origins.view(np.int64))
    for_each(FILE, "turn", nodes.size, *sizes, *places, a.nodes.start, a.nodes.values, nodes.values, lanes=WARP)
    return BlockRows(nodes, a.columns, a.rows)


def mirror(a: BlockRows) -> None:
    """Entries below the diagonal become their mirror images, in place; all of them are there, and columns ascend."""
    for_each(FILE, "mirror", a.nodes.size, np.int32(a.nodes.size), np.int32(a.rows), *a.nodes, lanes=WARP)
