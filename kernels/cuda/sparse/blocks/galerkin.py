"""R A P on a GPU by blocks, where those of P are full: see `AmgKernels.galerkin`.

Those of A P are full, too, if A's are, or where A has lost couplings of nodes that are held: then only A P is made by
numbers.
"""

from typing import Any

from dsolver.kernels.amg import BlockSizes
from dsolver.kernels.cuda.sparse.blocks.mirrors import mirror, transposed
from dsolver.kernels.cuda.sparse.blocks.products import block_product, factors
from dsolver.kernels.cuda.sparse.blocks.rows import in_blocks
from dsolver.kernels.cuda.sparse.products import galerkin as scalar
from dsolver.kernels.cuda.sparse.products.mirrors import fill_lost, symmetrize
from dsolver.kernels.cuda.sparse.products.product import product
from dsolver.kernels.formats.csr import Csr


def galerkin(
    a: Csr, p: Csr, columns: int, diagonal: Any, blocks: BlockSizes, *, symmetric: bool = False
) -> tuple[Csr, Csr]:
    left, right = factors(a, p, columns, blocks)
    if right is None:
        return scalar.galerkin(a, p, columns, diagonal, symmetric=symmetric)
    turned = transposed(right, columns)
    r = turned.plain
    if left is None:
        by_numbers = product(a, p, columns, ascending=False)
        (ap,) = in_blocks((by_numbers, blocks.rows, blocks.columns))
    else:
        ap = block_product(left, right, columns, ascending=False)[0]
    if ap is None:
        whole, plain = None, product(r, by_numbers, columns, ascending=symmetric)
    else:
        made, long = block_product(turned, ap, columns, ascending=symmetric)
        whole, plain = (made, made.plain) if long is None else (None, long)
    fill_lost(plain, 0, r, diagonal)
    if symmetric and whole is not None:
        mirror(whole)
    elif symmetric:
        symmetrize(plain)
    return r, plain
