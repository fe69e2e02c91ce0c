// Parts of half sweeps, color after color: those of M="mg" (sweeps.cu) and of HPCG (hpcg/smoother.cu). Comes after
// passes.cuh.
#ifndef DSOLVER_HALF_SWEEPS_CUH
#define DSOLVER_HALF_SWEEPS_CUH

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
    const Header* headers, const real* values, const int* columns, int first, int step, int number, int count, int lane
) {
    Bundle bundle;
    const int begin = number * SLICES;
    const Header own = lane < SLICES && begin + lane < count
        ? load_header(headers + first + step * (begin + lane)) : Header{0, 0, 0, 0};
#pragma unroll
    for (int j = 0; j < SLICES; ++j) {
        const Header found = {
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
        headers, values, columns, first, step, number, count, lane);                            \
    real d[SLICES];                                                                             \
    bundle_items(NAME, diagonal, d);

#endif
