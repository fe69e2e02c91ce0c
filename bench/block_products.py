"""Galerkin products of elasticity on one GPU, by blocks and by numbers in the same run.

    python bench/block_products.py [--points 40 80] [--levels 2]

A is that of `elastic` in bench/amg_csr.py, with 3 unknowns a node. Aggregates are bricks of 2 x 2 x 3 nodes; each node
has 3 x 6 random numbers there, which A smooths once: P. The next level has the rows of R A P, and 6 unknowns a node.
Both ways make the same bits, or the run stops. Times are the best of several by the clock, the GPU idle before and
after. "least": what bytes take at the GPU's copy rate that are read or written once, or what multiplications and
additions take that are not contracted, whatever is longer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cupy
import numpy as np
from amg_csr import elastic
from lib.timing import best

from dsolver.kernels.amg import BlockSizes
from dsolver.kernels.cuda.sparse.blocks import galerkin as block_galerkin
from dsolver.kernels.cuda.sparse.blocks import mirrors as block_mirrors
from dsolver.kernels.cuda.sparse.blocks import products as block_products
from dsolver.kernels.cuda.sparse.blocks.rows import in_blocks
from dsolver.kernels.cuda.sparse.products import galerkin, mirrors
from dsolver.kernels.cuda.sparse.products import product as scalar
from dsolver.kernels.formats.csr import Csr

COPIED, OPERATIONS = 4.2e12, 17e12
"""Bytes, and multiplications or additions of float64 without contraction, in a second on an H200."""
MODES, BRICK = 6, (2, 2, 3)


class Level(NamedTuple):
    """Rows of a level, its lattice of nodes, and the unknowns of each."""

    a: Csr
    nodes: tuple[int, ...]
    size: int


def finest(points: int) -> Level:
    rows = elastic(cupy, points - 1).rows
    return Level(Csr(rows.indptr.astype(np.int64), rows.indices, rows.data), (points - 1, points, points), 3)


def tentative(level: Level) -> tuple[Csr, tuple[int, ...]]:
    """Random blocks of each node in the columns of its brick, and the lattice of bricks."""
    bricks = tuple(-(-count // step) for count, step in zip(level.nodes, BRICK, strict=True))
    at = cupy.meshgrid(
        *[cupy.arange(count) // step for count, step in zip(level.nodes, BRICK, strict=True)], indexing="ij"
    )
    brick = cupy.repeat(((at[0] * bricks[1] + at[1]) * bricks[2] + at[2]).ravel(), level.size)
    columns = (MODES * brick[:, None] + cupy.arange(MODES)).astype(np.int32).ravel()
    start = cupy.arange(0, len(columns) + 1, MODES, dtype=np.int64)
    return Csr(start, columns, cupy.random.default_rng(3).standard_normal(len(columns))), bricks


def transposed(p: Csr, size: int, columns: int) -> Csr:
    (whole,) = in_blocks((p, size, MODES))
    assert whole is not None
    return block_mirrors.transposed(whole, columns).plain


def arrays(made: Any) -> Iterator[Any]:
    """All arrays of a result."""
    for part in made:
        if isinstance(part, tuple):
            yield from arrays(part)
        elif hasattr(part, "nbytes"):
            yield part


def compare(title: str, least: float, by_numbers: Callable[[], Any], by_blocks: Callable[[], Any]) -> Any:
    """Print times of both ways, and what part the fast one's least is; returns what they have made."""
    expected, slow = best(by_numbers)
    found, fast = best(by_blocks)
    slow, fast = 1e3 * slow, 1e3 * fast
    for one, other in zip(arrays(found), arrays(expected), strict=True):
        if not bool((one.view(np.int32) == other.view(np.int32)).all()):
            raise SystemExit(f"{title}: other bits")
    print(f"  {title:12}{slow:10.2f}{fast:10.2f}{slow / fast:8.1f}{least:10.2f}{least / fast:8.2f}", flush=True)
    return expected


def least_of(a: Csr, b: Csr, c: Csr) -> float:
    """Milliseconds of C = A B."""
    terms = int((b.start[a.columns + 1] - b.start[a.columns]).sum())
    return 1e3 * max(sum(part.nbytes for part in arrays((a, b, c))) / COPIED, 2.0 * terms / OPERATIONS)


def product(title: str, a: Csr, b: Csr, columns: int, sizes: BlockSizes, *, ascending: bool) -> Csr:
    made = scalar.product(a, b, columns, ascending=ascending)
    least = least_of(a, b, made)
    del made
    return Csr(
        *compare(
            title,
            least,
            lambda: scalar.product(a, b, columns, ascending=ascending),
            lambda: block_products.product(a, b, columns, sizes, ascending=ascending),
        )
    )


def measured(number: int, level: Level) -> Level:
    """Compare all products of a level; returns the next one."""
    a, size = level.a, level.size
    sizes, (rough, bricks) = BlockSizes(size, size, MODES), tentative(level)
    columns = MODES * int(np.prod(bricks))
    print(f"  level {number:2}       numbers    blocks   times     least of least   {a.size:,} rows", flush=True)
    p = product("P", a, rough, columns, sizes, ascending=True)
    ap = product("A P", a, p, columns, sizes, ascending=False)
    turned = 2e3 * sum(part.nbytes for part in p) / COPIED
    r = Csr(*compare("R", turned, lambda: mirrors.transposed(p, columns), lambda: transposed(p, size, columns)))
    coarse = product("R (A P)", r, ap, columns, sizes.restricted, ascending=True)
    least = least_of(a, p, ap) + turned + least_of(r, ap, coarse)
    means = [len(m.columns) / m.size / width for m, width in ((a, size), (p, MODES), (ap, MODES), (coarse, MODES))]
    del r, ap, coarse
    diagonal = cupy.ones(a.size)
    _, coarse, _ = compare(
        "R, R A P",
        least,
        lambda: galerkin.galerkin(a, p, columns, diagonal, symmetric=True),
        lambda: block_galerkin.galerkin(a, p, columns, diagonal, sizes, symmetric=True),
    )
    print("  blocks in a row of A, P, A P and R A P:", *(f"{mean:.1f}" for mean in means), flush=True)
    return Level(coarse, bricks, MODES)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--points", type=int, nargs="+", default=[40, 80])
    options.add_argument("--levels", type=int, default=2)
    chosen = options.parse_args()
    for points in chosen.points:
        print(f"elastic {points}: ms", flush=True)
        level = finest(points)
        for number in range(chosen.levels):
            level = measured(number, level)
        del level
        cupy.get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    main()
