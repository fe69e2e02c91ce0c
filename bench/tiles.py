"""Products y = A x in tiles of 4 x 4, by tensor cores and without, against other formats and cuSPARSE on one GPU.

    python bench/tiles.py

Tiles are those of AmgT (mBSR): a tile that has an entry is stored with its holes, and the columns of tiles as one
number each. A warp makes four rows. Tensor cores take two tiles an instruction (m8n8k4 in float64); without them half a
warp takes a tile. Beside them: the formats of dsolver that fit, the one that its rule chooses, and cuSPARSE's CSR,
sliced ELL and, where blocks are dense, BSR. Matrices have dense blocks of 3, 4 and 6 at each of 27 points of a lattice;
the entries of linear elastic tetrahedra; and 27 points alone. Microseconds, in CUDA graphs, float64.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import amg_csr
import cupy
import numpy as np
from cusparse import Product, VendorError
from matrices import box, stencil
from scipy import sparse
from spmv import Case, chosen_format, in_chunks, in_slices, per_product, theirs
from timing import copy_bandwidth

SOURCE = r"""
__device__ __forceinline__ void multiply(double &c0, double &c1, double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(c0), "+d"(c1) : "d"(a), "d"(b));
}

// Two tiles an instruction, one above the other in A, and their parts of x next to each other in B: the products stand
// in column 0 of rows 0-3 and column 1 of rows 4-7.
extern "C" __global__ void tensor(const long long *start, const int *columns, const double *values, const double *x,
                                  double *y, int rows) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (row >= rows) return;
    const int n = lane >> 2, k = lane & 3;
    double c0 = 0.0, c1 = 0.0;
    long long t = start[row];
    const long long end = start[row + 1];
    for (; t + 8 <= end; t += 8) {
        double a[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            a[i] = __ldcs(values + 16 * (t + 2 * i) + lane);
            b[i] = n < 2 ? x[4 * columns[t + 2 * i + n] + k] : 0.0;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) multiply(c0, c1, a[i], b[i]);
    }
    for (; t < end; t += 2) {
        const bool both = t + 1 < end;
        const double a = both || lane < 16 ? __ldcs(values + 16 * t + lane) : 0.0;
        const double b = n == 0 || (n == 1 && both) ? x[4 * columns[t + n] + k] : 0.0;
        multiply(c0, c1, a, b);
    }
    const double below = __shfl_down_sync(~0u, c1, 16);
    if (lane < 16 && k == 0) y[4 * row + n] = c0 + below;
}

extern "C" __global__ void plain(const long long *start, const int *columns, const double *values, const double *x,
                                 double *y, int rows) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (row >= rows) return;
    const int half = lane >> 4, k = lane & 3;
    double sum = 0.0;
    long long t = start[row];
    const long long end = start[row + 1];
    for (; t + 8 <= end; t += 8) {
        double a[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            a[i] = __ldcs(values + 16 * (t + 2 * i) + lane);
            b[i] = x[4 * columns[t + 2 * i + half] + k];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sum += a[i] * b[i];
    }
    for (; t + half < end; t += 2) sum += __ldcs(values + 16 * t + lane) * x[4 * columns[t + half] + k];
    __syncwarp();
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    sum += __shfl_down_sync(~0u, sum, 16);
    if (lane < 16 && k == 0) y[4 * row + (lane >> 2)] = sum;
}
"""
WARPS = 8


def tiles(case: Case) -> tuple[Any, Any, Any]:
    """Starts, columns and values (tiles, 4, 4) of a matrix in tiles."""
    size, wide = case.host.shape
    row = cupy.asarray(np.repeat(np.arange(size), np.diff(case.host.indptr)))
    column, across = case.csr.columns.astype(np.int64), -(-wide // 4)
    keys, place = cupy.unique((row >> 2) * across + (column >> 2), return_inverse=True)
    values = cupy.zeros(16 * len(keys))
    values[16 * place + 4 * (row & 3) + (column & 3)] = case.csr.values
    start = cupy.searchsorted(keys, across * cupy.arange(-(-size // 4) + 1))
    return start.astype(np.int64), (keys % across).astype(np.int32), values


def in_tiles(case: Case, name: str, made: tuple[Any, Any, Any]) -> dict[str, float]:
    start, columns, values = made
    rows, kernel = len(start) - 1, cupy.RawKernel(SOURCE, name)
    x, y = (cupy.zeros(4 * -(-n // 4)) for n in reversed(case.host.shape))
    x[: len(case.x)] = case.x
    arguments = (start, columns, values, x, y, np.int32(rows))
    run = partial(kernel, (-(-rows // WARPS),), (32 * WARPS,), arguments)
    run()
    found = cupy.asnumpy(y[: case.host.shape[0]])
    error = float((np.abs(found - case.want) / case.size).max())
    nbytes = sum(int(part.nbytes) for part in (start, columns, values)) + case.vector_bytes
    return {"seconds": per_product(run, case.stream), "bytes": nbytes, "error": error}


def dense_blocks(case: Case, block: int) -> dict[str, float]:
    """The vendor's BSR."""
    host = sparse.bsr_array(case.host.tobsr((block, block)))
    arrays = [cupy.asarray(part) for part in (host.indptr, host.indices, host.data)]
    run = Product("BSR", *arrays, case.host.shape, case.x, case.y, block)
    run.prepare()
    return case.measured(run, sum(int(part.nbytes) for part in arrays), 0.0)


def lattice(points: int, block: int) -> Any:
    rng = np.random.default_rng(3)
    made = sparse.csr_matrix(sparse.kron(stencil((points,) * 3, box()), rng.random((block, block)) + 0.5))
    made.sort_indices()
    return made


def elastic(points: int) -> Any:
    return sparse.csr_matrix(amg_csr.elastic(cupy, points).rows.get())


def main() -> None:
    matrices = {
        "27 points, blocks of 4": (lambda: lattice(48, 4), 4),
        "27 points, blocks of 3": (lambda: lattice(56, 3), 3),
        "27 points, blocks of 6": (lambda: lattice(32, 6), 6),
        "elastic tetrahedra": (lambda: elastic(63), 3),
        "27 points": (lambda: lattice(100, 1), 1),
    }
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        copy = copy_bandwidth()
        print(f"copy {copy / 1e9:.0f} GB/s; microseconds, part of copy")
        for name, (make, block) in matrices.items():
            case = Case(make(), "float64", stream)
            made = tiles(case)
            found = {f"tiles, {how}": in_tiles(case, how, made) for how in ("tensor", "plain")}
            found |= in_chunks(case) | in_slices(case)
            vendor = theirs(case)
            if block > 1:
                try:
                    vendor["BSR"] = dense_blocks(case, block)
                except (VendorError, AttributeError) as failed:
                    print(f"    BSR: {failed}")
            best = min(entry["seconds"] for entry in vendor.values())
            print(
                f"{name}: {case.host.shape[0]} rows, {case.entries} entries, {case.entries / len(made[1]):.1f} a tile; "
                f"the rule chooses {chosen_format(case)['name']}"
            )
            for key, entry in (found | vendor).items():
                assert entry["error"] < 1e-13, (name, key, entry["error"])
                print(
                    f"    {key:14} {1e6 * entry['seconds']:7.1f} {entry['bytes'] / entry['seconds'] / copy:6.1%}   "
                    f"{best / entry['seconds']:.2f} times as fast as the vendor's best",
                    flush=True,
                )


if __name__ == "__main__":
    main()
