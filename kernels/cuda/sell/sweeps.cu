// Matrix passes. Every kernel runs one warp a slice of 32 rows and one thread a row, so that vectors in storage order
// and matrix values are read in whole 256-byte lines. The matrix is what moves: counted below are the bytes a row of a
// 27-point matrix of doubles in run slices (8.125 bytes an entry); the vectors add 8 each.
//
// A launch of a sweep is a part of a color (schedule.py): rows of one color do not read each other, and all of them read
// only what earlier launches wrote. x is written in the launch that reads it (at other rows), so it is never read through
// the read-only path. `first`, `step` and `count` name the slices and the direction in which they are walked.
// Before it waits for the launch before it, a kernel requests what set-up wrote: the slice, d and a few entry columns.

#include "slices.cuh"
#include "sums.cuh"
#include "sell/passes.cuh"
#include "sell/ahead.cuh"
#include "sell/half_sweeps.cuh"

// Launch bounds are set where they were measured to win (spmv_dot 5 %, sweeps up to 1 %); four columns in flight a thread is the
// best number for the same reason: eight need half as many registers again.

// y = A_local x: 26 entries (211) + diagonal, x, y (24) = 235 bytes a row.
// `headers` lists the slices by the lattice row of their first row: the colors of one lattice plane run next to each
// other, so x comes from memory once; color after color it would come eight times.
template <bool WITH_DOT, typename Value>
DEVICE void multiply(
    const Header* headers, const Value* values, const int* columns, const real* diagonal, const real* x, real* y, double* partials, int count
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

ENTRY spmv(MATRIX, In<real> diagonal, In<real> x, Out<real> y, int count) {
    multiply<false>(headers, values, columns, diagonal, x, y, nullptr, count);
}

// The same with x . y of each slice in `partials` (a quarter of a byte a row), which the kernel `sum` adds in slice
// order: both vectors are in registers here, a dot product of its own would read them again (16 bytes a row).
KERNEL(spmv_dot, 12)(MATRIX, In<real> diagonal, In<real> x, Out<real> y, Out<double> partials, int count) {
    multiply<true>(headers, values, columns, diagonal, x, y, partials, count);
}

// Both with values that are stored as float because that lost nothing (`Backend.compacted`): 26 entries of 4.125 bytes
// (107) + diagonal, x, y (24) = 131 bytes a row of doubles, and the bits of the kernels above.
KERNEL(spmv_compact, 12)(COMPACT, In<real> diagonal, In<real> x, Out<real> y, int count) {
    multiply<false>(headers, values, columns, diagonal, x, y, nullptr, count);
}

KERNEL(spmv_dot_compact, 12)(COMPACT, In<real> diagonal, In<real> x, Out<real> y, Out<double> partials, int count) {
    multiply<true>(headers, values, columns, diagonal, x, y, partials, count);
}

// y = r - A_local x: 8 bytes a row more than a product, where a vector operation after it moves 24.
KERNEL(residual, 12)(MATRIX, In<real> diagonal, const real* r, const real* x, real* y, int count) {
    LISTED_SLICE(int)
    wait_for_last_launch();
    y[p] = r[p] - add_products(__ldcs(diagonal + p) * x[p], slice, 0, slice.width, x, lane);
}

// z = x + (r - A_local x) / d, with r . z of each slice in `partials` WITH_DOT: 16 bytes a row more, where an operation of its
// own moves 40.
template <bool WITH_DOT>
DEVICE void swept(
    MATRIX, const real* diagonal, const real* d, const real* r, const real* x, real* z, double* partials, int count
) {
    LISTED_SLICE(int)
    wait_for_last_launch();
    const real sum = add_products(__ldcs(diagonal + p) * x[p], slice, 0, slice.width, x, lane);
    const real right = r[p], result = x[p] + (right - sum) / __ldcs(d + p);
    z[p] = result;
    if (WITH_DOT) {
        const double part = warp_sum(static_cast<double>(right) * result);
        if (lane == 0) partials[p / SLICE - 1] = part;
    }
}

KERNEL(jacobi_sweep, 12)(MATRIX, In<real> diagonal, In<real> d, const real* r, const real* x, real* z, int count) {
    swept<false>(headers, values, columns, diagonal, d, r, x, z, nullptr, count);
}

KERNEL(jacobi_sweep_dot, 12)(
    MATRIX, In<real> diagonal, In<real> d, const real* r, const real* x, real* z, double* partials, int count
) {
    swept<true>(headers, values, columns, diagonal, d, r, x, z, partials, count);
}

// x = (r - L x)/d: the forward sweep from zero reads the lower half only: 13 entries (106) + d, r, x (24), and without
// slabs the earlier colors' x again in each launch (28).
KERNEL(forward_from_zero, 10)(MATRIX, In<real> diagonal, In<real> r, real* x, RANGE) {
    OWN_SLICE(int)
    const real d = __ldcs(diagonal + p);
    const Ahead ahead = request_half(slice, 0, slice.upper, lane);
    wait_for_last_launch();
    const real right = __ldcs(r + p);
    half_product<5>(slice, ahead, 0, slice.upper, x, lane, [&](real sum) { x[p] = quotient(right - sum, d); });
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
DEVICE Boundary request_boundary(MATRIX, const int* boundary, int count, int lane) {
    Boundary b;
    b.s = warp_number();
    b.valid = b.s * SLICE + lane < count;
    b.p = b.valid ? __ldg(boundary + b.s * SLICE + lane) : 0;
    const Header found = b.s * SLICE < count ? load_header(headers + b.s) : Header{0, 0, 0, 0};
    b.slice = slice_of(found, values, columns, lane);
    UNROLLED for (int i = 0; i < HALO_AHEAD; ++i) {
        const bool there = i < b.slice.width;
        b.a[i] = there ? __ldcs(b.slice.values + i * SLICE) : real(0);
        b.c[i] = !there ? 0 : b.slice.run ? __ldg(b.slice.columns + i) + lane : __ldcs(b.slice.columns + i * SLICE + lane);
    }
    return b;
}

// The product of this lane's row with the halo, entries in order.
DEVICE real row_times_halo(const Boundary& b, const real* h, int lane) {
    real x[HALO_AHEAD], sum = 0;
    UNROLLED for (int i = 0; i < HALO_AHEAD; ++i) if (i < b.slice.width) x[i] = h[b.c[i]];
    UNROLLED for (int i = 0; i < HALO_AHEAD; ++i) if (i < b.slice.width) sum = fma(b.a[i], x[i], sum);
    return add_products(sum, b.slice, HALO_AHEAD, b.slice.width, h, lane);
}

#define OWN_BOUNDARY()                                                                              \
    next_may_start();                                                                               \
    const int lane = lane_number();                                                                 \
    const Boundary own = request_boundary(headers, values, columns, boundary, count, lane);

// y += A_halo h.
ENTRY spmv_halo(MATRIX, In<int> boundary, const real* h, real* y, int count) {
    OWN_BOUNDARY()
    wait_for_last_launch();
    const real old = own.valid ? y[own.p] : real(0);
    const real sum = row_times_halo(own, h, lane);
    if (own.valid) y[own.p] = old + sum;
}

// q = A_halo h: what a boundary row adds or subtracts once the work inside the chunk is done. Beside that work, so it is
// seen only where that is shorter.
ENTRY times_halo(MATRIX, In<int> boundary, const real* h, real* q, int count) {
    OWN_BOUNDARY()
    wait_for_last_launch();
    const real sum = row_times_halo(own, h, lane);
    if (own.valid) q[own.s * SLICE + lane] = sum;
}

// The same with dot = x . q.
ENTRY times_halo_dot(
    MATRIX, In<int> boundary, const real* h, const real* x, real* q, double* partials, unsigned* ticket, double* dot,
    int count
) {
    OWN_BOUNDARY()
    wait_for_last_launch();
    const real factor = own.valid ? x[own.p] : real(0);
    const real sum = row_times_halo(own, h, lane);
    if (own.valid) q[own.s * SLICE + lane] = sum;
    grid_sum<sum_of_block>(own.valid ? static_cast<double>(factor) * sum : 0.0, partials, ticket, dot);
}

// r -= H h.
ENTRY subtract_halo(MATRIX, In<int> boundary, const real* h, real* r, int count) {
    OWN_BOUNDARY()
    wait_for_last_launch();
    const real old = own.valid ? r[own.p] : real(0);
    const real sum = row_times_halo(own, h, lane);
    if (own.valid) r[own.p] = old - sum;
}

// Each entry times the item of the halo that it multiplies, or of its row: a value read and written, its column, the factor.
ENTRY scale_halo(MATRIX, In<int> boundary, const real* factors, Out<real> out, int by_rows, int count) {
    OWN_BOUNDARY()
    wait_for_last_launch();
    const Slice& slice = own.slice;
    real* scaled = out + (slice.values - values);
    for (int i = 0; i < slice.width; ++i) {
        const int column = slice.run ? slice.columns[i] + lane : slice.columns[i * SLICE + lane];
        scaled[i * SLICE] = own.valid ? slice.values[i * SLICE] * factors[by_rows ? own.p : column] : real(0);
    }
}

// y += q on the boundary, dot += part: 4 bytes of row, q, y twice.
ENTRY add_halo_dot(In<int> boundary, const real* q, const double* part, real* y, double* dot, int count) {
    OWN_ROW()
    wait_for_last_launch();
    if (i == 0) *dot += *part;
    if (p >= 0) y[p] += q[i];
}
