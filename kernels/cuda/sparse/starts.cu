// Starts of rows: running sums of their lengths, in two passes over tiles, or in one where there is one tile.
//
// Item i of list k is in[i * lists + k], and its sum out[k * count + i]; a block has a tile of a list. Of a single list, the
// in may be out + shift where items have 64 bits. The sum of a whole list also
// comes to totals[k], where that is wanted. With a shift each list has a place more, behind a zero. 8 or 4 bytes read an item in the first pass, 16 or 12 moved in the second.
//
// One pass, whose blocks wait for the sums of earlier ones, takes longer: 16.8 million items 180 us in place of 120.

#include "device.cuh"

constexpr int THREADS = 256, WARPS = THREADS / WARP;
constexpr int OF_LANE = 16;                    // items, all requested before the first is used
constexpr int OF_WARP = WARP * OF_LANE, TILE = WARPS * OF_WARP;

// The sum over a block, for all of its threads.
DEVICE i64 over_block(i64 value) {
    __shared__ i64 of_warp[WARPS];
    for (int step = WARP / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL_LANES, value, step);
    if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = value;
    __syncthreads();
    value = 0;
    for (int w = 0; w < WARPS; ++w) value += of_warp[w];
    return value;
}

// What an item counts: a number itself, and of points' states whether they are coarse.
DEVICE i64 counted(i64 number) { return number; }
DEVICE i64 counted(int number) { return number; }
DEVICE i64 counted(signed char state) { return state == 1; }

// The sums of tiles of read(i), i < count: tiles[k * gridDim.x + t].
template <typename Read>
DEVICE void sum_tiles(Read read, i64 count, Out<i64> tiles) {
    const i64 first = static_cast<i64>(blockIdx.x) * TILE + threadIdx.x;
    decltype(read(0)) item[OF_LANE];
    UNROLLED for (int n = 0; n < OF_LANE; ++n) {
        const i64 i = first + n * THREADS;
        item[n] = i < count ? read(i) : 0;
    }
    i64 sum = 0;
    UNROLLED for (int n = 0; n < OF_LANE; ++n) sum += counted(item[n]);
    sum = over_block(sum);
    if (threadIdx.x == 0) tiles[static_cast<i64>(blockIdx.y) * gridDim.x + blockIdx.x] = sum;
}

// Running sums, of which write(i, sum) is called with each. A block adds up the tiles before its own itself: a few thousand
// numbers at most, from L2.
template <typename Read, typename Write>
DEVICE void sums_up_to(Read read, i64 count, In<i64> tiles, Write write) {
    __shared__ i64 of_warp[WARPS];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const i64 first = static_cast<i64>(blockIdx.x) * TILE + warp * OF_WARP + lane;
    i64 item[OF_LANE];
    UNROLLED for (int n = 0; n < OF_LANE; ++n) {
        const i64 i = first + n * WARP;
        item[n] = i < count ? counted(read(i)) : 0;
    }
    i64 before = 0;
    for (int t = threadIdx.x; t < blockIdx.x; t += THREADS) before += tiles[static_cast<i64>(blockIdx.y) * gridDim.x + t];
    before = over_block(before);
    i64 carried = 0;   // of this warp's items so far
    UNROLLED for (int n = 0; n < OF_LANE; ++n) {
        for (int step = 1; step < WARP; step *= 2) {
            const i64 other = __shfl_up_sync(ALL_LANES, item[n], step);
            if (lane >= step) item[n] += other;
        }
        item[n] += carried;
        carried = __shfl_sync(ALL_LANES, item[n], WARP - 1);
    }
    if (lane == 0) of_warp[warp] = carried;
    __syncthreads();
    for (int w = 0; w < warp; ++w) before += of_warp[w];
    UNROLLED for (int n = 0; n < OF_LANE; ++n) {
        const i64 i = first + n * WARP;
        if (i < count) write(i, before + item[n]);
    }
}

template <typename Read>
DEVICE void add_up(Read read, i64 count, In<i64> tiles, i64* out, int shift, Out<i64> total) {
    sums_up_to(read, count, tiles, [=](i64 i, i64 sum) {
        out[i + shift] = sum;
        if (total && i == count - 1) *total = sum;
    });
    if (shift && blockIdx.x == 0 && threadIdx.x == 0) out[0] = 0;
}

#define KERNELS(NAME, ITEM)                                                                                              \
    ENTRY __launch_bounds__(THREADS) sum_tiles_##NAME(In<ITEM> in, i64 count, Out<i64> tiles) {                          \
        sum_tiles([=](i64 i) { return in[i * gridDim.y + blockIdx.y]; }, count, tiles);                                  \
    }                                                                                                                    \
    ENTRY __launch_bounds__(THREADS) add_up_##NAME(                                                                      \
        const ITEM* in, i64 count, In<i64> tiles, i64* out, int shift, Out<i64> totals                                   \
    ) {                                                                                                                  \
        add_up(                                                                                                          \
            [=](i64 i) { return in[i * gridDim.y + blockIdx.y]; }, count, tiles, out + blockIdx.y * (count + shift), \
            shift, totals ? totals + blockIdx.y : totals                                                                 \
        );                                                                                                               \
    }

KERNELS(states, signed char)
KERNELS(int32, int)
KERNELS(int64, i64)

// What is counted, one after the other, or the numbers that stand there: before[i] are before item i, and `room` at most are wanted.
ENTRY __launch_bounds__(THREADS) take(In<i64> before, i64 count, In<i64> numbers, i64 room, Out<i64> out) {
    const i64 i = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    if (i < count && before[i] < before[i + 1] && before[i] < room) out[before[i]] = numbers ? numbers[i] : i;
}

// The places of states that count, ascending.
ENTRY __launch_bounds__(THREADS) list_states(In<signed char> in, i64 count, In<i64> tiles, Out<int> places) {
    sums_up_to([=](i64 i) { return in[i]; }, count, tiles, [=](i64 i, i64 sum) {
        if (counted(in[i])) places[sum - 1] = static_cast<int>(i);
    });
}

// Rows that have `lengths` entries of their own and `counts` mirror images of others' entries: list 0 is of both, list 1 of
// the images.
ENTRY __launch_bounds__(THREADS) sum_tiles_halves(In<i64> lengths, In<int> counts, i64 count, Out<i64> tiles) {
    sum_tiles([=](i64 i) { return counts[i] + (blockIdx.y ? 0 : lengths[i]); }, count, tiles);
}

// Where these rows begin, and where their images do; totals: the number of all entries, that of images, and, as an int, the
// length of the longest row.
ENTRY __launch_bounds__(THREADS) add_up_halves(
    In<i64> lengths, In<int> counts, i64 count, In<i64> tiles, Out<i64> start, Out<i64> begin, i64* totals
) {
    if (blockIdx.y) {
        add_up([=](i64 i) { return counts[i]; }, count, tiles, begin, 1, totals + 1);
        return;
    }
    i64 longest = 0;
    add_up([&](i64 i) {
        const i64 length = lengths[i] + counts[i];
        longest = max(longest, length);
        return length;
    }, count, tiles, start, 1, totals);
    const int most = __reduce_max_sync(ALL_LANES, static_cast<int>(longest));
    if (threadIdx.x % WARP == 0) atomicMax(reinterpret_cast<int*>(totals + 2), most);
}
