// Products of compressed rows in chunks (see dsolver/kernels/formats/compressed.py): a block of threads a chunk.
//
// A block multiplies all entries of its chunk, lane after lane whatever the rows are, leaves the products in shared
// memory, and adds each row's by as many lanes as keep all threads busy. Sums are fixed trees: the same bits every time.
// Bytes: 10 an entry (12 where its chunk's columns lie far apart), 2 a row, x and y, 16 a chunk.

#include "slices.cuh"
#include "sums.cuh"
#include "sparse/finish.cuh"

constexpr int THREADS = 256;
constexpr int STEP = 1536;        // rows and entries of a chunk that is cut where its rows end or anywhere
constexpr int LONGEST = 512;      // of rows of chunks that are cut where rows end
constexpr int CAPACITY = STEP + LONGEST;
constexpr int NEAR_REACH = 65535;
constexpr int CLOSE_REACH = 524287;   // between a chunk's columns, where its part of x stays in caches
constexpr int FLIGHT = 4;          // entries that a thread requests at a time
constexpr int PATIENCE = 16;      // entries that a lane adds before a row is left to its warp

// Shared memory has 16 columns of doubles; rows of 16 entries would all begin in one of them.
DEVICE constexpr int skewed(int i) { return i + i / 16; }

struct __align__(16) Chunk {
    i64 first;   // entry
    int row;
    int base;          // of 16-bit columns; -1 where they have 32 bits
};

DEVICE Chunk load_chunk(const Chunk* from) {
    const uint4 packed = __ldg(reinterpret_cast<const uint4*>(from));
    return {
        static_cast<i64>(packed.y) << 32 | packed.x, static_cast<int>(packed.z), static_cast<int>(packed.w)};
}

// product[skewed(i)] of the entries 0 .. size - 1 of the chunk. A thread requests the columns and values of FLIGHT of them at
// a time, and its last ones, where it has fewer, one after the other: to request those together, too, took registers and
// tests in the loop, and was slower.
template <typename Index, typename X>
DEVICE void multiply_all(real* product, const real* values, const Index* columns, const X x, int size) {
    int i = threadIdx.x;
    for (; i + (FLIGHT - 1) * THREADS < size; i += FLIGHT * THREADS) {
        int c[FLIGHT];
        real a[FLIGHT], b[FLIGHT];
        UNROLLED for (int k = 0; k < FLIGHT; ++k) c[k] = __ldcs(columns + i + k * THREADS);
        UNROLLED for (int k = 0; k < FLIGHT; ++k) a[k] = __ldcs(values + i + k * THREADS);
        UNROLLED for (int k = 0; k < FLIGHT; ++k) b[k] = x[c[k]];
        UNROLLED for (int k = 0; k < FLIGHT; ++k) product[skewed(i + k * THREADS)] = a[k] * b[k];
    }
    UNROLLED for (int k = 0; k < FLIGHT - 1; ++k) {
        const int at = i + k * THREADS;
        if (at < size) product[skewed(at)] = __ldcs(values + at) * x[__ldcs(columns + at)];
    }
}

// The sum of product[skewed(i)], i = from, from + stride ... < to.
DEVICE real stretch(const real* product, int from, int to, int stride) {
    real sum = 0;
    for (int i = from; i < to; i += stride) sum += product[skewed(i)];
    return sum;
}

// Calls write(j, sum) for stretches j = 0 .. count - 1, which end at ends[j] and begin where the one before ends: LANES
// lanes add one, in a fixed tree; those that would take them long are added by their whole warp.
template <int LANES, typename Write>
DEVICE void add_rows(const real* product, const unsigned short* ends, int count, Write write) {
    const int lane = threadIdx.x % LANES;
    constexpr int AT_ONCE = THREADS / LANES;
    for (int begin = 0; begin < count; begin += AT_ONCE) {
        const int j = begin + threadIdx.x / LANES;
        const bool there = j < count;
        const int from = there && j > 0 ? ends[j - 1] : 0, to = there ? ends[j] : 0;
        const bool is_long = to - from > PATIENCE * LANES;
        real sum = is_long ? real(0) : stretch(product, from + lane, to, LANES);
        UNROLLED for (int distance = LANES / 2; distance > 0; distance /= 2)
            sum += __shfl_xor_sync(ALL_LANES, sum, distance);
        if (there && lane == 0 && !is_long) write(j, sum);
        if constexpr (LANES < SLICE) {
            for (unsigned left = __ballot_sync(ALL_LANES, is_long && lane == 0); left != 0u; left &= left - 1u) {
                const int owner = __ffs(left) - 1;
                const int first = __shfl_sync(ALL_LANES, from, owner), last = __shfl_sync(ALL_LANES, to, owner);
                real total = stretch(product, first + lane_number(), last, SLICE);
                UNROLLED for (int distance = SLICE / 2; distance > 0; distance /= 2)
                    total += __shfl_xor_sync(ALL_LANES, total, distance);
                if (lane_number() == owner) write(j, total);
            }
        } else if (is_long) {   // the whole warp, as LANES is 32
            sum = stretch(product, from + lane, to, LANES);
            UNROLLED for (int distance = LANES / 2; distance > 0; distance /= 2)
                sum += __shfl_xor_sync(ALL_LANES, sum, distance);
            if (lane == 0) write(j, sum);
        }
    }
}

template <typename Write>
DEVICE void add_all_rows(const real* product, const unsigned short* ends, int count, Write write) {
    if (count > 96) add_rows<1>(product, ends, count, write);
    else if (count > 48) add_rows<4>(product, ends, count, write);
    else if (count > 12) add_rows<8>(product, ends, count, write);
    else add_rows<32>(product, ends, count, write);
}

// What a chunk's block does. CARRIES: rows may go on in the next chunk, and `carry` gets what is in this one of such a row;
// else `partials` gets x . y of the chunk's rows WITH_DOT.
template <int KIND, bool CARRIES, bool WITH_DOT>
DEVICE void multiply(
    const Chunk* chunks, const unsigned short* row_ends, const unsigned short* near, const int* columns,
    const real* values, const Finish finish, double* parts
) {
    __shared__ real product[skewed(CAPACITY)];
    __shared__ unsigned short ends[STEP + 1];
    next_may_start();
    const Chunk chunk = load_chunk(chunks + blockIdx.x), next = load_chunk(chunks + blockIdx.x + 1);
    const int size = static_cast<int>(next.first - chunk.first), own = next.row - chunk.row;
    wait_for_last_launch();
    for (int j = threadIdx.x; j < own; j += THREADS) ends[j] = row_ends[chunk.row + j];
    if (CARRIES && threadIdx.x == 0) ends[own] = static_cast<unsigned short>(size);
    const auto x = finish.read<KIND>();
    if (chunk.base >= 0) multiply_all(product, values + chunk.first, near + chunk.first, x + chunk.base, size);
    else multiply_all(product, values + chunk.first, columns + chunk.first, x, size);
    __syncthreads();
    double part = 0.0;
    add_all_rows(product, ends, CARRIES ? own + 1 : own, [&](int j, real sum) {
        if (CARRIES && j == own) {
            parts[blockIdx.x] = sum;
        } else {
            const real result = finish.write<KIND>(chunk.row + j, sum);
            if constexpr (WITH_DOT) part = fma(finish.beside<KIND>(chunk.row + j), static_cast<double>(result), part);
        }
    });
    if constexpr (WITH_DOT) {
        const double total = sum_of_block(part);
        if (threadIdx.x == 0) parts[blockIdx.x] = total;
    }
}

// BLOCKS share a multiprocessor: as many as there can be where a chunk's columns lie close together, as in the rows of meshes
// in banded order; where they do not, x needs more of the first-level cache, which shared memory takes. Quadratic elements
// took 0.96 with eight and 1.08 with six; rows without any order 1.15 and 0.93; a coarse graph, some of whose rows are in
// several chunks, 1.28 and 1.07.
#define CHUNKS \
    In<Chunk> chunks, const unsigned short* ends, const unsigned short* near, const int* columns, const real* values, \
    FINISH
#define THESE_CHUNKS chunks, ends, near, columns, values, FINISHED

#define FINISHED_BY(NAME, BLOCKS, KIND)                                                                               \
    ENTRY __launch_bounds__(THREADS, BLOCKS) NAME(CHUNKS) {                                                           \
        multiply<KIND, false, false>(THESE_CHUNKS, nullptr);                                                          \
    }

#define WITH_PARTS(NAME, BLOCKS, KIND, CARRIES)                                                                       \
    ENTRY __launch_bounds__(THREADS, BLOCKS) NAME(CHUNKS, double* parts) {                                            \
        multiply<KIND, CARRIES, !CARRIES>(THESE_CHUNKS, parts);                                                       \
    }

FINISHED_BY(spmv, 6, PRODUCT)
FINISHED_BY(spmv_close, 8, PRODUCT)
FINISHED_BY(residual, 6, RESIDUAL)
FINISHED_BY(residual_close, 8, RESIDUAL)
FINISHED_BY(sweep, 6, SWEEP)
FINISHED_BY(sweep_close, 8, SWEEP)
FINISHED_BY(first, 6, FIRST)
FINISHED_BY(first_close, 8, FIRST)
WITH_PARTS(spmv_carry, 6, PRODUCT, true)
WITH_PARTS(spmv_dot, 6, PRODUCT, false)
WITH_PARTS(spmv_dot_close, 8, PRODUCT, false)
WITH_PARTS(sweep_dot, 6, SWEEP, false)
WITH_PARTS(sweep_dot_close, 6, SWEEP, false)

// y[row] += the carries of the chunks before the one where the row ends, for every row that does not end where it begins.
ENTRY __launch_bounds__(THREADS) add_carries(
    In<Chunk> chunks, In<i64> start, const double* carry, real* y, int rows, int count
) {
    next_may_start();
    wait_for_last_launch();
    const int b = blockIdx.x * THREADS + threadIdx.x;
    if (b - lane_number() >= count) return;
    int row = rows, last = b;
    if (b < count) {
        const Chunk chunk = load_chunk(chunks + b), next = load_chunk(chunks + b + 1);
        row = next.row;
        if (row < rows) {
            const i64 from = __ldg(start + row);
            if (from >= chunk.first && from < next.first) last = static_cast<int>((__ldg(start + row + 1) + row) / STEP);
        }
    }
    const bool alone = last - b <= PATIENCE;
    if (last > b && alone) {
        double sum = 0.0;
        for (int i = b; i < last; ++i) sum += carry[i];
        y[row] = static_cast<real>(y[row] + sum);
    }
    for (unsigned left = __ballot_sync(ALL_LANES, !alone); left != 0u; left &= left - 1u) {
        const int owner = __ffs(left) - 1;
        const int from = __shfl_sync(ALL_LANES, b, owner), to = __shfl_sync(ALL_LANES, last, owner);
        double sum = 0.0;
        for (int i = from + lane_number(); i < to; i += SLICE) sum += carry[i];
        sum = warp_sum(sum);
        if (lane_number() == owner) y[row] = static_cast<real>(y[row] + sum);
    }
}

// Where chunks begin: the path through row ends and entries (merge path: Merrill, Garland, SC 2016) is cut every STEP steps.
// Row r ends at step start[r + 1] + r. With `whole`, a chunk begins where its first row does.
ENTRY find_chunks(const i64* start, int rows, int count, int whole, uint4* chunks) {
    const int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b > count) return;
    const i64 step = static_cast<i64>(b) * STEP, path = start[rows] + rows;
    int low = 0, high = rows;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (start[middle + 1] + middle < step) low = middle + 1;
        else high = middle;
    }
    const i64 first = whole ? start[low] : (step < path ? step : path) - low;
    chunks[b] = make_uint4(
        static_cast<unsigned>(first), static_cast<unsigned>(first >> 32), static_cast<unsigned>(low), 0u);
}

// Ends of a chunk's rows, its base and the 16-bit columns if they can be. found: how many chunks have these, how many do
// not, and in how many columns lie close together.
ENTRY __launch_bounds__(THREADS) fill_chunks(
    const i64* start, const int* columns, Chunk* chunks, unsigned short* ends, unsigned short* near, unsigned* found
) {
    __shared__ int low, high;
    const Chunk chunk = chunks[blockIdx.x];
    const i64 last = chunks[blockIdx.x + 1].first;
    const int rows_end = chunks[blockIdx.x + 1].row, size = static_cast<int>(last - chunk.first);
    if (threadIdx.x == 0) { low = 0x7fffffff; high = -1; }
    __syncthreads();
    for (int row = chunk.row + threadIdx.x; row < rows_end; row += THREADS)
        ends[row] = static_cast<unsigned short>(start[row + 1] - chunk.first);
    int smallest = 0x7fffffff, largest = -1;
    for (int i = threadIdx.x; i < size; i += THREADS) {
        const int c = columns[chunk.first + i];
        smallest = min(smallest, c);
        largest = max(largest, c);
    }
    smallest = __reduce_min_sync(ALL_LANES, smallest);
    largest = __reduce_max_sync(ALL_LANES, largest);
    if (lane_number() == 0) { atomicMin(&low, smallest); atomicMax(&high, largest); }
    __syncthreads();
    const bool fits = size > 0 && high - low <= NEAR_REACH;
    if (threadIdx.x == 0) {
        chunks[blockIdx.x].base = fits || size == 0 ? (size == 0 ? 0 : low) : -1;
        if (fits) atomicAdd(found, 1u);
        else if (size > 0) atomicAdd(found + 1, 1u);
        if (size > 0 && high - low <= CLOSE_REACH) atomicAdd(found + 2, 1u);
    }
    if (fits)
        for (int i = threadIdx.x; i < size; i += THREADS)
            near[chunk.first + i] = static_cast<unsigned short>(columns[chunk.first + i] - low);
}
