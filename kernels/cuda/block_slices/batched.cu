// Products of slices of rows of single entries with WIDTH vectors at once: a warp a slice, a thread a row. An entry's value
// and column, 8 to 12 bytes, are read once for all of them. Sums are those of spmv.cu, column by column.

#include "slices.cuh"
#include "block_slices/slices.cuh"
#include "sparse/finish.cuh"
#include "sparse/columns.cuh"

constexpr int WARPS = 4;   // of a block
constexpr int FLIGHT = WIDTH > 4 ? 2 : 4;   // entries that a thread requests at a time, each with WIDTH items

// Entry columns 0 .. width - 1 in order; column(k) is of this lane.
template <int KIND, typename Column>
__device__ __forceinline__ void add_columns(
    real (&sums)[WIDTH], const real* values, int width, const Finishes& finish, const Column& column
) {
    int k = 0;
    for (; k + FLIGHT <= width; k += FLIGHT) {
        int c[FLIGHT];
        real a[FLIGHT], b[FLIGHT][WIDTH];
#pragma unroll
        for (int f = 0; f < FLIGHT; ++f) c[f] = column(k + f);
#pragma unroll
        for (int f = 0; f < FLIGHT; ++f) a[f] = __ldcs(values + (k + f) * SLICE);
#pragma unroll
        for (int f = 0; f < FLIGHT; ++f) finish.load<KIND>(b[f], c[f]);
#pragma unroll
        for (int f = 0; f < FLIGHT; ++f) EACH_COLUMN sums[n] = fma(a[f], b[f][n], sums[n]);
    }
    for (; k < width; ++k) {
        const int c = column(k);
        const real a = __ldcs(values + k * SLICE);
        real b[WIDTH];
        finish.load<KIND>(b, c);
        EACH_COLUMN sums[n] = fma(a, b[n], sums[n]);
    }
}

// WITH_DOT: x . y of each column and slice in `partials` (WIDTH, slices).
template <int KIND, bool WITH_DOT>
__device__ __forceinline__ void multiply(
    const BlockSlice* slices, const unsigned short* indices, const real* values, const int* row, const Finishes finish,
    double* partials, int count, int rows
) {
    next_may_start();
    const int s = warp_number(), lane = lane_number();
    if (s >= count) return;
    const uint4 packed = __ldg(reinterpret_cast<const uint4*>(slices + s));
    const int width = static_cast<int>(packed.z) >> 2, kind = packed.z & 3u, base = static_cast<int>(packed.w);
    const int own = row ? __ldg(row + s * SLICE + lane) : s * SLICE + lane;
    const real* from = values + static_cast<long long>(packed.x) * SLICE + lane;
    const unsigned short* at = indices + static_cast<long long>(packed.y) * UNIT;
    wait_for_last_launch();
    real sums[WIDTH] = {};
    if (kind == RUN) {
        const int* bases = reinterpret_cast<const int*>(at);
        for (int begin = 0; begin < width; begin += SLICE) {
            const int end = min(width - begin, SLICE);
            const int mine = lane < end ? __ldg(bases + begin + lane) : 0;
            add_columns<KIND>(
                sums, from + begin * SLICE, end, finish, [&](int k) { return __shfl_sync(ALL_LANES, mine, k) + lane; });
        }
    } else if (kind == NEAR) {
        at += lane;
        add_columns<KIND>(
            sums, from, width, finish, [&](int k) { return base + static_cast<int>(__ldcs(at + k * SLICE)); });
    } else {
        const int* columns = reinterpret_cast<const int*>(at) + lane;
        add_columns<KIND>(sums, from, width, finish, [&](int k) { return __ldcs(columns + k * SLICE); });
    }
    const bool there = row ? own >= 0 : own < rows;
    if (there) { EACH_COLUMN sums[n] = finish.of(n).write<KIND>(own, sums[n]); }
    if constexpr (WITH_DOT) {
        EACH_COLUMN {
            const double part =
                warp_sum(there ? fma(finish.of(n).beside<KIND>(own), static_cast<double>(sums[n]), 0.0) : 0.0);
            if (lane == 0) partials[static_cast<long long>(n) * count + s] = part;
        }
    }
}

#define SLICES                                                                                                        \
    const BlockSlice* __restrict__ slices, const unsigned short* __restrict__ indices,                                \
        const real* __restrict__ values, const int* __restrict__ row
#define KERNEL(NAME) extern "C" __global__ void __launch_bounds__(WARPS * SLICE) NAME

#define FINISHED_BY(NAME, KIND)                                                                                       \
    KERNEL(NAME)(SLICES, COLUMNS, int count, int rows) {                                                              \
        multiply<KIND, false>(slices, indices, values, row, ALL_COLUMNS, nullptr, count, rows);                       \
    }

#define WITH_DOT(NAME, KIND)                                                                                          \
    KERNEL(NAME)(SLICES, COLUMNS, double* partials, int count, int rows) {                                            \
        multiply<KIND, true>(slices, indices, values, row, ALL_COLUMNS, partials, count, rows);                       \
    }

FINISHED_BY(spmv, PRODUCT)
FINISHED_BY(sum, SUM)
FINISHED_BY(residual, RESIDUAL)
FINISHED_BY(sweep, SWEEP)
FINISHED_BY(first, FIRST)
WITH_DOT(spmv_dot, PRODUCT)
WITH_DOT(sweep_dot, SWEEP)
