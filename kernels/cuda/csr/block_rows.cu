// Products of compressed rows whose entries come in full blocks of B x B: T threads for the B rows of a block. Values are where
// compressed rows have them; a block has one column, and each x that is read is multiplied by B entries: 4 + 4 / B^2 bytes an entry
// in float32 in place of 8. Sums of a row have the order of csr/rows.cu with as many threads.

#include "slices.cuh"
#include "csr/finish.cuh"

constexpr int THREADS = 256;

#define BLOCKS const long long* __restrict__ start, const int* __restrict__ columns, const real* __restrict__ values

// The sums of the rows of block row `node` over the entries of this lane of T.
template <int T, int B, typename X>
__device__ __forceinline__ void node_part(BLOCKS, const X x, int node, int lane, real (&sum)[B]) {
    constexpr int FLIGHT = B > 3 ? 2 : 3;
    const long long first = __ldg(start + node);
    const int length = static_cast<int>(__ldg(start + node + 1) - first) * B;
    const int* const of_node = columns + first;
    const real* const mine = values + first * (B * B);
    for (int o = lane; o < length; o += FLIGHT * T) {
        int c[FLIGHT];
        real a[FLIGHT][B], b[FLIGHT];
#pragma unroll
        for (int k = 0; k < FLIGHT; ++k) {
            const int at = o + k * T;
            c[k] = at < length ? B * __ldg(of_node + at / B) + at % B : -1;
        }
#pragma unroll
        for (int k = 0; k < FLIGHT; ++k)
#pragma unroll
            for (int r = 0; r < B; ++r) a[k][r] = c[k] < 0 ? real(0) : __ldcs(mine + r * static_cast<long long>(length) + o + k * T);
#pragma unroll
        for (int k = 0; k < FLIGHT; ++k) b[k] = c[k] < 0 ? real(0) : x[c[k]];
#pragma unroll
        for (int k = 0; k < FLIGHT; ++k)
#pragma unroll
            for (int r = 0; r < B; ++r) sum[r] = fma(a[k][r], b[k], sum[r]);
    }
}

// WITH_DOT: x . y of each block of threads in `partials`. Lane r finishes row r.
template <int T, int B, int KIND, bool WITH_DOT>
__device__ __forceinline__ void multiply(BLOCKS, const Finish finish, double* partials, int nodes) {
    static_assert(T >= B, "a lane for each row");
    next_may_start();
    const long long thread = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
    const int lane = threadIdx.x % T;
    const bool mine = thread / T < nodes;
    const int node = mine ? static_cast<int>(thread / T) : nodes - 1;
    wait_for_last_launch();
    real sum[B] = {};
    node_part<T, B>(start, columns, values, finish.read<KIND>(), node, lane, sum);
    real own = 0;
#pragma unroll
    for (int r = 0; r < B; ++r) {
#pragma unroll
        for (int distance = T / 2; distance > 0; distance /= 2) sum[r] += __shfl_xor_sync(ALL_LANES, sum[r], distance);
        if (lane == r) own = sum[r];
    }
    const long long row = static_cast<long long>(node) * B + lane;
    const bool writes = mine && lane < B;
    if (writes) own = finish.write<KIND>(row, own);
    if constexpr (WITH_DOT) {
        __shared__ double of_warp[THREADS / SLICE];
        const double part = warp_sum(writes ? finish.beside<KIND>(row) * own : 0.0);
        if (lane_number() == 0) of_warp[threadIdx.x / SLICE] = part;
        __syncthreads();
        if (threadIdx.x == 0) {
            double total = 0.0;
            for (int w = 0; w < THREADS / SLICE; ++w) total += of_warp[w];
            partials[blockIdx.x] = total;
        }
    }
}

#define FINISHED_BY(T, B, NAME, KIND)                                                                                 \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME##_##T##_##B(BLOCKS, FINISH, int nodes) {               \
        multiply<T, B, KIND, false>(start, columns, values, FINISHED, nullptr, nodes);                                \
    }

#define SPMV(T, B)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS) spmv_##T##_##B(BLOCKS, const real* x, real* y, int nodes) { \
        multiply<T, B, PRODUCT, false>(start, columns, values, {x, nullptr, nullptr, y, nullptr}, nullptr, nodes);    \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(THREADS) spmv_dot_##T##_##B(                                         \
        BLOCKS, const real* x, real* y, double* partials, int nodes                                                   \
    ) {                                                                                                               \
        multiply<T, B, PRODUCT, true>(start, columns, values, {x, nullptr, nullptr, y, nullptr}, partials, nodes);    \
    }                                                                                                                 \
    FINISHED_BY(T, B, sum, SUM)                                                                                       \
    FINISHED_BY(T, B, residual, RESIDUAL)                                                                             \
    FINISHED_BY(T, B, sweep, SWEEP)                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS) sweep_dot_##T##_##B(                                        \
        BLOCKS, FINISH, double* partials, int nodes                                                                   \
    ) {                                                                                                               \
        multiply<T, B, SWEEP, true>(start, columns, values, FINISHED, partials, nodes);                               \
    }                                                                                                                 \
    FINISHED_BY(T, B, first, FIRST)

SPMV(8, 3)
SPMV(8, 6)
SPMV(16, 3)
SPMV(16, 6)
SPMV(32, 3)
SPMV(32, 6)

constexpr int LANES = 8;   // of a block row that is looked at

// Begins of block rows, and columns of blocks. found[0] becomes 1 where rows do not come in full blocks: then the others are
// of no use. 4 bytes an entry.
extern "C" __global__ void __launch_bounds__(THREADS) find_blocks(
    const long long* __restrict__ start, const int* __restrict__ columns, int nodes, int size, long long* __restrict__ of_nodes,
    int* __restrict__ of_blocks, unsigned long long* found
) {
    const long long i = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) / LANES;
    const int lane = threadIdx.x % LANES;
    if (i > nodes) return;
    if (lane == 0) of_nodes[i] = start[i * size] / (size * size);
    if (i == nodes) return;
    const long long first = start[i * size], length = start[i * size + 1] - first;
    bool full = length % size == 0;
    for (int r = 1; r < size && full; ++r) full = start[i * size + r + 1] - start[i * size + r] == length;
    for (long long o = lane; o < length && full; o += LANES) {
        const int column = columns[first + o], of_block = static_cast<int>(o % size);
        full = column % size == of_block && column - of_block == columns[first + o - of_block];
        for (int r = 1; r < size; ++r) full &= columns[first + r * length + o] == column;
        if (full && of_block == 0) of_blocks[first / (size * size) + o / size] = column / size;
    }
    if (!full) atomicOr(found, 1ull);
}
