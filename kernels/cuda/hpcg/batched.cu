// HPCG's smoothers and restriction on WIDTH vectors at once, as smoother.cu has them for one.

#include "slices.cuh"
#include "sell/passes.cuh"
#include "sell/batched.cuh"
#include "hpcg/header.cuh"

// x = w - (U x)/d: 13 entries (106) + d (8), and w, x (16) for each column. w may be x.
BATCHED(backward)(MATRIX, In<real> diagonal, const real* from, real* x, i64 size, RANGE) {
    OWN_SLICE(i64)
    const real d = __ldcs(diagonal + p);
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, slice.upper, slice.width, x, size, lane);
    real own[WIDTH];
    EACH_COLUMN own[w] = from[w * size + p];
    EACH_COLUMN x[w * size + p] = own[w] - quotient(sums.of[w], d);
}

// e = (U x)/d, x -= e: the same with x twice and e (24) for each column.
BATCHED(backward_keep)(MATRIX, In<real> diagonal, real* x, real* e, i64 size, RANGE) {
    OWN_SLICE(i64)
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
BATCHED(forward_corrected)(
    SMOOTHED_MATRIX, In<real> diagonal, const real* r, const real* c, const real* e, real* x, real* kept,
    i64 size, RANGE
) {
    OWN_SLICE(i64)
    const real d = __ldcs(diagonal + p);
    wait_for_last_launch();
    Sums sums = zeros();
    add(sums, slice, 0, slice.upper, x, size, lane);
    real own[WIDTH];
    EACH_COLUMN own[w] = __ldcs(r + w * size + p);
    EACH_COLUMN own[w] = quotient(own[w] - sums.of[w], d);
    EACH_COLUMN __stcs(kept + w * size + p, own[w]);
    sums = zeros();
    add(sums, slice, found.coarse(), slice.width, c, size, lane);
    EACH_COLUMN own[w] -= __ldcs(e + w * size + p);
    EACH_COLUMN x[w * size + p] = own[w] - quotient(sums.of[w], d);
}

// rc = (L e) at the coarse points, an eighth of the rows with 26 lower entries each: 26 for each fine row, and e (8) and
// rc/8 for each column, which have `size` and `to` items.
BATCHED(restrict_residual)(MATRIX, In<int> coarse_of, const real* e, real* rc, i64 size, i64 to, RANGE) {
    OWN_SLICE(i64)
    const int target = __ldg(coarse_of + p);
    wait_for_last_launch();
    if (!__any_sync(ALL_LANES, target >= 0)) return;
    Sums sums = zeros();
    add(sums, slice, 0, slice.upper, e, size, lane);
    if (target >= 0) { EACH_COLUMN rc[w * to + target] = sums.of[w]; }
}
