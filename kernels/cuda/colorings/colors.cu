// Colors of the rows of a matrix by its pattern, which is symmetric (dsolver/kernels/cuda/colorings). A warp takes a row.

#include "device.cuh"

constexpr int THREADS = 256;
constexpr int SLOTS = 4;   // sizes of lists: this round's, the next one's, and one that is set to zero

// The pattern: row i reads columns[start[i] .. start[i + 1]], in ascending order, itself perhaps among them.
struct Pattern {
    const i64* start;
    const int* columns;
    int rows;
};

DEVICE int first_warp() { return (blockIdx.x * THREADS + threadIdx.x) / WARP; }
DEVICE int warps() { return gridDim.x * (THREADS / WARP); }

// Counts the entries without a mirror image.
ENTRY __launch_bounds__(THREADS) one_way(const i64* start, const int* columns, int rows, u64* missing) {
    const int lane = threadIdx.x % WARP;
    for (int i = first_warp(); i < rows; i += warps())
        for (i64 k = start[i] + lane; k < start[i + 1]; k += WARP) {
            const int j = columns[k];
            const i64 low = search(start[j], start[j + 1], [&](i64 middle) { return columns[middle] < i; });
            if (low == start[j + 1] || columns[low] != i) atomicAdd(missing, 1ull);
        }
}

// The row of each entry.
ENTRY __launch_bounds__(THREADS) rows_of(const i64* start, const int*, int rows, int* row) {
    const int lane = threadIdx.x % WARP;
    for (int i = first_warp(); i < rows; i += warps())
        for (i64 k = start[i] + lane; k < start[i + 1]; k += WARP) row[k] = i;
}

// -- row after row: a row is visited when the last of its neighbors before it has been ------------------------------------

// Neighbors before each row in its block of rows; those without any are listed for round 0.
ENTRY __launch_bounds__(THREADS) count_before(
    const i64* start, const int* columns, int rows, int block, int* waits, int* lists, int* counts
) {
    const int lane = threadIdx.x % WARP;
    for (int i = first_warp(); i < rows; i += warps()) {
        const int low = i / block * block;
        int before = 0;
        for (i64 k = start[i] + lane; k < start[i + 1]; k += WARP) before += columns[k] >= low && columns[k] < i;
        before = __reduce_add_sync(ALL_LANES, before);
        if (lane) continue;
        waits[i] = before;
        if (!before) lists[atomicAdd(counts, 1)] = i;
    }
}

// The first color that no neighbor before row i has.
DEVICE int first_free(const Pattern& a, int i, const int* color) {
    const int lane = threadIdx.x % WARP;
    for (int base = 0;; base += WARP) {
        unsigned taken = 0;
        for (i64 k = a.start[i] + lane; k < a.start[i + 1]; k += WARP) {
            const int j = a.columns[k];
            if (j >= i) break;
            const int place = color[j] - base;
            if (place >= 0 && place < WARP) taken |= 1u << place;
        }
        for (int apart = WARP / 2; apart; apart /= 2) taken |= __shfl_xor_sync(ALL_LANES, taken, apart);
        if (taken != ALL_LANES) return base + __ffs(~taken) - 1;
    }
}

// One more than the largest level of the neighbors before row i in its block, which begins at `low`.
DEVICE int next_level(const Pattern& a, int i, int low, const int* level) {
    int last = -1;
    for (i64 k = a.start[i] + threadIdx.x % WARP; k < a.start[i + 1]; k += WARP) {
        const int j = a.columns[k];
        if (j >= low && j < i) last = max(last, level[j]);
    }
    return __reduce_max_sync(ALL_LANES, last) + 1;
}

// The rows of this round's list get their numbers, and those behind that wait for no other row are listed for the next round.
template <bool LEVELS>
DEVICE void visit(const Pattern& a, int block, int round, int* waits, int* lists, int* counts, int* made) {
    const int lane = threadIdx.x % WARP, listed = counts[round % SLOTS];
    const int* list = lists + static_cast<i64>(round % 2) * a.rows;
    int* next = lists + static_cast<i64>((round + 1) % 2) * a.rows;
    if (blockIdx.x == 0 && threadIdx.x == 0) counts[(round + 2) % SLOTS] = 0;
    for (int n = first_warp(); n < listed; n += warps()) {
        const int i = list[n], low = i / block * block;
        const int number = LEVELS ? next_level(a, i, low, made) : first_free(a, i, made);
        if (lane == 0) made[i] = number;
        for (i64 k = a.start[i] + lane; k < a.start[i + 1]; k += WARP) {
            const int j = a.columns[k];
            if (j > i && j - low < block && atomicAdd(waits + j, -1) == 1)
                next[atomicAdd(counts + (round + 1) % SLOTS, 1)] = j;
        }
        __syncwarp();
    }
}

ENTRY __launch_bounds__(THREADS) visit_fit(
    const i64* start, const int* columns, int rows, int block, int* waits, int* lists, int* counts, int* color, int round
) {
    visit<false>({start, columns, rows}, block, round, waits, lists, counts, color);
}

ENTRY __launch_bounds__(THREADS) visit_levels(
    const i64* start, const int* columns, int rows, int block, int* waits, int* lists, int* counts, int* level, int round
) {
    visit<true>({start, columns, rows}, block, round, waits, lists, counts, level);
}

// -- independent sets: rows with the largest, or the smallest, number among their uncolored neighbors ---------------------

// The first of a round's sets that each uncolored row belongs to, or -1; keys: (hashes, rows).
ENTRY __launch_bounds__(THREADS) choose(
    const i64* start, const int* columns, int rows, const u64* keys, int hashes, int smallest, const int* color, int* chosen
) {
    const int lane = threadIdx.x % WARP;
    for (int i = first_warp(); i < rows; i += warps()) {
        if (color[i] >= 0) continue;
        int found = -1;
        for (int h = 0; h < hashes && found < 0; ++h) {
            const u64* key = keys + static_cast<i64>(h) * rows;
            const u64 own = key[i];
            bool most = true, least = smallest;
            for (i64 k = start[i] + lane; k < start[i + 1] && (most || least); k += WARP) {
                const int j = columns[k];
                if (j == i || color[j] >= 0) continue;
                if (key[j] > own) most = false;
                else least = false;
            }
            if (__all_sync(ALL_LANES, most)) found = smallest ? 2 * h : h;
            else if (__all_sync(ALL_LANES, least)) found = 2 * h + 1;
        }
        if (lane == 0) chosen[i] = found;
    }
}

// The chosen rows get the colors from `first` on; the others are counted.
ENTRY __launch_bounds__(THREADS) color_chosen(int rows, int first, const int* chosen, int* color, u64* left) {
    int mine = 0;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < rows; i += gridDim.x * THREADS) {
        if (color[i] >= 0) continue;
        if (chosen[i] >= 0) color[i] = first + chosen[i];
        else ++mine;
    }
    __syncwarp();
    mine = __reduce_add_sync(ALL_LANES, mine);
    if (threadIdx.x % WARP == 0 && mine) atomicAdd(left, static_cast<u64>(mine));
}
