// Where rows begin: running sums of their lengths in one pass, 16 or 12 bytes moved an item.
//
// Item i of list k is in[i * lists + k], and its sum out[k * count + i]; a block has a tile of a list. Of a single list, the
// sum may go to out[i + 1] behind a zero, and where items have 64 bits, in may be out + shift. The sum of a whole list also
// comes to totals[k], where that is wanted.
//
// A block tells the sum of its tile as soon as it knows it, and adds up what earlier ones have told, back to the nearest that
// knows the sum of all before it (Merrill, Garland, Single-pass parallel prefix scan with decoupled look-back, 2016). Blocks
// take tiles in the order in which they begin, so that none waits for one that has not begun.

constexpr int WARP = 32, THREADS = 256, WARPS = THREADS / WARP;
constexpr int OF_LANE = 16;                    // items, all requested before the first is used
constexpr int OF_WARP = WARP * OF_LANE, TILE = WARPS * OF_WARP;
constexpr unsigned ALL = 0xffffffffu;

// What a block tells of a tile: whether it is the sum of the tile, or of all items up to its end, above 62 bits of a sum.
using Told = unsigned long long;
constexpr Told PART = Told(1) << 62, WHOLE = Told(2) << 62;

__device__ __forceinline__ Told told(Told kind, long long sum) { return kind | (static_cast<Told>(sum) & (PART - 1)); }
__device__ __forceinline__ long long sum_of(Told word) { return static_cast<long long>(word << 2) >> 2; }

// The number of a block among those of its list that have begun; of[0] counts them.
__device__ __forceinline__ int own_tile(Told* of) {
    __shared__ int tile;
    if (threadIdx.x == 0) tile = static_cast<int>(atomicAdd(of, Told(1)));
    __syncthreads();
    return tile;
}

// The sum of all tiles before one, for all lanes of a warp.
__device__ __forceinline__ long long before_tile(const volatile Told* of, int tile) {
    const int lane = threadIdx.x % WARP;
    long long before = 0;
    for (int last = tile - 1; last >= 0; last -= WARP) {
        Told word = WHOLE;   // nothing is before the first one
        if (last - lane >= 0) do word = of[last - lane]; while (word < PART);
        const unsigned whole = __ballot_sync(ALL, word >= WHOLE);
        long long sum = whole && lane > __ffs(whole) - 1 ? 0 : sum_of(word);
        for (int step = WARP / 2; step > 0; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
        before += sum;
        if (whole) break;
    }
    return before;
}

// What an item counts: a number itself, and of points' states whether they are coarse.
__device__ __forceinline__ long long counted(long long number) { return number; }
__device__ __forceinline__ long long counted(int number) { return number; }
__device__ __forceinline__ long long counted(signed char state) { return state == 1; }

// Running sums of read(i), i < count, in out[i + shift], and perhaps of all in total. tiles: zeros, one more than there are
// blocks of the list; none where there is one block.
template <typename Read>
__device__ __forceinline__ void add_up(Read read, long long count, Told* tiles, long long* out, int shift, long long* total) {
    __shared__ long long of_warp[WARPS], of_all;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int tile = tiles ? own_tile(tiles) : 0;
    const long long first = static_cast<long long>(tile) * TILE + warp * OF_WARP + lane;
    long long item[OF_LANE];
#pragma unroll
    for (int n = 0; n < OF_LANE; ++n) {
        const long long i = first + n * WARP;
        item[n] = i < count ? read(i) : 0;
    }
    long long carried = 0;   // of this warp's items so far
#pragma unroll
    for (int n = 0; n < OF_LANE; ++n) {
        for (int step = 1; step < WARP; step *= 2) {
            const long long other = __shfl_up_sync(ALL, item[n], step);
            if (lane >= step) item[n] += other;
        }
        item[n] += carried;
        carried = __shfl_sync(ALL, item[n], WARP - 1);
    }
    if (lane == 0) of_warp[warp] = carried;
    __syncthreads();
    if (tiles && warp == 0) {
        long long sum = 0;
        for (int w = 0; w < WARPS; ++w) sum += of_warp[w];
        volatile Told* const own = tiles + 1 + tile;
        if (lane == 0) *own = told(tile ? PART : WHOLE, sum);
        const long long earlier = before_tile(tiles + 1, tile);
        if (lane == 0) {
            of_all = earlier;
            if (tile) *own = told(WHOLE, earlier + sum);
        }
    }
    __syncthreads();
    long long before = tiles ? of_all : 0;
    for (int w = 0; w < warp; ++w) before += of_warp[w];
#pragma unroll
    for (int n = 0; n < OF_LANE; ++n) {
        const long long i = first + n * WARP;
        if (i < count) out[i + shift] = before + item[n];
        if (total && i == count - 1) *total = before + item[n];
    }
    if (shift && tile == 0 && threadIdx.x == 0) out[0] = 0;
}

#define KERNEL(NAME, ITEM)                                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS) add_up_##NAME(                                                 \
        const ITEM* in, long long count, Told* tiles, long long* out, int shift, long long* totals                       \
    ) {                                                                                                                  \
        const int lists = gridDim.y, list = blockIdx.y;                                                                  \
        add_up(                                                                                                          \
            [=](long long i) { return counted(in[i * lists + list]); }, count,                                           \
            tiles ? tiles + list * (gridDim.x + 1) : tiles, out + list * count, shift, totals ? totals + list : totals   \
        );                                                                                                               \
    }

KERNEL(states, signed char)
KERNEL(int32, int)
KERNEL(int64, long long)

// Where rows begin that have `lengths` entries of their own and `counts` mirror images of others', and where their images do,
// by two lists of blocks; totals: the number of all entries, that of images, and, as an int, the length of the longest row.
extern "C" __global__ void __launch_bounds__(THREADS) add_up_halves(
    const long long* lengths, const int* counts, long long count, Told* tiles, long long* start, long long* begin,
    long long* totals
) {
    Told* const own = tiles ? tiles + blockIdx.y * (gridDim.x + 1) : tiles;
    if (blockIdx.y) {
        add_up([=](long long i) { return counted(counts[i]); }, count, own, begin, 1, totals + 1);
        return;
    }
    long long longest = 0;
    add_up([&](long long i) {
        const long long length = lengths[i] + counts[i];
        longest = max(longest, length);
        return length;
    }, count, own, start, 1, totals);
    const int most = __reduce_max_sync(ALL, static_cast<int>(longest));
    if (threadIdx.x % WARP == 0) atomicMax(reinterpret_cast<int*>(totals + 2), most);
}
