// Rows of full blocks: a graph of nodes from compressed rows, and these from a graph.

constexpr int LANES = 16;   // of a row of blocks, in `graph`
constexpr int WARP = 32;

// The blocks of each row of blocks, by the first row of each: its first entry's column in units of blocks. `wrong` becomes
// one where the rows are not blocks of `rows` x `columns` entries: rows as long as each other, the same columns in each, and
// these in runs that begin at multiples of `columns`. `blocks`: of all rows, if all are full. It reads 4 bytes an entry.
extern "C" __global__ void graph(
    int nodes, int rows, int columns, const long long* __restrict__ start, const int* __restrict__ from, long long blocks,
    long long* __restrict__ node_start, int* __restrict__ node_columns, long long* wrong
) {
    const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const int node = static_cast<int>(thread / LANES), lane = static_cast<int>(thread % LANES);
    if (node >= nodes) return;
    const long long *const own = start + static_cast<long long>(node) * rows, begin = own[0];
    const long long length = own[1] - begin, first = begin / (rows * columns);
    bool full = begin == first * rows * columns && length % columns == 0;
    for (int i = 1; i < rows; ++i) full &= own[i + 1] - own[i] == length;
    const long long count = full ? length / columns : 0;
    for (long long n = lane; n < count; n += LANES) {
        const int* const run = from + begin + n * columns;
        const int column = run[0];
        full &= column % columns == 0;
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j) full &= run[i * length + j] == column + j;
        if (first + n < blocks) node_columns[first + n] = column / columns;
    }
    if (lane == 0) {
        node_start[node] = first;
        if (node == nodes - 1) node_start[nodes] = blocks;
    }
    if (!full) *wrong = 1;
}

// Compressed rows: where each begins, and the columns. A warp for a row of blocks writes 4 bytes an entry.
extern "C" __global__ void expand(
    int nodes, int rows, int columns, const long long* __restrict__ node_start, const int* __restrict__ node_columns,
    long long* __restrict__ start, int* __restrict__ to
) {
    const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const int node = static_cast<int>(thread / WARP), lane = static_cast<int>(thread % WARP);
    if (node >= nodes) return;
    const long long first = node_start[node], begin = first * rows * columns;
    const int length = static_cast<int>(node_start[node + 1] - first) * columns;
    for (int i = lane; i < rows; i += WARP) start[static_cast<long long>(node) * rows + i] = begin + i * length;
    if (node == nodes - 1 && lane == 0)
        start[static_cast<long long>(nodes) * rows] = begin + static_cast<long long>(rows) * length;
    for (int m = lane; m < length; m += WARP) {
        const int n = m / columns, column = node_columns[first + n] * columns + m - n * columns;
        for (int i = 0; i < rows; ++i) to[begin + static_cast<long long>(i) * length + m] = column;
    }
}
