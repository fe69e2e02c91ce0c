// The passes of a multigrid cycle with half sweeps and rectangular transfers. One warp a slice and one thread a row, as
// in sweeps.cu; bytes are those of a 27-point matrix (8.125 an entry in run slices), a row.

#include "slices.cuh"
#include "sell/ahead.cuh"
#include "sell/passes.cuh"

// 48 registers a thread, of which none spill. With 12 blocks to a multiprocessor 30 to 50 bytes a thread did.

// y = -(U x), the residual after a forward sweep from zero: 13 entries (106) + x, y (16). Rows do not depend on each
// other, so `headers` lists the slices plane by plane, as SpMV has them.
KERNEL(upper_residual, 10)(MATRIX, In<real> x, Out<real> y, int count) {
    LISTED_SLICE(int)
    const Ahead ahead = request(slice, slice.upper, slice.width, lane);
    wait_for_last_launch();
    __stcs(y + p, -products(slice, ahead, slice.upper, slice.width, x, lane));
}

// w = r - L x: 13 entries (106) + r, x, w (24).
KERNEL(lower_residual, 10)(MATRIX, In<real> r, In<real> x, Out<real> w, int count) {
    LISTED_SLICE(int)
    const Ahead ahead = request(slice, 0, slice.upper, lane);
    wait_for_last_launch();
    const real right = __ldcs(r + p);
    __stcs(w + p, right - products(slice, ahead, 0, slice.upper, x, lane));
}

// x = (w - U x)/d, color after color (schedule.py): 13 entries (106) + d, w, x (24). x is written in the launch that
// reads it, at other rows.
KERNEL(backward_solve, 10)(MATRIX, In<real> diagonal, In<real> w, real* x, int first, int step, int count) {
    next_may_start();
    const int number = warp_number();
    if (number >= count) return;
    const int lane = lane_number();
    const int s = first + step * number;
    const int p = (s + 1) * SLICE + lane;
    const Slice slice = slice_of(load_header(headers + s), values, columns, lane);
    const real d = __ldcs(diagonal + p);
    const Ahead ahead = request(slice, slice.upper, slice.width, lane);
    wait_for_last_launch();
    const real right = __ldcs(w + p);
    x[p] = quotient(right - products(slice, ahead, slice.upper, slice.width, x, lane), d);
}

// y[target] = A x, or += A x, with a rectangular A. Of trilinear interpolation: 27/8 entries (27) a fine row, once for
// each direction, and the vectors.
template <bool ADD>
DEVICE void multiply(MATRIX, const int* target, const real* x, real* y, int count) {
    next_may_start();
    const int s = warp_number();
    if (s >= count) return;
    const int lane = lane_number();
    const Slice slice = slice_of(load_header(headers + s), values, columns, lane);
    const int q = __ldg(target + s * SLICE + lane);
    const Ahead ahead = request(slice, 0, slice.width, lane);
    wait_for_last_launch();
    const real old = ADD && q >= 0 ? y[q] : real(0);
    const real sum = products(slice, ahead, 0, slice.width, x, lane);
    if (q >= 0) y[q] = ADD ? old + sum : sum;
}

KERNEL(product, 10)(MATRIX, In<int> target, In<real> x, Out<real> y, int count) {
    multiply<false>(headers, values, columns, target, x, y, count);
}

KERNEL(product_add, 10)(MATRIX, In<int> target, In<real> x, Out<real> y, int count) {
    multiply<true>(headers, values, columns, target, x, y, count);
}

// y[target] = x[source]: 8 bytes of indices and 16 of values an item.
ENTRY move(In<int> source, In<int> target, In<real> x, Out<real> y, i64 size) {
    next_may_start();
    const i64 i = thread_number();
    const int from = i < size ? __ldg(source + i) : 0, to = i < size ? __ldg(target + i) : 0;
    wait_for_last_launch();
    if (i < size) y[to] = __ldg(x + from);
}

// x = values r, both at `position`: one warp a row, added in a fixed tree. rows² values, which come from L2.
ENTRY dense_product(In<int> position, In<real> values, In<real> r, Out<real> x, int rows) {
    next_may_start();
    const int row = warp_number();
    if (row >= rows) return;
    const int lane = lane_number();
    const real* const own = values + static_cast<i64>(row) * rows;
    wait_for_last_launch();
    constexpr int FLIGHT = 8;   // items that a lane requests at a time: two latencies of memory for 256 columns
    double sum = 0.0;
    for (int from = lane; from < rows; from += FLIGHT * SLICE) {
        int p[FLIGHT];
        real a[FLIGHT], b[FLIGHT];
        UNROLLED for (int k = 0; k < FLIGHT; ++k)
            p[k] = from + k * SLICE < rows ? __ldg(position + from + k * SLICE) : -1;
        UNROLLED for (int k = 0; k < FLIGHT; ++k) a[k] = p[k] < 0 ? real(0) : __ldg(own + from + k * SLICE);
        UNROLLED for (int k = 0; k < FLIGHT; ++k) b[k] = p[k] < 0 ? real(0) : __ldg(r + p[k]);
        UNROLLED for (int k = 0; k < FLIGHT; ++k) sum += static_cast<double>(a[k]) * b[k];
    }
    sum = warp_sum(sum);
    if (lane == 0) x[__ldg(position + row)] = static_cast<real>(sum);
}
