// Vectors side by side, the columns of an array (columns, items): their products with each other, and combinations of them.

#include "slices.cuh"

constexpr int TILE = 32;      // items that a block of threads has in shared memory
constexpr int ROWS = 64;      // columns of s for which a block makes products
constexpr int COLUMNS = 16;   // and of t
constexpr int PER_THREAD = ROWS * COLUMNS / 256;
constexpr int OUTPUTS = 4;    // combinations that a thread makes at once

// Products of ROWS columns of s (blockIdx.y) with COLUMNS of t (blockIdx.z) on every gridDim.x-th tile: 8 (rows + columns)
// bytes an item. A thread adds its products item after item; partials: a sum of each block, (blocks, rows, columns).
extern "C" __global__ void block_products(
    const real* __restrict__ s, const real* __restrict__ t, int rows, int columns, long long items, double* __restrict__ partials
) {
    __shared__ double from_s[ROWS][TILE + 1], from_t[COLUMNS][TILE + 1];
    next_may_start();
    wait_for_last_launch();
    const int first_row = blockIdx.y * ROWS, first_column = blockIdx.z * COLUMNS;
    const int some_rows = min(ROWS, rows - first_row), some_columns = min(COLUMNS, columns - first_column);
    const int column = threadIdx.x % COLUMNS, row = threadIdx.x / COLUMNS;
    double sums[PER_THREAD] = {};
    for (long long tile = blockIdx.x; tile * TILE < items; tile += gridDim.x) {
        const int lane = threadIdx.x % TILE;
        const long long item = tile * TILE + lane;
        __syncthreads();
        for (int i = threadIdx.x / TILE; i < some_rows; i += blockDim.x / TILE)
            from_s[i][lane] = item < items ? static_cast<double>(__ldg(s + (first_row + i) * items + item)) : 0.0;
        for (int j = threadIdx.x / TILE; j < some_columns; j += blockDim.x / TILE)
            from_t[j][lane] = item < items ? static_cast<double>(__ldg(t + (first_column + j) * items + item)) : 0.0;
        __syncthreads();
        if (column >= some_columns) continue;
        for (int k = 0; k < TILE; ++k) {
            const double value = from_t[column][k];
#pragma unroll
            for (int u = 0; u < PER_THREAD; ++u)
                if (row + u * (ROWS / PER_THREAD) < some_rows)
                    sums[u] = fma(from_s[row + u * (ROWS / PER_THREAD)][k], value, sums[u]);
        }
    }
    if (column >= some_columns) return;
    double* out = partials + static_cast<long long>(blockIdx.x) * rows * columns;
#pragma unroll
    for (int u = 0; u < PER_THREAD; ++u) {
        const int i = row + u * (ROWS / PER_THREAD);
        if (i < some_rows) out[(first_row + i) * columns + first_column + column] = sums[u];
    }
}

// The sums of the blocks' products, first to last. A thread each.
extern "C" __global__ void block_sums(const double* __restrict__ partials, int blocks, int count, double* __restrict__ out) {
    next_may_start();
    wait_for_last_launch();
    const int number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= count) return;
    double sum = 0.0;
    for (int b = 0; b < blocks; ++b) sum += __ldcg(partials + static_cast<long long>(b) * count + number);
    out[number] = sum;
}

// t = keep t + s C on tiles of `tile` items: 8 (used + columns) bytes an item. used: which columns of s C has rows for. They
// are in shared memory before any of t is written, so t may be columns of s.
extern "C" __global__ void combine(
    double keep, const real* s, const int* __restrict__ used, int count, const double* __restrict__ c, real* t, int columns,
    long long items, int tile
) {
    extern __shared__ double from_s[];
    next_may_start();
    wait_for_last_launch();
    const int lane = threadIdx.x % tile, group = threadIdx.x / tile, groups = blockDim.x / tile;
    for (long long first = static_cast<long long>(blockIdx.x) * tile; first < items; first += static_cast<long long>(gridDim.x) * tile) {
        const long long item = first + lane;
        __syncthreads();
        if (item < items)
            for (int k = group; k < count; k += groups) from_s[k * tile + lane] = s[used[k] * items + item];
        __syncthreads();
        if (item >= items) continue;
        for (int j = group * OUTPUTS; j < columns; j += groups * OUTPUTS) {
            double sums[OUTPUTS];
#pragma unroll
            for (int u = 0; u < OUTPUTS; ++u)
                sums[u] = keep != 0.0 && j + u < columns ? keep * t[(j + u) * items + item] : 0.0;
            for (int k = 0; k < count; ++k) {
                const double value = from_s[k * tile + lane];
#pragma unroll
                for (int u = 0; u < OUTPUTS; ++u)
                    if (j + u < columns) sums[u] = fma(value, __ldg(c + k * columns + j + u), sums[u]);
            }
#pragma unroll
            for (int u = 0; u < OUTPUTS; ++u)
                if (j + u < columns) t[(j + u) * items + item] = sums[u];
        }
    }
}

// t = d s for each column: 16 bytes an item of a column, and 8 an item.
extern "C" __global__ void times(
    const real* __restrict__ d, const real* __restrict__ s, real* __restrict__ t, int columns, long long items
) {
    next_may_start();
    wait_for_last_launch();
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= items) return;
    const real factor = __ldg(d + i);
    for (int j = 0; j < columns; ++j) t[j * items + i] = factor * __ldg(s + j * items + i);
}
