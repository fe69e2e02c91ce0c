// Parts of half sweeps, color after color: those of M="mg" (sweeps.cu) and of HPCG (hpcg/smoother.cu). Comes after
// passes.cuh.
#pragma once

// What a half sweep requests of its entries before it waits, and their product after it. Of floats, all entries
// (slices.cuh). Of doubles the bases alone, and FLIGHT entry columns at a time, in each kernel as many as were best: with
// four columns in registers from before the wait, and four at a time, a V-cycle of 256^3 took 3 % longer.
DEVICE Ahead request_half(const Slice& slice, int first, int last, int lane) {
    if constexpr (STAGING) return request(slice, first, last, lane);
    Ahead ahead;
    ahead.base = slice.run && lane < last - first ? __ldg(slice.columns + first + lane) : 0;
    return ahead;
}

// `finish` gets the product, in each branch by itself: behind both of them it was 0.5 % slower.
template <int FLIGHT, typename Finish>
DEVICE void half_product(
    const Slice& slice, const Ahead& ahead, int first, int last, const real* x, int lane, const Finish& finish
) {
    if constexpr (STAGING) finish(products(slice, ahead, first, last, x, lane));
    else if (slice.run && last - first <= SLICE)
        finish(run_in_flights<FLIGHT>(0, slice.values + first * SLICE, ahead.base, 0, last - first, x, lane));
    else finish(add_products(0, slice, first, last, x, lane));
}
