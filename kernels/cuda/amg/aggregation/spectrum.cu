// Steps of the power method (dsolver/kernels/cuda/amg/aggregation/spectrum.py).

#include "device.cuh"

constexpr int THREADS = 256;
constexpr int LANES = 8;   // of a row; the host's loop adds up in their order
constexpr int BATCH = 4;   // entries of a lane that are requested together
constexpr int SIZE = 3;    // rows and columns of a block

// Keeps the largest value of all blocks' threads, as bits, which ascend as values from zero on do.
DEVICE void keep_largest(double value, u64* largest) {
    u64 bits = static_cast<u64>(__double_as_longlong(value));
    for (int step = WARP / 2; step > 0; step /= 2) bits = max(bits, __shfl_xor_sync(ALL_LANES, bits, step));
    if (threadIdx.x % WARP == 0 && bits) atomicMax(largest, bits);
}

// What becomes of a row's sum A x: D^-1 A x, or where `terms` is given, D x^2 and D y^2 with that as y, and the largest of both.
struct Finish {
    int rows, below;
    const double *diagonal, *x;
    double *out, *terms;
    u64* largest;

    // All threads call it, those without a row too.
    DEVICE void operator()(bool mine, int i, double total) const {
        const double center = mine ? diagonal[i] : 1.0, y = __ddiv_rn(total, center);
        if (terms == nullptr) {
            if (mine) out[i] = y;
            return;
        }
        const double before = mine ? x[below + i] : 0.0;
        const double one = __dmul_rn(center, __dmul_rn(before, before)), other = __dmul_rn(center, __dmul_rn(y, y));
        if (mine) {
            terms[i] = one;
            terms[static_cast<i64>(rows) + i] = other;
        }
        keep_largest(mine ? one : 0.0, largest);
        keep_largest(mine ? other : 0.0, largest + 1);
    }
};

DEVICE double added_up(double total) {
    for (int step = LANES / 2; step > 0; step /= 2) total = __dadd_rn(total, __shfl_xor_sync(ALL_LANES, total, step));
    return total;
}

// 12 bytes an entry and 8 of its column.
ENTRY __launch_bounds__(THREADS) multiply(
    In<i64> start, In<int> columns, In<double> values, int rows, int below, In<double> diagonal, In<double> x,
    Out<double> out, Out<double> terms, u64* largest
) {
    const int i = static_cast<int>((static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x) / LANES);
    const bool there = i < rows, mine = there && threadIdx.x % LANES == 0;
    const i64 end = there ? start[i + 1] : 0;
    double total = 0.0;
    for (i64 base = there ? start[i] + threadIdx.x % LANES : 0; base < end; base += BATCH * LANES) {
        int column[BATCH];
        double value[BATCH];
        UNROLLED for (int q = 0; q < BATCH; ++q) {
            const bool used = base + q * LANES < end;
            column[q] = used ? columns[base + q * LANES] : -1;
            value[q] = used ? values[base + q * LANES] : 0.0;
        }
        UNROLLED for (int q = 0; q < BATCH; ++q) value[q] = column[q] >= 0 ? __dmul_rn(value[q], x[column[q]]) : 0.0;
        UNROLLED for (int q = 0; q < BATCH; ++q)
            if (column[q] >= 0) total = __dadd_rn(total, value[q]);
    }
    Finish{rows, below, diagonal, x, out, terms, largest}(mine, i, added_up(total));
}

// Rows of full blocks, whose columns are read once each, and x for all rows of a block: 8.4 bytes an entry.
ENTRY __launch_bounds__(THREADS) multiply_blocks(
    In<i64> start, In<int> columns, In<double> values, int rows, int below, In<double> diagonal, In<double> x,
    Out<double> out, Out<double> terms, u64* largest
) {
    constexpr int TOGETHER = 2;
    const int node = static_cast<int>((static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x) / LANES);
    const int lane = threadIdx.x % LANES;
    const bool there = node < rows / SIZE;
    const i64 first = there ? start[node] : 0;
    const int length = there ? static_cast<int>(start[node + 1] - first) * SIZE : 0;
    const double* const mine = values + first * (SIZE * SIZE);
    double sum[SIZE] = {};
    for (int o = lane; o < length; o += TOGETHER * LANES) {
        int column[TOGETHER];
        double value[TOGETHER][SIZE];
        UNROLLED for (int q = 0; q < TOGETHER; ++q) {
            const int at = o + q * LANES;
            column[q] = at < length ? SIZE * columns[first + at / SIZE] + at % SIZE : -1;
            UNROLLED for (int r = 0; r < SIZE; ++r)
                value[q][r] = at < length ? mine[static_cast<i64>(r) * length + at] : 0.0;
        }
        UNROLLED for (int q = 0; q < TOGETHER; ++q) {
            const double of_column = column[q] >= 0 ? x[column[q]] : 0.0;
            UNROLLED for (int r = 0; r < SIZE; ++r)
                if (column[q] >= 0) sum[r] = __dadd_rn(sum[r], __dmul_rn(value[q][r], of_column));
        }
    }
    double own = 0.0;
    UNROLLED for (int r = 0; r < SIZE; ++r) {
        const double total = added_up(sum[r]);
        if (lane == r) own = total;
    }
    Finish{rows, below, diagonal, x, out, terms, largest}(there && lane < SIZE, node * SIZE + lane, own);
}

// Sums of the integers next to terms 2^shift, which float64 holds exactly.
ENTRY __launch_bounds__(THREADS) sum_scaled(In<double> terms, i64 rows, int first_shift, int second_shift, u64* sums) {
    const double* const mine = terms + (blockIdx.y ? rows : 0);
    const int shift = blockIdx.y ? second_shift : first_shift;
    i64 total = 0;
    for (i64 i = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x; i < rows; i += gridDim.x * THREADS)
        total += static_cast<i64>(rint(ldexp(mine[i], shift)));
    for (int step = WARP / 2; step > 0; step /= 2) total += __shfl_xor_sync(ALL_LANES, total, step);
    if (threadIdx.x % WARP == 0 && total) atomicAdd(sums + blockIdx.y, static_cast<u64>(total));
}
