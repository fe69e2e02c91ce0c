// Products with the entries of one slice (see dsolver/kernels/formats/sell.py): one warp a slice, one thread a row.
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
struct __align__(16) Header {
    unsigned start;     // first value / SLICE: 32 bits reach 1.4e11 values; a chunk of 512^3 points holds 3.6e9
    unsigned columns;   // first column; a chunk of 512^3 points without any run has 3.5e9
    int slice;          // number of the slice
    unsigned shape;     // first upper column, width (15 bits each), and whether it is a run

    __device__ __forceinline__ int upper() const { return static_cast<int>(shape & 32767u); }
    __device__ __forceinline__ int width() const { return static_cast<int>(shape >> 15 & 32767u); }
    __device__ __forceinline__ bool run() const { return (shape >> 30) != 0u; }
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

__device__ __forceinline__ int lane_number() { return threadIdx.x % SLICE; }

__device__ __forceinline__ int warp_number() { return (blockIdx.x * blockDim.x + threadIdx.x) / SLICE; }

template <typename H>
__device__ __forceinline__ H load_header(const H* where) {
    const uint4 packed = __ldg(reinterpret_cast<const uint4*>(where));
    return {packed.x, packed.y, static_cast<int>(packed.z), packed.w};
}

template <typename H, typename Value>
__device__ __forceinline__ SliceOf<Value> slice_of(H h, const Value* values, const int* columns, int lane) {
    return {
        values + static_cast<long long>(h.start) * SLICE + lane, columns + h.columns, h.upper(), h.width(), h.run(),
    };
}

// COUNT entry columns whose bases lie in lanes from .. from + COUNT - 1 of `base`. All COUNT values and all COUNT x are
// requested before the first is used: loads in flight are what hides the memory's latency, so there are more of them
// where they are smaller. Matrix values are read once in a pass, so they go past the caches' best places (__ldcs); x is
// read up to 27 times and stays in L1 and L2.
constexpr int IN_FLIGHT = 32 / sizeof(real);

template <int COUNT, typename Value>
__device__ __forceinline__ real run_columns(
    real sum, const Value* values, int base, int from, const real* x, int lane
) {
    Value a[COUNT];
    real b[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) a[i] = __ldcs(values + i * SLICE);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) b[i] = x[__shfl_sync(ALL_LANES, base, from + i) + lane];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum = fma(static_cast<real>(a[i]), b[i], sum);
    return sum;
}

// The last LEFT < 2 COUNT entry columns of a run, in powers of two.
template <int COUNT, typename Value>
__device__ __forceinline__ real run_rest(
    real sum, const Value*& values, int base, int from, int left, const real* x, int lane
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

// `count` entry columns of a run, FLIGHT at a time, added in order; their bases lie in lanes from .. of `base`.
template <int FLIGHT, typename Value>
__device__ __forceinline__ real run_in_flights(
    real sum, const Value* values, int base, int from, int count, const real* x, int lane
) {
    for (; count >= FLIGHT; count -= FLIGHT, from += FLIGHT, values += FLIGHT * SLICE)
        sum = run_columns<FLIGHT>(sum, values, base, from, x, lane);
    return run_rest<(FLIGHT > 4 ? 4 : 2)>(sum, values, base, from, count, x, lane);
}

template <int COUNT, typename Value>
__device__ __forceinline__ real explicit_columns(
    real sum, const Value* values, const int* columns, const real* x
) {
    Value a[COUNT];
    real b[COUNT];
    int c[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) c[i] = __ldcs(columns + i * SLICE);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) a[i] = __ldcs(values + i * SLICE);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) b[i] = x[c[i]];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum = fma(static_cast<real>(a[i]), b[i], sum);
    return sum;
}

// sum + entry columns [first, last) of the slice times x, added in column order whatever the blocking.
// Run slices: 8.1 bytes an entry (32 bases arrive in one load and go round by shuffles); explicit ones: 12.
// All lanes of the warp must call this with the same first and last.
// Values of a smaller type are widened first, which is exact.
template <typename Value>
__device__ __forceinline__ real add_products(
    real sum, const SliceOf<Value>& slice, int first, int last, const real* x, int lane
) {
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

// What is requested of a range of entry columns before `wait_for_last_launch`, so that it is in flight while the last
// blocks of the launch before finish.
//
// Of doubles, the first entry columns, in registers: 1 kB a warp. Eight columns need registers that large levels lack,
// and gave small ones 3 us. Of floats all columns, 16 bytes a lane and past the registers into shared memory: what the
// registers can hold of floats in flight is half the bytes, and too few (a pre-smoother of 256^3 0.79 ms, so 0.72).
constexpr bool STAGING = sizeof(real) == 4;
constexpr int AHEAD = IN_FLIGHT;
constexpr int STAGED = 26;       // entry columns that a warp can have in shared memory: those of a row of 27 points
constexpr int WIDEST = STAGING ? 8 : 4;   // most warps of a block (schedule.py)
constexpr int X_IN_FLIGHT = 16;  // items of x that a thread requests at a time; 8 were 2 % slower
constexpr int STAGING_BLOCKS = 5;   // that share a multiprocessor: 40 warps; 48 and 56 made a V-cycle 6 and 10 % slower, 32 5 %

struct Ahead {
    real a[AHEAD];          // without staging
    const real* staged;     // with staging: this lane's value of the first column, in shared memory
    int count;              // of columns there
    int base;               // the bases of a run's first SLICE entry columns, one a lane
};

// The part of the block's shared memory that belongs to this warp.
__device__ __forceinline__ real* staging_room() {
    __shared__ __align__(16) real room[WIDEST * STAGED * SLICE];
    return room + threadIdx.x / SLICE * (STAGED * SLICE);
}

// `taken` columns of the room are in use by another range of the same slice. The matrix is read once in a pass, so it
// should be the first to leave L2, as with __ldcs.
__device__ __forceinline__ Ahead request(const Slice& slice, int first, int last, int lane, int taken = 0) {
    Ahead ahead;
    ahead.base = slice.run && lane < last - first ? __ldg(slice.columns + first + lane) : 0;
    if constexpr (STAGING) {
        constexpr int OF_PIECE = 16 / sizeof(real), PIECES = SLICE / OF_PIECE;   // pieces of 16 bytes, and of a column
        real* const room = staging_room() + taken * SLICE;
        const real* const from = slice.values - lane + first * SLICE;
        unsigned long long once;
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
        ahead.count = min(last - first, STAGED - taken);
        ahead.staged = room + lane;
        for (int i = lane; i < ahead.count * PIECES; i += SLICE) {
            const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(room + i * OF_PIECE));
            asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;"
                :: "r"(to), "l"(from + i * OF_PIECE), "l"(once) : "memory");
        }
    } else {
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            ahead.a[i] = i < last - first ? __ldcs(slice.values + (first + i) * SLICE) : real(0);
    }
    return ahead;
}

__device__ __forceinline__ void wait_for_staged() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
}

// Columns from .. from + left - 1 of those staged, in powers of two; left < 2 COUNT.
template <int COUNT>
__device__ __forceinline__ real staged_rest(
    real sum, const real* staged, int base, int from, int left, const real* x, int lane
) {
    if (left >= COUNT) {
        real b[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; ++i) b[i] = x[__shfl_sync(ALL_LANES, base, from + i) + lane];
#pragma unroll
        for (int i = 0; i < COUNT; ++i) sum = fma(staged[(from + i) * SLICE], b[i], sum);
        from += COUNT;
        left -= COUNT;
    }
    if constexpr (COUNT > 1) sum = staged_rest<COUNT / 2>(sum, staged, base, from, left, x, lane);
    return sum;
}

// `products` of a run whose columns are in shared memory, or on the way. STAGED <= SLICE: one load brings all bases.
__device__ __forceinline__ real staged_run(const Ahead& ahead, const real* x, int lane) {
    real sum = 0;
    int i = 0;
    if (ahead.count >= X_IN_FLIGHT) {
        real b[X_IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < X_IN_FLIGHT; ++k) b[k] = x[__shfl_sync(ALL_LANES, ahead.base, k) + lane];
        wait_for_staged();
#pragma unroll
        for (int k = 0; k < X_IN_FLIGHT; ++k) sum = fma(ahead.staged[k * SLICE], b[k], sum);
        for (i = X_IN_FLIGHT; i + X_IN_FLIGHT <= ahead.count; i += X_IN_FLIGHT) {
#pragma unroll
            for (int k = 0; k < X_IN_FLIGHT; ++k) b[k] = x[__shfl_sync(ALL_LANES, ahead.base, i + k) + lane];
#pragma unroll
            for (int k = 0; k < X_IN_FLIGHT; ++k) sum = fma(ahead.staged[(i + k) * SLICE], b[k], sum);
        }
    } else {
        wait_for_staged();
    }
    return staged_rest<X_IN_FLIGHT / 2>(sum, ahead.staged, ahead.base, i, ahead.count - i, x, lane);
}

__device__ __forceinline__ real staged_explicit(
    const Slice& slice, const Ahead& ahead, int first, const real* x, int lane
) {
    const int* columns = slice.columns + first * SLICE + lane;
    real sum = 0;
    int i = 0, c[IN_FLIGHT];
    wait_for_staged();
    for (; i + IN_FLIGHT <= ahead.count; i += IN_FLIGHT) {
        real b[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) c[k] = __ldcs(columns + (i + k) * SLICE);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) b[k] = x[c[k]];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) sum = fma(ahead.staged[(i + k) * SLICE], b[k], sum);
    }
    for (; i < ahead.count; ++i) sum = fma(ahead.staged[i * SLICE], x[__ldcs(columns + i * SLICE)], sum);
    return sum;
}

// `add_products` from 0 with what was requested at hand. Explicit slices of doubles, which need their columns first, begin
// anew.
__device__ __forceinline__ real products(
    const Slice& slice, const Ahead& ahead, int first, int last, const real* x, int lane
) {
    if constexpr (STAGING) {
        const real sum = slice.run ? staged_run(ahead, x, lane) : staged_explicit(slice, ahead, first, x, lane);
        if (last - first <= ahead.count) return sum;
        return add_products(sum, slice, first + ahead.count, last, x, lane);
    }
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

// a / b; of floats to two units in the last place, where an exact quotient made a V-cycle 0.6 % slower.
__device__ __forceinline__ real quotient(real a, real b) {
    if constexpr (STAGING) {
        float q;
        asm("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(static_cast<float>(a)), "f"(static_cast<float>(b)));
        return q;
    }
    return a / b;
}

// The sum over the warp's lanes, in every lane: a fixed tree, so the bits repeat.
__device__ __forceinline__ double warp_sum(double value) {
#pragma unroll
    for (int distance = SLICE / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(ALL_LANES, value, distance);
    return value;
}

#endif
