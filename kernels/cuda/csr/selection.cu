// Some rows of a matrix, with their entries in some columns (dsolver.kernels.amg.selection is the text).

typedef long long i64;
using real = REAL;

constexpr int LANES = 8, WARP = 32;   // lanes that share a row, as in selection.py

// rows: those that are taken; null for all. low, high: columns that are taken.
template <typename T>
__device__ void select(
    const i64* __restrict__ start, const T* __restrict__ columns, const real* __restrict__ values, const i64* __restrict__ rows,
    int count, i64 low, i64 high, int* __restrict__ lengths, const i64* __restrict__ begins, T* __restrict__ out_columns,
    real* __restrict__ out_values
) {
    const int lane = threadIdx.x % LANES;
    const i64 i = (blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x) / LANES;
    const int shift = threadIdx.x % WARP - lane;
    i64 k = 0, last = 0, at = 0;
    if (i < count) {
        const i64 row = rows ? rows[i] : i;
        k = start[row];
        last = start[row + 1];
        if (begins) at = begins[i];
    }
    int found = 0;
    // All lanes of a warp go on until the longest of its rows has ended: they wait for each other.
    while (__ballot_sync(0xffffffffu, k < last)) {
        const bool there = k + lane < last;
        const T column = there ? columns[k + lane] : T(0);
        const bool kept = there && column >= low && column < high;
        const unsigned all = __ballot_sync(0xffffffffu, kept) >> shift & 0xffu;
        if (kept && begins) {
            const i64 to = at + found + __popc(all & ((1u << lane) - 1));
            out_columns[to] = column;
            out_values[to] = values[k + lane];
        }
        found += __popc(all);
        k += LANES;
    }
    if (!begins && lane == 0 && i < count) lengths[i] = found;
}

#define ARGUMENTS(T) \
    const i64* __restrict__ start, const T* __restrict__ columns, const real* __restrict__ values, \
    const i64* __restrict__ rows, int count, i64 low, i64 high, int* __restrict__ lengths, const i64* __restrict__ begins, \
    T* __restrict__ out_columns, real* __restrict__ out_values

extern "C" __global__ void select_8(ARGUMENTS(i64)) {
    select(start, columns, values, rows, count, low, high, lengths, begins, out_columns, out_values);
}

extern "C" __global__ void select_4(ARGUMENTS(int)) {
    select(start, columns, values, rows, count, low, high, lengths, begins, out_columns, out_values);
}
