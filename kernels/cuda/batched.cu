// Matrix passes on WIDTH vectors at once, the columns of an array (WIDTH, items). One warp a slice and one thread a row, as
// in sweeps.cu and cycle.cu; a thread adds a sum for each column. A matrix value and a base are loaded once for all
// columns: of 27 points, 8.125 bytes an entry for WIDTH products; the vectors add 8 bytes a column each. A column lies as a
// single vector does, so a warp reads its x in whole lines and whatever is not batched takes a column as it is.
//
// Sums are added in the order of slices.cuh, so a column's bits are those of the kernels for one vector.
//
// No vector that is read is `const __restrict__` here: of those the compiler makes loads that the assembler may move in
// front of `wait_for_last_launch` (slices.cuh).

#include "slices.cuh"
#include "passes.cuh"

#ifndef WIDTH
#define WIDTH 8
#endif

// Few enough registers for BLOCKS blocks to share a multiprocessor, and no fewer: with the 40 to 60 that the compiler takes if
// nothing is said, x is requested piece by piece, and 8 residuals take 1.6 times as long.
constexpr int BLOCKS = (WIDTH <= 4 ? 32 : 24) / WIDEST;

#define KERNEL extern "C" __global__ void __launch_bounds__(WIDEST * SLICE, BLOCKS)

// Entry columns whose values and x are requested before the first is used.
constexpr int AT_A_TIME = 4;

struct Sums { real of[WIDTH]; };

template <int COUNT, typename Value>
__device__ __forceinline__ void add_columns(Sums& sums, const Value* values, const int* c, const real* x, long long size) {
    Value a[COUNT];
    real b[COUNT][WIDTH];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) a[i] = __ldcs(values + i * SLICE);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const real* at = x + c[i];
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) b[i][w] = at[w * size];
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) sums.of[w] = fma(static_cast<real>(a[i]), b[i][w], sums.of[w]);
}

// sums + entry columns [first, last) of the slice times x, whose columns have `size` items, in column order.
template <typename Value>
__device__ __forceinline__ void add(
    Sums& sums, const SliceOf<Value>& slice, int first, int last, const real* x, long long size, int lane
) {
    const Value* values = slice.values + first * SLICE;
    int c[AT_A_TIME];
    if (slice.run) {
        for (int k = first; k < last; k += SLICE) {
            const int count = min(SLICE, last - k);
            const int base = lane < count ? __ldg(slice.columns + k + lane) : 0;
            int i = 0;
            for (; i + AT_A_TIME <= count; i += AT_A_TIME, values += AT_A_TIME * SLICE) {
#pragma unroll
                for (int n = 0; n < AT_A_TIME; ++n) c[n] = __shfl_sync(ALL_LANES, base, i + n) + lane;
                add_columns<AT_A_TIME>(sums, values, c, x, size);
            }
            for (; i < count; ++i, values += SLICE) {
                c[0] = __shfl_sync(ALL_LANES, base, i) + lane;
                add_columns<1>(sums, values, c, x, size);
            }
        }
    } else {
        const int* from = slice.columns + first * SLICE + lane;
        int k = first;
        for (; k + AT_A_TIME <= last; k += AT_A_TIME, values += AT_A_TIME * SLICE, from += AT_A_TIME * SLICE) {
#pragma unroll
            for (int n = 0; n < AT_A_TIME; ++n) c[n] = __ldcs(from + n * SLICE);
            add_columns<AT_A_TIME>(sums, values, c, x, size);
        }
        for (; k < last; ++k, values += SLICE, from += SLICE) {
            c[0] = __ldcs(from);
            add_columns<1>(sums, values, c, x, size);
        }
    }
}

__device__ __forceinline__ Sums zeros() {
    Sums sums;
#pragma unroll
    for (int w = 0; w < WIDTH; ++w) sums.of[w] = real(0);
    return sums;
}

#define EACH_COLUMN _Pragma("unroll") for (int w = 0; w < WIDTH; ++w)

// y = A_local x; with `partials`, x . y of each slice and column there (WIDTH, slices).
template <bool WITH_DOT, typename Value>
__device__ __forceinline__ void multiply(
    const Entries* entries, const Value* values, const int* columns, const real* diagonal, const real* x, real* y,
    double* partials, long long size, int slices, int count
) {
    LISTED_SLICE(long long)
    const real d = __ldcs(diagonal + p);
    wait_for_last_launch();
    Sums sums;
    EACH_COLUMN sums.of[w] = d * x[w * size + p];
    add(sums, slice, 0, slice.width, x, size, lane);
    EACH_COLUMN __stcs(y + w * size + p, sums.of[w]);
    if constexpr (WITH_DOT) {
        real own[WIDTH];   // again, from L1: no registers in the loop
        EACH_COLUMN own[w] = x[w * size + p];
        EACH_COLUMN {
            const double part = warp_sum(static_cast<double>(own[w]) * sums.of[w]);
            if (lane == 0) partials[static_cast<long long>(w) * slices + found.slice] = part;
        }
    }
}

// 26 entries (211) + d (8) and for each column x, y (16) bytes a row.
KERNEL spmv(MATRIX, const real* __restrict__ diagonal, const real* x, real* y, long long size, int count) {
    multiply<false>(entries, values, columns, diagonal, x, y, nullptr, size, 0, count);
}

KERNEL spmv_dot(MATRIX, const real* __restrict__ diagonal, const real* x, real* y, double* partials, long long size,
    int slices, int count) {
    multiply<true>(entries, values, columns, diagonal, x, y, partials, size, slices, count);
}

// Both with values that are stored as float, as in sweeps.cu: 26 entries (107).
KERNEL spmv_compact(COMPACT, const real* __restrict__ diagonal, const real* x, real* y, long long size, int count) {
    multiply<false>(entries, values, columns, diagonal, x, y, nullptr, size, 0, count);
}

KERNEL spmv_dot_compact(COMPACT, const real* __restrict__ diagonal, const real* x, real* y, double* partials,
    long long size, int slices, int count) {
    multiply<true>(entries, values, columns, diagonal, x, y, partials, size, slices, count);
}

// x = (r - L x)/d: 13 entries (106) + d (8), and r, x (16) for each column.
KERNEL forward_from_zero(
    MATRIX, const real* __restrict__ diagonal, const real* r, real* x, long long size, RANGE
) {
    OWN_SLICE(long long)
    const real d = __ldcs(diagonal + p);
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, 0, slice.upper, x, size, lane);
    real own[WIDTH];   // all of them before the first store, which they must not pass
    EACH_COLUMN own[w] = __ldcs(r + w * size + p);
    EACH_COLUMN x[w * size + p] = quotient(own[w] - sums.of[w], d);
}

// x = (w - U x)/d, likewise.
KERNEL backward_solve(
    MATRIX, const real* __restrict__ diagonal, const real* right, real* x, long long size, RANGE
) {
    OWN_SLICE(long long)
    const real d = __ldcs(diagonal + p);
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, slice.upper, slice.width, x, size, lane);
    real own[WIDTH];
    EACH_COLUMN own[w] = __ldcs(right + w * size + p);
    EACH_COLUMN x[w * size + p] = quotient(own[w] - sums.of[w], d);
}

// x = w - (U x)/d, likewise. w may be x.
KERNEL backward(MATRIX, const real* __restrict__ diagonal, const real* from, real* x, long long size, RANGE) {
    OWN_SLICE(long long)
    const real d = __ldcs(diagonal + p);
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, slice.upper, slice.width, x, size, lane);
    real own[WIDTH];
    EACH_COLUMN own[w] = from[w * size + p];
    EACH_COLUMN x[w * size + p] = own[w] - quotient(sums.of[w], d);
}

// e = (U x)/d, x -= e: the same with x twice and e (24) for each column.
KERNEL backward_keep(MATRIX, const real* __restrict__ diagonal, real* x, real* e, long long size, RANGE) {
    OWN_SLICE(long long)
    const real d = __ldcs(diagonal + p);
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, slice.upper, slice.width, x, size, lane);
    real own[WIDTH];
    EACH_COLUMN own[w] = x[w * size + p];
    EACH_COLUMN {
        const real change = quotient(sums.of[w], d);
        __stcs(e + w * size + p, change);
        x[w * size + p] = own[w] - change;
    }
}

// kept = (r - L x)/d, x = kept - e - (U c)/d: 13 + 3.25 entries (132) + d (8), and r, e, kept, x, c/8 (33) for each column.
KERNEL forward_corrected(
    MATRIX, const real* __restrict__ diagonal, const real* r, const real* c, const real* e, real* x, real* kept,
    long long size, RANGE
) {
    OWN_SLICE(long long)
    const real d = __ldcs(diagonal + p);
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, 0, slice.upper, x, size, lane);
    real own[WIDTH];
    EACH_COLUMN own[w] = __ldcs(r + w * size + p);
    EACH_COLUMN own[w] = quotient(own[w] - sums.of[w], d);
    EACH_COLUMN __stcs(kept + w * size + p, own[w]);
    sums = zeros();
    add(sums, slice, slice.coarse, slice.width, c, size, lane);
    EACH_COLUMN own[w] -= __ldcs(e + w * size + p);
    EACH_COLUMN x[w * size + p] = own[w] - quotient(sums.of[w], d);
}

// rc = (L e) at the coarse points, an eighth of the rows with 26 lower entries each: 26 for each fine row, and e (8) and
// rc/8 for each column, which have `size` and `to` items.
KERNEL restrict_residual(
    MATRIX, const int* __restrict__ coarse_of, const real* e, real* rc, long long size, long long to, RANGE
) {
    OWN_SLICE(long long)
    const int target = __ldg(coarse_of + p);
    wait_for_last_launch();
    if (!__any_sync(ALL_LANES, target >= 0)) return;
    Sums sums = zeros();
    add(sums, slice, 0, slice.upper, e, size, lane);
    if (target >= 0) { EACH_COLUMN rc[w * to + target] = sums.of[w]; }
}

// y = -(U x): 13 entries (106), and x, y (16) for each column.
KERNEL upper_residual(MATRIX, const real* x, real* y, long long size, int count) {
    LISTED_SLICE(long long)
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, slice.upper, slice.width, x, size, lane);
    EACH_COLUMN __stcs(y + w * size + p, -sums.of[w]);
}

// w = r - L x: 13 entries (106), and r, x, w (24) for each column.
KERNEL lower_residual(MATRIX, const real* r, const real* x, real* out, long long size, int count) {
    LISTED_SLICE(long long)
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, 0, slice.upper, x, size, lane);
    real own[WIDTH];
    EACH_COLUMN own[w] = __ldcs(r + w * size + p);
    EACH_COLUMN __stcs(out + w * size + p, own[w] - sums.of[w]);
}

// y[target] = A x, or += A x, with a rectangular A; x and y have `from` and `to` items a column.
template <bool ADD>
__device__ __forceinline__ void rectangular(
    MATRIX, const int* target, const real* x, real* y, long long from, long long to, int count
) {
    next_may_start();
    const int s = warp_number();
    if (s >= count) return;
    const int lane = lane_number();
    const Slice slice = slice_of(load_entries(entries + s), values, columns, lane);
    const int q = __ldg(target + s * SLICE + lane);
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, 0, slice.width, x, from, lane);
    if (q < 0) return;
    if constexpr (ADD) {
        real old[WIDTH];
        EACH_COLUMN old[w] = y[w * to + q];
        EACH_COLUMN sums.of[w] = old[w] + sums.of[w];
    }
    EACH_COLUMN y[w * to + q] = sums.of[w];
}

KERNEL product(MATRIX, const int* __restrict__ target, const real* x, real* y, long long from, long long to, int count) {
    rectangular<false>(entries, values, columns, target, x, y, from, to, count);
}

KERNEL product_add(
    MATRIX, const int* __restrict__ target, const real* x, real* y, long long from, long long to, int count
) {
    rectangular<true>(entries, values, columns, target, x, y, from, to, count);
}

// y[target] = x[source] in every column, of a vector or a halo x, whose columns and items are so far apart: the indices
// (8 bytes) once, 16 a column.
extern "C" __global__ void move(
    const int* __restrict__ source, const int* __restrict__ target, const real* x, real* y,
    long long column, long long item, long long to_size, long long size
) {
    next_may_start();
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const int from = i < size ? __ldg(source + i) : 0, to = i < size ? __ldg(target + i) : 0;
    wait_for_last_launch();
    if (i >= size) return;
    real own[WIDTH];
    EACH_COLUMN own[w] = x[w * column + from * item];
    EACH_COLUMN y[w * to_size + to] = own[w];
}

// x = values r, both at `position`: one warp a row, as cycle.cu adds it. rows^2 values, once for all columns.
extern "C" __global__ void dense_product(
    const int* __restrict__ position, const real* __restrict__ values, const real* r, real* x, long long size, int rows
) {
    next_may_start();
    const int row = warp_number();
    if (row >= rows) return;
    const int lane = lane_number();
    const real* const own = values + static_cast<long long>(row) * rows;
    wait_for_last_launch();
    double sums[WIDTH] = {};
    for (int j = lane; j < rows; j += SLICE) {
        const double value = __ldg(own + j);
        const real* at = r + __ldg(position + j);
        EACH_COLUMN sums[w] += value * at[w * size];
    }
    const int p = __ldg(position + row);
    EACH_COLUMN {
        const double sum = warp_sum(sums[w]);
        if (lane == 0) x[w * size + p] = static_cast<real>(sum);
    }
}

// -- halos, where an item's columns lie side by side -----------------------------------------------------------------------

// The product of this lane's row with the halo.
__device__ __forceinline__ Sums halo_product(const Slice& slice, const real* h, int lane) {
    Sums sums = zeros();
    for (int k = 0; k < slice.width; ++k) {
        const real a = __ldcs(slice.values + k * SLICE);
        const int c = slice.run ? __ldg(slice.columns + k) + lane : __ldcs(slice.columns + k * SLICE + lane);
        const real* at = h + static_cast<long long>(c) * WIDTH;
        EACH_COLUMN sums.of[w] = fma(a, at[w], sums.of[w]);
    }
    return sums;
}

#define OWN_BOUNDARY()                                                                                             \
    next_may_start();                                                                                              \
    const int lane = lane_number(), s = warp_number();                                                             \
    const bool valid = s * SLICE + lane < count;                                                                   \
    const int p = valid ? __ldg(boundary + s * SLICE + lane) : 0;                                                  \
    const Slice slice =                                                                                            \
        slice_of(s * SLICE < count ? load_entries(entries + s) : Entries{0, 0, 0, 0}, values, columns, lane);      \
    wait_for_last_launch();                                                                                        \
    const Sums sums = halo_product(slice, h, lane);

// y += A_halo h.
extern "C" __global__ void spmv_halo(
    MATRIX, const int* __restrict__ boundary, const real* h, real* y, long long size, int count
) {
    OWN_BOUNDARY()
    if (valid) { EACH_COLUMN y[w * size + p] += sums.of[w]; }
}

// r -= H h.
extern "C" __global__ void subtract_halo(
    MATRIX, const int* __restrict__ boundary, const real* h, real* r, long long size, int count
) {
    OWN_BOUNDARY()
    if (valid) { EACH_COLUMN r[w * size + p] -= sums.of[w]; }
}

// q = A_halo h, an item for each boundary row, and dot = x . q in the order of sweeps.cu; q has `rows` items a column, `dot`
// a column every `apart` items.
extern "C" __global__ void times_halo_dot(
    MATRIX, const int* __restrict__ boundary, const real* h, const real* x, real* q, double* partials, unsigned* ticket,
    double* dot, long long size, long long rows, long long apart, int count
) {
    __shared__ bool last;
    OWN_BOUNDARY()
    for (int w = 0; w < WIDTH; ++w) {
        real sum = real(0);
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) if (n == w) sum = sums.of[n];
        const real factor = valid ? x[w * size + p] : real(0);
        if (valid) q[w * rows + s * SLICE + lane] = sum;
        const double part = sum_of_block(valid ? static_cast<double>(factor) * sum : 0.0);
        if (threadIdx.x == 0) partials[w * gridDim.x + blockIdx.x] = part;
    }
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (int w = 0; w < WIDTH; ++w) {
        double total = 0.0;
        for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) total += __ldcg(partials + w * gridDim.x + i);
        total = sum_of_block(total);
        if (threadIdx.x == 0) dot[w * apart] = total;
    }
    if (threadIdx.x == 0) *ticket = 0u;
}

// q = A_halo h.
extern "C" __global__ void times_halo(
    MATRIX, const int* __restrict__ boundary, const real* h, real* q, long long rows, int count
) {
    OWN_BOUNDARY()
    if (valid) { EACH_COLUMN q[w * rows + s * SLICE + lane] = sums.of[w]; }
}
