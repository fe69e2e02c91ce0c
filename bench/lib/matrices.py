"""Sparse matrices of all kinds, made from nothing: meshes, lattices, graphs, coarse levels.

    python bench/lib/matrices.py FOLDER [--scale 1.0] [--only NAME ...] [--processes 4]

Each becomes FOLDER/NAME.npz of `scipy.sparse.save_npz`, uncompressed.
`--scale` multiplies the number of rows, about 10⁶ to 10⁷ as they are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.spatial import Delaunay, cKDTree

Matrix = Any
"""A `scipy.sparse.csr_array` with ascending columns and no duplicates."""


# -- orders ------------------------------------------------------------------------------------------------------------


def reordered(a: Matrix, order: Any, block: int = 1) -> Matrix:
    """Rows and columns in another order, blocks of them together."""
    if block > 1:
        order = (block * np.asarray(order)[:, None] + np.arange(block)).reshape(-1)
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    made = a.tocsr()[order]
    made.indices = place[made.indices].astype(made.indptr.dtype, copy=False)
    made.has_sorted_indices = False
    made.sort_indices()
    return made


def shuffled(a: Matrix) -> Matrix:
    return reordered(a, np.random.default_rng(5).permutation(a.shape[0]))


def banded_order(a: Matrix) -> Matrix:
    """Reverse Cuthill-McKee."""
    return reordered(a, reverse_cuthill_mckee(sparse.csr_matrix(a), symmetric_mode=True))


# -- lattices ----------------------------------------------------------------------------------------------------------


def stencil(shape: tuple[int, ...], weights: dict[tuple[int, ...], float]) -> Matrix:
    """Rows of a lattice, the last axis fastest: an entry for each offset whose point is inside."""
    rows = int(np.prod(shape))
    axes = [np.arange(n) for n in shape]
    offsets = sorted(weights)
    strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    inside = []
    for offset in offsets:
        there = np.ones((1,) * len(shape), dtype=np.bool_)
        for axis, (step, n) in enumerate(zip(offset, shape, strict=True)):
            along = (axes[axis] + step >= 0) & (axes[axis] + step < n)
            there = there & along.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        inside.append(np.broadcast_to(there, shape).reshape(-1))
    there = np.stack(inside, axis=1)
    start = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(there.sum(axis=1), out=start[1:])
    steps = np.array([sum(s * d for s, d in zip(strides, offset, strict=True)) for offset in offsets], dtype=np.int32)
    columns = (np.arange(rows, dtype=np.int32)[:, None] + steps)[there]
    values = np.broadcast_to([weights[offset] for offset in offsets], there.shape)[there]
    return csr(values, columns, start, rows)


def csr(values: Any, columns: Any, start: Any, rows: int) -> Matrix:
    small = np.int32 if len(columns) < 2**31 else np.int64
    made = sparse.csr_array((values, columns.astype(small, copy=False), start.astype(small)), shape=(rows, rows))
    made.has_sorted_indices = made.has_canonical_format = True
    return made


def star(dimensions: int, shift: float = 0.0) -> dict[tuple[int, ...], float]:
    out = {(0,) * dimensions: 2.0 * dimensions}
    for axis, step in product(range(dimensions), (-1, 1)):
        offset = tuple(step if i == axis else 0 for i in range(dimensions))
        out[offset] = -1.0 - step * shift
    return out


def box(center: float = 26.0) -> dict[tuple[int, ...], float]:
    return {o: center if o == (0, 0, 0) else -1.0 for o in product((-1, 0, 1), repeat=3)}


def rotated_anisotropy(angle: float = 0.5, ratio: float = 1e-3) -> dict[tuple[int, ...], float]:
    """Bilinear elements for diffusion that is `ratio` times weaker across a direction."""
    c, s = np.cos(angle), np.sin(angle)
    xx, yy, xy = c * c + ratio * s * s, s * s + ratio * c * c, (1 - ratio) * c * s
    mass, stiff, slope = np.array([1, 4, 1]) / 6, np.array([-1, 2, -1]), np.array([-1, 0, 1]) / 2
    table = xx * np.outer(mass, stiff) + yy * np.outer(stiff, mass) - 2 * xy * np.outer(slope, slope)
    return {(j - 1, i - 1): float(table[j, i]) for j, i in product(range(3), repeat=2)}


# -- meshes ------------------------------------------------------------------------------------------------------------


def mesh(points: int, seed: int = 1) -> tuple[Any, Any, Any, Any]:
    """Tetrahedra between random points of a cube: points, corners of each, gradients (cells, 4, 3), volumes."""
    p = np.random.default_rng(seed).random((points, 3))
    cells = Delaunay(p).simplices
    edges = p[cells[:, 1:]] - p[cells[:, :1]]
    volume = np.linalg.det(edges)
    good = np.abs(volume) > 1e-4 / points
    cells, edges, volume = cells[good], edges[good], np.abs(volume[good]) / 6
    inner = np.linalg.inv(edges).transpose(0, 2, 1)
    return p, cells, np.concatenate([-inner.sum(axis=1, keepdims=True), inner], axis=1), volume


def assembled(local: Any, numbers: Any, size: int) -> Matrix:
    """Element matrices (cells, k, k) of unknowns (cells, k), with one added to the diagonal."""
    k = numbers.shape[1]
    rows, columns = np.repeat(numbers, k, axis=1).reshape(-1), np.tile(numbers, (1, k)).reshape(-1)
    made = sparse.coo_array((local.reshape(-1), (rows, columns)), shape=(size, size)).tocsr()
    made = (made + sparse.eye_array(size, format="csr")).tocsr()
    made.sum_duplicates()
    made.sort_indices()
    return made


def tetrahedra_p1(points: int) -> Matrix:
    _, cells, gradients, volume = mesh(points)
    return assembled(np.einsum("cid,cjd,c->cij", gradients, gradients, volume), cells, points)


def tetrahedra_p2(points: int) -> Matrix:
    """Quadratic elements: an unknown at each point and in the middle of each edge."""
    _, cells, gradients, volume = mesh(points)
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    ends = np.sort(np.stack([cells[:, pair] for pair in pairs], axis=1), axis=2)
    keys, edge = np.unique(ends[..., 0].astype(np.int64) * points + ends[..., 1], return_inverse=True)
    numbers = np.concatenate([cells, points + edge.reshape(len(cells), 6)], axis=1)
    local = np.zeros((len(cells), 10, 10))
    far, near = (5 - 5**0.5) / 20, (5 + 3 * 5**0.5) / 20
    for corner in range(4):  # exact for quadratic integrands
        at = np.full(4, far)
        at[corner] = near
        slopes = [(4 * at[i] - 1) * gradients[:, i] for i in range(4)]
        slopes += [4 * (at[i] * gradients[:, j] + at[j] * gradients[:, i]) for i, j in pairs]
        g = np.stack(slopes, axis=1)
        local += np.einsum("cid,cjd,c->cij", g, g, volume / 4)
    return assembled(local, numbers, points + len(keys))


def elasticity(points: int) -> Matrix:
    """Linear elements with three displacements a point: dense 3 x 3 blocks."""
    _, cells, g, volume = mesh(points)
    same = np.einsum("cid,cjd->cij", g, g)
    local = np.einsum("cia,cjb,c->ciajb", g, g, volume) + np.einsum("cib,cja,c->ciajb", g, g, volume)
    local += np.einsum("cij,ab,c->ciajb", same, np.eye(3), volume)
    numbers = (3 * cells[:, :, None].astype(np.int64) + np.arange(3)).reshape(len(cells), 12)
    return assembled(local.reshape(len(cells), 12, 12), numbers, 3 * points)


def elasticity_banded(points: int) -> Matrix:
    a = elasticity(points)
    graph = a[::3][:, ::3]
    return reordered(a, reverse_cuthill_mckee(sparse.csr_matrix(graph), symmetric_mode=True), 3)


# -- graphs ------------------------------------------------------------------------------------------------------------


def laplacian(rows: Any, columns: Any, size: int) -> Matrix:
    """Laplacian of a graph with these edges, and one on the diagonal."""
    ones = np.ones(len(rows))
    a = sparse.coo_array((ones, (rows, columns)), shape=(size, size)).tocsr()
    a = a + a.T
    a.data[:] = -1.0
    a.setdiag(0)
    a.eliminate_zeros()
    made = (a + sparse.diags_array(1.0 - a.sum(axis=1), format="csr")).tocsr()
    made.sum_duplicates()
    made.sort_indices()
    return made


def rmat(levels: int, edges: int, parts: tuple[float, float, float] = (0.57, 0.19, 0.19)) -> Matrix:
    """A recursive random graph (Chakrabarti, Zhan, Faloutsos 2004): rows' lengths follow a power law."""
    rng = np.random.default_rng(2)
    rows, columns = np.zeros(edges, dtype=np.int64), np.zeros(edges, dtype=np.int64)
    a, b, c = parts
    for _ in range(levels):
        u = rng.random(edges, dtype=np.float32)
        rows = 2 * rows + (u >= a + b)
        columns = 2 * columns + (((u >= a) & (u < a + b)) | (u >= a + b + c))
    return laplacian(rows, columns, 1 << levels)


def geometric(points: int, degree: float = 12.0) -> Matrix:
    """Random points of a square, each connected to those within a radius."""
    p = np.random.default_rng(3).random((points, 2))
    pairs = cKDTree(p).query_pairs(np.sqrt(degree / (np.pi * points)), output_type="ndarray")
    return laplacian(pairs[:, 0], pairs[:, 1], points)


# -- others ------------------------------------------------------------------------------------------------------------


def arrow(rows: int) -> Matrix:
    """A tridiagonal matrix with a full last row and column."""
    i = np.arange(rows - 1)
    last = np.full(rows - 1, rows - 1)
    at = np.concatenate([i, i[:-1], last]), np.concatenate([i, i[1:], i])
    a = sparse.coo_array((np.ones(len(at[0])), at), shape=(rows, rows)).tocsr()
    made = (a + a.T + sparse.eye_array(rows, format="csr")).tocsr()
    made.sort_indices()
    return made


def banded(rows: int, width: int) -> Matrix:
    offsets = np.arange(-width, width + 1)
    made = sparse.diags_array([np.full(rows - abs(k), 1.0 / (1 + abs(k))) for k in offsets], offsets=list(offsets))
    return made.tocsr()


def uniform(rows: int, entries: int, empty: float = 0.0) -> Matrix:
    """So many entries a row anywhere, or none in some rows."""
    rng = np.random.default_rng(4)
    full = np.flatnonzero(rng.random(rows) >= empty)
    at = np.repeat(full, entries), rng.integers(0, rows, len(full) * entries)
    made = sparse.coo_array((np.ones(len(at[0])), at), shape=(rows, rows)).tocsr()
    made.sum_duplicates()
    made.sort_indices()
    return made


def coarse(a: Matrix, levels: int, smoothing: float = 0.66) -> Matrix:
    """A coarse level by smoothed aggregation of neighbors in banded order, 10 rows each."""
    for _ in range(levels):
        a = banded_order(a)
        rows = a.shape[0]
        group = sparse.csr_array((np.ones(rows), np.arange(rows) // 10, np.arange(rows + 1)))
        scaled = sparse.diags_array(smoothing / np.maximum(a.diagonal(), 1e-30), format="csr") @ a
        p = (group - scaled @ group).tocsr() if smoothing else group
        a = (p.T @ (a @ p)).tocsr()
        a.sort_indices()
    return a


def mixed(n: int) -> Matrix:
    """Upwind convection and diffusion on a lattice, coupled to a small graph with long rows."""
    lattice, graph = stencil((n, n, n), star(3, 0.5)), rmat(max(10, int(np.log2(n**3)) - 4), n**3 // 2)
    size, small = lattice.shape[0], graph.shape[0]
    i = np.arange(0, size, 7)
    couple = sparse.coo_array((np.full(len(i), 0.1), (i, i * 31 % small)), shape=(size, small)).tocsr()
    made = sparse.block_array([[lattice, couple], [couple.T, graph]]).tocsr()
    made.sort_indices()
    return made


def edge(scale: float, n: int, dimensions: int = 3) -> int:
    """Points along an axis of a lattice, even."""
    return max(4, 2 * round(n * scale ** (1 / dimensions) / 2))


MATRICES: dict[str, Callable[[float], Matrix]] = {
    "tetra_p1_random": lambda s: shuffled(tetrahedra_p1(int(8e5 * s))),
    "tetra_p1_rcm": lambda s: banded_order(tetrahedra_p1(int(8e5 * s))),
    "tetra_p2_rcm": lambda s: banded_order(tetrahedra_p2(int(1.5e5 * s))),
    "elasticity_rcm": lambda s: elasticity_banded(int(1.5e5 * s)),
    "geometric_random": lambda s: shuffled(geometric(int(2e6 * s))),
    "geometric_rcm": lambda s: banded_order(geometric(int(2e6 * s))),
    "rmat": lambda s: rmat(max(8, int(20 + np.log2(s))), int(1.2e7 * s)),
    "rmat_thin": lambda s: rmat(max(8, int(22 + np.log2(s))), int(1e7 * s), (0.65, 0.15, 0.15)),
    "lattice27": lambda s: stencil((edge(s, 176),) * 3, box()),
    "lattice27_random": lambda s: shuffled(stencil((edge(s, 100),) * 3, box())),
    "lattice27_rcm": lambda s: banded_order(stencil((edge(s, 100),) * 3, box())),
    "lattice7": lambda s: stencil((edge(s, 256),) * 3, star(3)),
    "lattice7_random": lambda s: shuffled(stencil((edge(s, 160),) * 3, star(3))),
    "lattice7_rcm": lambda s: banded_order(stencil((edge(s, 160),) * 3, star(3))),
    "lattice5": lambda s: stencil((edge(s, 3000, 2),) * 2, star(2)),
    "anisotropy9": lambda s: stencil((edge(s, 2400, 2),) * 2, rotated_anisotropy()),
    "elasticity27": lambda s: sparse.kron(stencil((edge(s, 64),) * 3, box()), np.ones((3, 3)) + np.eye(3)).tocsr(),
    "coarse1": lambda s: coarse(tetrahedra_p1(int(6e5 * s)), 1),
    "coarse2": lambda s: coarse(geometric(int(4e6 * s), 8.0), 2),
    "coarse_graph": lambda s: coarse(rmat(max(8, int(21 + np.log2(s))), int(1e7 * s)), 1, 0.0),
    "arrow": lambda s: arrow(int(6e6 * s)),
    "banded": lambda s: banded(int(1e6 * s), 24),
    "uniform": lambda s: uniform(int(2e6 * s), 12),
    "empty_rows": lambda s: uniform(int(4e6 * s), 12, 0.6),
    "mixed": lambda s: mixed(edge(s, 140)),
}


def make(name: str, scale: float, folder: Path) -> tuple[str, Path, float]:
    """A matrix in its file: name, file, seconds."""
    began = time.perf_counter()
    a: Any = sparse.csr_matrix(MATRICES[name](scale))
    a.sum_duplicates()
    assert a.nnz < 2**31
    a.indptr, a.indices = a.indptr.astype(np.int32), a.indices.astype(np.int32)
    path, part = folder / f"{name}.npz", folder / f"{name}.part.npz"
    sparse.save_npz(part, a, compressed=False)
    part.rename(path)  # a process that waits for it finds all of it
    return name, path, time.perf_counter() - began


def all_made(names: list[str], scale: float, folder: Path, processes: int) -> Iterator[tuple[str, Path, float]]:
    """The matrices as they become ready."""
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes) as pool:
        for done in as_completed([pool.submit(make, name, scale, folder) for name in names]):
            yield done.result()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--only", nargs="+", default=tuple(MATRICES), choices=tuple(MATRICES))
    options.add_argument("--processes", type=int, default=4)
    chosen = options.parse_args()
    for name, path, seconds in all_made(list(chosen.only), chosen.scale, chosen.folder, chosen.processes):
        print(f"{name:18} {path.stat().st_size / 1e6:>10.1f} MB, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
