// Products of rows padded to the longest: a thread a row, 12 bytes an entry and a hole, x and y.

#include "slices.cuh"

constexpr int THREADS = 256;

template <bool WITH_DOT>
__device__ __forceinline__ void multiply(
    const int* columns, const real* values, const real* x, real* y, double* partials, int rows, int width
) {
    next_may_start();
    const int row = blockIdx.x * THREADS + threadIdx.x;
    wait_for_last_launch();
    real sum = 0;
    if (row < rows) {
        long long at = row;
#pragma unroll 4
        for (int k = 0; k < width; ++k, at += rows) {
            const int c = __ldcs(columns + at);
            const real a = __ldcs(values + at);
            if (c >= 0) sum = fma(a, x[c], sum);
        }
        y[row] = sum;
    }
    if constexpr (WITH_DOT) {
        const double part = warp_sum(row < rows ? static_cast<double>(x[row]) * sum : 0.0);
        if (lane_number() == 0 && row < rows) partials[row / SLICE] = part;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) spmv(
    const int* __restrict__ columns, const real* __restrict__ values, const real* x, real* y, int rows, int width
) {
    multiply<false>(columns, values, x, y, nullptr, rows, width);
}

extern "C" __global__ void __launch_bounds__(THREADS) spmv_dot(
    const int* __restrict__ columns, const real* __restrict__ values, const real* x, real* y, double* partials,
    int rows, int width
) {
    multiply<true>(columns, values, x, y, partials, rows, width);
}

// The table of compressed rows: holes have column -1.
extern "C" __global__ void tabulate(
    const long long* __restrict__ start, const int* __restrict__ from, const real* __restrict__ entries, int* columns,
    real* values, int rows, int width
) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const long long first = start[row], last = start[row + 1];
    long long at = row;
    for (int k = 0; k < width; ++k, at += rows) {
        const bool there = first + k < last;
        columns[at] = there ? from[first + k] : -1;
        values[at] = there ? entries[first + k] : real(0);
    }
}
