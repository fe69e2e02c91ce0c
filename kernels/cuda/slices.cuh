// Products with the entries of one slice (see dsolver/kernels/layout.py): one warp a slice, one thread a row.
#ifndef DSOLVER_SLICES_CUH
#define DSOLVER_SLICES_CUH

// The value type of matrices and vectors, chosen by the loader: one text, compiled once for each. Sums over a row's entries
// are formed in it, dot products always in double.
#ifndef REAL
#define REAL double
#endif
using real = REAL;

constexpr int SLICE = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

// Where a slice's entries are: 16 bytes that arrive in one load, since every other load of a warp waits for them.
struct __align__(16) Entries {
    unsigned start;     // first value / SLICE: 32 bits reach 1.4e11 values; a chunk of 512^3 points holds 3.6e9
    unsigned columns;   // first column; a chunk of 512^3 points without any run has 3.5e9
    int slice;          // number of the slice
    unsigned shape;     // first upper column, first coarse one, width (10 bits each), and whether it is a run
};

// One slice as a warp sees it. All but `values` is the same in all lanes.
struct Slice {
    const real* values;     // this lane's value of entry column 0
    const int* columns;     // the slice's first column index
    int upper, coarse, width;
    bool run;
};

__device__ __forceinline__ int lane_number() { return threadIdx.x % SLICE; }

__device__ __forceinline__ int warp_number() { return (blockIdx.x * blockDim.x + threadIdx.x) / SLICE; }

__device__ __forceinline__ Entries load_entries(const Entries* where) {
    const uint4 packed = __ldg(reinterpret_cast<const uint4*>(where));
    return {packed.x, packed.y, static_cast<int>(packed.z), packed.w};
}

__device__ __forceinline__ Slice slice_of(Entries e, const real* values, const int* columns, int lane) {
    return {
        values + static_cast<long long>(e.start) * SLICE + lane,
        columns + e.columns,
        static_cast<int>(e.shape & 1023u),
        static_cast<int>(e.shape >> 10 & 1023u),
        static_cast<int>(e.shape >> 20 & 1023u),
        (e.shape >> 30) != 0u,
    };
}

// COUNT entry columns whose bases lie in lanes from .. from + COUNT - 1 of `base`. All COUNT values and all COUNT x are
// requested before the first is used: loads in flight are what hides the memory's latency, and they must be IN_FLIGHT
// bytes' worth. Matrix values are read once
// in a pass, so they go past the caches' best places (__ldcs); x is read up to 27 times and stays in L1 and L2.
constexpr int IN_FLIGHT = 32 / sizeof(real);

template <int COUNT>
__device__ __forceinline__ real run_columns(
    real sum, const real* values, int base, int from, const real* x, int lane
) {
    real a[COUNT], b[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) a[i] = __ldcs(values + i * SLICE);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) b[i] = x[__shfl_sync(ALL_LANES, base, from + i) + lane];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum = fma(a[i], b[i], sum);
    return sum;
}

// The last LEFT < 2 COUNT entry columns of a run, in powers of two.
template <int COUNT>
__device__ __forceinline__ real run_rest(
    real sum, const real*& values, int base, int from, int left, const real* x, int lane
) {
    if (left >= COUNT) {
        sum = run_columns<COUNT>(sum, values, base, from, x, lane);
        from += COUNT;
        left -= COUNT;
        values += COUNT * SLICE;
    }
    if constexpr (COUNT > 1) sum = run_rest<COUNT / 2>(sum, values, base, from, left, x, lane);
    return sum;
}

template <int COUNT>
__device__ __forceinline__ real explicit_columns(
    real sum, const real* values, const int* columns, const real* x
) {
    real a[COUNT], b[COUNT];
    int c[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) c[i] = __ldcs(columns + i * SLICE);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) a[i] = __ldcs(values + i * SLICE);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) b[i] = x[c[i]];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum = fma(a[i], b[i], sum);
    return sum;
}

// sum + entry columns [first, last) of the slice times x, added in column order whatever the blocking.
// Run slices: 8.1 bytes an entry (32 bases arrive in one load and go round by shuffles); explicit ones: 12.
// All lanes of the warp must call this with the same first and last.
__device__ __forceinline__ real add_products(
    real sum, const Slice& slice, int first, int last, const real* x, int lane
) {
    const real* values = slice.values + first * SLICE;
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

// Launches that follow one another early (launching.py): a launch may start once every block of the one before it has
// called `next_may_start`, and what that one wrote may be read or written after `wait_for_last_launch` only. Before it,
// a kernel may read what set-up wrote. Every block of a launch must wait, even if it has nothing to do: a launch is over
// only when its predecessor is, and that is what the one after it relies on.
__device__ __forceinline__ void next_may_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ __forceinline__ void wait_for_last_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The first entry columns of a range, requested before `wait_for_last_launch`: 1 kB a warp, in flight while the last
// blocks of the launch before finish. Eight columns need registers that large levels lack, and gave small ones 3 us.
constexpr int AHEAD = IN_FLIGHT;

struct Ahead {
    real a[AHEAD];
    int base;   // the bases of a run's first SLICE entry columns, one a lane
};

__device__ __forceinline__ Ahead request(const Slice& slice, int first, int last, int lane) {
    Ahead ahead;
    ahead.base = slice.run && lane < last - first ? __ldg(slice.columns + first + lane) : 0;
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) ahead.a[i] = i < last - first ? __ldcs(slice.values + (first + i) * SLICE) : real(0);
    return ahead;
}

// `add_products` from 0 with the first entry columns at hand. Explicit slices, which need their columns first, begin anew.
__device__ __forceinline__ real products(
    const Slice& slice, const Ahead& ahead, int first, int last, const real* x, int lane
) {
    if (!slice.run) return add_products(0, slice, first, last, x, lane);
    real sum = 0, b[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) if (i < last - first) b[i] = x[__shfl_sync(ALL_LANES, ahead.base, i) + lane];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) if (i < last - first) sum = fma(ahead.a[i], b[i], sum);
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

// The sum over the warp's lanes, in every lane: a fixed tree, so the bits repeat.
__device__ __forceinline__ double warp_sum(double value) {
#pragma unroll
    for (int distance = SLICE / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(ALL_LANES, value, distance);
    return value;
}

#endif
