// Matrix passes on WIDTH vectors at once. A matrix value and a base are loaded once for all columns: of 27 points, 8.125
// bytes an entry for WIDTH products; the vectors add 8 bytes a column each. A column lies as a single vector does, so a warp
// reads its x in whole lines and whatever is not batched takes a column as it is.

#include "slices.cuh"
#include "sums.cuh"
#include "sell/passes.cuh"
#include "sell/batched.cuh"

// y = A_local x; with `partials`, x . y of each slice and column there (WIDTH, slices).
template <bool WITH_DOT, typename Value>
DEVICE void multiply(
    const Header* headers, const Value* values, const int* columns, const real* diagonal, const real* x, real* y,
    double* partials, i64 size, int slices, int count
) {
    LISTED_SLICE(i64)
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
            if (lane == 0) partials[static_cast<i64>(w) * slices + found.slice] = part;
        }
    }
}

// 26 entries (211) + d (8) and for each column x, y (16) bytes a row.
BATCHED(spmv)(MATRIX, In<real> diagonal, const real* x, real* y, i64 size, int count) {
    multiply<false>(headers, values, columns, diagonal, x, y, nullptr, size, 0, count);
}

BATCHED(spmv_dot)(MATRIX, In<real> diagonal, const real* x, real* y, double* partials, i64 size,
    int slices, int count) {
    multiply<true>(headers, values, columns, diagonal, x, y, partials, size, slices, count);
}

// Both with values that are stored as float, as in sweeps.cu: 26 entries (107).
BATCHED(spmv_compact)(COMPACT, In<real> diagonal, const real* x, real* y, i64 size, int count) {
    multiply<false>(headers, values, columns, diagonal, x, y, nullptr, size, 0, count);
}

BATCHED(spmv_dot_compact)(COMPACT, In<real> diagonal, const real* x, real* y, double* partials,
    i64 size, int slices, int count) {
    multiply<true>(headers, values, columns, diagonal, x, y, partials, size, slices, count);
}

// y = r - A_local x: 26 entries (211) + diagonal (8), and r, x, y (24) for each column.
BATCHED(residual)(MATRIX, In<real> diagonal, const real* r, const real* x, real* y, i64 size, int count) {
    LISTED_SLICE(i64)
    const real d = __ldcs(diagonal + p);
    wait_for_last_launch();
    Sums sums;
    EACH_COLUMN sums.of[w] = d * x[w * size + p];
    add(sums, slice, 0, slice.width, x, size, lane);
    EACH_COLUMN y[w * size + p] = r[w * size + p] - sums.of[w];
}

// z = x + (r - A_local x) / d, with r . z of each slice and column in `partials` (WIDTH, slices) WITH_DOT: d (8) more.
template <bool WITH_DOT>
DEVICE void swept(
    MATRIX, const real* diagonal, const real* d, const real* r, const real* x, real* z, double* partials,
    i64 size, int slices, int count
) {
    LISTED_SLICE(i64)
    const real own = __ldcs(diagonal + p), divisor = __ldcs(d + p);
    wait_for_last_launch();
    Sums sums;
    EACH_COLUMN sums.of[w] = own * x[w * size + p];
    add(sums, slice, 0, slice.width, x, size, lane);
    real right[WIDTH], old[WIDTH];
    EACH_COLUMN { right[w] = r[w * size + p]; old[w] = x[w * size + p]; }
    EACH_COLUMN {
        const real result = old[w] + (right[w] - sums.of[w]) / divisor;
        z[w * size + p] = result;
        if constexpr (WITH_DOT) {
            const double part = warp_sum(static_cast<double>(right[w]) * result);
            if (lane == 0) partials[static_cast<i64>(w) * slices + found.slice] = part;
        }
    }
}

BATCHED(jacobi_sweep)(MATRIX, In<real> diagonal, In<real> d, const real* r, const real* x, real* z, i64 size, int count) {
    swept<false>(headers, values, columns, diagonal, d, r, x, z, nullptr, size, 0, count);
}

BATCHED(jacobi_sweep_dot)(
    MATRIX, In<real> diagonal, In<real> d, const real* r, const real* x, real* z, double* partials, i64 size,
    int slices, int count
) {
    swept<true>(headers, values, columns, diagonal, d, r, x, z, partials, size, slices, count);
}

// x = (r - L x)/d: 13 entries (106) + d (8), and r, x (16) for each column.
BATCHED(forward_from_zero)(MATRIX, In<real> diagonal, const real* r, real* x, i64 size, RANGE) {
    OWN_SLICE(i64)
    const real d = __ldcs(diagonal + p);
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, 0, slice.upper, x, size, lane);
    real own[WIDTH];   // all of them before the first store, which they must not pass
    EACH_COLUMN own[w] = __ldcs(r + w * size + p);
    EACH_COLUMN x[w * size + p] = quotient(own[w] - sums.of[w], d);
}

// x = (w - U x)/d, too.
BATCHED(backward_solve)(MATRIX, In<real> diagonal, const real* right, real* x, i64 size, RANGE) {
    OWN_SLICE(i64)
    const real d = __ldcs(diagonal + p);
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, slice.upper, slice.width, x, size, lane);
    real own[WIDTH];
    EACH_COLUMN own[w] = __ldcs(right + w * size + p);
    EACH_COLUMN x[w * size + p] = quotient(own[w] - sums.of[w], d);
}

// y = -(U x): 13 entries (106), and x, y (16) for each column.
BATCHED(upper_residual)(MATRIX, const real* x, real* y, i64 size, int count) {
    LISTED_SLICE(i64)
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, slice.upper, slice.width, x, size, lane);
    EACH_COLUMN __stcs(y + w * size + p, -sums.of[w]);
}

// w = r - L x: 13 entries (106), and r, x, w (24) for each column.
BATCHED(lower_residual)(MATRIX, const real* r, const real* x, real* out, i64 size, int count) {
    LISTED_SLICE(i64)
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, 0, slice.upper, x, size, lane);
    real own[WIDTH];
    EACH_COLUMN own[w] = __ldcs(r + w * size + p);
    EACH_COLUMN __stcs(out + w * size + p, own[w] - sums.of[w]);
}

// y[target] = A x, or += A x, with a rectangular A; x and y have `from` and `to` items a column.
template <bool ADD>
DEVICE void rectangular(MATRIX, const int* target, const real* x, real* y, i64 from, i64 to, int count) {
    next_may_start();
    const int s = warp_number();
    if (s >= count) return;
    const int lane = lane_number();
    const Slice slice = slice_of(load_header(headers + s), values, columns, lane);
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

BATCHED(product)(MATRIX, In<int> target, const real* x, real* y, i64 from, i64 to, int count) {
    rectangular<false>(headers, values, columns, target, x, y, from, to, count);
}

BATCHED(product_add)(MATRIX, In<int> target, const real* x, real* y, i64 from, i64 to, int count) {
    rectangular<true>(headers, values, columns, target, x, y, from, to, count);
}

// y[target] = x[source] in every column, of a vector or a halo x, whose columns and items are so far apart: the indices
// (8 bytes) once, 16 a column.
ENTRY move(In<int> source, In<int> target, const real* x, real* y, i64 column, i64 item, i64 to_size, i64 size) {
    next_may_start();
    const i64 i = thread_number();
    const int from = i < size ? __ldg(source + i) : 0, to = i < size ? __ldg(target + i) : 0;
    wait_for_last_launch();
    if (i >= size) return;
    real own[WIDTH];
    EACH_COLUMN own[w] = x[w * column + from * item];
    EACH_COLUMN y[w * to_size + to] = own[w];
}

// x = values r, both at `position`: one warp a row, as multigrid.cu adds it. rows^2 values, once for all columns.
ENTRY dense_product(In<int> position, In<real> values, const real* r, real* x, i64 size, int rows) {
    next_may_start();
    const int row = warp_number();
    if (row >= rows) return;
    const int lane = lane_number();
    const real* const own = values + static_cast<i64>(row) * rows;
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
DEVICE Sums halo_product(const Slice& slice, const real* h, int lane) {
    Sums sums = zeros();
    for (int k = 0; k < slice.width; ++k) {
        const real a = __ldcs(slice.values + k * SLICE);
        const int c = slice.run ? __ldg(slice.columns + k) + lane : __ldcs(slice.columns + k * SLICE + lane);
        const real* at = h + static_cast<i64>(c) * WIDTH;
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
        slice_of(s * SLICE < count ? load_header(headers + s) : Header{0, 0, 0, 0}, values, columns, lane);      \
    wait_for_last_launch();                                                                                        \
    const Sums sums = halo_product(slice, h, lane);

// y += A_halo h.
ENTRY spmv_halo(MATRIX, In<int> boundary, const real* h, real* y, i64 size, int count) {
    OWN_BOUNDARY()
    if (valid) { EACH_COLUMN y[w * size + p] += sums.of[w]; }
}

// r -= H h.
ENTRY subtract_halo(MATRIX, In<int> boundary, const real* h, real* r, i64 size, int count) {
    OWN_BOUNDARY()
    if (valid) { EACH_COLUMN r[w * size + p] -= sums.of[w]; }
}

// q = A_halo h, an item for each boundary row, and dot = x . q in the order of sweeps.cu; q has `rows` items a column, `dot`
// a column every `apart` items.
ENTRY times_halo_dot(
    MATRIX, In<int> boundary, const real* h, const real* x, real* q, double* partials, unsigned* ticket, double* dot,
    i64 size, i64 rows, i64 apart, int count
) {
    OWN_BOUNDARY()
    for (int w = 0; w < WIDTH; ++w) {
        real sum = real(0);
        UNROLLED for (int n = 0; n < WIDTH; ++n) if (n == w) sum = sums.of[n];
        const real factor = valid ? x[w * size + p] : real(0);
        if (valid) q[w * rows + s * SLICE + lane] = sum;
        const double part = sum_of_block(valid ? static_cast<double>(factor) * sum : 0.0);
        if (threadIdx.x == 0) partials[w * gridDim.x + blockIdx.x] = part;
    }
    if (!comes_last(ticket)) return;
    for (int w = 0; w < WIDTH; ++w) {
        const double total = sum_of_parts<sum_of_block>(partials + w * gridDim.x);
        if (threadIdx.x == 0) dot[w * apart] = total;
    }
}

// q = A_halo h.
ENTRY times_halo(MATRIX, In<int> boundary, const real* h, real* q, i64 rows, int count) {
    OWN_BOUNDARY()
    if (valid) { EACH_COLUMN q[w * rows + s * SLICE + lane] = sums.of[w]; }
}
