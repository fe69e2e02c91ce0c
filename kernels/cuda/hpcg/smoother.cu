// HPCG's smoothers and its way to the coarser level and back (docs/theory.md). One warp a slice and one thread a row, as in
// sweeps.cu; bytes are those of a 27-point matrix (8.125 an entry in run slices), a row.

#include "slices.cuh"
#include "sell/passes.cuh"
#include "sell/ahead.cuh"
#include "sell/half_sweeps.cuh"
#include "hpcg/header.cuh"

// x = w - (U x)/d: the backward sweep reads the upper half only: 13 entries (106) + d, w, x (24). w may be x.
KERNEL(backward, 10)(MATRIX, In<real> diagonal, const real* w, real* x, RANGE) {
    OWN_SLICE(int)
    const real d = __ldcs(diagonal + p);
    const Ahead ahead = request_half(slice, slice.upper, slice.width, lane);
    wait_for_last_launch();
    const real old = w[p];
    half_product<6>(
        slice, ahead, slice.upper, slice.width, x, lane, [&](real sum) { x[p] = old - quotient(sum, d); });
}

// e = (U x)/d, x -= e: the backward sweep that keeps what it subtracts: 106 + d, x twice, e (32).
// The residual and the post-smoother then need no second product with U.
KERNEL(backward_keep, 10)(MATRIX, In<real> diagonal, real* x, Out<real> e, RANGE) {
    OWN_SLICE(int)
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

DEVICE Corrected corrected_products(const Slice& slice, int coarse, const real* x, const real* c, int lane) {
    if constexpr (STAGING) {
        const Ahead ahead = request(slice, 0, slice.upper, lane);
        const Ahead behind = request(slice, coarse, slice.width, lane, ahead.count);
        wait_for_last_launch();
        const real lower = products(slice, ahead, 0, slice.upper, x, lane);
        return {lower, products(slice, behind, coarse, slice.width, c, lane)};
    }
    const int tail = slice.width - coarse;
    const bool together = slice.run && slice.upper + tail <= SLICE;
    const int column = lane < slice.upper ? lane : coarse + lane - slice.upper;
    const int base = together && column < slice.width ? __ldg(slice.columns + column) : 0;
    wait_for_last_launch();
    if (together) {
        const real of_tail = run_in_flights<4>(0, slice.values + coarse * SLICE, base, slice.upper, tail, c, lane);
        return {run_in_flights<6>(0, slice.values, base, 0, slice.upper, x, lane), of_tail};
    }
    const real lower = add_products(0, slice, 0, slice.upper, x, lane);
    return {lower, add_products(0, slice, coarse, slice.width, c, lane)};
}

// w = (r - L x)/d, x = w - e - (U c)/d: the forward sweep after the coarse correction c, which is zero but at coarse
// points: the tail of the slice alone is read: 13 + 3.25 entries (132) + d, r, e, w, x, c/8 (41).
KERNEL(forward_corrected, 10)(
    SMOOTHED_MATRIX, In<real> diagonal, In<real> r, In<real> c, In<real> e, real* x, Out<real> w, RANGE
) {
    OWN_SLICE(int)
    const Corrected sum = corrected_products(slice, found.coarse(), x, c, lane);
    const real right = __ldcs(r + p), d = __ldcs(diagonal + p);
    const real kept = slice.upper < slice.width ? __ldcs(e + p) : real(0);   // (U x)/d: nothing at coarse points
    const real fresh = quotient(right - sum.lower, d);
    __stcs(w + p, fresh);
    x[p] = fresh - kept - quotient(sum.tail, d);
}

// rc = (L e) at the coarse points, the residual after the pre-smoother. Coarse points are an eighth of the rows with
// 26 lower entries each: 26 + e (8) + the map and rc (1.5) bytes for each fine row.
ENTRY restrict_residual(MATRIX, In<int> coarse_of, In<real> e, Out<real> rc, RANGE) {
    OWN_SLICE(int)
    const int target = __ldg(coarse_of + p);
    wait_for_last_launch();
    if (!__any_sync(ALL_LANES, target >= 0)) return;
    const real sum = add_products(0, slice, 0, slice.upper, e, lane);
    if (target >= 0) rc[target] = sum;
}

// kept = r, r -= q, and rc -= q at the coarse points of the boundary: 8 bytes of row and map, q, r twice, kept, rc/2.
ENTRY residual_halo(In<int> boundary, In<int> coarse_of, const real* q, real* r, real* rc, real* kept, int count) {
    OWN_ROW()
    const int target = p >= 0 ? __ldg(coarse_of + p) : -1;
    wait_for_last_launch();
    if (p < 0) return;
    const real product = q[i], old = r[p], coarse = target >= 0 ? rc[target] : real(0);
    kept[i] = old;
    r[p] = old - product;
    if (target >= 0) rc[target] = coarse - product;
}
