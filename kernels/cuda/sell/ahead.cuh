// What is requested of a range of entry columns before `wait_for_last_launch`, so that it is in flight while the last
// blocks of the launch before finish.
//
// Of doubles, the first entry columns, in registers: 1 kB a warp. Eight columns need registers that large levels lack,
// and gave small ones 3 us. Of floats all columns, 16 bytes a lane and past the registers into shared memory: what the
// registers can hold of floats in flight is half the bytes, and too few (a pre-smoother of 256^3 0.79 ms, so 0.72).
// Needs slices.cuh.
#pragma once

constexpr int AHEAD = IN_FLIGHT;
constexpr int X_IN_FLIGHT = 16;  // items of x that a thread requests at a time; 8 were 2 % slower

struct Ahead {
    real a[AHEAD];          // without staging
    const real* staged;     // with staging: this lane's value of the first column, in shared memory
    int count;              // of columns there
    int base;               // the bases of a run's first SLICE entry columns, one a lane
};

// The part of the block's shared memory that belongs to this warp.
DEVICE real* staging_room() {
    __shared__ __align__(16) real room[WIDEST * STAGED * SLICE];
    return room + threadIdx.x / SLICE * (STAGED * SLICE);
}

// `taken` columns of the room are in use by another range of the same slice. The matrix is read once in a pass, so it
// should be the first to leave L2, as with __ldcs.
DEVICE Ahead request(const Slice& slice, int first, int last, int lane, int taken = 0) {
    Ahead ahead;
    ahead.base = slice.run && lane < last - first ? __ldg(slice.columns + first + lane) : 0;
    if constexpr (STAGING) {
        constexpr int OF_PIECE = 16 / sizeof(real), PIECES = SLICE / OF_PIECE;   // pieces of 16 bytes, and of a column
        real* const room = staging_room() + taken * SLICE;
        const real* const from = slice.values - lane + first * SLICE;
        u64 once;
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
        ahead.count = min(last - first, STAGED - taken);
        ahead.staged = room + lane;
        for (int i = lane; i < ahead.count * PIECES; i += SLICE) {
            const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(room + i * OF_PIECE));
            asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;"
                :: "r"(to), "l"(from + i * OF_PIECE), "l"(once) : "memory");
        }
    } else {
        UNROLLED for (int i = 0; i < AHEAD; ++i)
            ahead.a[i] = i < last - first ? __ldcs(slice.values + (first + i) * SLICE) : real(0);
    }
    return ahead;
}

DEVICE void wait_for_staged() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
}

// Columns from .. from + left - 1 of those staged, in powers of two; left < 2 COUNT.
template <int COUNT>
DEVICE real staged_rest(real sum, const real* staged, int base, int from, int left, const real* x, int lane) {
    if (left >= COUNT) {
        real b[COUNT];
        UNROLLED for (int i = 0; i < COUNT; ++i) b[i] = x[__shfl_sync(ALL_LANES, base, from + i) + lane];
        UNROLLED for (int i = 0; i < COUNT; ++i) sum = fma(staged[(from + i) * SLICE], b[i], sum);
        from += COUNT;
        left -= COUNT;
    }
    if constexpr (COUNT > 1) sum = staged_rest<COUNT / 2>(sum, staged, base, from, left, x, lane);
    return sum;
}

// `products` of a run whose columns are in shared memory, or on the way. STAGED <= SLICE: one load brings all bases.
DEVICE real staged_run(const Ahead& ahead, const real* x, int lane) {
    real sum = 0;
    int i = 0;
    if (ahead.count >= X_IN_FLIGHT) {
        real b[X_IN_FLIGHT];
        UNROLLED for (int k = 0; k < X_IN_FLIGHT; ++k) b[k] = x[__shfl_sync(ALL_LANES, ahead.base, k) + lane];
        wait_for_staged();
        UNROLLED for (int k = 0; k < X_IN_FLIGHT; ++k) sum = fma(ahead.staged[k * SLICE], b[k], sum);
        for (i = X_IN_FLIGHT; i + X_IN_FLIGHT <= ahead.count; i += X_IN_FLIGHT) {
            UNROLLED for (int k = 0; k < X_IN_FLIGHT; ++k) b[k] = x[__shfl_sync(ALL_LANES, ahead.base, i + k) + lane];
            UNROLLED for (int k = 0; k < X_IN_FLIGHT; ++k) sum = fma(ahead.staged[(i + k) * SLICE], b[k], sum);
        }
    } else {
        wait_for_staged();
    }
    return staged_rest<X_IN_FLIGHT / 2>(sum, ahead.staged, ahead.base, i, ahead.count - i, x, lane);
}

DEVICE real staged_explicit(const Slice& slice, const Ahead& ahead, int first, const real* x, int lane) {
    const int* columns = slice.columns + first * SLICE + lane;
    real sum = 0;
    int i = 0, c[IN_FLIGHT];
    wait_for_staged();
    for (; i + IN_FLIGHT <= ahead.count; i += IN_FLIGHT) {
        real b[IN_FLIGHT];
        UNROLLED for (int k = 0; k < IN_FLIGHT; ++k) c[k] = __ldcs(columns + (i + k) * SLICE);
        UNROLLED for (int k = 0; k < IN_FLIGHT; ++k) b[k] = x[c[k]];
        UNROLLED for (int k = 0; k < IN_FLIGHT; ++k) sum = fma(ahead.staged[(i + k) * SLICE], b[k], sum);
    }
    for (; i < ahead.count; ++i) sum = fma(ahead.staged[i * SLICE], x[__ldcs(columns + i * SLICE)], sum);
    return sum;
}

// `add_products` from 0 with what was requested at hand. Explicit slices of doubles, which need their columns first, begin
// anew.
DEVICE real products(const Slice& slice, const Ahead& ahead, int first, int last, const real* x, int lane) {
    if constexpr (STAGING) {
        const real sum = slice.run ? staged_run(ahead, x, lane) : staged_explicit(slice, ahead, first, x, lane);
        if (last - first <= ahead.count) return sum;
        return add_products(sum, slice, first + ahead.count, last, x, lane);
    }
    if (!slice.run) return add_products(0, slice, first, last, x, lane);
    real sum = 0, b[AHEAD];
    UNROLLED for (int i = 0; i < AHEAD; ++i)
        if (i < last - first) b[i] = x[__shfl_sync(ALL_LANES, ahead.base, i) + lane];
    UNROLLED for (int i = 0; i < AHEAD; ++i) if (i < last - first) sum = fma(ahead.a[i], b[i], sum);
    const real* values = slice.values + (first + AHEAD) * SLICE;
    int i = AHEAD, base = ahead.base;
    for (int k = first; ; i = 0) {
        const int count = min(SLICE, last - k);
        for (; i + IN_FLIGHT <= count; i += IN_FLIGHT, values += IN_FLIGHT * SLICE)
            sum = run_columns<IN_FLIGHT>(sum, values, base, i, x, lane);
        sum = run_rest<IN_FLIGHT / 2>(sum, values, base, i, count - i, x, lane);
        k += SLICE;
        if (k >= last) return sum;
        base = lane < last - k ? __ldg(slice.columns + k + lane) : 0;
    }
}
