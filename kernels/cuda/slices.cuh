// Products with the entries of one slice (see dsolver/kernels/formats/sell.py): one warp a slice, one thread a row.
#pragma once

#include "device.cuh"

// The value type of matrices and vectors, chosen by the loader: one text, compiled once for each. Sums over a row's entries
// are formed in it, dot products always in double.
#ifndef REAL
#define REAL double
#endif
using real = REAL;

constexpr int SLICE = 32;

// Where a slice's entries are: 16 bytes that arrive in one load, since every other load of a warp waits for them.
struct __align__(16) Header {
    unsigned start;     // first value / SLICE: 32 bits reach 1.4e11 values; a chunk of 512^3 points holds 3.6e9
    unsigned columns;   // first column; a chunk of 512^3 points without any run has 3.5e9
    int slice;          // number of the slice
    unsigned shape;     // first upper column, width (15 bits each), and whether it is a run

    DEVICE int upper() const { return static_cast<int>(shape & 32767u); }
    DEVICE int width() const { return static_cast<int>(shape >> 15 & 32767u); }
    DEVICE bool run() const { return (shape >> 30) != 0u; }
};

// One slice as a warp sees it, with values stored as `Value`. All but `values` is the same in all lanes.
template <typename Value>
struct SliceOf {
    const Value* values;    // this lane's value of entry column 0
    const int* columns;     // the slice's first column index
    int upper, width;
    bool run;
};

using Slice = SliceOf<real>;

DEVICE int lane_number() { return threadIdx.x % SLICE; }

DEVICE int warp_number() { return (blockIdx.x * blockDim.x + threadIdx.x) / SLICE; }

template <typename H>
DEVICE H load_header(const H* where) {
    const uint4 packed = __ldg(reinterpret_cast<const uint4*>(where));
    return {packed.x, packed.y, static_cast<int>(packed.z), packed.w};
}

template <typename H, typename Value>
DEVICE SliceOf<Value> slice_of(H h, const Value* values, const int* columns, int lane) {
    return {
        values + static_cast<i64>(h.start) * SLICE + lane, columns + h.columns, h.upper(), h.width(), h.run(),
    };
}

// COUNT entry columns whose bases lie in lanes from .. from + COUNT - 1 of `base`. All COUNT values and all COUNT x are
// requested before the first is used: loads in flight are what hides the memory's latency, so there are more of them
// where they are smaller. Matrix values are read once in a pass, so they go past the caches' best places (__ldcs); x is
// read up to 27 times and stays in L1 and L2.
constexpr int IN_FLIGHT = 32 / sizeof(real);

template <int COUNT, typename Value>
DEVICE real run_columns(real sum, const Value* values, int base, int from, const real* x, int lane) {
    Value a[COUNT];
    real b[COUNT];
    UNROLLED for (int i = 0; i < COUNT; ++i) a[i] = __ldcs(values + i * SLICE);
    UNROLLED for (int i = 0; i < COUNT; ++i) b[i] = x[__shfl_sync(ALL_LANES, base, from + i) + lane];
    UNROLLED for (int i = 0; i < COUNT; ++i) sum = fma(static_cast<real>(a[i]), b[i], sum);
    return sum;
}

// The last LEFT < 2 COUNT entry columns of a run, in powers of two.
template <int COUNT, typename Value>
DEVICE real run_rest(real sum, const Value*& values, int base, int from, int left, const real* x, int lane) {
    if (left >= COUNT) {
        sum = run_columns<COUNT>(sum, values, base, from, x, lane);
        from += COUNT;
        left -= COUNT;
        values += COUNT * SLICE;
    }
    if constexpr (COUNT > 1) sum = run_rest<COUNT / 2>(sum, values, base, from, left, x, lane);
    return sum;
}

// `count` entry columns of a run, FLIGHT at a time, added in order; their bases lie in lanes from .. of `base`.
template <int FLIGHT, typename Value>
DEVICE real run_in_flights(real sum, const Value* values, int base, int from, int count, const real* x, int lane) {
    for (; count >= FLIGHT; count -= FLIGHT, from += FLIGHT, values += FLIGHT * SLICE)
        sum = run_columns<FLIGHT>(sum, values, base, from, x, lane);
    return run_rest<(FLIGHT > 4 ? 4 : 2)>(sum, values, base, from, count, x, lane);
}

template <int COUNT, typename Value>
DEVICE real explicit_columns(real sum, const Value* values, const int* columns, const real* x) {
    Value a[COUNT];
    real b[COUNT];
    int c[COUNT];
    UNROLLED for (int i = 0; i < COUNT; ++i) c[i] = __ldcs(columns + i * SLICE);
    UNROLLED for (int i = 0; i < COUNT; ++i) a[i] = __ldcs(values + i * SLICE);
    UNROLLED for (int i = 0; i < COUNT; ++i) b[i] = x[c[i]];
    UNROLLED for (int i = 0; i < COUNT; ++i) sum = fma(static_cast<real>(a[i]), b[i], sum);
    return sum;
}

// sum + entry columns [first, last) of the slice times x, added in column order whatever the blocking.
// Run slices: 8.1 bytes an entry (32 bases arrive in one load and go round by shuffles); explicit ones: 12.
// All lanes of the warp must call this with the same first and last.
// Values of a smaller type are widened first, which is exact.
template <typename Value>
DEVICE real add_products(real sum, const SliceOf<Value>& slice, int first, int last, const real* x, int lane) {
    const Value* values = slice.values + first * SLICE;
    if (slice.run) {
        for (int k = first; k < last; k += SLICE) {
            const int count = min(SLICE, last - k);
            const int base = lane < count ? __ldg(slice.columns + k + lane) : 0;
            int i = 0;
            for (; i + IN_FLIGHT <= count; i += IN_FLIGHT, values += IN_FLIGHT * SLICE)
                sum = run_columns<IN_FLIGHT>(sum, values, base, i, x, lane);
            sum = run_rest<IN_FLIGHT / 2>(sum, values, base, i, count - i, x, lane);
        }
    } else {
        const int* columns = slice.columns + first * SLICE + lane;
        int k = first;
        for (; k + 4 <= last; k += 4, values += 4 * SLICE, columns += 4 * SLICE)
            sum = explicit_columns<4>(sum, values, columns, x);
        for (; k < last; ++k, values += SLICE, columns += SLICE) sum = explicit_columns<1>(sum, values, columns, x);
    }
    return sum;
}

// Launches that follow one another early (streams.py): a launch may start once every block of the one before it has
// called `next_may_start`, and what that one wrote may be read or written after `wait_for_last_launch` only. Before it,
// a kernel may read what set-up wrote. Every block of a launch must wait, even if it has nothing to do: a launch is over
// only when its predecessor is, and that is what the one after it relies on.
// A load of constant memory (ld.global.nc: __ldg, or of a `const __restrict__` argument) promises that no thread writes what it
// reads, and the assembler has moved such loads of a vector in front of the wait, where the PTX had them behind it.
// .ci/compile_kernels.py looks for that in the machine code.
DEVICE void next_may_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

DEVICE void wait_for_last_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Values of floats come through shared memory (sell/ahead.cuh).
constexpr bool STAGING = sizeof(real) == 4;
constexpr int STAGED = 26;       // entry columns that a warp can have in shared memory: those of a row of 27 points
constexpr int WIDEST = STAGING ? 8 : 4;   // most warps of a block (schedule.py)
constexpr int STAGING_BLOCKS = 5;   // that share a multiprocessor: 40 warps; 48 and 56 made a V-cycle 6 and 10 % slower, 32 5 %

// a / b; of floats to two units in the last place, where an exact quotient made a V-cycle 0.6 % slower.
DEVICE real quotient(real a, real b) {
    if constexpr (STAGING) {
        float q;
        asm("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(static_cast<float>(a)), "f"(static_cast<float>(b)));
        return q;
    }
    return a / b;
}

// The sum over the warp's lanes, in every lane: a fixed tree, so the bits repeat.
DEVICE double warp_sum(double value) {
    UNROLLED for (int distance = SLICE / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, distance);
    return value;
}
