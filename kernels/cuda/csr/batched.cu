// Products of compressed rows with WIDTH vectors at once: an entry's 12 bytes are read once for all of them. Sums are those of
// rows.cu, column by column.

#include "slices.cuh"
#include "sparse/finish.cuh"
#include "sparse/columns.cuh"

constexpr int THREADS = 256;
constexpr int FLIGHT = WIDTH > 4 ? 2 : 4;   // entries that a lane requests at a time, each with WIDTH items

#define CSR const long long* __restrict__ start, const int* __restrict__ columns, const real* __restrict__ values

// Rows with T threads each, their parts added in a fixed tree. WITH_DOT: x . y of each column and block in `partials` (WIDTH,
// blocks).
template <int T, int KIND, bool WITH_DOT>
__device__ __forceinline__ void multiply(CSR, const Finishes finish, double* partials, int rows) {
    next_may_start();
    const long long thread = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
    const int lane = threadIdx.x % T;
    const bool mine = thread / T < rows;
    const int row = mine ? static_cast<int>(thread / T) : rows - 1;
    const long long last = __ldg(start + row + 1);
    long long i = __ldg(start + row) + lane;
    wait_for_last_launch();
    real sums[WIDTH] = {};
    for (; i < last; i += FLIGHT * T) {
        int c[FLIGHT];
        real a[FLIGHT], b[FLIGHT][WIDTH];
#pragma unroll
        for (int k = 0; k < FLIGHT; ++k) c[k] = i + k * T < last ? __ldcs(columns + i + k * T) : -1;
#pragma unroll
        for (int k = 0; k < FLIGHT; ++k) a[k] = c[k] < 0 ? real(0) : __ldcs(values + i + k * T);
#pragma unroll
        for (int k = 0; k < FLIGHT; ++k) {
            if (c[k] < 0) { EACH_COLUMN b[k][n] = real(0); }
            else finish.load<KIND>(b[k], c[k]);
        }
#pragma unroll
        for (int k = 0; k < FLIGHT; ++k) EACH_COLUMN sums[n] = fma(a[k], b[k][n], sums[n]);
    }
#pragma unroll
    for (int distance = T / 2; distance > 0; distance /= 2) {
        EACH_COLUMN sums[n] += __shfl_xor_sync(ALL_LANES, sums[n], distance);
    }
    if (mine && lane == 0) { EACH_COLUMN sums[n] = finish.of(n).write<KIND>(row, sums[n]); }
    if constexpr (WITH_DOT) {
        __shared__ double of_warp[WIDTH][THREADS / SLICE];
        EACH_COLUMN {
            const double part = warp_sum(mine && lane == 0 ? finish.of(n).beside<KIND>(row) * sums[n] : 0.0);
            if (lane_number() == 0) of_warp[n][threadIdx.x / SLICE] = part;
        }
        __syncthreads();
        if (threadIdx.x < WIDTH) {
            double total = 0.0;
            for (int w = 0; w < THREADS / SLICE; ++w) total += of_warp[threadIdx.x][w];
            partials[static_cast<long long>(threadIdx.x) * gridDim.x + blockIdx.x] = total;
        }
    }
}

#define FINISHED_BY(T, NAME, KIND)                                                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME##_##T(CSR, COLUMNS, int rows) {                        \
        multiply<T, KIND, false>(start, columns, values, ALL_COLUMNS, nullptr, rows);                                 \
    }

#define WITH_DOT(T, NAME, KIND)                                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME##_##T(CSR, COLUMNS, double* partials, int rows) {      \
        multiply<T, KIND, true>(start, columns, values, ALL_COLUMNS, partials, rows);                                 \
    }

#define THREADS_OF_ROW(T)                                                                                             \
    FINISHED_BY(T, spmv, PRODUCT)                                                                                     \
    FINISHED_BY(T, sum, SUM)                                                                                          \
    FINISHED_BY(T, residual, RESIDUAL)                                                                                \
    FINISHED_BY(T, sweep, SWEEP)                                                                                      \
    FINISHED_BY(T, first, FIRST)                                                                                      \
    WITH_DOT(T, spmv_dot, PRODUCT)                                                                                    \
    WITH_DOT(T, sweep_dot, SWEEP)

THREADS_OF_ROW(4)
THREADS_OF_ROW(8)
THREADS_OF_ROW(16)
THREADS_OF_ROW(32)
