// Vectors side by side, the columns of an array (columns, items): their products with each other, and combinations of them.
// Items are a multiple of SLICE, as of all vectors in storage order.
//
// Tensor cores make products: of an 8 x 4 matrix lane l has row l / 4 and column l % 4, of a 4 x 8 one column l / 4 and row
// l % 4, and of their product row l / 4 and columns 2 (l % 4) and the one after. So each lane loads its numbers from
// memory in 16 bytes, and none goes through shared memory.

#include "slices.cuh"

constexpr int THREADS = 256;
constexpr int SLICES = THREADS / 32;             // of the blocks' sums that are added side by side
constexpr int WARPS = 4;            // of a block that makes products
constexpr int STEP = 16;            // items that a warp takes at once: 128 bytes of a column
constexpr int DOWN = 5;             // eights of columns of s with which a warp makes products
constexpr int ACROSS = 3;           // and of t
constexpr int ITEMS = 4;            // items of which a thread makes combinations
constexpr int OUTPUTS = 4;          // and how many of each
constexpr int TOGETHER = 4;         // columns whose residuals a thread makes, which reads the weights of items once for them

struct __align__(2 * sizeof(real)) Pair {
    real x, y;
};

DEVICE double2 pair_at(const real* where) {
    const Pair pair = *reinterpret_cast<const Pair*>(where);
    return {static_cast<double>(pair.x), static_cast<double>(pair.y)};
}

DEVICE void set_pair(real* where, double x, double y) {
    *reinterpret_cast<Pair*>(where) = {static_cast<real>(x), static_cast<real>(y)};
}

// c += a b of such matrices; all lanes of the warp come here.
DEVICE void multiply(double (&c)[2], double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(c[0]), "+d"(c[1]) : "d"(a), "d"(b));
}

// Products of 8 DOWN columns of s (blockIdx.y) with 8 ACROSS of t (blockIdx.z): 8 (rows + columns) bytes an item. Items of t's
// first `weighted` columns count times their weights, of which there may be none. Each warp takes every so many-th step.
// partials: a sum of each block, (blocks, rows, columns).
ENTRY __launch_bounds__(32 * WARPS, 3) block_products(
    In<real> s, In<real> t, In<real> weights, int weighted, int rows, int columns, i64 items, Out<double> partials
) {
    __shared__ double of_warp[WARPS][ACROSS][64];
    next_may_start();
    wait_for_last_launch();
    const int lane = lane_number(), warp = threadIdx.x / SLICE;
    const int first_row = 8 * DOWN * blockIdx.y, first_column = 8 * ACROSS * blockIdx.z;
    const int down = (min(8 * DOWN, rows - first_row) + 7) / 8, across = (min(8 * ACROSS, columns - first_column) + 7) / 8;
    const i64 stride = static_cast<i64>(gridDim.x) * WARPS * STEP;
    double sums[DOWN][ACROSS][2] = {};
    for (i64 first = (static_cast<i64>(blockIdx.x) * WARPS + warp) * STEP; first < items; first += stride) {
        double2 of_s[2][DOWN], of_t[2][ACROSS], weight[2] = {{1.0, 1.0}, {1.0, 1.0}};
        UNROLLED for (int half = 0; half < 2; ++half) {
            const i64 item = first + 8 * half + 2 * (lane % 4);
            UNROLLED for (int u = 0; u < DOWN; ++u)
                if (u < down) of_s[half][u] = pair_at(s + min(first_row + 8 * u + lane / 4, rows - 1) * items + item);
            UNROLLED for (int v = 0; v < ACROSS; ++v)
                if (v < across) of_t[half][v] = pair_at(t + min(first_column + 8 * v + lane / 4, columns - 1) * items + item);
            if (weighted > 0) weight[half] = pair_at(weights + item);
        }
        UNROLLED for (int half = 0; half < 2; ++half)
            UNROLLED for (int v = 0; v < ACROSS; ++v) {
                if (v >= across) continue;
                if (first_column + 8 * v + lane / 4 < weighted) {
                    of_t[half][v].x *= weight[half].x;
                    of_t[half][v].y *= weight[half].y;
                }
                UNROLLED for (int u = 0; u < DOWN; ++u)
                    if (u < down) {
                        multiply(sums[u][v], of_s[half][u].x, of_t[half][v].x);
                        multiply(sums[u][v], of_s[half][u].y, of_t[half][v].y);
                    }
            }
    }
    double* out = partials + static_cast<i64>(blockIdx.x) * rows * columns;
    UNROLLED for (int u = 0; u < DOWN; ++u) {
        if (u >= down) continue;  // of all threads
        __syncthreads();
        UNROLLED for (int v = 0; v < ACROSS; ++v) {
            of_warp[warp][v][2 * lane] = sums[u][v][0];
            of_warp[warp][v][2 * lane + 1] = sums[u][v][1];
        }
        __syncthreads();
        for (int number = threadIdx.x; number < ACROSS * 64; number += 32 * WARPS) {
            const int v = number / 64, i = first_row + 8 * u + number % 64 / 8, j = first_column + 8 * v + number % 8;
            if (i >= rows || j >= columns) continue;
            double sum = 0.0;
            UNROLLED for (int each = 0; each < WARPS; ++each) sum += of_warp[each][v][number % 64];
            out[static_cast<i64>(i) * columns + j] = sum;
        }
    }
}

// The sums of the blocks' numbers: every SLICES-th block's first to last, then those.
ENTRY block_sums(In<double> partials, int blocks, int count, Out<double> out) {
    __shared__ double sums[SLICES][32];
    next_may_start();
    wait_for_last_launch();
    const int lane = threadIdx.x % 32, slice = threadIdx.x / 32, number = blockIdx.x * 32 + lane;
    double sum = 0.0;
    if (number < count)
        for (int b = slice; b < blocks; b += SLICES) sum += __ldcg(partials + static_cast<i64>(b) * count + number);
    sums[slice][lane] = sum;
    __syncthreads();
    if (slice > 0 || number >= count) return;
    for (int other = 1; other < SLICES; ++other) sum += sums[other][lane];
    out[number] = sum;
}

// t = keep t + s C on tiles of `tile` items: 8 (used + columns) bytes an item. table: the columns of s that C has rows for,
// an even number of places, and these rows, of a multiple of OUTPUTS columns. A tile is in shared memory before any of t is
// written, so t may be columns of s.
ENTRY combine(double keep, const real* s, In<double> table, int count, real* t, int columns, i64 items, int tile) {
    extern __shared__ double from_s[];
    next_may_start();
    wait_for_last_launch();
    const int lanes = tile / ITEMS, lane = threadIdx.x % lanes, group = threadIdx.x / lanes, groups = blockDim.x / lanes;
    const int width = (columns + OUTPUTS - 1) / OUTPUTS * OUTPUTS;
    const double* c = table + (count + count % 2);
    for (i64 first = static_cast<i64>(blockIdx.x) * tile; first < items; first += static_cast<i64>(gridDim.x) * tile) {
        __syncthreads();
        for (int k = group; k < count; k += groups) {
            const real* column = s + static_cast<i64>(__ldg(table + k)) * items + first;
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

// r = r - b values for each column: 24 bytes an item of a column. b: x times weights, or x where there are none; or else a
// block by itself, `other`. TOGETHER columns (blockIdx.y) and their weights, and sizes, are read at once.
// partials: squares of r, of sizes times x, of x and of b, a sum of each block: (blocks, 4, columns).
ENTRY __launch_bounds__(THREADS) residuals(
    In<double> values, In<real> x, In<real> weights, In<real> other, In<real> sizes, Out<real> r, int columns,
    i64 items, Out<double> partials
) {
    __shared__ double of_warp[THREADS / SLICE][4 * TOGETHER];
    next_may_start();
    wait_for_last_launch();
    const int first = blockIdx.y * TOGETHER, count = min(TOGETHER, columns - first);
    double sums[4][TOGETHER] = {};
    const i64 stride = 2ll * gridDim.x * THREADS;
    for (i64 i = 2ll * (blockIdx.x * THREADS + threadIdx.x); i < items; i += stride) {
        const double2 size = pair_at(sizes + i), weight = weights ? pair_at(weights + i) : double2{1.0, 1.0};
        double2 of_x[TOGETHER], of_b[TOGETHER], of_r[TOGETHER];
        UNROLLED for (int u = 0; u < TOGETHER; ++u) {
            if (u >= count) continue;
            of_x[u] = pair_at(x + (first + u) * items + i);
            of_r[u] = pair_at(r + (first + u) * items + i);
            if (other) of_b[u] = pair_at(other + (first + u) * items + i);
        }
        UNROLLED for (int u = 0; u < TOGETHER; ++u) {
            if (u >= count) continue;
            if (!other) of_b[u] = {weight.x * of_x[u].x, weight.y * of_x[u].y};
            const double value = -__ldg(values + first + u);
            of_r[u] = {fma(value, of_b[u].x, of_r[u].x), fma(value, of_b[u].y, of_r[u].y)};
            set_pair(r + (first + u) * items + i, of_r[u].x, of_r[u].y);
            const double2 sized = {size.x * of_x[u].x, size.y * of_x[u].y};
            sums[0][u] = fma(of_r[u].y, of_r[u].y, fma(of_r[u].x, of_r[u].x, sums[0][u]));
            sums[1][u] = fma(sized.y, sized.y, fma(sized.x, sized.x, sums[1][u]));
            sums[2][u] = fma(of_x[u].y, of_x[u].y, fma(of_x[u].x, of_x[u].x, sums[2][u]));
            sums[3][u] = fma(of_b[u].y, of_b[u].y, fma(of_b[u].x, of_b[u].x, sums[3][u]));
        }
    }
    UNROLLED for (int kind = 0; kind < 4; ++kind)
        UNROLLED for (int u = 0; u < TOGETHER; ++u) {
            const double sum = warp_sum(sums[kind][u]);
            if (lane_number() == 0) of_warp[threadIdx.x / SLICE][kind * TOGETHER + u] = sum;
        }
    __syncthreads();
    const int kind = threadIdx.x / TOGETHER, column = first + threadIdx.x % TOGETHER;
    if (kind >= 4 || column >= columns) return;
    double sum = 0.0;
    for (int warp = 0; warp < THREADS / SLICE; ++warp) sum += of_warp[warp][threadIdx.x];
    partials[(static_cast<i64>(blockIdx.x) * 4 + kind) * columns + column] = sum;
}

// t = d s for each column: 16 bytes an item of a column, and 8 an item.
ENTRY times(In<real> d, In<real> s, Out<real> t, int columns, i64 items) {
    next_may_start();
    wait_for_last_launch();
    const i64 i = thread_number();
    if (i >= items) return;
    const real factor = __ldg(d + i);
    for (int j = 0; j < columns; ++j) t[j * items + i] = factor * __ldg(s + j * items + i);
}
