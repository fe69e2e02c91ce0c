// Full blocks in which the entries of compressed rows come (dsolver/kernels/cuda/csr/products.py).

constexpr int THREADS = 256;
constexpr int LANES = 8;   // of a block row that is looked at

// Begins of block rows, and columns of blocks of `tall` x `wide` entries. found[0] becomes 1 where rows do not come in full blocks:
// then the others are of no use. 4 bytes an entry.
extern "C" __global__ void __launch_bounds__(THREADS) find_blocks(
    const long long* __restrict__ start, const int* __restrict__ columns, int nodes, int tall, int wide,
    long long* __restrict__ of_nodes, int* __restrict__ of_blocks, unsigned long long* found
) {
    const long long i = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) / LANES;
    const int lane = threadIdx.x % LANES;
    if (i > nodes) return;
    const long long first = start[i * tall], blocks = first / (tall * wide);
    if (lane == 0) of_nodes[i] = blocks;
    if (i == nodes) return;
    const int length = static_cast<int>(start[i * tall + 1] - first);
    bool full = length % wide == 0;
    for (int r = 1; r < tall; ++r) full &= start[i * tall + r + 1] - start[i * tall + r] == length;
    for (int o = lane; o < length && full; o += LANES) {   // all loads at once: none depends on what another brings
        const int* const entry = columns + first + o;
        const int of_block = o % wide, column = entry[0], begin = entry[-of_block];
        full = begin % wide == 0 & column == begin + of_block;
        for (int r = 1; r < tall; ++r) full &= entry[static_cast<long long>(r) * length] == column;
        if (full && of_block == 0) of_blocks[blocks + o / wide] = column / wide;
    }
    if (!full) atomicOr(found, 1ull);
}
