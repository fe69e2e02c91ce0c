"""R A P on a GPU by blocks, where those of A and P are full."""

from __future__ import annotations

from typing import Any

from dsolver.kernels.amg.setup import BlockSizes
from dsolver.kernels.cuda.amg import galerkin as scalar
from dsolver.kernels.cuda.amg.blocks.mirrors import mirror, transposed
from dsolver.kernels.cuda.amg.blocks.products import block_product, factors
from dsolver.kernels.cuda.amg.mirrors import fill_lost
from dsolver.kernels.cuda.amg.mirrors import mirror as mirror_entries
from dsolver.kernels.formats.csr import Csr


def galerkin(
    a: Csr, p: Csr, columns: int, diagonal: Any, blocks: BlockSizes, *, symmetric: bool = False
) -> tuple[Csr, Csr, int]:
    """See `dsolver.kernels.amg.setup.AlgebraicSetup.galerkin`; blocks: of A, and the columns of those of P."""
    if (found := factors(a, p, columns, blocks)) is None:
        return scalar.galerkin(a, p, columns, diagonal, symmetric=symmetric)
    left, right = found
    r = transposed(right, columns)
    ap = block_product(left, right, columns, ascending=False)[0]
    coarse, long = block_product(r, ap, columns, ascending=symmetric)
    restriction, plain = r.plain, long or coarse.plain
    # Where entries of A have mirror images, so have those of R A P: nobody counts those without.
    fill_lost(plain, 0, restriction, diagonal)
    if symmetric and long:
        mirror_entries(plain)
    elif symmetric:
        mirror(coarse)
    return restriction, plain, 0
