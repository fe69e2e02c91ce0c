// Couplings of nodes (dsolver/kernels/cuda/amg/aggregation/nodes.py), some lanes a node.
//
// Columns ascend in each row, so entries of one node lie together there. The lane that has the first of them in the first of
// its own node's rows that has some adds up those of all rows, in the order of the host's loop (kernels/cpu/amg/aggregation/nodes.py):
// no table is needed, and rows may be of any length. In full blocks each row has them at the same place, which is tried first.

#include "device.cuh"
#include "sparse/table.cuh"

constexpr int THREADS = 256;

struct Rows {
    const i64* start;
    const int* columns;
    const double* values;
    const int* node;   // of every row of the window

    DEVICE int at(i64 k) const { return node[columns[k]]; }

    // Whether an entry is the first one of its node j in a row that begins at `first`.
    DEVICE bool leads(i64 k, i64 first, int j) const { return k == first || at(k - 1) != j; }

    // The first entry of a row in columns of node j or behind them, which may be at a place that is tried first.
    DEVICE i64 find(int row, int j, i64 offset) const {
        const i64 first = start[row], end = start[row + 1];
        if (first + offset < end && at(first + offset) == j && leads(first + offset, first, j)) return first + offset;
        return search(first, end, [&](i64 middle) { return at(middle) < j; });
    }

    DEVICE bool has(int row, int j, i64 offset) const {
        const i64 k = find(row, j, offset);
        return k < start[row + 1] && at(k) == j;
    }
};

#define NODES \
    In<i64> start, In<int> columns, In<double> values, In<int> node, int nodes, int below, int size, \
    In<double> scale, double least

// Strong couplings of each node: how many (FILL false), or their columns and values. flags[0] becomes 1 where some stand behind
// larger ones. 12 bytes an entry, 4 and 8 of its column, in each of both passes.
EACH(G, 8, 32) EACH(FILL, 0, 1) ENTRY __launch_bounds__(THREADS) strong_##G##_##FILL(
    NODES, Out<i64> lengths, u64* flags, In<i64> out_start, Out<int> out_columns, Out<double> out_values
) {
    const Rows rows{start, columns, values, node};
    const Group<G> group;
    const int i = static_cast<int>((static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x) / G);
    const bool there = i < nodes;
    const int own = there ? rows.node[below + i * size] : NONE;
    i64 n = FILL && there ? out_start[i] : 0;
    bool late = false;
    for (int r = 0; r < size; ++r) {
        const int row = i * size + r;
        const i64 first = there ? rows.start[row] : 0, end = there ? rows.start[row + 1] : 0;
        const int turns = group.most(static_cast<int>((end - first + G - 1) / G));
        i64 k = first + group.lane;
        for (int turn = 0; turn < turns; ++turn, k += G) {
            const int j = k < end ? rows.at(k) : NONE;
            bool kept = j != NONE && j != own && rows.leads(k, first, j);
            for (int q = 0; q < r && kept; ++q) kept = !rows.has(i * size + q, j, k - first);
            double sum = 0.0;
            if (kept) {
                for (int q = r; q < size; ++q) {
                    const int other = i * size + q;
                    const double mine = scale[below + other];
                    const i64 last = rows.start[other + 1];
                    for (i64 m = q == r ? k : rows.find(other, j, k - first); m < last; ++m) {
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
                const i64 at = n + __popc(all & group.before());
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

// -- full blocks -------------------------------------------------------------------------------------------------------

constexpr int OF_LANE = 9;   // squares of a lane in shared memory

// Strong couplings of nodes whose rows all have the same columns, whole nodes each: one pass, for where couplings of each node
// may stand follows from the entries before it. A group makes squares of some nodes' entries together, and a lane adds up those
// of a node in the order of the host's loop. flags[0] becomes 1 where rows are not so; then nothing of all this is right.
// 12 bytes an entry, 12 more of its column, and 12 a coupling.
EACH(G, 8, 32) ENTRY __launch_bounds__(THREADS) full_strong_##G(
    NODES, Out<i64> lengths, u64* flags, Out<int> room_columns, Out<double> room_values
) {
    const Rows rows{start, columns, values, node};
    __shared__ double squares[THREADS / G][OF_LANE * G];
    const Group<G> group;
    double* const square = squares[threadIdx.x / G];
    const int i = static_cast<int>((static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x) / G);
    const int at_once = min(G, OF_LANE * G / (size * size));
    const bool there = i < nodes;
    const int row = there ? i * size : 0, own = there ? rows.node[below + row] : NONE;
    const i64 first = there ? rows.start[row] : 0;
    int length = there ? static_cast<int>(rows.start[row + 1] - first) : 0;
    bool full = length % size == 0;
    for (int r = 1; r < size && there; ++r) full &= rows.start[row + r + 1] - rows.start[row + r] == length;
    if (!full) length = 0;
    const int others = length / size, turns = group.most((others + at_once - 1) / at_once);
    const i64 room = first / (size * size);
    int n = 0;
    for (int turn = 0; turn < turns; ++turn) {
        const int begin = turn * at_once, here = max(0, min(at_once, others - begin)), width = here * size;
        for (int e = group.lane; e < size * width; e += G) {
            const int r = e / width, offset = begin * size + e % width, of_node = offset % size;
            const i64 k = first + offset;
            const int column = rows.columns[k + static_cast<i64>(r) * length];
            if (r > 0) full &= column == rows.columns[k];
            else if (of_node > 0) full &= rows.node[column] == rows.at(k - of_node);
            else full &= offset == 0 || rows.node[column] != rows.at(k - 1);
            const double value = rows.values[k + static_cast<i64>(r) * length];
            const double scaled = __dmul_rn(value, __dmul_rn(scale[below + row + r], scale[column]));
            square[e] = __dmul_rn(scaled, scaled);
        }
        group.sync();
        double sum = 0.0;
        int j = NONE;
        if (group.lane < here) {
            j = rows.at(first + static_cast<i64>(begin + group.lane) * size);
            for (int r = 0; r < size; ++r)
                for (int m = 0; m < size; ++m) sum = __dadd_rn(sum, square[r * width + group.lane * size + m]);
        }
        const bool kept = j != NONE && j != own && sum > least;
        const unsigned all = group.ballot(kept);
        if (kept) {
            const i64 at = room + n + __popc(all & group.before());
            room_columns[at] = j;
            room_values[at] = sum;
        }
        n += __popc(all);
        group.sync();
    }
    if (there && group.lane == 0) lengths[i] = n;
    if (!full) atomicOr(flags, 1ull);
}

// Couplings from their rooms to their places.
ENTRY __launch_bounds__(THREADS) move_strong(
    In<i64> start, int nodes, int size, In<int> room_columns, In<double> room_values, In<i64> out_start,
    Out<int> out_columns, Out<double> out_values
) {
    constexpr int G = 8;
    const i64 i = (static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x) / G;
    if (i >= nodes) return;
    const i64 from = start[i * size] / (size * size) - out_start[i];
    for (i64 k = out_start[i] + threadIdx.x % G; k < out_start[i + 1]; k += G) {
        out_columns[k] = room_columns[from + k];
        out_values[k] = room_values[from + k];
    }
}
