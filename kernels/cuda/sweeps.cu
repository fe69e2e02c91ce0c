// Matrix passes. Every kernel runs one warp a slice of 32 rows and one thread a row, so that vectors in storage order
// and matrix values are read in whole 256-byte lines. The matrix is what moves: counted below are the bytes a row of a
// 27-point matrix of doubles in run slices (8.125 bytes an entry); the vectors add 8 each.
//
// A launch of a sweep is a part of a color (schedule.py): rows of one color do not read each other, and all of them read
// only what earlier launches wrote. x is written in the launch that reads it (at other rows), so it is never read through
// the read-only path. `first`, `step` and `count` name the slices and the direction in which they are walked.
// Before it waits for the launch before it, a kernel requests what set-up wrote: the slice, d and a few entry columns.

#include "slices.cuh"
#include "passes.cuh"

// Blocks of at most WIDEST warps and so few registers that BLOCKS of them share a multiprocessor: these passes wait for
// memory, and more warps wait better. Bounds are set where they were measured to win (spmv_dot 5 %, sweeps up to 1 %);
// four columns in flight a thread is the best number for the same reason: eight need half as many registers again.
#define KERNEL(BLOCKS) extern "C" __global__ void __launch_bounds__(WIDEST * SLICE, STAGING ? STAGING_BLOCKS : BLOCKS)

// y = A_local x: 26 entries (211) + diagonal, x, y (24) = 235 bytes a row.
// `entries` lists the slices by the lattice row of their first row: the colors of one lattice plane run next to each
// other, so x comes from memory once; color after color it would come eight times.
template <bool WITH_DOT, typename Value>
__device__ __forceinline__ void multiply(
    const Entries* entries, const Value* values, const int* columns, const real* diagonal, const real* x, real* y, double* partials, int count
) {
    LISTED_SLICE(int)
    wait_for_last_launch();
    const real sum = add_products(__ldcs(diagonal + p) * x[p], slice, 0, slice.width, x, lane);
    __stcs(y + p, sum);
    if (WITH_DOT) {
        // x[p] again: two registers less in the loop, a hit in L2.
        const double part = warp_sum(static_cast<double>(x[p]) * sum);
        if (lane == 0) partials[p / SLICE - 1] = part;  // found.slice, without a register for it
    }
}

extern "C" __global__ void spmv(
    MATRIX, const real* __restrict__ diagonal, const real* __restrict__ x,
    real* __restrict__ y, int count
) {
    multiply<false>(entries, values, columns, diagonal, x, y, nullptr, count);
}

// The same with x . y of each slice in `partials` (a quarter of a byte a row), which the kernel `sum` adds in slice
// order: both vectors are in registers here, a dot product of its own would read them again (16 bytes a row).
KERNEL(12) spmv_dot(
    MATRIX, const real* __restrict__ diagonal, const real* __restrict__ x,
    real* __restrict__ y, double* __restrict__ partials, int count
) {
    multiply<true>(entries, values, columns, diagonal, x, y, partials, count);
}

// Both with values that are stored as float because that lost nothing (`Backend.compacted`): 26 entries of 4.125 bytes
// (107) + diagonal, x, y (24) = 131 bytes a row of doubles, and the bits of the kernels above.
KERNEL(12) spmv_compact(
    COMPACT, const real* __restrict__ diagonal, const real* __restrict__ x, real* __restrict__ y, int count
) {
    multiply<false>(entries, values, columns, diagonal, x, y, nullptr, count);
}

KERNEL(12) spmv_dot_compact(
    COMPACT, const real* __restrict__ diagonal, const real* __restrict__ x, real* __restrict__ y,
    double* __restrict__ partials, int count
) {
    multiply<true>(entries, values, columns, diagonal, x, y, partials, count);
}

// What a half sweep requests of its entries before it waits, and their product after it. Of floats, all entries
// (slices.cuh). Of doubles the bases alone, and FLIGHT entry columns at a time, in each kernel as many as were best: with
// four columns in registers from before the wait, and four at a time, a V-cycle of 256^3 took 3 % longer.
__device__ __forceinline__ Ahead request_half(const Slice& slice, int first, int last, int lane) {
    if constexpr (STAGING) return request(slice, first, last, lane);
    Ahead ahead;
    ahead.base = slice.run && lane < last - first ? __ldg(slice.columns + first + lane) : 0;
    return ahead;
}

// `finish` gets the product, in each branch by itself: behind both of them it was 0.5 % slower.
template <int FLIGHT, typename Finish>
__device__ __forceinline__ void half_product(
    const Slice& slice, const Ahead& ahead, int first, int last, const real* x, int lane, const Finish& finish
) {
    if constexpr (STAGING) finish(products(slice, ahead, first, last, x, lane));
    else if (slice.run && last - first <= SLICE)
        finish(run_in_flights<FLIGHT>(0, slice.values + first * SLICE, ahead.base, 0, last - first, x, lane));
    else finish(add_products(0, slice, first, last, x, lane));
}

// x = (r - L x)/d: the forward sweep from zero reads the lower half only: 13 entries (106) + d, r, x (24), and without
// slabs the earlier colors' x again in each launch (28).
KERNEL(10) forward_from_zero(
    MATRIX, const real* __restrict__ diagonal, const real* __restrict__ r,
    real* x, RANGE
) {
    OWN_ITEM(int)
    const real d = __ldcs(diagonal + p);
    const Ahead ahead = request_half(slice, 0, slice.upper, lane);
    wait_for_last_launch();
    const real right = __ldcs(r + p);
    half_product<5>(slice, ahead, 0, slice.upper, x, lane, [&](real sum) { x[p] = quotient(right - sum, d); });
}

// x = w - (U x)/d: the backward sweep reads the upper half only: 13 entries (106) + d, w, x (24). w may be x.
KERNEL(10) backward(
    MATRIX, const real* __restrict__ diagonal, const real* w, real* x, RANGE
) {
    OWN_ITEM(int)
    const real d = __ldcs(diagonal + p);
    const Ahead ahead = request_half(slice, slice.upper, slice.width, lane);
    wait_for_last_launch();
    const real old = w[p];
    half_product<6>(
        slice, ahead, slice.upper, slice.width, x, lane, [&](real sum) { x[p] = old - quotient(sum, d); });
}

// e = (U x)/d, x -= e: the backward sweep that keeps what it subtracts: 106 + d, x twice, e (32).
// The residual and the post-smoother then need no second product with U.
KERNEL(10) backward_keep(
    MATRIX, const real* __restrict__ diagonal, real* x, real* __restrict__ e,
    RANGE
) {
    OWN_ITEM(int)
    const real d = __ldcs(diagonal + p);
    const Ahead ahead = request_half(slice, slice.upper, slice.width, lane);
    wait_for_last_launch();
    const real old = x[p];
    half_product<4>(slice, ahead, slice.upper, slice.width, x, lane, [&](real sum) {
        const real change = quotient(sum, d);
        __stcs(e + p, change);
        x[p] = old - change;
    });
}

// The products of the forward sweep after a correction: of the lower part with x, and of the tail with c. Of doubles, the
// bases of both arrive in one load, and the tail, which waits for no color, comes first.
struct Corrected {
    real lower, tail;
};

__device__ __forceinline__ Corrected corrected_products(const Slice& slice, const real* x, const real* c, int lane) {
    if constexpr (STAGING) {
        const Ahead ahead = request(slice, 0, slice.upper, lane);
        const Ahead behind = request(slice, slice.coarse, slice.width, lane, ahead.count);
        wait_for_last_launch();
        const real lower = products(slice, ahead, 0, slice.upper, x, lane);
        return {lower, products(slice, behind, slice.coarse, slice.width, c, lane)};
    }
    const int tail = slice.width - slice.coarse;
    const bool together = slice.run && slice.upper + tail <= SLICE;
    const int column = lane < slice.upper ? lane : slice.coarse + lane - slice.upper;
    const int base = together && column < slice.width ? __ldg(slice.columns + column) : 0;
    wait_for_last_launch();
    if (together) {
        const real of_tail = run_in_flights<4>(0, slice.values + slice.coarse * SLICE, base, slice.upper, tail, c, lane);
        return {run_in_flights<6>(0, slice.values, base, 0, slice.upper, x, lane), of_tail};
    }
    const real lower = add_products(0, slice, 0, slice.upper, x, lane);
    return {lower, add_products(0, slice, slice.coarse, slice.width, c, lane)};
}

// w = (r - L x)/d, x = w - e - (U c)/d: the forward sweep after the coarse correction c, which is zero but at coarse
// points: the tail of the slice alone is read: 13 + 3.25 entries (132) + d, r, e, w, x, c/8 (41).
KERNEL(10) forward_corrected(
    MATRIX, const real* __restrict__ diagonal,
    const real* __restrict__ r, const real* __restrict__ c, const real* __restrict__ e, real* x,
    real* __restrict__ w, RANGE
) {
    OWN_ITEM(int)
    const Corrected sum = corrected_products(slice, x, c, lane);
    const real right = __ldcs(r + p), d = __ldcs(diagonal + p);
    const real kept = slice.upper < slice.width ? __ldcs(e + p) : real(0);   // (U x)/d: nothing at coarse points
    const real fresh = quotient(right - sum.lower, d);
    __stcs(w + p, fresh);
    x[p] = fresh - kept - quotient(sum.tail, d);
}

// Narrow colors: of the parity class that is swept first or second, rows have 0 or 2 lower entries, and 2 upper ones
// where it is swept last but one. A warp with one slice of them has hardly a kilobyte in flight and waits three times over
// (for the slice, its values, and x), which streams at 2.2-2.9 TB/s. So a warp has SLICES of them here, of COLUMNS entry
// columns at most (schedule.py counts them), and all of their values are requested before the first is used.
constexpr int SLICES = 4, COLUMNS = 2;

struct Bundle {
    int p[SLICES];               // storage position of this lane's row, or -1
    int width[SLICES];           // entry columns
    real a[SLICES][COLUMNS];
    int from[SLICES][COLUMNS];   // where x is
};

enum class Half { LOWER, UPPER };

// Slices SLICES * number and so on of a launch. What is not there has value 0 and reads the guard.
template <Half HALF>
__device__ __forceinline__ Bundle request_bundle(
    const Entries* entries, const real* values, const int* columns, int first, int step, int number, int count, int lane
) {
    Bundle bundle;
    const int begin = number * SLICES;
    const Entries own = lane < SLICES && begin + lane < count
        ? load_entries(entries + first + step * (begin + lane)) : Entries{0, 0, 0, 0};
#pragma unroll
    for (int j = 0; j < SLICES; ++j) {
        const Entries found = {
            __shfl_sync(ALL_LANES, own.start, j), __shfl_sync(ALL_LANES, own.columns, j), 0,
            __shfl_sync(ALL_LANES, own.shape, j)
        };
        const Slice slice = slice_of(found, values, columns, lane);
        const int low = HALF == Half::LOWER ? 0 : slice.upper;
        bundle.width[j] = (HALF == Half::LOWER ? slice.upper : slice.width) - low;
        bundle.p[j] = begin + j < count ? (first + step * (begin + j) + 1) * SLICE + lane : -1;
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k) {
            const bool there = k < bundle.width[j];
            bundle.a[j][k] = there ? __ldcs(slice.values + (low + k) * SLICE) : real(0);
            bundle.from[j][k] = !there ? lane : slice.run ? __ldg(slice.columns + low + k) + lane
                                              : __ldcs(slice.columns + (low + k) * SLICE + lane);
        }
    }
    return bundle;
}

// Each slice's product, entries in order.
__device__ __forceinline__ void bundle_products(const Bundle& bundle, const real* x, real (&sum)[SLICES]) {
    real b[SLICES][COLUMNS];
#pragma unroll
    for (int j = 0; j < SLICES; ++j)
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k) if (k < bundle.width[j]) b[j][k] = x[bundle.from[j][k]];
#pragma unroll
    for (int j = 0; j < SLICES; ++j) {
        sum[j] = 0;
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k) if (k < bundle.width[j]) sum[j] = fma(bundle.a[j][k], b[j][k], sum[j]);
    }
}

// Each slice's item of a vector; 1 where there is no slice.
__device__ __forceinline__ void bundle_items(const Bundle& bundle, const real* v, real (&item)[SLICES]) {
#pragma unroll
    for (int j = 0; j < SLICES; ++j) item[j] = bundle.p[j] >= 0 ? __ldcs(v + bundle.p[j]) : real(1);
}

#define EACH_SLICE(ROWS) _Pragma("unroll") for (int j = 0; j < SLICES; ++j) if (ROWS.p[j] >= 0)

#define OWN_BUNDLE(HALF, NAME)                                                                  \
    next_may_start();                                                                           \
    const int number = warp_number();                                                           \
    if (number * SLICES >= count) return;                                                       \
    const int lane = lane_number();                                                             \
    const auto NAME = request_bundle<HALF>(                                    \
        entries, values, columns, first, step, number, count, lane);                            \
    real d[SLICES];                                                                             \
    bundle_items(NAME, diagonal, d);

KERNEL(8) forward_from_zero_narrow(
    MATRIX, const real* __restrict__ diagonal, const real* __restrict__ r, real* x, RANGE
) {
    OWN_BUNDLE(Half::LOWER, rows)
    wait_for_last_launch();
    real right[SLICES], sum[SLICES];
    bundle_items(rows, r, right);
    bundle_products(rows, x, sum);
    EACH_SLICE(rows) x[rows.p[j]] = quotient(right[j] - sum[j], d[j]);
}

KERNEL(8) backward_narrow(MATRIX, const real* __restrict__ diagonal, const real* w, real* x, RANGE) {
    OWN_BUNDLE(Half::UPPER, rows)
    wait_for_last_launch();
    real old[SLICES], sum[SLICES];
    bundle_items(rows, w, old);
    bundle_products(rows, x, sum);
    EACH_SLICE(rows) x[rows.p[j]] = old[j] - quotient(sum[j], d[j]);
}

KERNEL(8) backward_keep_narrow(MATRIX, const real* __restrict__ diagonal, real* x, real* __restrict__ e, RANGE) {
    OWN_BUNDLE(Half::UPPER, rows)
    wait_for_last_launch();
    real old[SLICES], sum[SLICES];
    bundle_items(rows, x, old);
    bundle_products(rows, x, sum);
    EACH_SLICE(rows) {
        const real change = quotient(sum[j], d[j]);
        __stcs(e + rows.p[j], change);
        x[rows.p[j]] = old[j] - change;
    }
}

// rc = (L e) at the coarse points, the residual after the pre-smoother. Coarse points are an eighth of the rows with
// 26 lower entries each: 26 + e (8) + the map and rc (1.5) bytes for each fine row.
extern "C" __global__ void restrict_residual(
    MATRIX, const int* __restrict__ coarse_of, const real* __restrict__ e,
    real* __restrict__ rc, RANGE
) {
    OWN_SLICE(int)
    const int target = __ldg(coarse_of + p);
    wait_for_last_launch();
    if (!__any_sync(ALL_LANES, target >= 0)) return;
    const real sum = add_products(0, slice, 0, slice.upper, e, lane);
    if (target >= 0) rc[target] = sum;
}

// The halo kernels run one warp a slice of the boundary list: few rows (a shell), so what counts is that they are one
// launch each and write nothing but their result, and that all that set-up wrote is at hand when the halo has come: the
// row, and the first HALO_AHEAD entries (a row beside a face has 9).
constexpr int HALO_AHEAD = 9;

struct Boundary {
    int s, p;       // slice of the list; storage position of this lane's row
    bool valid;     // the last slice may be shorter
    Slice slice;
    real a[HALO_AHEAD];
    int c[HALO_AHEAD];
};

// All warps of a block get one, without entries if the list has no slice for it.
__device__ __forceinline__ Boundary request_boundary(MATRIX, const int* boundary, int count, int lane) {
    Boundary b;
    b.s = warp_number();
    b.valid = b.s * SLICE + lane < count;
    b.p = b.valid ? __ldg(boundary + b.s * SLICE + lane) : 0;
    const Entries found = b.s * SLICE < count ? load_entries(entries + b.s) : Entries{0, 0, 0, 0};
    b.slice = slice_of(found, values, columns, lane);
#pragma unroll
    for (int i = 0; i < HALO_AHEAD; ++i) {
        const bool there = i < b.slice.width;
        b.a[i] = there ? __ldcs(b.slice.values + i * SLICE) : real(0);
        b.c[i] = !there ? 0 : b.slice.run ? __ldg(b.slice.columns + i) + lane : __ldcs(b.slice.columns + i * SLICE + lane);
    }
    return b;
}

// The product of this lane's row with the halo, entries in order.
__device__ __forceinline__ real row_times_halo(const Boundary& b, const real* h, int lane) {
    real x[HALO_AHEAD], sum = 0;
#pragma unroll
    for (int i = 0; i < HALO_AHEAD; ++i) if (i < b.slice.width) x[i] = h[b.c[i]];
#pragma unroll
    for (int i = 0; i < HALO_AHEAD; ++i) if (i < b.slice.width) sum = fma(b.a[i], x[i], sum);
    return add_products(sum, b.slice, HALO_AHEAD, b.slice.width, h, lane);
}

#define OWN_BOUNDARY()                                                                              \
    next_may_start();                                                                               \
    const int lane = lane_number();                                                                 \
    const Boundary own = request_boundary(entries, values, columns, boundary, count, lane);

// y += A_halo h.
extern "C" __global__ void spmv_halo(
    MATRIX, const int* __restrict__ boundary, const real* h, real* y, int count
) {
    OWN_BOUNDARY()
    wait_for_last_launch();
    const real old = own.valid ? y[own.p] : real(0);
    const real sum = row_times_halo(own, h, lane);
    if (own.valid) y[own.p] = old + sum;
}

// q = A_halo h: what a boundary row adds or subtracts once the work inside the chunk is done. Beside that work, so it is
// seen only where that is shorter.
extern "C" __global__ void times_halo(
    MATRIX, const int* __restrict__ boundary, const real* h, real* q, int count
) {
    OWN_BOUNDARY()
    wait_for_last_launch();
    const real sum = row_times_halo(own, h, lane);
    if (own.valid) q[own.s * SLICE + lane] = sum;
}

// The same with dot = x . q: each block leaves its part in `partials`, and the one that comes last adds them, in a fixed
// order. `ticket` was zero and is zero again afterwards.
extern "C" __global__ void times_halo_dot(
    MATRIX, const int* __restrict__ boundary, const real* h, const real* x, real* q, double* partials, unsigned* ticket,
    double* dot, int count
) {
    __shared__ bool last;
    OWN_BOUNDARY()
    wait_for_last_launch();
    const real factor = own.valid ? x[own.p] : real(0);
    const real sum = row_times_halo(own, h, lane);
    if (own.valid) q[own.s * SLICE + lane] = sum;
    const double part = sum_of_block(own.valid ? static_cast<double>(factor) * sum : 0.0);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = part;
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    double total = 0.0;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) total += __ldcg(partials + i);
    total = sum_of_block(total);
    if (threadIdx.x == 0) {
        *dot = total;
        *ticket = 0u;
    }
}

// r -= H h.
extern "C" __global__ void subtract_halo(
    MATRIX, const int* __restrict__ boundary, const real* h, real* r, int count
) {
    OWN_BOUNDARY()
    wait_for_last_launch();
    const real old = own.valid ? r[own.p] : real(0);
    const real sum = row_times_halo(own, h, lane);
    if (own.valid) r[own.p] = old - sum;
}

// What follows is on the way of everybody: a thread for each boundary row, so that nothing waits twice.
#define OWN_ROW()                                                \
    next_may_start();                                            \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;         \
    const int p = i < count ? __ldg(boundary + i) : -1;

// y += q on the boundary, dot += part: 4 bytes of row, q, y twice.
extern "C" __global__ void add_halo_dot(
    const int* __restrict__ boundary, const real* q, const double* part, real* y, double* dot, int count
) {
    OWN_ROW()
    wait_for_last_launch();
    if (i == 0) *dot += *part;
    if (p >= 0) y[p] += q[i];
}

// kept = r, r -= q, and rc -= q at the coarse points of the boundary: 8 bytes of row and map, q, r twice, kept, rc/2.
extern "C" __global__ void residual_halo(
    const int* __restrict__ boundary, const int* __restrict__ coarse_of, const real* q, real* r, real* rc, real* kept,
    int count
) {
    OWN_ROW()
    const int target = p >= 0 ? __ldg(coarse_of + p) : -1;
    wait_for_last_launch();
    if (p < 0) return;
    const real product = q[i], old = r[p], coarse = target >= 0 ? rc[target] : real(0);
    kept[i] = old;
    r[p] = old - product;
    if (target >= 0) rc[target] = coarse - product;
}
