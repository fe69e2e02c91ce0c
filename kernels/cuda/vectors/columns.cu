// Vectors side by side, the columns of an array (columns, items): their products with each other, and combinations of them.

#include "slices.cuh"

constexpr int THREADS = 256;
constexpr int TILE = 32;            // items of which a block has all columns in shared memory
constexpr int ROWS = 48;            // columns of s with which a block makes products
constexpr int COLUMNS = 32;         // and of t
constexpr int DOWN = 6;             // columns of s with which a thread does
constexpr int ACROSS = 4;           // and of t: 10 numbers are read from shared memory for 24 products
constexpr int LINES = THREADS / TILE;
constexpr int REQUESTED = (ROWS + COLUMNS) / LINES;  // numbers that a thread has requested for the next tile
constexpr int SLICES = THREADS / 32;             // of the blocks' sums that are added side by side
constexpr int ITEMS = 4;            // items of which a thread makes combinations
constexpr int OUTPUTS = 4;          // and how many of each

// A line of a tile: an item of a column of s, or behind these of t.
DEVICE double item_of(In<real> s, In<real> t, int line, int rows, int lines, long long item, long long items) {
    if (line >= lines || item >= items) return 0.0;
    return static_cast<double>(__ldg(line < rows ? s + line * items + item : t + (line - rows) * items + item));
}

// Products of ROWS columns of s (blockIdx.y) with COLUMNS of t (blockIdx.z) on every gridDim.x-th tile: 8 (rows + columns)
// bytes an item. Teams of threads make all of them, each on some items of a tile, while the next tile is on its way.
// partials: a sum of each block, (blocks, rows, columns).
extern "C" __global__ void __launch_bounds__(THREADS, 2) block_products(
    In<real> s, In<real> t, int rows, int columns, long long items, Out<double> partials
) {
    __shared__ double tile[ROWS + COLUMNS + DOWN + ACROSS][TILE + 1];
    next_may_start();
    wait_for_last_launch();
    const int first_row = blockIdx.y * ROWS, first_column = blockIdx.z * COLUMNS;
    const int some_rows = min(ROWS, rows - first_row), some_columns = min(COLUMNS, columns - first_column);
    const int lines = some_rows + some_columns, lane = threadIdx.x % TILE, line = threadIdx.x / TILE;
    const int down = (some_rows + DOWN - 1) / DOWN, across = (some_columns + ACROSS - 1) / ACROSS;
    const int members = down * across, teams = THREADS / members, team = threadIdx.x / members;
    const int row = threadIdx.x % members / across, column = threadIdx.x % members % across;
    s += first_row * items;
    t += first_column * items;
    double sums[DOWN][ACROSS] = {}, next[REQUESTED];
    const long long stride = static_cast<long long>(gridDim.x) * TILE;
    long long item = static_cast<long long>(blockIdx.x) * TILE + lane;
    UNROLLED for (int a = 0; a < REQUESTED; ++a)
        next[a] = item_of(s, t, line + a * LINES, some_rows, lines, item, items);
    for (; item - lane < items; item += stride) {
        __syncthreads();
        UNROLLED for (int a = 0; a < REQUESTED; ++a) tile[line + a * LINES][lane] = next[a];
        __syncthreads();
        UNROLLED for (int a = 0; a < REQUESTED; ++a)
            next[a] = item_of(s, t, line + a * LINES, some_rows, lines, item + stride, items);
        if (team >= teams) continue;
        for (int k = team; k < TILE; k += teams) {
            double of_s[DOWN], of_t[ACROSS];
            UNROLLED for (int u = 0; u < DOWN; ++u) of_s[u] = tile[row + u * down][k];
            UNROLLED for (int v = 0; v < ACROSS; ++v) of_t[v] = tile[some_rows + column + v * across][k];
            UNROLLED for (int u = 0; u < DOWN; ++u)
                UNROLLED for (int v = 0; v < ACROSS; ++v) sums[u][v] = fma(of_s[u], of_t[v], sums[u][v]);
        }
    }
    double* of_teams = &tile[0][0];
    double* out = partials + static_cast<long long>(blockIdx.x) * rows * columns;
    UNROLLED for (int u = 0; u < DOWN; ++u)
        UNROLLED for (int v = 0; v < ACROSS; ++v) {
            const int i = row + u * down, j = column + v * across;
            if (u * down >= some_rows || v * across >= some_columns) continue;  // of all threads
            __syncthreads();
            of_teams[threadIdx.x] = sums[u][v];
            __syncthreads();
            if (threadIdx.x >= members || i >= some_rows || j >= some_columns) continue;
            double sum = 0.0;
            for (int each = 0; each < teams; ++each) sum += of_teams[each * members + threadIdx.x];
            out[(first_row + i) * columns + first_column + j] = sum;
        }
}

// Squares of each column (blockIdx.y): 8 bytes an item. partials: a sum of each block, (blocks, columns).
extern "C" __global__ void block_squares(In<real> s, long long items, Out<double> partials) {
    __shared__ double of_warp[THREADS / SLICE];
    next_may_start();
    wait_for_last_launch();
    const real* x = s + blockIdx.y * items;
    double sum = 0.0;
#pragma unroll 4
    for (long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; i < items; i += static_cast<long long>(gridDim.x) * THREADS) {
        const double value = __ldg(x + i);
        sum = fma(value, value, sum);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % SLICE == 0) of_warp[threadIdx.x / SLICE] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int warp = 1; warp < THREADS / SLICE; ++warp) sum += of_warp[warp];
    partials[static_cast<long long>(blockIdx.x) * gridDim.y + blockIdx.y] = sum;
}

// The sums of the blocks' numbers: every SLICES-th block's first to last, then those.
extern "C" __global__ void block_sums(In<double> partials, int blocks, int count, Out<double> out) {
    __shared__ double sums[SLICES][32];
    next_may_start();
    wait_for_last_launch();
    const int lane = threadIdx.x % 32, slice = threadIdx.x / 32, number = blockIdx.x * 32 + lane;
    double sum = 0.0;
    if (number < count)
        for (int b = slice; b < blocks; b += SLICES) sum += __ldcg(partials + static_cast<long long>(b) * count + number);
    sums[slice][lane] = sum;
    __syncthreads();
    if (slice > 0 || number >= count) return;
    for (int other = 1; other < SLICES; ++other) sum += sums[other][lane];
    out[number] = sum;
}

// t = keep t + s C on tiles of `tile` items: 8 (used + columns) bytes an item. table: the columns of s that C has rows for,
// an even number of places, and these rows, of a multiple of OUTPUTS columns. A tile is in shared memory before any of t is
// written, so t may be columns of s.
extern "C" __global__ void combine(
    double keep, const real* s, In<double> table, int count, real* t, int columns, long long items, int tile
) {
    extern __shared__ double from_s[];
    next_may_start();
    wait_for_last_launch();
    const int lanes = tile / ITEMS, lane = threadIdx.x % lanes, group = threadIdx.x / lanes, groups = blockDim.x / lanes;
    const int width = (columns + OUTPUTS - 1) / OUTPUTS * OUTPUTS;
    const double* c = table + (count + count % 2);
    for (long long first = static_cast<long long>(blockIdx.x) * tile; first < items; first += static_cast<long long>(gridDim.x) * tile) {
        __syncthreads();
        for (int k = group; k < count; k += groups) {
            const real* column = s + static_cast<long long>(__ldg(table + k)) * items + first;
            UNROLLED for (int m = 0; m < ITEMS; ++m) {
                const int i = lane + m * lanes;
                from_s[k * tile + i] = first + i < items ? static_cast<double>(column[i]) : 0.0;
            }
        }
        __syncthreads();
        for (int j = group * OUTPUTS; j < columns; j += groups * OUTPUTS) {
            double sums[ITEMS][OUTPUTS] = {};
            if (keep != 0.0)
                UNROLLED for (int m = 0; m < ITEMS; ++m)
                    UNROLLED for (int u = 0; u < OUTPUTS; ++u)
                        if (first + lane + m * lanes < items && j + u < columns)
                            sums[m][u] = keep * t[(j + u) * items + first + lane + m * lanes];
            for (int k = 0; k < count; ++k) {
                const double2* factors = reinterpret_cast<const double2*>(c + k * width + j);
                const double2 low = __ldg(factors), high = __ldg(factors + 1);
                const double factor[OUTPUTS] = {low.x, low.y, high.x, high.y};
                UNROLLED for (int m = 0; m < ITEMS; ++m) {
                    const double value = from_s[k * tile + lane + m * lanes];
                    UNROLLED for (int u = 0; u < OUTPUTS; ++u) sums[m][u] = fma(value, factor[u], sums[m][u]);
                }
            }
            UNROLLED for (int m = 0; m < ITEMS; ++m)
                UNROLLED for (int u = 0; u < OUTPUTS; ++u)
                    if (first + lane + m * lanes < items && j + u < columns)
                        t[(j + u) * items + first + lane + m * lanes] = sums[m][u];
        }
    }
}

// t = d s for each column: 16 bytes an item of a column, and 8 an item.
extern "C" __global__ void times(In<real> d, In<real> s, Out<real> t, int columns, long long items) {
    next_may_start();
    wait_for_last_launch();
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= items) return;
    const real factor = __ldg(d + i);
    for (int j = 0; j < columns; ++j) t[j * items + i] = factor * __ldg(s + j * items + i);
}
