// Steps of the power method (dsolver/kernels/cuda/amg/aggregation/spectrum.py).

constexpr int THREADS = 256;
constexpr int TILE = 2048;               // entries of a block that are in shared memory at once
constexpr int LOADS = TILE / THREADS;    // of a thread, all requested before the first is used
constexpr int WARP = 32;
constexpr unsigned ALL = 0xffffffffu;

using u64 = unsigned long long;

// Places of a tile in shared memory: rows of 16 entries would all begin in one bank.
constexpr __device__ __forceinline__ int of_value(int i) { return i + i / 16; }

// Keeps the largest value of all blocks' threads, as bits, which ascend as values from zero on do.
__device__ __forceinline__ void keep_largest(double value, u64* largest) {
    u64 bits = static_cast<u64>(__double_as_longlong(value));
    for (int step = WARP / 2; step > 0; step /= 2) bits = max(bits, __shfl_xor_sync(ALL, bits, step));
    if (threadIdx.x % WARP == 0 && bits) atomicMax(largest, bits);
}

// y = D^-1 A x of `of_block` rows a block, a thread a row: products come to it through shared memory, in tiles. 12 bytes an
// entry and 8 of its column. Where `terms` is given, D x^2 and D y^2 in place of y, and the largest of both.
extern "C" __global__ void __launch_bounds__(THREADS, 4) multiply(
    const long long* __restrict__ start, const int* __restrict__ columns, const double* __restrict__ values, int rows, int below,
    int of_block, const double* __restrict__ diagonal, const double* __restrict__ x, double* __restrict__ out,
    double* __restrict__ terms, u64* largest
) {
    __shared__ double product_at[of_value(TILE)];
    const int first = blockIdx.x * of_block, last = min(first + of_block, rows), i = first + threadIdx.x;
    const bool mine = static_cast<int>(threadIdx.x) < of_block && i < rows;
    const long long begin = start[first], end = start[last];
    const long long from = mine ? start[i] : 0, to = mine ? start[i + 1] : 0;
    double total = 0.0;
    for (long long base = begin; base < end; base += TILE) {
        const int here = static_cast<int>(min(static_cast<long long>(TILE), end - base));
        double value[LOADS];
        int column[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            const int at = k * THREADS + threadIdx.x;
            value[k] = at < here ? values[base + at] : 0.0;
            column[k] = at < here ? columns[base + at] : -1;
        }
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            const int at = k * THREADS + threadIdx.x;
            if (column[k] >= 0) product_at[of_value(at)] = __dmul_rn(value[k], x[column[k]]);
        }
        __syncthreads();
        const int stop = static_cast<int>(max(0LL, min(static_cast<long long>(here), to - base)));
        for (int k = static_cast<int>(max(0LL, min(static_cast<long long>(here), from - base))); k < stop; ++k)
            total = __dadd_rn(total, product_at[of_value(k)]);
        __syncthreads();
    }
    const double center = mine ? diagonal[i] : 1.0, y = __ddiv_rn(total, center);
    if (terms == nullptr) {
        if (mine) out[i] = y;
        return;
    }
    const double before = mine ? x[below + i] : 0.0;
    const double one = __dmul_rn(center, __dmul_rn(before, before)), other = __dmul_rn(center, __dmul_rn(y, y));
    if (mine) {
        terms[i] = one;
        terms[static_cast<long long>(rows) + i] = other;
    }
    keep_largest(mine ? one : 0.0, largest);
    keep_largest(mine ? other : 0.0, largest + 1);
}

// Sums of the integers next to terms 2^shift, which float64 holds exactly.
extern "C" __global__ void __launch_bounds__(THREADS) sum_scaled(
    const double* __restrict__ terms, long long rows, int first_shift, int second_shift, u64* sums
) {
    const double* const mine = terms + (blockIdx.y ? rows : 0);
    const int shift = blockIdx.y ? second_shift : first_shift;
    long long total = 0;
    for (long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; i < rows; i += gridDim.x * THREADS)
        total += static_cast<long long>(rint(ldexp(mine[i], shift)));
    for (int step = WARP / 2; step > 0; step /= 2) total += __shfl_xor_sync(ALL, total, step);
    if (threadIdx.x % WARP == 0 && total) atomicAdd(sums + blockIdx.y, static_cast<u64>(total));
}
