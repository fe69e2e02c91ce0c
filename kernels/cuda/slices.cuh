// Products with the entries of one slice (see dsolver/kernels/layout.py): one warp a slice, one thread a row.
#ifndef DSOLVER_SLICES_CUH
#define DSOLVER_SLICES_CUH

constexpr int SLICE = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

// Sliced ELL entries. Offsets are 64-bit: a chunk of 512^3 points holds 3.6e9 values.
struct Slices {
    const long long* __restrict__ start;
    const long long* __restrict__ column_start;
    const double* __restrict__ values;
    const int* __restrict__ columns;
};

// Where a warp finds its slice. Everything here is the same in all lanes.
struct Slice {
    const double* values;   // this lane's value of entry column 0
    const int* columns;     // the slice's first column index
    int width;
    bool run;
};

__device__ __forceinline__ int lane_number() { return threadIdx.x % SLICE; }

__device__ __forceinline__ int warp_number() { return (blockIdx.x * blockDim.x + threadIdx.x) / SLICE; }

__device__ __forceinline__ Slice find_slice(const Slices& m, int s, int lane) {
    const long long value = __ldg(m.start + s), next_value = __ldg(m.start + s + 1);
    const long long column = __ldg(m.column_start + s), next_column = __ldg(m.column_start + s + 1);
    const int width = static_cast<int>((next_value - value) / SLICE);
    return {m.values + value + lane, m.columns + column, width, next_column - column == width};
}

// COUNT entry columns whose bases lie in lanes from .. from + COUNT - 1 of `base`. All COUNT values and all COUNT x are
// requested before the first is used: loads in flight are what hides the memory's latency. Matrix values are read once
// in a pass, so they go past the caches' best places (__ldcs); x is read up to 27 times and stays in L1 and L2.
template <int COUNT>
__device__ __forceinline__ double run_columns(
    double sum, const double* values, int base, int from, const double* x, int lane
) {
    double a[COUNT], b[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) a[i] = __ldcs(values + i * SLICE);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) b[i] = x[__shfl_sync(ALL_LANES, base, from + i) + lane];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum = fma(a[i], b[i], sum);
    return sum;
}

template <int COUNT>
__device__ __forceinline__ double explicit_columns(
    double sum, const double* values, const int* columns, const double* x
) {
    double a[COUNT], b[COUNT];
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
__device__ __forceinline__ double add_products(
    double sum, const Slice& slice, int first, int last, const double* x, int lane
) {
    const double* values = slice.values + first * SLICE;
    if (slice.run) {
        for (int k = first; k < last; k += SLICE) {
            const int count = min(SLICE, last - k);
            const int base = lane < count ? __ldg(slice.columns + k + lane) : 0;
            int i = 0;
            for (; i + 8 <= count; i += 8, values += 8 * SLICE) sum = run_columns<8>(sum, values, base, i, x, lane);
            if (count & 4) { sum = run_columns<4>(sum, values, base, i, x, lane); i += 4; values += 4 * SLICE; }
            if (count & 2) { sum = run_columns<2>(sum, values, base, i, x, lane); i += 2; values += 2 * SLICE; }
            if (count & 1) { sum = run_columns<1>(sum, values, base, i, x, lane); values += SLICE; }
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

// The sum over the warp's lanes, in every lane: a fixed tree, so the bits repeat.
__device__ __forceinline__ double warp_sum(double value) {
#pragma unroll
    for (int distance = SLICE / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(ALL_LANES, value, distance);
    return value;
}

#endif
