// Coarse points by keys (dsolver/kernels/cuda/amg/pmis.py).

#include "device.cuh"
#include "sparse/table.cuh"

constexpr int THREADS = 256;
constexpr int HASHED = 48;   // low bits of a key, which are a hash
constexpr int BATCH = 4;     // entries of a lane that it looks at together
constexpr int LOOKS = 8;     // at a point in one round
constexpr int SLOTS = 4;     // counts of the last rounds, this one's and the next one's
constexpr int DEPENDS = 1;
constexpr signed char UNDECIDED = 0, COARSE = 1, FINE = 2;

// The finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
DEVICE u64 mixed(u64 z) {
    z += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// How many depend on a point, then a hash of the finest row that it stems from and of its level; and its first state. 25 bytes
// a point.
ENTRY __launch_bounds__(THREADS) begin(
    In<i64> counts, In<i64> origin, u64 salt, int lone, i64 points, Out<u64> key, Out<signed char> state
) {
    const i64 i = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= points) return;
    const u64 most = (1ull << (64 - HASHED)) - 1;
    state[i] = counts[i] > 0 ? UNDECIDED : static_cast<signed char>(lone);
    key[i] = min(static_cast<u64>(counts[i]), most) << HASHED | mixed(static_cast<u64>(origin[i]) + salt) >> (64 - HASHED);
}

// Points that are left after a round: (2, rows) numbers, and of each round, of which SLOTS are kept, how many there are and in
// which list. Lists take turns, but for rounds in which nothing is done.
struct Left {
    int* lists;
    int* counts;   // and behind them the lists'
    int rows, round;

    DEVICE int& count(int round) const { return counts[round % SLOTS]; }
    DEVICE int& which(int round) const { return counts[SLOTS + round % SLOTS]; }
    DEVICE int* list(int which) const { return lists + static_cast<i64>(which) * rows; }
};

// Appends the points of a warp to the list, 32 at a time: 32 times fewer additions to one counter.
struct Appending {
    int* list;
    int* room;   // of the warp, 2 WARP
    int filled;

    DEVICE void flush(const Left& left, int size) {
        const int lane = threadIdx.x % WARP;
        int at = 0;
        if (lane == 0) at = atomicAdd(&left.count(left.round), size);
        at = __shfl_sync(ALL_LANES, at, 0);
        if (lane < size) list[at + lane] = room[lane];
        const int rest = filled - size, moved = lane < rest ? room[size + lane] : 0;
        __syncwarp();
        if (lane < rest) room[lane] = moved;
        filled = rest;
        __syncwarp();
    }

    // All lanes of the warp call this.
    DEVICE void add(const Left& left, bool flag, int point) {
        const unsigned all = __ballot_sync(ALL_LANES, flag);
        if (flag) room[filled + __popc(all & ((1u << threadIdx.x % WARP) - 1u))] = point;
        filled += __popc(all);
        __syncwarp();
        if (filled >= WARP) flush(left, WARP);
    }
};

// States of neighbors, which others may decide meanwhile: those that are looked at again are not read from a cache.
template <bool AGAIN>
DEVICE int seen_state(const signed char* state) {
    return AGAIN ? *static_cast<const volatile signed char*>(state) : *state;
}

// What a point's neighbors leave of it: it is fine if it depends on a coarse one; open as long as one with a larger key is. In
// the first round, in which few points are coarse, a lane has seen enough when it has found that a point is open, and in others
// that it is fine: what it does not see is seen in a later round, or is no matter.
struct Verdict {
    bool fine, open;

    DEVICE bool enough(bool first) const { return first ? open : fine; }
};

template <int G, bool AGAIN>
DEVICE Verdict verdict(
    const i64* start, const int* columns, const unsigned char* bits, const u64* key, const i64* origin,
    const signed char* state, int i, int me, int lane, bool first
) {
    Verdict found{false, false};
    const u64 own = key[me];
    const i64 end = start[i + 1];
    for (i64 base = start[i] + lane; base < end && !found.enough(first); base += BATCH * G) {
        int bit[BATCH], j[BATCH], seen[BATCH];
        u64 other[BATCH];
        UNROLLED for (int q = 0; q < BATCH; ++q) bit[q] = base + q * G < end ? bits[base + q * G] : 0;
        UNROLLED for (int q = 0; q < BATCH; ++q) j[q] = bit[q] ? columns[base + q * G] : me;
        UNROLLED for (int q = 0; q < BATCH; ++q) seen[q] = bit[q] ? seen_state<AGAIN>(state + j[q]) : FINE;
        UNROLLED for (int q = 0; q < BATCH; ++q) other[q] = seen[q] == UNDECIDED ? key[j[q]] : 0;
        UNROLLED for (int q = 0; q < BATCH; ++q) {
            if (seen[q] == COARSE) found.fine |= (bit[q] & DEPENDS) != 0;
            if (seen[q] == UNDECIDED) found.open |= other[q] > own || (other[q] == own && origin[j[q]] > origin[me]);
        }
    }
    return found;
}

// A round: points are decided whose neighbors with larger keys are, as the host does it: all own points in the first round,
// then those that are left. State is read and written in place, so a point may see what others decide in the same round:
// that changes when it is decided, not how. Where the round before decided none, or all, nothing is done; `renewed`: others have
// decided points since, so that the former says nothing. Where there is a group for each point, a point that is open is looked
// at again while others decide: launches and lists took most of the time.
EACH(G, 1, 2, 4, 8, 16, 32) ENTRY __launch_bounds__(THREADS) settle_##G(
    In<i64> start, In<int> columns, In<unsigned char> bits, In<u64> key, In<i64> origin, signed char* state,
    int below, int* lists, int* counts, int rows, int round, int renewed
) {
    const Left left{lists, counts, rows, round};
    const int count = round > 0 ? left.count(round - 1) : left.rows;
    const int from = round > 0 ? left.which(round - 1) : 1;
    const bool first_thread = blockIdx.x == 0 && threadIdx.x == 0;
    const bool done = round > 0 && (count == 0 || (round > 1 && !renewed && count == left.count(round - 2)));
    if (first_thread) {
        if (done) left.count(round) = count;
        left.which(round) = done ? from : 1 - from;
        left.count(round + 1) = 0;
    }
    if (done) return;
    __shared__ int rooms[THREADS / WARP][2 * WARP];
    Appending append{left.list(1 - from), rooms[threadIdx.x / WARP], 0};
    const Group<G> group;
    constexpr int OF_WARP = WARP / G;   // points
    const i64 warps = static_cast<i64>(gridDim.x) * (THREADS / WARP);
    const i64 warp = static_cast<i64>(blockIdx.x) * (THREADS / WARP) + threadIdx.x / WARP;
    const int looks = count <= warps * OF_WARP ? LOOKS : 1;
    for (i64 base = warp * OF_WARP; base < count; base += warps * OF_WARP) {   // the same for all lanes of a warp
        const i64 place = base + threadIdx.x % WARP / G;
        const bool there = place < count;
        const int i = !there ? 0 : round > 0 ? left.list(from)[place] : static_cast<int>(place), me = below + i;
        const bool mine = there && state[me] == UNDECIDED;
        Verdict found{false, false};
        if (mine) found = verdict<G, false>(start, columns, bits, key, origin, state, i, me, group.lane, round == 0);
        bool fine = group.ballot(found.fine) != 0u, open = group.ballot(found.open) != 0u;
        if (mine && group.lane == 0 && (fine || !open)) state[me] = fine ? FINE : COARSE;
        for (int look = 1; look < looks && group.any(open && !fine); ++look) {
            const bool again = open && !fine;
            if (again) found = verdict<G, true>(start, columns, bits, key, origin, state, i, me, group.lane, false);
            fine = group.ballot(found.fine) != 0u;
            open = group.ballot(found.open) != 0u;
            if (again && group.lane == 0 && (fine || !open)) state[me] = fine ? FINE : COARSE;
        }
        append.add(left, mine && group.lane == 0 && open && !fine, i);
    }
    if (append.filled) append.flush(left, append.filled);
}
