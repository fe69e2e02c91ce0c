// Arrays copied to other places, many in one launch (dsolver/kernels/cuda/peer/moves.py).

#include "device.cuh"

constexpr int THREADS = 256;   // moves.py says the same
constexpr int PIECES = 16;
constexpr int BATCH = 4;       // words of a thread that are under way together: those of another GPU take 1 us

struct Pieces {
    u64 from[PIECES], to[PIECES], bytes[PIECES];
};

// Whole words by all blocks, and what is left of them by the first one.
template <typename Word>
DEVICE void copied(u64 from, u64 to, i64 bytes) {
    const Word* source = reinterpret_cast<const Word*>(from);
    Word* target = reinterpret_cast<Word*>(to);
    const i64 words = bytes / sizeof(Word), threads = static_cast<i64>(gridDim.x) * THREADS;
    for (i64 base = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x; base < words; base += BATCH * threads) {
        Word some[BATCH];
        UNROLLED for (int q = 0; q < BATCH; ++q) if (base + q * threads < words) some[q] = source[base + q * threads];
        UNROLLED for (int q = 0; q < BATCH; ++q) if (base + q * threads < words) target[base + q * threads] = some[q];
    }
    const i64 rest = words * sizeof(Word) + threadIdx.x;
    if (blockIdx.x == 0 && rest < bytes) reinterpret_cast<char*>(to)[rest] = reinterpret_cast<const char*>(from)[rest];
}

// A row of blocks for each piece. Bytes read once and written once.
ENTRY __launch_bounds__(THREADS) move_pieces(Pieces pieces) {
    const u64 from = pieces.from[blockIdx.y], to = pieces.to[blockIdx.y];
    const i64 bytes = pieces.bytes[blockIdx.y];
    if ((from | to) % sizeof(uint4) == 0) copied<uint4>(from, to, bytes);
    else if ((from | to) % sizeof(uint2) == 0) copied<uint2>(from, to, bytes);
    else copied<char>(from, to, bytes);
}
