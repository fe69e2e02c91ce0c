// Arrays copied to other places, many in one launch (dsolver/kernels/cuda/peer/moves.py).

#include "device.cuh"

constexpr int THREADS = 256;   // moves.py says the same
constexpr int PIECES = 16;
constexpr int BATCH = 4;       // words of a thread that are under way together: those of another GPU take 1 us

struct Pieces {
    unsigned long long from[PIECES], to[PIECES], bytes[PIECES];
};

// Whole words by all blocks, and what is left of them by the first one.
template <typename Word>
DEVICE void copied(unsigned long long from, unsigned long long to, long long bytes) {
    const Word* source = reinterpret_cast<const Word*>(from);
    Word* target = reinterpret_cast<Word*>(to);
    const long long words = bytes / sizeof(Word), threads = static_cast<long long>(gridDim.x) * THREADS;
    for (long long base = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; base < words; base += BATCH * threads) {
        Word some[BATCH];
        UNROLLED for (int q = 0; q < BATCH; ++q) if (base + q * threads < words) some[q] = source[base + q * threads];
        UNROLLED for (int q = 0; q < BATCH; ++q) if (base + q * threads < words) target[base + q * threads] = some[q];
    }
    const long long rest = words * sizeof(Word) + threadIdx.x;
    if (blockIdx.x == 0 && rest < bytes) reinterpret_cast<char*>(to)[rest] = reinterpret_cast<const char*>(from)[rest];
}

// A row of blocks for each piece. Bytes read once and written once.
ENTRY __launch_bounds__(THREADS) move_pieces(Pieces pieces) {
    const unsigned long long from = pieces.from[blockIdx.y], to = pieces.to[blockIdx.y];
    const long long bytes = pieces.bytes[blockIdx.y];
    if ((from | to) % sizeof(uint4) == 0) copied<uint4>(from, to, bytes);
    else if ((from | to) % sizeof(uint2) == 0) copied<uint2>(from, to, bytes);
    else copied<char>(from, to, bytes);
}
