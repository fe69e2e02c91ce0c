// Couplings of nodes (dsolver/kernels/cuda/amg/aggregation/nodes.py), some lanes a node.
//
// Columns ascend in each row, so entries of one node lie together there. The lane that has the first of them in the first of
// its own node's rows that has some adds up those of all rows, in the order of the host's loop (kernels/amg/aggregation/nodes.py):
// no table is needed, and rows may be of any length. In full blocks each row has them at the same place, which is tried first.

#include "amg/table.cuh"

constexpr int THREADS = 256;

using u64 = unsigned long long;

struct Rows {
    const long long* start;
    const int* columns;
    const double* values;
    const int* node;   // of every row of the window

    __device__ __forceinline__ int at(long long k) const { return node[columns[k]]; }

    // Whether an entry is the first one of its node j in a row that begins at `first`.
    __device__ __forceinline__ bool leads(long long k, long long first, int j) const {
        return k == first || at(k - 1) != j;
    }

    // The first entry of a row in columns of node j or behind them, which may be at a place that is tried first.
    __device__ __forceinline__ long long find(int row, int j, long long offset) const {
        const long long first = start[row], end = start[row + 1];
        if (first + offset < end && at(first + offset) == j && leads(first + offset, first, j)) return first + offset;
        long long low = first, high = end;
        while (low < high) {
            const long long middle = (low + high) / 2;
            if (at(middle) < j) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    __device__ __forceinline__ bool has(int row, int j, long long offset) const {
        const long long k = find(row, j, offset);
        return k < start[row + 1] && at(k) == j;
    }
};

// Strong couplings of each node: how many (FILL false), or their columns and values. flags[0] becomes 1 where some stand behind
// larger ones. 12 bytes an entry, 4 and 8 of its column, in each of both passes.
template <int G, bool FILL>
__device__ __forceinline__ void strong(
    const Rows& rows, int nodes, int below, int size, const double* scale, double least, long long* lengths, u64* flags,
    const long long* out_start, int* out_columns, double* out_values
) {
    const Group<G> group;
    const int i = static_cast<int>((static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) / G);
    const bool there = i < nodes;
    const int own = there ? rows.node[below + i * size] : NONE;
    long long n = FILL && there ? out_start[i] : 0;
    bool late = false;
    for (int r = 0; r < size; ++r) {
        const int row = i * size + r;
        const long long first = there ? rows.start[row] : 0, end = there ? rows.start[row + 1] : 0;
        const int turns = group.most(static_cast<int>((end - first + G - 1) / G));
        long long k = first + group.lane;
        for (int turn = 0; turn < turns; ++turn, k += G) {
            const int j = k < end ? rows.at(k) : NONE;
            bool kept = j != NONE && j != own && rows.leads(k, first, j);
            for (int q = 0; q < r && kept; ++q) kept = !rows.has(i * size + q, j, k - first);
            double sum = 0.0;
            if (kept) {
                for (int q = r; q < size; ++q) {
                    const int other = i * size + q;
                    const double mine = scale[below + other];
                    const long long last = rows.start[other + 1];
                    for (long long m = q == r ? k : rows.find(other, j, k - first); m < last; ++m) {
                        const int column = rows.columns[m];
                        if (rows.node[column] != j) break;
                        const double value = __dmul_rn(rows.values[m], __dmul_rn(mine, scale[column]));
                        sum = __dadd_rn(sum, __dmul_rn(value, value));
                    }
                }
                kept = sum > least;
                late |= kept && r > 0;
            }
            const unsigned all = group.ballot(kept);
            if (FILL && kept) {
                const long long at = n + __popc(all & group.before());
                out_columns[at] = j;
                out_values[at] = sum;
            }
            n += __popc(all);
        }
    }
    if (FILL) return;
    if (there && group.lane == 0) lengths[i] = n;
    if (late) atomicOr(flags, 1ull);
}

#define NODES                                                                                                           \
    const long long *__restrict__ start, const int *__restrict__ columns, const double *__restrict__ values,           \
        const int *__restrict__ node, int nodes, int below, int size, const double *__restrict__ scale, double least

#define KERNELS(G)                                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS) count_strong_##G(                                             \
        NODES, long long* __restrict__ lengths, u64* flags                                                              \
    ) {                                                                                                                 \
        strong<G, false>(                                                                                               \
            Rows{start, columns, values, node}, nodes, below, size, scale, least, lengths, flags, nullptr, nullptr,     \
            nullptr                                                                                                     \
        );                                                                                                              \
    }                                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS) fill_strong_##G(                                              \
        NODES, const long long* __restrict__ out_start, int* __restrict__ out_columns, double* __restrict__ out_values  \
    ) {                                                                                                                 \
        strong<G, true>(                                                                                                \
            Rows{start, columns, values, node}, nodes, below, size, scale, least, nullptr, nullptr, out_start,          \
            out_columns, out_values                                                                                     \
        );                                                                                                              \
    }

KERNELS(4)
KERNELS(16)
