// Rows of full blocks: a graph of nodes from compressed rows, and these from a graph.

#include "device.cuh"

constexpr int LANES = 8;   // of a row of blocks, in `graph`

// Begins of rows of blocks, and columns of blocks of `rows` x `columns` entries, in units of blocks. found[0] becomes 1 where rows do
// not come in full blocks: then the others are of no use. 4 bytes an entry.
ENTRY graph(
    In<i64> start, In<int> from, int nodes, int rows, int columns, Out<i64> node_start,
    Out<int> node_columns, u64* found
) {
    const i64 i = thread_number() / LANES;
    const int lane = threadIdx.x % LANES;
    if (i > nodes) return;
    const i64 first = start[i * rows], blocks = first / (rows * columns);
    if (lane == 0) node_start[i] = blocks;
    if (i == nodes) return;
    const int length = static_cast<int>(start[i * rows + 1] - first);
    bool full = length % columns == 0;
    for (int r = 1; r < rows; ++r) full &= start[i * rows + r + 1] - start[i * rows + r] == length;
    for (int o = lane; o < length && full; o += LANES) {   // all loads at once: none depends on what another brings
        const int* const entry = from + first + o;
        const int of_block = o % columns, column = entry[0], begin = entry[-of_block];
        full = begin % columns == 0 & column == begin + of_block;
        for (int r = 1; r < rows; ++r) full &= entry[static_cast<i64>(r) * length] == column;
        if (full && of_block == 0) node_columns[blocks + o / columns] = column / columns;
    }
    if (!full) atomicOr(found, 1ull);
}

// Compressed rows: where each begins, and the columns. A warp for a row of blocks writes 4 bytes an entry.
ENTRY expand(int nodes, int rows, int columns, In<i64> node_start, In<int> node_columns, Out<i64> start, Out<int> to) {
    const i64 thread = thread_number();
    const int node = static_cast<int>(thread / WARP), lane = static_cast<int>(thread % WARP);
    if (node >= nodes) return;
    const i64 first = node_start[node], begin = first * rows * columns;
    const int length = static_cast<int>(node_start[node + 1] - first) * columns;
    for (int i = lane; i < rows; i += WARP) start[static_cast<i64>(node) * rows + i] = begin + i * length;
    if (node == nodes - 1 && lane == 0)
        start[static_cast<i64>(nodes) * rows] = begin + static_cast<i64>(rows) * length;
    for (int m = lane; m < length; m += WARP) {
        const int n = m / columns, column = node_columns[first + n] * columns + m - n * columns;
        for (int i = 0; i < rows; ++i) to[begin + static_cast<i64>(i) * length + m] = column;
    }
}
